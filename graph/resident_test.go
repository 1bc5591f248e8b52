package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// graphAnswers asks a graph about an entity in all ways. asOf makes it read the keys.
func graphAnswers(ctx context.Context, g graph.Graph, o memory.Owner, id string, asOf uint64) (string, graph.Plan, error) {
	s := graph.State{AsOf: asOf}
	q, err := g.Query(ctx, o, id, 3, s)
	f, err2 := g.Find(ctx, o, id, graph.FindOptions{Hops: 2, State: s})
	b, err3 := g.Find(ctx, o, id, graph.FindOptions{Relation: "inverse:r1", Hops: 2, State: s})
	m, err4 := g.Match(ctx, o, graph.Pattern{From: graph.NodePattern{Type: "t1"}, Relation: "r0", State: s})
	n, err5 := g.Match(ctx, o, graph.Pattern{From: graph.NodePattern{Name: id}, Hops: 2, State: s})
	return fmt.Sprint(found(q), "|", found(f), "|", found(b), "|", m.Matches, "|", n.Matches), q.Plan, errors.Join(err, err2, err3, err4, err5)
}

// TestGraphMemory: what is in RAM is equal to the keys after any change, and to the state of
// each reader.
func TestGraphMemory(t *testing.T) {
	race.Sequential(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newGraphWorld(t)
	ctx := t.Context()
	id := func() string { return fmt.Sprint("e", rng.IntN(40)) }
	inMemory, rounds := 0, max(race.Times(300), 200)
	same := func(g graph.Graph, asOf uint64) string {
		t.Helper()
		start := id()
		fast, plan, err := graphAnswers(ctx, g, w.o, start, 0)
		slow, _, err2 := graphAnswers(ctx, g, w.o, start, asOf)
		w.must(errors.Join(err, err2))
		if plan.Source == "memory" {
			inMemory++
		}
		if fast != slow {
			t.Fatalf("from %s, by %+v:\n%s\nby keys:\n%s", start, plan, fast, slow)
		}
		return fast
	}
	for range rounds {
		for range 1 + rng.IntN(4) {
			w.must(changeGraph(ctx, w, rng, id))
		}
		same(w.g, w.db.LSN())
		if rng.IntN(20) > 0 {
			continue
		}
		// A reader keeps its state while others write.
		w.must(w.db.View(ctx, func(tx *engine.Tx) error {
			same(tx.Graph(), tx.LSN())
			for range 5 {
				w.must(changeGraph(ctx, w, rng, id))
			}
			same(w.g, w.db.LSN())
			same(tx.Graph(), tx.LSN())
			return nil
		}))
	}
	if inMemory < rounds*5/6 {
		t.Errorf("only %d answers came from memory", inMemory)
	}
	testdb.Check(t, w.db, 0)
	if _, err := w.db.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	expectGraph(t, "after a reset", w.query("e1", 2), "")
}

// changeGraph makes a change at random.
func changeGraph(ctx context.Context, w *graphWorld, rng *rand.Rand, id func() string) error {
	ignore := func(err error) error {
		if errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrExists) {
			return nil
		}
		return err
	}
	typ := fmt.Sprint("r", rng.IntN(3))
	switch rng.IntN(12) {
	case 0, 1, 2:
		e := graph.Entity{ID: id(), Type: fmt.Sprint("t", rng.IntN(3))}
		e.Name = e.ID
		_, err := w.g.Put(ctx, w.o, e, []graph.Edge{{Target: id(), Type: typ}}, nil)
		return err
	case 3:
		return ignore(w.g.End(ctx, w.o, id(), typ, id(), ""))
	case 4:
		_, err := w.g.Delete(ctx, w.o, id())
		return ignore(err)
	case 5:
		if rng.IntN(4) == 0 {
			w.clean()
		}
		return nil
	case 6:
		_, err := w.g.Relate(ctx, w.o, graph.Relation{ID: fmt.Sprint(rng.IntN(20)), From: id(), Type: typ, To: id()}, nil)
		return ignore(err)
	case 8:
		_, err := w.g.Merge(ctx, w.o, id(), id())
		if errors.Is(err, memory.ErrInvalid) { // they are the same
			return nil
		}
		return ignore(err)
	case 9:
		_, err := w.g.Unmerge(ctx, w.o, id())
		if errors.Is(err, memory.ErrConflict) {
			return nil
		}
		return ignore(err)
	case 7:
		var b graph.Batch
		for range 80 {
			b.Relations = append(b.Relations, graph.Relation{From: id(), Type: typ, To: id()})
		}
		_, err := w.g.Write(ctx, w.o, b, nil)
		return err
	}
	_, err := w.g.Relate(ctx, w.o, graph.Relation{From: id(), Type: typ, To: id()}, nil)
	return err
}

// A graph that does not fit its share of the memory is walked by its keys, and the plan
// says so.
func TestGraphBeyondMemory(t *testing.T) {
	db, err := engine.OpenMemory(&engine.Options{MemoryBudget: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer testdb.Close(t, db)
	var b graph.Batch
	for i := range 5000 {
		b.Relations = append(b.Relations, graph.Relation{From: fmt.Sprint(i % 70), Type: "x", To: fmt.Sprint(i)})
	}
	o := memory.Owner{User: "u"}
	if _, err := db.Graph().Write(t.Context(), o, b, &graph.Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	small := memory.Owner{User: "v"}
	if _, err := db.Graph().Relate(t.Context(), small, graph.Relation{From: "0", Type: "x", To: "1"}, nil); err != nil {
		t.Fatal(err)
	}
	var plans []graph.Plan
	for range 4 {
		r, err := db.Graph().Query(t.Context(), o, "0", 9, graph.State{})
		if err != nil || len(r.Found) != 72 || r.Plan.Source != "keys" {
			t.Fatalf("%d found, %+v, %v", len(r.Found), r.Plan, err)
		}
		plans = append(plans, r.Plan)
	}
	if plans[0].Why == "" || !reflect.DeepEqual(plans[0], plans[3]) {
		t.Errorf("%+v", plans)
	}
	if r, err := db.Graph().Query(t.Context(), small, "0", 1, graph.State{}); err != nil || r.Plan.Source != "memory" {
		t.Errorf("one that fits: %+v, %v", r.Plan, err)
	}
}
