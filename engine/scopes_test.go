package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestScopesCarried changes a database in every way, and compares what is carried
// from state to state of each scope with what its postings say, in new Views and in
// those that are older than what is remembered, by clocks that go forth and back.
func TestScopesCarried(t *testing.T) {
	sequential(t)
	for round := range uint64(4) {
		clock := newTestClock()
		o := setup{Options: Options{Clock: clock.now}, tuning: tuning{vectors: smallLimits()}}
		if round%2 == 0 { // chunks are sealed and moved
			o.hotBytes, o.lookLeast = 40<<10, 1
		}
		db := openTest(t, vfs.NewMem(), o)
		c := &scopeChanges{t: t, db: db, clock: clock, rng: rand.New(rand.NewPCG(round, 5))}
		for range 120 {
			c.change()
			c.check()
		}
		born, died := 100, 50
		if round%2 == 0 { // after each move a scope is gathered anew
			born, died = 15, 15
		}
		if c.born < born || c.died < died {
			t.Errorf("states were carried over %d births and %d deaths", c.born, c.died)
		}
	}
}

// TestScopeOfNewRun: a scope that was asked for before its run was known shows what
// comes into the run, and nothing else.
func TestScopeOfNewRun(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m := db.Memories()
	find := func(want ...string) {
		t.Helper()
		for _, s := range []memory.Scope{{User: "u", Run: "r"}, {Run: "r"}} {
			var got []string
			for _, h := range mustRecall(t, m, memory.Query{Scope: s, Text: "tea"}) {
				got = append(got, h.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v shows %v, want %v", s, got, want)
			}
		}
	}
	find()
	mustStore(t, m, memory.Memory{ID: "no run", Scope: memory.Scope{User: "u"}, Text: "green tea"})
	mustStore(t, m, memory.Memory{ID: "another's", Scope: memory.Scope{User: "v"}, Text: "black tea"})
	find()
	mustStore(t, m, memory.Memory{ID: "of the run", Scope: memory.Scope{User: "u", Run: "r"}, Text: "tea"})
	find("of the run")
}

// TestScopesForgotten: a rebuilt index is not told by what the old one had.
func TestScopesForgotten(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "tea"})
	mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "u"}, Text: "tea"})
	if db.scopes.Size() == 0 {
		t.Error("nothing is remembered")
	}
	if err := db.Rebuild(t.Context(), IndexText, nil); err != nil {
		t.Fatal(err)
	}
	if n := db.scopes.Size(); n != 0 {
		t.Errorf("%d bytes are remembered", n)
	}
}

// scopeChanges is a database that changes, with Views that are open meanwhile.
type scopeChanges struct {
	t     *testing.T
	db    *DB
	clock *testClock
	rng   *rand.Rand
	n     int
	ids   []scopedID
	born  int // in states that were carried on
	died  int
}

type scopedID struct {
	id    string
	scope memory.Scope
}

var errTakeBack = errors.New("take it back")

func (c *scopeChanges) scope() memory.Scope {
	s := memory.Scope{User: fmt.Sprint("u", c.rng.IntN(2))}
	if c.rng.IntN(2) == 0 {
		s.Agent = fmt.Sprint("a", c.rng.IntN(2))
	}
	if c.rng.IntN(2) == 0 {
		s.Run = fmt.Sprint("r", c.rng.IntN(2))
	}
	return s
}

func (c *scopeChanges) memory() memory.Memory {
	c.n++
	m := memory.Memory{ID: fmt.Sprint("m", c.n), Scope: c.scope(), Text: fmt.Sprint("text ", c.n)}
	if c.rng.IntN(3) > 0 {
		m.Embedding = randomVec(c.rng, 8)
	}
	if c.rng.IntN(6) == 0 {
		m.ExpiresAt = c.clock.now().Add(time.Duration(1+c.rng.IntN(100)) * time.Second)
	}
	return m
}

// change is one step: of a database, or of what time it is.
func (c *scopeChanges) change() {
	switch c.rng.IntN(12) {
	case 0, 1, 2, 3:
		c.update(func(m Memories) { c.store(m, 1+c.rng.IntN(5)) }, false)
	case 4:
		c.update(func(m Memories) {
			c.store(m, 3)
			mustRecall(c.t, m, memory.Query{AllScopes: true, Text: "text", NoTouch: true}) // into the tables
			c.store(m, 3)
		}, c.rng.IntN(2) == 0)
	case 5, 6:
		c.update(func(m Memories) { c.replace(m) }, c.rng.IntN(4) == 0)
	case 7, 8:
		c.update(func(m Memories) { c.remove(m) }, c.rng.IntN(4) == 0)
	case 9:
		if _, err := c.db.Memories().DeleteScope(c.t.Context(), memory.Scope{Run: "r1", User: "u1"}); err != nil {
			c.t.Fatal(err)
		}
	case 10:
		c.clock.advance(time.Duration(c.rng.IntN(90)-30) * time.Second)
	case 11:
		c.db.chunks.busy.Lock()
		c.db.chunks.graves++ // look for sparse chunks even if few have died
		c.db.chunks.busy.Unlock()
		c.db.janitor.wake()
	}
}

// update changes memories in a transaction, which may be taken back.
func (c *scopeChanges) update(fn func(Memories), back bool) {
	known := slices.Clone(c.ids)
	err := c.db.Update(c.t.Context(), func(tx *Tx) error {
		fn(tx.Memories())
		if back {
			return errTakeBack
		}
		return nil
	})
	switch {
	case back && errors.Is(err, errTakeBack):
		c.ids = known
	case err != nil:
		c.t.Fatal(err)
	}
}

func (c *scopeChanges) store(m Memories, n int) {
	for range n {
		mem := c.memory()
		mustStore(c.t, m, mem)
		c.ids = append(c.ids, scopedID{mem.ID, mem.Scope})
	}
}

// replace changes a memory, now and then into another run.
func (c *scopeChanges) replace(m Memories) {
	if len(c.ids) == 0 {
		return
	}
	old := c.ids[c.rng.IntN(len(c.ids))]
	mem := c.memory()
	mem.ID, mem.Scope = old.id, old.scope
	if _, err := m.Store(c.t.Context(), mem, &memory.StoreOptions{Upsert: true}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *scopeChanges) remove(m Memories) {
	if len(c.ids) == 0 {
		return
	}
	i := c.rng.IntN(len(c.ids))
	old := c.ids[i]
	if err := m.Delete(c.t.Context(), old.scope, old.id); err != nil && !errors.Is(err, fault.ErrNotFound) {
		c.t.Fatal(err)
	}
	c.ids = slices.Delete(c.ids, i, i+1)
}

// check compares the scopes in a new View, and in an older one within it.
func (c *scopeChanges) check() {
	t := c.t
	err := c.db.View(t.Context(), func(older *Tx) error {
		c.store(c.db.Memories(), c.rng.IntN(2))
		return c.db.View(t.Context(), func(tx *Tx) error {
			for _, s := range []memory.Scope{{}, {User: "u0"}, {User: "u1", Agent: "a1"}, {Run: "r1"}, {User: "u1", Run: "r0"}, {Agent: "a0"}} {
				c.same(tx, s)
				c.same(older, s)
				c.same(tx, s)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// same compares a scope as a transaction is told of it with its postings.
func (c *scopeChanges) same(tx *Tx, s memory.Scope) {
	t := c.t
	t.Helper()
	want, err := selection.Gather(context.Background(), &tx.state, s)
	if err != nil {
		t.Fatal(err)
	}
	if old := c.db.scopes.Remembered(s); old != nil && old.LSN < tx.state.LSN {
		carried, err := old.Carry(context.Background(), &tx.state)
		if err != nil {
			t.Fatal(err)
		}
		if carried != nil {
			c.equal(tx, carried, want)
			died := roaring.AndNot(old.Set, carried.Set).GetCardinality()
			c.died += int(died)
			c.born += carried.N + int(died) - old.N
		}
	}
	got, _, err := c.db.scopes.Scoped(context.Background(), &tx.state, s)
	if err != nil {
		t.Fatal(err)
	}
	c.equal(tx, got, want)
}

func (c *scopeChanges) equal(tx *Tx, got, want *selection.Scoped) {
	t, s := c.t, got.Scope
	t.Helper()
	if !got.Set.Equals(want.Set) || !slices.Equal(got.List(), want.List()) || got.N != want.N {
		t.Fatalf("scope %+v as of %d: %v, want %v", s, tx.state.LSN, got.Set, want.Set)
	}
	if a, b := got.Glances(&tx.db.tables.Docs.Glances), want.Glances(&tx.db.tables.Docs.Glances); !slices.Equal(a, b) {
		t.Fatalf("scope %+v as of %d: glances %v, want %v", s, tx.state.LSN, a, b)
	}
	for _, space := range tx.db.spaces.All() {
		if a, b := got.SlotsOf(space), want.SlotsOf(space); !slices.Equal(a, b) {
			t.Fatalf("scope %+v as of %d: slots %v, want %v", s, tx.state.LSN, a, b)
		}
		a, b := got.SlotSet(space), want.SlotSet(space)
		for _, slot := range want.SlotsOf(space) {
			if slot < spaces.NoSlot && !a.Has(slot) {
				t.Fatalf("scope %+v as of %d: slot %d is missing", s, tx.state.LSN, slot)
			}
		}
		if a.Len() != b.Len() {
			t.Fatalf("scope %+v as of %d: %d slots, want %d", s, tx.state.LSN, a.Len(), b.Len())
		}
	}
}
