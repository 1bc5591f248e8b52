package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// keysOf counts the keys of some kinds.
func keysOf(t *testing.T, db *DB, kinds ...byte) (n int) {
	t.Helper()
	for _, kind := range kinds {
		lower, upper := db.keys().Span(kind)
		if err := kv.Scan(db.store, lower, upper, func(_, _ []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forgetNow passes over the histories once what died is cleaned up.
func forgetNow(t *testing.T, db *DB) {
	t.Helper()
	// A look of the background, as that at the trash when a database is opened, may hold a View of a
	// moment before, which nothing is forgotten beneath. A View of the test's own may stay.
	for tries := 0; db.points.oldest() < db.LSN() && tries < 1000; tries++ {
		time.Sleep(time.Millisecond)
	}
	if err := db.janitor.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.forget(t.Context(), new(time.Time)); err != nil {
		t.Fatal(err)
	}
}

// TestHistoryIsForgotten: versions and deaths that are older than the policy keeps are gone,
// others are not; what lives stays as it is; a View from before reads on; and an ID whose
// memory is forgotten was never there.
func TestHistoryIsForgotten(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	o := setup{Options: Options{Clock: clk.now}, tuning: tuning{keepsExpired: true}}
	db := openTest(t, fs, o)
	m, a := db.Memories(), memory.Scope{Agent: "a"}
	setPolicy(t, db, func(p *policy.Policy) { p.History = policy.Span(time.Hour) })
	put := func(id, text string) {
		t.Helper()
		if _, err := m.Store(t.Context(), memory.Memory{ID: id, Scope: a, Text: text}, &memory.StoreOptions{Upsert: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"stays", "changes", "goes", "goes with the scope", "goes late"} {
		put(id, "first "+id)
	}
	put("changes", "second")
	noError(t, m.Delete(t.Context(), a, "goes"))
	if _, err := m.DeleteMatching(t.Context(), memory.DeleteQuery{Scope: a, Filter: filter.Eq("id", "goes with the scope")}); err != nil {
		t.Fatal(err)
	}
	clk.advance(40 * time.Minute)
	put("changes", "third")
	noError(t, m.Delete(t.Context(), a, "goes late"))

	events := func(id string, want int) {
		t.Helper()
		h, err := m.History(t.Context(), a, id)
		if want == 0 && errors.Is(err, fault.ErrNotFound) {
			return
		}
		if err != nil || len(h) != want {
			t.Errorf("history of %q: %d events, not %d: %v", id, len(h), want, err)
		}
	}
	forgetNow(t, db)
	for id, n := range map[string]int{"stays": 1, "changes": 3, "goes": 2, "goes with the scope": 2, "goes late": 2} {
		events(id, n)
	}

	clk.advance(21 * time.Minute) // the first hour is over
	err := db.View(t.Context(), func(tx *Tx) error {
		forgetNow(t, db)
		h, err := tx.Memories().History(t.Context(), a, "goes")
		if err != nil || len(h) != 2 {
			t.Errorf("a View from before: %d events, %v", len(h), err)
		}
		return nil
	})
	noError(t, err)
	for id, n := range map[string]int{"stays": 1, "changes": 2, "goes": 0, "goes with the scope": 0, "goes late": 2} {
		events(id, n)
	}
	if h, _ := m.History(t.Context(), a, "changes"); len(h) == 2 && (h[0].Event != memory.EventUpdate || *h[0].NewText != "second" || h[0].OldText != nil || *h[1].OldText != "second") {
		t.Errorf("what is left of a history: %+v", h)
	}
	clk.advance(time.Hour)
	forgetNow(t, db)
	events("goes late", 0)
	events("changes", 1)
	if got, err := m.Get(t.Context(), a, "changes"); err != nil || got.Text != "third" {
		t.Errorf("%+v, %v", got, err)
	}
	if n := keysOf(t, db, layout.KindRecord, layout.KindHistory, layout.KindID); n != 4 {
		t.Errorf("%d keys are left of two memories", n)
	}
	put("goes", "anew")
	events("goes", 1)
	mustCheck(t, db, 3)
	noError(t, db.Close())
	db = openTest(t, fs, o)
	m = db.Memories()
	events("changes", 1)
	mustCheck(t, db, 3)
}

// TestTrashIsNotForgotten: what can be brought back is, however short histories are.
func TestTrashIsNotForgotten(t *testing.T) {
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Clock: clk.now}, tuning: tuning{keepsExpired: true}})
	setPolicy(t, db, func(p *policy.Policy) {
		p.History, p.Trash = policy.Span(time.Minute), policy.Span(48*time.Hour)
	})
	for i := range 20 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{Agent: "a"}, Text: fmt.Sprint("text ", i), Importance: new(.1), CreatedAt: clk.now().Add(-90 * 24 * time.Hour)})
	}
	r, err := db.Evict(t.Context(), nil)
	if err != nil || r.Evicted != 20 {
		t.Fatalf("%+v, %v", r, err)
	}
	clk.advance(24 * time.Hour)
	forgetNow(t, db)
	undone, err := db.Undo(t.Context(), r.LSN)
	if err != nil || undone.Restored != 20 {
		t.Fatalf("%+v, %v", undone, err)
	}
	clk.advance(72 * time.Hour)
	janitorDone(t, db)
	noError(t, db.emptyTrash(t.Context()))
	forgetNow(t, db)
	mustCheck(t, db, 20)
	clk.advance(30 * 24 * time.Hour)
	if r, err = db.Evict(t.Context(), nil); err != nil || r.Evicted != 20 {
		t.Fatalf("%+v, %v", r, err)
	}
	clk.advance(72 * time.Hour)
	janitorDone(t, db)
	noError(t, db.emptyTrash(t.Context()))
	forgetNow(t, db)
	if n := keysOf(t, db, layout.KindRecord, layout.KindHistory, layout.KindID, layout.KindStats); n != 0 {
		t.Errorf("%d keys are left of nothing", n)
	}
	mustCheck(t, db, 0)
}

// TestLogIsTrimmed: the records of commits go once they are older than the policy keeps, but
// not those that opening needs; snapshots of vectors are used afterwards.
func TestLogIsTrimmed(t *testing.T) {
	clk, fs := newTestClock(), vfs.NewMem()
	db := openTest(t, fs, setup{Options: Options{Clock: clk.now}})
	setPolicy(t, db, func(p *policy.Policy) { p.Log = policy.Span(time.Hour) })
	for i := range 100 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: fmt.Sprint("text ", i)})
	}
	before := keysOf(t, db, layout.KindLog)
	clk.advance(59 * time.Minute)
	forgetNow(t, db)
	if n := keysOf(t, db, layout.KindLog); n != before {
		t.Errorf("%d of %d records are left within the hour", n, before)
	}
	clk.advance(2 * time.Minute)
	forgetNow(t, db)
	if n := keysOf(t, db, layout.KindLog); n != 1 {
		t.Errorf("%d of %d records are left after it", n, before)
	}
	mustCheck(t, db, 100)
	noError(t, db.Close())
	db = openTest(t, fs, setup{Options: Options{Clock: clk.now}})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: "one more"})
	mustCheck(t, db, 101)
}

// TestSeqsAreReleased: memories that are gone take no RAM.
func TestSeqsAreReleased(t *testing.T) {
	race.Sequential(t)
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Clock: clk.now}})
	setPolicy(t, db, func(p *policy.Policy) { p.History = policy.Span(time.Minute) })
	kept := mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "kept"}, Text: "kept"})
	for lap := range max(race.Times(10), 8) {
		var batch []memory.Memory
		for i := range 3000 {
			batch = append(batch, memory.Memory{Scope: memory.Scope{Agent: "a", Run: "r"}, Text: fmt.Sprint("text ", lap, " ", i)})
		}
		if _, err := db.Memories().StoreBatch(t.Context(), batch, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Memories().DeleteScope(t.Context(), memory.Scope{Agent: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	clk.advance(time.Hour)
	comes(t, "the rows are freed", func() bool {
		forgetNow(t, db)
		return db.tables.Docs.Blocks()*16 <= seqStep // those of the newest, which stay
	})
	if _, err := db.Memories().Get(t.Context(), memory.Scope{Agent: "kept"}, kept.ID); err != nil {
		t.Error(err)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "a", Run: "r"}, Text: "one more"})
	mustCheck(t, db, 2)
}

// TestEmbeddedKeepsHistory: what a memory's vector was made anew of stays as its history for
// as long as it has that text, and nothing that was let go of is called lost.
func TestEmbeddedKeepsHistory(t *testing.T) {
	clk := newTestClock()
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Clock: clk.now}})
	ada := memory.Scope{User: "ada"}
	setPolicy(t, db, func(p *policy.Policy) { p.History = policy.Span(time.Hour) })
	for i, id := range []string{"zero", "one", "two"} {
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: ada, Text: "prefers tea " + id, Embedding: []float32{1, float32(i)}})
	}
	events := func(want ...memory.Event) {
		t.Helper()
		clk.advance(2 * time.Hour)
		forgetNow(t, db)
		h, err := db.Memories().History(t.Context(), ada, "one")
		noError(t, err)
		var got []memory.Event
		for _, e := range h {
			got = append(got, e.Event)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the history is %v, want %v", got, want)
		}
		mustCheck(t, db, 3)
	}
	noError(t, embedAgain(t, db))
	events(memory.EventAdd)
	noError(t, embedAgain(t, db))
	events(memory.EventAdd)
	_, err := db.Memories().Update(t.Context(), ada, "one", memory.Patch{Text: new("prefers coffee")})
	noError(t, err)
	mustCheck(t, db, 3)
	events(memory.EventUpdate)
	noError(t, embedAgain(t, db))
	events(memory.EventUpdate)
}

// embedAgain gives the second memory another vector, by a version that is no event.
func embedAgain(t *testing.T, db *DB) error {
	return db.Update(t.Context(), func(tx *Tx) error {
		l, _ := tx.reader().At(2)
		_, err := tx.revise(t.Context(), "embed it again", l, map[string][]float32{memory.DefaultSpace: {3, 4}}, 0, false)
		return err
	})
}
