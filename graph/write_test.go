package graph_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestGraphBatchesAndSinglesAreEqual writes the same relations in large batches, which read
// what is there in the order of the keys, and one by one.
func TestGraphBatchesAndSinglesAreEqual(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	one, many := newGraphWorld(t), newGraphWorld(t)
	for range 6 {
		var b graph.Batch
		for range 100 {
			r := graph.Relation{From: fmt.Sprint("e", rng.IntN(60)), Type: fmt.Sprint("t", rng.IntN(3)), To: fmt.Sprint("e", rng.IntN(60))}
			if rng.IntN(10) == 0 {
				r.ID = fmt.Sprint("r", rng.Uint32())
			}
			b.Relations = append(b.Relations, r)
		}
		for i := range 10 {
			b.Entities = append(b.Entities, graph.Entity{ID: fmt.Sprint("e", rng.IntN(60)), Name: fmt.Sprint("n", i)})
		}
		_, err := many.g.Write(t.Context(), many.o, b, nil)
		many.must(err)
		for _, e := range b.Entities {
			_, err := one.g.Put(t.Context(), one.o, e, nil, nil)
			one.must(err)
		}
		for _, r := range b.Relations {
			_, err := one.g.Relate(t.Context(), one.o, r, nil)
			one.must(err)
		}
	}
	expectGraph(t, "figures", many.figures(), one.figures())
	for i := range 60 {
		id := fmt.Sprint("e", i)
		if _, err := one.g.Get(t.Context(), one.o, id, 0); errors.Is(err, memory.ErrNotFound) {
			continue
		}
		want, err := one.g.Query(t.Context(), one.o, id, 1, graph.State{})
		one.must(err)
		got, err := many.g.Query(t.Context(), many.o, id, 1, graph.State{})
		many.must(err)
		if len(got.Found) != len(want.Found) {
			t.Errorf("%s: %d neighbours, want %d", id, len(got.Found), len(want.Found))
		}
	}
	testdb.Check(t, many.db, 0)
}

// TestGraphMatchAmongARelation: the matches of a type of relation in memory are those by keys,
// in their order and up to the limit.
func TestGraphMatchAmongARelation(t *testing.T) {
	w := newGraphWorld(t)
	for i := range 40 {
		w.put(fmt.Sprint("p", i), fmt.Sprint("person", i%2), fmt.Sprintf("likes>t%d", i%7), fmt.Sprintf("likes>gone%d", i))
	}
	for i := range 7 {
		w.put(fmt.Sprint("t", i), "thing")
	}
	for _, p := range []graph.Pattern{
		{Relation: "likes"},
		{Relation: "likes", From: graph.NodePattern{Type: "person1"}},
		{Relation: "likes", From: graph.NodePattern{Type: "person1"}, To: graph.NodePattern{Type: "thing"}, Limit: 5},
		{Relation: "likes", To: graph.NodePattern{Type: "thing"}, Limit: 40},
		{Relation: "likes", To: graph.NodePattern{Type: "person0"}},
	} {
		in, err := w.g.Match(t.Context(), w.o, p)
		w.must(err)
		p.AsOf = w.db.LSN()
		by, err := w.g.Match(t.Context(), w.o, p)
		w.must(err)
		if in.Plan.Source != "memory" || by.Plan.Source != "keys" || in.Plan.Limit != by.Plan.Limit {
			t.Errorf("%+v, %+v", in.Plan, by.Plan)
		}
		expectGraph(t, fmt.Sprintf("%+v", p), fmt.Sprint(in.Matches), fmt.Sprint(by.Matches))
	}
}
