package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

func TestDeleteScopeShapes(t *testing.T) {
	scopes := []memory.Scope{
		{User: "u1"},
		{User: "u2"},
		{Agent: "a1"},
		{Run: "r1"},
		{User: "u1", Agent: "a1"},
		{User: "u1", Run: "r1"},
		{User: "u1", Agent: "a1", Run: "r1"},
		{User: "u2", Agent: "a1", Run: "r2"},
	}
	for _, in := range append(slices.Clone(scopes), memory.Scope{User: "nobody"}, memory.Scope{Run: "r2"}, memory.Scope{User: "u2", Run: "r1"}) {
		t.Run(fmt.Sprintf("%+v", in), func(t *testing.T) {
			db := openTest(t, vfs.NewMem(), Options{})
			var rest []string
			for i, s := range scopes {
				for j := range 3 {
					id := fmt.Sprintf("m%d-%d", i, j)
					mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: s, Text: "text of " + id})
					if !scope.Contains(in, s) {
						rest = append(rest, id)
					}
				}
			}
			n, err := db.Memories().DeleteScope(t.Context(), in)
			if want := 3*len(scopes) - len(rest); err != nil || n != want {
				t.Errorf("%d deleted, %v; want %d", n, err, want)
			}
			all := func() []string {
				page, err := db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true})
				if err != nil {
					t.Fatal(err)
				}
				return ids(page.Memories)
			}
			equalSlices(t, "left", all(), rest)
			waitCleaned(t, db)
			equalSlices(t, "left after the clean-up", all(), rest)
			mustCheck(t, db, len(rest))
			if n, err := db.Memories().DeleteScope(t.Context(), in); n != 0 || err != nil {
				t.Errorf("the second time: %d deleted, %v", n, err)
			}
		})
	}
}

// TestDeleteScopeIsInForceAtOnce for whoever begins later, and not for a View
// that began before.
func TestDeleteScopeIsInForceAtOnce(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	fill(t, db, ada, 0, 50)
	ctx := t.Context()
	err := db.View(ctx, func(old *Tx) error { // holds the clean-up back
		before := answers(t, old.Memories(), ada)
		if n, err := db.Memories().DeleteScope(ctx, ada); n != 50 || err != nil {
			t.Errorf("%d deleted, %v", n, err)
		}
		gone := func(m Memories) {
			_, err := m.Get(ctx, ada, "m7")
			wantError(t, "get", err, fault.ErrNotFound)
			equalSlices(t, "list", ids(mustList(t, m, ada)), []string{})
			equalSlices(t, "text", hitIDs(mustRecall(t, m, memory.Query{Scope: ada, Text: "tea house number7"})), []string{})
			equalSlices(t, "vector", hitIDs(mustRecall(t, m, memory.Query{Scope: ada, Embedding: []float32{1, 1, 1, 1}})), []string{})
		}
		gone(db.Memories())
		if err := db.View(ctx, func(tx *Tx) error { gone(tx.Memories()); return nil }); err != nil {
			return err
		}
		if err := db.Update(ctx, func(tx *Tx) error { gone(tx.Memories()); return nil }); err != nil {
			return err
		}
		if countKeys(t, db, layout.KindRange) != 1 {
			t.Error("the clean-up did not wait for the View")
		}
		if answers(t, old.Memories(), ada) != before {
			t.Error("the older View has changed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waitCleaned(t, db)
	mustCheck(t, db, 0)
}

// TestDeleteScopeInTransaction: what the transaction stores before the delete
// goes, what it stores after it stays, also when the clean-up is interrupted.
func TestDeleteScopeInTransaction(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	mustStore(t, db.Memories(), memory.Memory{ID: "old", Scope: ada, Text: "old"})
	mustStore(t, db.Memories(), memory.Memory{ID: "other", Scope: memory.Scope{User: "bob"}, Text: "other"})
	var clone *vfs.MemFS
	err := db.View(ctx, func(*Tx) error { // holds the clean-up back
		err := db.Update(ctx, func(tx *Tx) error {
			m := tx.Memories()
			mustStore(t, m, memory.Memory{ID: "before", Scope: ada, Text: "before"})
			if _, err := m.Update(ctx, ada, "old", memory.Patch{Text: new("changed")}); err != nil {
				return err
			}
			if n, err := m.DeleteScope(ctx, ada); n != 2 || err != nil {
				t.Errorf("%d deleted, %v", n, err)
			}
			mustStore(t, m, memory.Memory{ID: "after", Scope: ada, Text: "after"})
			mustStore(t, m, memory.Memory{ID: "old", Scope: ada, Text: "old"})
			mustStore(t, m, memory.Memory{Scope: memory.Scope{User: "ada", Run: "r"}, Text: "gone again"})
			if n, err := m.DeleteScope(ctx, memory.Scope{Run: "r"}); n != 1 || err != nil {
				t.Errorf("%d deleted by the second, %v", n, err)
			}
			equalSlices(t, "in the transaction", ids(mustList(t, m, ada)), []string{"after", "old"})
			return nil
		})
		clone = fs.CrashClone(vfs.CrashCloneCfg{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]*DB{"here": db, "after a crash": openTest(t, clone, Options{})} {
		equalSlices(t, name, ids(mustList(t, db.Memories(), ada)), []string{"after", "old"})
		waitCleaned(t, db)
		equalSlices(t, name+", cleaned up", ids(mustList(t, db.Memories(), ada)), []string{"after", "old"})
		mustCheck(t, db, 3)
		var events []memory.Event
		for _, e := range mustHistory(t, db.Memories(), ada, "old") {
			events = append(events, e.Event)
		}
		equalSlices(t, name+": history", events, []memory.Event{memory.EventAdd, memory.EventUpdate, memory.EventDelete, memory.EventAdd})
	}
}

// TestDeleteScopeAborted leaves everything as it was.
func TestDeleteScopeAborted(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now})
	ada := memory.Scope{User: "ada"}
	fill(t, db, ada, 0, 50)
	before := answers(t, db.Memories(), ada)
	err := db.Update(t.Context(), func(tx *Tx) error {
		fill := memory.Memory{Scope: ada, Text: "not for long", Embedding: []float32{1, 0, 0, 0}}
		mustStore(t, tx.Memories(), fill)
		if _, err := tx.Memories().DeleteScope(t.Context(), ada); err != nil {
			t.Error(err)
		}
		mustStore(t, tx.Memories(), fill)
		return context.Canceled
	})
	wantError(t, "abort", err, context.Canceled)
	if after := answers(t, db.Memories(), ada); after != before {
		t.Errorf("answers\n%s\nbefore\n%s", after, before)
	}
	mustCheck(t, db, 50)
}

// TestDeleteScopeReuse: IDs and texts are free at once, before the clean-up, and
// what takes them outlives it.
func TestDeleteScopeReuse(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "prefers tea", Embedding: []float32{1, 0}})
	note := memory.Memory{Scope: ada, Kind: memory.KindNote, Name: "plan", Text: "sail"}
	mustStore(t, db.Memories(), note)
	err := db.View(ctx, func(*Tx) error {
		if _, err := db.Memories().DeleteScope(ctx, ada); err != nil {
			return err
		}
		mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "other", Embedding: []float32{0, 1}})
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "prefers tea"})
		note.Text = "walk"
		mustStore(t, db.Memories(), note)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waitCleaned(t, db)
	mustCheck(t, db, 3)
	equalSlices(t, "memories", texts(mustList(t, db.Memories(), ada)), []string{"other", "prefers tea", "walk"})
	for _, again := range []memory.Memory{{Scope: ada, Text: "prefers tea"}, note} {
		if st, err := db.Memories().Store(ctx, again, nil); err != nil || !st.Deduplicated {
			t.Errorf("store %q again: %+v, %v", again.Text, st, err)
		}
	}
	hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Embedding: []float32{0, 1}, Profile: memory.ProfileVector})
	if len(hits) != 1 || hits[0].Score < 0.999 {
		t.Errorf("hits %+v", hits)
	}
}

// TestDeleteScopeInterrupted crashes before, within and after the clean-up: the
// next opening finishes it, and no entry of a history moves.
func TestDeleteScopeInterrupted(t *testing.T) {
	race.Sequential(t)
	const n = cleanBatch + 200
	places := []int{0, 1, 500, cleanBatch, n}
	if race.Enabled {
		places = []int{500}
	}
	for _, cleaned := range places {
		t.Run(fmt.Sprint(cleaned, " cleaned"), func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			db := openTest(t, fs, Options{})
			ada := memory.Scope{User: "ada"}
			fill(t, db, ada, 0, n)
			mustStore(t, db.Memories(), memory.Memory{ID: "kept", Scope: memory.Scope{User: "bob"}, Text: "tea", Embedding: []float32{1, 2, 3, 4}})
			var histories [][]memory.HistoryEntry
			var clone *vfs.MemFS
			err := db.View(t.Context(), func(*Tx) error { // holds the janitor back
				if _, err := db.Memories().DeleteScope(t.Context(), ada); err != nil {
					return err
				}
				histories = deaths(t, db, ada, n)
				cleanSome(t, db, cleaned)
				clone = fs.CrashClone(vfs.CrashCloneCfg{})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			db = openTest(t, clone, Options{})
			afterwards := func(when string) {
				equalSlices(t, "memories "+when, ids(mustList(t, db.Memories(), ada)), []string{})
				if got := deaths(t, db, ada, n); !reflect.DeepEqual(got, histories) {
					t.Errorf("histories %s:\n%v\nwant\n%v", when, got, histories)
				}
			}
			afterwards("after the crash")
			waitCleaned(t, db)
			afterwards("after the clean-up")
			mustCheck(t, db, 1)
			if left := countKeys(t, db, layout.KindForward) + countKeys(t, db, layout.KindDedup); left != 2 {
				t.Errorf("%d forward and dedup keys are left of one memory", left)
			}
			equalSlices(t, "the other owner's", hitIDs(mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "bob"}, Text: "tea"})), []string{"kept"})
		})
	}
}

// deaths reads some histories, which must end with a delete.
func deaths(t *testing.T, db *DB, s memory.Scope, n int) [][]memory.HistoryEntry {
	t.Helper()
	var all [][]memory.HistoryEntry
	for i := 0; i < n; i += 97 {
		h := mustHistory(t, db.Memories(), s, fmt.Sprint("m", i))
		if last := h[len(h)-1]; len(h) != 2 || last.Event != memory.EventDelete || !last.IsDeleted {
			t.Errorf("history of m%d: %+v", i, h)
		}
		all = append(all, h)
	}
	return all
}

// cleanSome does the first part of a clean-up, durably.
func cleanSome(t *testing.T, db *DB, n int) {
	t.Helper()
	db.janitor.mu.Lock()
	d := db.janitor.ranges[0]
	db.janitor.mu.Unlock()
	err := db.applyBare(func(b *pebble.Batch) error {
		for _, doc := range d.Docs.ToArray()[:n] {
			if err := db.cleanDoc(b, db.store, &d, doc); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = db.store.SyncLog(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDeleteScopeTakesExpired: an expired memory is not counted, and does not
// survive the delete of its scope either.
func TestDeleteScopeTakesExpired(t *testing.T) {
	clock := newTestClock()
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{Clock: clock.now})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "short", Scope: ada, Text: "short", ExpiresAt: clock.now().Add(time.Minute)})
	mustStore(t, db.Memories(), memory.Memory{ID: "long", Scope: ada, Text: "long"})
	clock.advance(time.Hour)
	if n, err := db.Memories().DeleteScope(t.Context(), ada); n != 1 || err != nil {
		t.Errorf("%d deleted, %v; want 1", n, err)
	}
	waitCleaned(t, db)
	mustCheck(t, db, 0)
	for _, id := range []string{"short", "long"} {
		if h := mustHistory(t, db.Memories(), ada, id); h[len(h)-1].Event != memory.EventDelete {
			t.Errorf("history of %s: %+v", id, h)
		}
	}
}
