package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestRecallAsOf recalls from every state of the last ten minutes while memories
// are added, updated and deleted, chunks sealed and the dead freed: each gives what
// it gave when it was the newest.
func TestRecallAsOf(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 4))
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Clock: clock.now, Retain: 10 * time.Minute}, tuning: tuning{hotBytes: 30 << 10}})
	mm, ada := db.Memories(), memory.Scope{User: "ada"}
	queries := []memory.Query{
		{Scope: ada, Text: "green tea", Profile: memory.ProfileText, Limit: 100},
		{Scope: ada, Embedding: []float32{1, 0.5, -1}, Profile: memory.ProfileVector, Limit: 100},
		{AllScopes: true, Text: "black coffee", Limit: 20, Filter: filter.Eq("kind", "message")},
	}
	type state struct {
		lsn  uint64
		at   time.Time
		hits [][]string
	}
	recall := func(lsn uint64) (all [][]string, err error) {
		for _, q := range queries {
			q.AsOf, q.NoTouch = lsn, true
			r, err := mm.Recall(ctx, q)
			if err != nil {
				return nil, err
			}
			var hits []string
			for _, h := range r.Hits {
				hits = append(hits, fmt.Sprint(h.ID, " ", h.Text, " ", h.Score))
			}
			all = append(all, hits)
		}
		return all, nil
	}
	words := []string{"green", "black", "tea", "coffee", "milk"}
	text := func() string {
		return fmt.Sprint(words[rng.IntN(5)], " ", words[rng.IntN(5)], " ", words[rng.IntN(5)], " ", rng.IntN(1000))
	}
	var states []state
	for i := range 300 {
		clock.advance(5 * time.Second)
		id, s := fmt.Sprint(rng.IntN(i+1)), text()
		switch rng.IntN(5) {
		case 0:
			_ = mm.Delete(ctx, ada, id)
		case 1:
			_, _ = mm.Update(ctx, ada, id, memory.Patch{Text: &s})
		case 2:
			if i == 150 {
				_, _ = mm.DeleteScope(ctx, ada)
			}
			fallthrough
		default:
			mustStore(t, mm, memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint(i, " ", s), Embedding: []float32{rng.Float32() + 0.1, rng.Float32(), rng.Float32()}})
		}
		hits, err := recall(0)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state{db.LSN(), clock.now(), hits})
		if i%20 == 19 {
			db.waitSealed(t)
		}
	}
	kept := 0
	for _, s := range states {
		hits, err := recall(s.lsn)
		switch {
		case err == nil:
			kept++
			// Importance and BM25 do not change; the recency of hybrid does, and is
			// not asked for here.
			if !reflect.DeepEqual(hits, s.hits) {
				t.Fatalf("as of LSN %d:\n%q\nwas\n%q", s.lsn, hits, s.hits)
			}
		case !errors.Is(err, fault.ErrNotRetained):
			t.Fatal(err)
		case clock.now().Sub(s.at) <= 10*time.Minute:
			t.Fatalf("as of LSN %d, %v ago: %v", s.lsn, clock.now().Sub(s.at), err)
		}
	}
	if kept < 100 || kept > 200 {
		t.Errorf("%d of %d states are retained", kept, len(states))
	}
	if _, err := recall(db.LSN() + 1); !errors.Is(err, fault.ErrNotRetained) {
		t.Errorf("a state to come: %v", err)
	}
	err := db.Update(ctx, func(tx *Tx) error {
		_, err := tx.Memories().Recall(ctx, memory.Query{Scope: ada, Text: "tea", AsOf: 1})
		return err
	})
	if !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("in an Update: %v", err)
	}
	before := db.LSN()
	if _, err := db.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := recall(before); !errors.Is(err, fault.ErrNotRetained) {
		t.Errorf("after a reset: %v", err)
	}
}

// TestRecallAsOfItself: the state of a View can be read whatever has been freed since.
func TestRecallAsOfItself(t *testing.T) {
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "tea"})
	err := db.View(ctx, func(tx *Tx) error {
		if _, err := db.Reset(ctx); err != nil {
			return err
		}
		hits := mustRecall(t, tx.Memories(), memory.Query{Scope: ada, Text: "tea", AsOf: tx.LSN()})
		if len(hits) != 1 {
			t.Errorf("%d hits", len(hits))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRetainAfterClockAhead: what was noted while the clock was ahead is freed a span after
// the clock was set right, and not only when that time has come.
func TestRetainAfterClockAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	ctx, ada, clock := t.Context(), memory.Scope{User: "ada"}, newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now, Retain: 10 * time.Second})
	update := func(text string) {
		t.Helper()
		if _, err := db.Memories().Update(ctx, ada, "a", memory.Patch{Text: &text}); err != nil {
			t.Fatal(err)
		}
	}
	clock.advance(year)
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "from the year to come"})
	clock.advance(-year)
	before := db.LSN()
	for i := range 100 {
		clock.advance(time.Second)
		update(fmt.Sprint("text ", i))
		switch err := db.janitor.work(ctx); {
		case err != nil:
			t.Fatal(err)
		case i < 9 && db.points.oldest() > before:
			t.Fatalf("after %d seconds LSN %d is not retained", i+1, before)
		}
	}
	janitorDone(t, db)
	if n := countKeys(t, db, layout.KindTombstone); n > 12 {
		t.Errorf("%d of 100 superseded versions are kept, of which 10 are of the last 10 seconds", n)
	}
}

// TestRetentionMarks: however the clock goes, there are no more marks than a span has, and
// a state is given up only when the one after it is older than the span.
func TestRetentionMarks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const notes, span, most = 3000, 1000, 40
	r := retention{span: span * time.Millisecond}
	var earliest [notes]int64 // the lowest reading since the state was noted
	var due [notes]bool
	now, given := int64(1_000_000), uint64(0)
	for lsn := range uint64(notes) {
		now += rng.Int64N(most) - most/3
		earliest[lsn] = now
		for i := range lsn {
			earliest[i] = min(earliest[i], now)
			due[i] = due[i] || now-earliest[i+1] > span
		}
		r.note(lsn, func() int64 { return now })
		if len(r.marks) > retentionMarks+2 {
			t.Fatalf("%d marks after %d notes", len(r.marks), lsn)
		}
		oldest := r.oldest(lsn)
		if oldest < given {
			t.Fatalf("LSN %d is kept after it was given up", oldest)
		}
		for ; given < oldest; given++ {
			if !due[given] {
				t.Fatalf("LSN %d is given up too early", given)
			}
		}
	}
	if given < notes/2 {
		t.Errorf("of %d states %d are given up", notes, given)
	}
}

// TestViewAt reads every retained state again, and finds what a View of then has found.
func TestViewAt(t *testing.T) {
	ctx, ada := t.Context(), memory.Scope{User: "ada"}
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	db := openTest(t, vfs.NewMem(), Options{Retain: time.Hour})
	read := func(tx *Tx) (s string) {
		page, err := tx.Memories().List(ctx, memory.ListQuery{Scope: ada, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Memories {
			one, err := tx.Memories().Get(ctx, ada, m.ID)
			if err != nil || one.Text != m.Text {
				t.Fatalf("%q is listed, not got: %v", m.ID, err)
			}
			history, err := tx.Memories().History(ctx, ada, m.ID)
			if err != nil {
				t.Fatal(err)
			}
			s += fmt.Sprintf("%s=%s(%d) ", m.ID, m.Text, len(history))
		}
		n, err := tx.Memories().Count(ctx, memory.ListQuery{Scope: ada, Filter: filter.Contains("text", "green")})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(s, n)
	}
	type state struct {
		lsn  uint64
		want string
	}
	var states []state
	for range 150 {
		id, text := fmt.Sprint("m", rng.IntN(8)), []string{"green tea", "black tea", "milk"}[rng.IntN(3)]
		var err error
		switch _, err = db.Memories().Get(ctx, ada, id); {
		case err != nil:
			mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: ada, Text: text})
		case rng.IntN(2) == 0:
			_, err = db.Memories().Update(ctx, ada, id, memory.Patch{Text: &text})
		case rng.IntN(5) == 0:
			_, err = db.Memories().DeleteScope(ctx, ada)
		default:
			err = db.Memories().Delete(ctx, ada, id)
		}
		if err != nil && !errors.Is(err, fault.ErrNotFound) {
			t.Fatal(err)
		}
		err = db.View(ctx, func(tx *Tx) error {
			states = append(states, state{tx.LSN(), read(tx)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range states {
		err := db.ViewAt(ctx, s.lsn, func(tx *Tx) error {
			if got := read(tx); got != s.want || tx.LSN() != s.lsn {
				t.Errorf("as of LSN %d: %q, want %q", s.lsn, got, s.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := db.ViewAt(ctx, states[0].lsn, func(tx *Tx) error {
		_, err := tx.KV().Get(ctx, memory.Owner{User: "ada"}, "cart")
		return err
	})
	if !errors.Is(err, memory.ErrNotRetained) {
		t.Errorf("entries of the past: %v", err)
	}
	err = db.ViewAt(ctx, states[0].lsn, func(tx *Tx) error {
		_, err := tx.Usage().Total(ctx, usage.Query{Owner: memory.Owner{User: "ada"}})
		return err
	})
	if !errors.Is(err, memory.ErrNotRetained) {
		t.Errorf("usage of the past: %v", err)
	}
	if err := db.ViewAt(ctx, db.LSN()+1, func(*Tx) error { return nil }); !errors.Is(err, memory.ErrNotRetained) {
		t.Errorf("a state to come: %v", err)
	}
}
