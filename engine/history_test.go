package engine

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// line is an entry of a history without its identity, for comparison.
func line(e *memory.HistoryEntry) string {
	text := func(s *string) string {
		if s == nil {
			return "nil"
		}
		return fmt.Sprintf("%q", *s)
	}
	return fmt.Sprintf("%s %s %s→%s %s %v", e.MemoryID, e.Event, text(e.OldText), text(e.NewText), e.Time.Format("15:04:05"), e.IsDeleted)
}

func lines(h []memory.HistoryEntry) []string {
	var out []string
	for i := range h {
		out = append(out, line(&h[i]))
	}
	return out
}

// TestHistory walks a memory through its life: an add gives one entry, an update
// a second one, a delete a third, in the order of time; a second life under the
// same ID goes on after the first.
func TestHistory(t *testing.T) {
	clock := newTestClock()
	fs := vfs.NewMem()
	opts := Options{Clock: clock.now}
	db := openTest(t, fs, opts)
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	var want []string
	step := func(entry string) {
		t.Helper()
		want = append(want, entry)
		equalSlices(t, "history", lines(mustHistory(t, db.Memories(), ada, "one")), want)
		clock.advance(time.Second)
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "likes tea"})
	step(`one ADD nil→"likes tea" 12:00:00 false`)
	if _, err := db.Memories().Update(ctx, ada, "one", memory.Patch{Text: new("likes coffee")}); err != nil {
		t.Fatal(err)
	}
	step(`one UPDATE "likes tea"→"likes coffee" 12:00:01 false`)
	if _, err := db.Memories().Update(ctx, ada, "one", memory.Patch{Pinned: new(true)}); err != nil {
		t.Fatal(err)
	}
	step(`one UPDATE "likes coffee"→"likes coffee" 12:00:02 false`)
	if err := db.Memories().Delete(ctx, ada, "one"); err != nil {
		t.Fatal(err)
	}
	step(`one DELETE "likes coffee"→nil 12:00:03 true`)
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "likes water"})
	step(`one ADD nil→"likes water" 12:00:04 false`)
	if _, err := db.Memories().Store(ctx, memory.Memory{ID: "one", Scope: ada, Text: "likes milk"}, &memory.StoreOptions{Upsert: true}); err != nil {
		t.Fatal(err)
	}
	step(`one UPDATE "likes water"→"likes milk" 12:00:05 false`)
	if n, err := db.Memories().DeleteScope(ctx, ada); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	step(`one DELETE "likes milk"→nil 12:00:06 true`)

	before := mustHistory(t, db.Memories(), ada, "one")
	seen := map[string]bool{}
	for i, e := range before {
		if seen[e.ID] || len(e.ID) != 36 || e.Scope != ada || i > 0 && (e.LSN <= before[i-1].LSN || e.Time.Before(before[i-1].Time)) {
			t.Errorf("entry %d: %+v", i, e)
		}
		seen[e.ID] = true
	}
	for range 2 { // reopening, with the clean-up done before or not
		closeTest(t, db)
		db = openTest(t, fs, opts)
		if after := mustHistory(t, db.Memories(), ada, "one"); !reflect.DeepEqual(before, after) {
			t.Errorf("after reopening:\n%+v\nbefore:\n%+v", after, before)
		}
		waitCleaned(t, db)
	}
}

// TestHistoryOfOneTransaction: several changes of one commit are entries of their
// own, in their order.
func TestHistoryOfOneTransaction(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now})
	ada := memory.Scope{User: "ada"}
	want := []string{
		`one ADD nil→"1" 12:00:00 false`, `one UPDATE "1"→"2" 12:00:00 false`, `one UPDATE "2"→"3" 12:00:00 false`,
		`one DELETE "3"→nil 12:00:00 true`, `one ADD nil→"4" 12:00:00 false`,
	}
	err := db.Update(t.Context(), func(tx *Tx) error {
		m := tx.Memories()
		mustStore(t, m, memory.Memory{ID: "one", Scope: ada, Text: "1"})
		for _, text := range []string{"2", "3"} {
			if _, err := m.Update(t.Context(), ada, "one", memory.Patch{Text: &text}); err != nil {
				return err
			}
		}
		if err := m.Delete(t.Context(), ada, "one"); err != nil {
			return err
		}
		mustStore(t, m, memory.Memory{ID: "one", Scope: ada, Text: "4"})
		equalSlices(t, "in the transaction", lines(mustHistory(t, m, ada, "one")), want)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h := mustHistory(t, db.Memories(), ada, "one")
	equalSlices(t, "after it", lines(h), want)
	seen := map[string]bool{}
	for _, e := range h {
		seen[e.ID] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d entries have %d IDs", len(h), len(seen))
	}
}

// TestHistoryScopes: an ID in several owners is ambiguous without a scope, and
// nothing of another owner is told.
func TestHistoryScopes(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ctx := t.Context()
	for _, s := range []memory.Scope{{User: "ada"}, {User: "bob"}, {User: "ada", Agent: "a1", Run: "r1"}} {
		mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: s, Text: fmt.Sprintf("of %+v", s)})
	}
	for _, c := range []struct {
		in   memory.Scope
		want error
		text string
	}{
		{memory.Scope{}, fault.ErrAmbiguous, ""},
		{memory.Scope{User: "ada"}, fault.ErrAmbiguous, ""},
		{memory.Scope{User: "bob"}, nil, "of {User:bob Agent: Run:}"},
		{memory.Scope{Run: "r1"}, nil, "of {User:ada Agent:a1 Run:r1}"},
		{memory.Scope{Agent: "a1"}, nil, "of {User:ada Agent:a1 Run:r1}"},
		{memory.Scope{User: "bob", Run: "r1"}, fault.ErrNotFound, ""},
		{memory.Scope{User: "carol"}, fault.ErrNotFound, ""},
	} {
		h, err := db.Memories().History(ctx, c.in, "one")
		if c.want != nil || err != nil {
			wantError(t, fmt.Sprintf("%+v", c.in), err, c.want)
			continue
		}
		if len(h) != 1 || *h[0].NewText != c.text {
			t.Errorf("%+v: %v, want %q", c.in, lines(h), c.text)
		}
	}
	_, err := db.Memories().History(ctx, memory.Scope{}, "never stored")
	wantError(t, "an ID that never was", err, fault.ErrNotFound)
}
