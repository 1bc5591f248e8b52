package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// trashDB is a database with a trash of an hour.
func trashDB(t *testing.T, fs vfs.FS, clk *testClock) *DB {
	t.Helper()
	db := openTest(t, fs, Options{Clock: clk.now})
	p := policy.Default()
	p.Trash = policy.Span(time.Hour)
	if _, err := db.Policies().Set(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestUndoEviction: what was evicted comes back as it was, once, also after a reopening, and
// not when the trash was emptied.
func TestUndoEviction(t *testing.T) {
	fs, clk := vfs.NewMem(), newTestClock()
	db := trashDB(t, fs, clk)
	for i := range 50 {
		m := memory.Memory{ID: fmt.Sprint("m", i), Text: fmt.Sprint("text number ", i), Scope: memory.Scope{Agent: "a", Run: "r"}, Importance: new(.5), AccessCount: uint64(i), Metadata: map[string]any{"n": "x"}}
		if i%2 == 0 {
			m.Embedding = []float32{1, float32(i)}
		}
		if i%5 == 0 {
			m.Confidence = new(.05)
		}
		mustStore(t, db.Memories(), m)
	}
	read := func() []memory.Memory {
		t.Helper()
		page, err := db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true, WithVectors: true, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Memories {
			page.Memories[i].UpdatedAt, page.Memories[i].StoredConfidence = time.Time{}, nil
		}
		return page.Memories
	}
	before := read()
	done, victims := mustEvict(t, db, EvictOptions{})
	if len(victims) != 10 {
		t.Fatalf("%d were evicted", len(victims))
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "m5", Text: "another one", Scope: memory.Scope{Agent: "a", Run: "r"}})
	closeTest(t, db)
	db = openTest(t, fs, Options{Clock: clk.now})
	undone, err := db.Undo(t.Context(), done.LSN)
	if err != nil || undone.Restored != 9 || undone.WithoutVectors != 0 {
		t.Fatalf("%+v, %v", undone, err)
	}
	check := func() {
		t.Helper()
		for _, want := range before {
			got, err := db.Memories().GetWithVectors(t.Context(), memory.Scope{}, want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if want.ID == "m5" {
				continue // another one has its ID
			}
			if got.Seq != want.Seq || got.Text != want.Text || got.AccessCount != want.AccessCount || *got.Confidence != *want.Confidence || !slices.Equal(got.Embedding, want.Embedding) {
				t.Errorf("came back as\n%+v\nwant\n%+v", got, want)
			}
		}
		mustCheck(t, db, len(before))
		if h := mustHistory(t, db.Memories(), memory.Scope{}, "m0"); h[len(h)-1].Event != memory.EventUpdate {
			t.Errorf("history %+v", h)
		}
		hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{Agent: "a"}, Embedding: []float32{1, 0}, Profile: memory.ProfileVector, Limit: 1, NoTouch: true})
		if len(hits) != 1 || hits[0].ID != "m0" {
			t.Errorf("found %+v", hits)
		}
	}
	check()
	if _, err := db.Undo(t.Context(), done.LSN); !errors.Is(err, fault.ErrNotRetained) {
		t.Errorf("undone twice: %v", err)
	}
	if _, err := db.Undo(t.Context(), 1); !errors.Is(err, fault.ErrNotRetained) {
		t.Errorf("another LSN: %v", err)
	}
	if err := db.emptyTrash(t.Context()); err != nil {
		t.Fatal(err)
	}
	check()
	closeTest(t, db)
	db = openTest(t, fs, Options{Clock: clk.now})
	check()
	again, _ := mustEvict(t, db, EvictOptions{})
	clk.advance(2 * time.Hour)
	if _, err := db.Undo(t.Context(), again.LSN); !errors.Is(err, fault.ErrNotRetained) {
		t.Errorf("too old: %v", err)
	}
	waitFor(t, func() bool { db.janitor.wake(); return !db.janitor.pending() })
	if err := db.emptyTrash(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, db, len(before)-again.Evicted)
	left := 0
	err = db.View(t.Context(), func(tx *Tx) error {
		return policy.EachTrash((*partTx)(tx), func(policy.Trash) error { left++; return nil })
	})
	if err != nil || left != 0 {
		t.Errorf("the trash has %d lists, %v", left, err)
	}
}

// TestUndoCountsAccessesOnce: accesses that were not committed when a memory was evicted are counted once.
func TestUndoCountsAccessesOnce(t *testing.T) {
	fs, clk := vfs.NewMem(), newTestClock()
	db := trashDB(t, fs, clk)
	m := memory.Memory{ID: "m", Text: "the tide table", Scope: memory.Scope{Agent: "a"}, Confidence: new(.05)}
	mustStore(t, db.Memories(), m)
	count := func() uint64 {
		t.Helper()
		got, err := db.Memories().Get(t.Context(), m.Scope, m.ID)
		noError(t, err)
		return got.AccessCount
	}
	for range 2 {
		mustRecall(t, db.Memories(), memory.Query{Scope: m.Scope, Text: "tide"})
	}
	before := count()
	done, victims := mustEvict(t, db, EvictOptions{})
	if len(victims) != 1 || before == 0 {
		t.Fatalf("%d were evicted, %d accesses", len(victims), before)
	}
	noError(t, second(db.Undo(t.Context(), done.LSN)))
	if n := count(); n != before {
		t.Errorf("%d accesses after the undo, want %d", n, before)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{Clock: clk.now})
	if n := count(); n != before {
		t.Errorf("%d accesses after a reopening, want %d", n, before)
	}
}

// TestUndoWithoutVectors: what is lost of a memory is told.
func TestUndoWithoutVectors(t *testing.T) {
	db := trashDB(t, vfs.NewMem(), newTestClock())
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Text: "m", Scope: memory.Scope{Agent: "a"}, Embedding: []float32{1, 0}, Confidence: new(.0)})
	r, _ := mustEvict(t, db, EvictOptions{})
	lower, upper := db.keys().Span('v')
	if err := db.applyBare(func(b *pebble.Batch) error { return b.DeleteRange(lower, upper, nil) }); err != nil {
		t.Fatal(err)
	}
	undone, err := db.Undo(t.Context(), r.LSN)
	if err != nil || undone.Restored != 1 || undone.WithoutVectors != 1 {
		t.Fatalf("%+v, %v", undone, err)
	}
	mustCheck(t, db, 1)
}

// TestTrashWaitsForJanitor: what the janitor has not come to when the trash is looked at goes once it has,
// and not only when a program is open for a minute more.
func TestTrashWaitsForJanitor(t *testing.T) {
	clk := newTestClock()
	db := trashDB(t, vfs.NewMem(), clk)
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Text: "m", Scope: memory.Scope{Agent: "a"}, Confidence: new(.0)})
	trash := func() (n int) {
		noError(t, db.View(t.Context(), func(tx *Tx) error {
			return policy.EachTrash((*partTx)(tx), func(policy.Trash) error { n++; return nil })
		}))
		return n
	}
	janitorDone(t, db)
	db.chunks.busy.Lock()
	if r, _ := mustEvict(t, db, EvictOptions{}); r.Evicted != 1 {
		t.Errorf("%+v", r)
	}
	clk.advance(365 * 24 * time.Hour)
	noError(t, db.emptyTrash(t.Context()))
	if n := trash(); n != 1 {
		t.Errorf("%d lists are in the trash", n)
	}
	began := time.Now()
	db.chunks.busy.Unlock()
	comes(t, "that the trash is empty", func() bool { return trash() == 0 })
	if took := time.Since(began); took >= trashEvery/2 {
		t.Errorf("after %v", took)
	}
}

// TestUndoBesideOlderView: it waits for nobody for long.
func TestUndoBesideOlderView(t *testing.T) {
	t.Parallel() // it waits
	db := trashDB(t, vfs.NewMem(), newTestClock())
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Text: "m", Scope: memory.Scope{Agent: "a"}, Confidence: new(.0)})
	var lsn uint64
	err := db.View(t.Context(), func(*Tx) error {
		r, _ := mustEvict(t, db, EvictOptions{})
		lsn = r.LSN
		_, err := db.Undo(t.Context(), r.LSN)
		return err
	})
	if !errors.Is(err, fault.ErrBusy) {
		t.Errorf("beside an older View: %v", err)
	}
	if r, err := db.Undo(t.Context(), lsn); err != nil || r.Restored != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
