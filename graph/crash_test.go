package graph_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// graphCrash is what a crash has left, and what had been acknowledged before it.
type graphCrash struct {
	fs      *crashfs.Disk
	stored  int // transactions of a memory, two entities and a link
	merged  int // merges, one after each
	undone  int // undone merges, after each second one
	deleted int // deleted hubs
}

// TestGraphCrash crashes at changes of files while one transaction after the other stores a
// memory with its entities and its link, and merges, their undoing and deletes come between.
// What was acknowledged is there, a commit is there whole or not at all, the check is clean.
func TestGraphCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := crashfs.NewDisk()
	var now graphCrash
	var states []graphCrash
	most := race.Times(60)
	fs := crashfs.Wrap(mem, func(crashfs.Op) error {
		if rng.IntN(6) == 0 && len(states) < most {
			at := now
			at.fs = mem.Lose(50, rng)
			states = append(states, at)
		}
		return nil
	})
	db := testdb.Open(t, fs, engine.Options{})
	for range 40 {
		now.step(t, db, fs)
	}
	testdb.Close(t, db)
	if len(states) < most/3 {
		t.Fatalf("%d crashes", len(states))
	}
	for i, at := range states {
		db := testdb.Open(t, at.fs, engine.Options{})
		at.verify(t, db)
		testdb.Close(t, db)
		if t.Failed() {
			t.Fatalf("crash %d: %+v", i, at)
		}
	}
}

// step makes the commits of one number, and counts those that are acknowledged.
func (at *graphCrash) step(t *testing.T, db *engine.DB, fs *crashfs.FS) {
	t.Helper()
	ctx, o, i := t.Context(), memory.Owner{Agent: "a"}, at.stored
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Update(ctx, func(tx *engine.Tx) error {
		if _, err := tx.Memories().Store(ctx, memory.Memory{ID: fmt.Sprint("m", i), Scope: o.Scope(), Text: fmt.Sprint("text ", i)}, nil); err != nil {
			return err
		}
		for _, side := range []string{"p", "q"} {
			e := graph.Entity{ID: fmt.Sprint(side, i), Type: "thing"}
			if _, err := tx.Graph().Put(ctx, o, e, []graph.Edge{{Type: side, Target: fmt.Sprint("p", i-1)}}, nil); err != nil {
				return err
			}
		}
		_, err := tx.Graph().Link(ctx, o, fmt.Sprint("q", i), fmt.Sprint("m", i))
		return err
	}))
	fs.Between(func() { at.stored++ })
	_, err := db.Graph().Merge(ctx, o, fmt.Sprint("p", i), fmt.Sprint("q", i))
	must(err)
	fs.Between(func() { at.merged++ })
	if i%2 == 1 {
		_, err := db.Graph().Unmerge(ctx, o, fmt.Sprint("q", i))
		must(err)
		fs.Between(func() { at.undone++ })
	}
	if i%5 == 4 {
		hub := fmt.Sprint("hub", i)
		var b graph.Batch
		for j := range 200 {
			b.Relations = append(b.Relations, graph.Relation{From: hub, Type: "has", To: fmt.Sprint("p", j)})
		}
		b.Entities = []graph.Entity{{ID: hub}}
		_, err := db.Graph().Write(ctx, o, b, nil)
		must(err)
		_, err = db.Graph().Delete(ctx, o, hub)
		must(err)
		fs.Between(func() { at.deleted++ })
	}
}

// verify compares a database that a crash has left with what was acknowledged.
func (at *graphCrash) verify(t *testing.T, db *engine.DB) {
	t.Helper()
	ctx, o := t.Context(), memory.Owner{Agent: "a"}
	if r, err := db.Check(ctx); err != nil || !r.OK {
		t.Errorf("check: %v, %v", r.Problems, err)
	}
	there := func(id string) bool {
		t.Helper()
		e, err := db.Graph().Get(ctx, o, id, 0)
		if err != nil && !errors.Is(err, memory.ErrNotFound) {
			t.Error(err)
		}
		return err == nil && e.ID == id // else it was merged into another
	}
	for i := range at.stored + 2 {
		p, q := fmt.Sprint("p", i), fmt.Sprint("q", i)
		_, err := db.Memories().Get(ctx, o.Scope(), fmt.Sprint("m", i))
		if stored := err == nil; stored != there(p) || i < at.stored && !stored || i > at.stored && stored {
			t.Errorf("memory %d: %v, its entity: %v; %d were acknowledged", i, err, there(p), at.stored)
		}
		if err != nil {
			continue
		}
		// The one of the two entities that is to have the link has it.
		has := q
		if !there(q) {
			has = p
		}
		linked, err := db.Graph().Linked(ctx, o, fmt.Sprint("m", i))
		if err != nil || fmt.Sprint(linked) != fmt.Sprint([]string{has}) {
			t.Errorf("memory %d is linked to %v, not to %s (%v)", i, linked, has, err)
		}
		switch undone := i%2 == 1; {
		case undone && i/2 < at.undone && !there(q):
			t.Errorf("%s is not there, and its merge was undone", q)
		case !undone && i < at.merged && there(q):
			t.Errorf("%s is there, and was merged", q)
		}
	}
	for i := range at.deleted {
		if hub := fmt.Sprint("hub", 5*i+4); there(hub) {
			t.Errorf("%s is there, and was deleted", hub)
		}
	}
}
