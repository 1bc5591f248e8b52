package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// readChanges reads all changes from an LSN on.
func readChanges(t *testing.T, db *DB, from uint64, o *ChangesOptions) (all []wal.Change) {
	t.Helper()
	for c, err := range db.Changes(t.Context(), from, o) {
		if err != nil {
			t.Fatalf("changes from %d: %v", from, err)
		}
		all = append(all, c)
	}
	return all
}

func policyWith(change func(*policy.Policy)) policy.Policy {
	p := policy.Default()
	change(&p)
	return p
}

// TestChangesBehind: a reader whose commits are trimmed is told the floor; a running one holds the
// log, but not for longer than MaxChangesLag.
func TestChangesBehind(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now, MaxChangesLag: 10 * time.Minute})
	store := func(n int) {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprintf("text %d", n)})
	}
	for n := range 5 {
		store(n)
	}
	p := policyWith(func(p *policy.Policy) { p.Log = policy.Span(time.Minute) })
	if _, err := db.Policies().Set(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	trim := func() {
		t.Helper()
		// What reads behind the opening keeps the log of what it reads.
		comes(t, "that nobody reads an older state", func() bool { return db.points.oldest() >= db.LSN() })
		if err := db.trimLog(&p, clock.now()); err != nil {
			t.Fatal(err)
		}
		store(int(clock.now().UnixMilli())) // readers of what was before see the log of before
	}
	read := 0
	for c, err := range db.Changes(t.Context(), 2, nil) {
		switch {
		case c.LSN == 2 && err == nil: // it is slow, and the log is held for it
			clock.advance(5 * time.Minute)
			store(10)
			trim()
			for _, err := range db.Changes(t.Context(), 1, nil) {
				behind, _ := errors.AsType[*wal.BehindError](err)
				if behind == nil || behind.From != 1 || behind.Floor != 2 || !errors.Is(err, memory.ErrFellBehind) || !strings.Contains(err.Error(), "from LSN 2") {
					t.Fatalf("below the floor: %v", err)
				}
			}
		case err != nil:
			t.Fatal(err)
		}
		read++
	}
	if read != int(db.LSN())-1 {
		t.Errorf("read %d of %d changes", read, db.LSN()-1)
	}
	next := uint64(0)
	for c, err := range db.Changes(t.Context(), 2, &ChangesOptions{Follow: true}) {
		if next == 0 && err == nil {
			store(20)
			next = db.LSN() + 1
			for range 256 { // more than a page, so that it has to read again
				store(int(db.LSN()) + 100)
			}
			clock.advance(time.Hour)
			trim()
		}
		if err != nil {
			behind, _ := errors.AsType[*wal.BehindError](err)
			if behind == nil || behind.Floor < db.LSN()-1 || behind.From <= c.LSN {
				t.Fatalf("too far behind: %v", err)
			}
			break
		}
		if c.LSN > next+256 {
			t.Fatal("the log was held for more than MaxChangesLag")
		}
	}
	if got := readChanges(t, db, 0, nil); len(got) == 0 || len(got) > 2 || got[len(got)-1].LSN != db.LSN() {
		t.Errorf("from the floor: %d changes", len(got))
	}
}

// TestChangesForgotten: what histories do not keep any longer is said to be unknown, and everything
// that is known is told.
func TestChangesForgotten(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	ctx, s := t.Context(), memory.Scope{User: "ada"}
	st := mustStore(t, db.Memories(), memory.Memory{Scope: s, Text: "one"})
	text := "two"
	if _, err := db.Memories().Update(ctx, s, st.ID, memory.Patch{Text: &text}); err != nil {
		t.Fatal(err)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ben"}, Text: "three"})
	if n, err := db.Memories().DeleteScope(ctx, memory.Scope{User: "ben"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	clock.advance(time.Hour)
	waitCleaned(t, db)
	if err := db.forgetHistories(ctx, clock.now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	got := readChanges(t, db, 1, nil)
	if len(got) != 4 {
		t.Fatalf("%d changes: %+v", len(got), got)
	}
	if c := got[0]; c.Op != wal.OpAdd || c.ID != st.ID || c.User != "ada" || !c.Unresolved || c.After != nil {
		t.Errorf("the add is %+v", c)
	}
	if c := got[1]; c.Op != wal.OpUpdate || c.ID != st.ID || !c.Unresolved || c.Before != nil || c.After.(*memory.Memory).Text != "two" {
		t.Errorf("the update is %+v", c)
	}
	if c := got[2]; c.Op != wal.OpAdd || c.ID != "" || c.User != "ben" || !c.Unresolved {
		t.Errorf("the add of what is gone is %+v", c)
	}
	if c := got[3]; c.Op != wal.OpDelete || c.Seq != 0 || !c.Unresolved || c.Reason != string(memory.ReasonScope) {
		t.Errorf("the delete is %+v", c)
	}
}

// TestChangesDamaged: a damaged record is told with its LSN, after what comes before it.
func TestChangesDamaged(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	for n := range 3 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint(n)})
	}
	key := db.keys().LSN('l', 2)
	for _, c := range []struct {
		what   string
		record []byte
		want   string
	}{
		{"cut", []byte{1, 2}, "LSN 2"},
		{"of an unknown operation", []byte{1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 250}, "operation 250"},
		{"with more behind", []byte{1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 8, 8}, "LSN 2"},
		{"with a part cut off", []byte{1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 6, 1, 200}, "LSN 2"},
		{"with a session without an end", []byte{1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 20, 1, 1, 1}, "LSN 2"},
	} {
		if err := db.store.Set(key, c.record, nil); err != nil {
			t.Fatal(err)
		}
		if err := db.points.publish(db.newPoint(db.LSN())); err != nil {
			t.Fatal(err)
		}
		var lsns []uint64
		for ch, err := range db.Changes(t.Context(), 1, nil) {
			if err != nil {
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v", c.what, err)
				}
				lsns = append(lsns, 0)
				continue
			}
			lsns = append(lsns, ch.LSN)
		}
		equalSlices(t, c.what, lsns, []uint64{1, 0})
		if got := readChanges(t, db, 3, nil); len(got) != 1 {
			t.Errorf("%s: behind it %d changes", c.what, len(got))
		}
	}
}

// FuzzChanges: no log record makes a reader panic. What can be read of it is told, or an error is.
func FuzzChanges(f *testing.F) {
	db, err := openOn(vfs.NewMem(), "db", Options{MemoryBudget: testBudget})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := db.Close(); err != nil {
			f.Error(err)
		}
	})
	ctx, ada := context.Background(), scope.Owner{User: "ada"}
	_, errStore := db.Memories().Store(ctx, memory.Memory{Scope: ada.Scope(), Text: "tea"}, nil)
	_, errPut := db.Graph().Put(ctx, ada, graph.Entity{ID: "a", Type: "t"}, []graph.Edge{{Target: "b", Type: "knows"}}, nil)
	_, errOther := db.Graph().Put(ctx, ada, graph.Entity{ID: "b"}, nil, nil)
	_, errMerge := db.Graph().Merge(ctx, ada, "a", "b")
	_, errAppend := db.Sessions().Append(ctx, ada, "talk", []sessions.Message{{Role: "user", Text: "hello"}}, nil)
	errMeta := db.Sessions().SetMetadata(ctx, ada, "talk", json.RawMessage(`{"a":1}`))
	_, errPolicy := db.Policies().Set(ctx, policyWith(func(p *policy.Policy) { p.Cap = 1 }))
	_, errEvict := db.Evict(ctx, nil)
	_, errDelete := db.DeleteOwner(ctx, ada)
	if err := errors.Join(errStore, errPut, errOther, errMerge, errAppend, errMeta, errPolicy, errEvict, errDelete); err != nil {
		f.Fatal(err)
	}
	lower, upper := db.keys().Span(layout.KindLog)
	err = kv.Scan(db.store, lower, upper, func(_, record []byte) error { f.Add(slices.Clone(record)); return nil })
	if err != nil {
		f.Fatal(err)
	}
	key, newest := db.keys().LSN(layout.KindLog, 2), db.LSN()
	f.Fuzz(func(t *testing.T, record []byte) {
		if err := errors.Join(db.store.Set(key, record, nil), db.points.publish(db.newPoint(newest))); err != nil {
			t.Fatal(err)
		}
		for ch, err := range db.Changes(t.Context(), 2, nil) {
			if ch.LSN > 2 {
				return
			}
			if _, err := json.Marshal(ch); err != nil {
				t.Errorf("%+v: %v", ch, err)
			}
			if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrNewerLayout) {
				t.Error(err)
			}
		}
	})
}
