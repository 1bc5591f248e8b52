package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// patient is a context whose deadline has passed once it was asked so often.
type patient struct {
	context.Context
	left int
}

func (p *patient) Err() error {
	if p.left--; p.left < 0 {
		return context.DeadlineExceeded
	}
	return p.Context.Err()
}

// hubWorld has an entity with relations to n others, and the LSN of that.
func hubWorld(t *testing.T, n int) (*graphWorld, uint64) {
	w := newGraphWorld(t)
	var b graph.Batch
	for i := range n {
		b.Relations = append(b.Relations, graph.Relation{From: "hub", Type: "has", To: fmt.Sprint("spoke", i)})
	}
	_, err := w.g.Write(t.Context(), w.o, b, &graph.Options{Create: true})
	w.must(err)
	lsn := w.db.LSN()
	w.put("later", "")
	return w, lsn
}

// TestGraphBoundsOfOneEntity: limits and the deadline end a walk within the relations of one
// entity, in memory, by keys, as of an LSN and at a time of validity, and are told.
func TestGraphBoundsOfOneEntity(t *testing.T) {
	const n, most = 6000, 100
	w, lsn := hubWorld(t, n)
	for name, s := range map[string]graph.State{"memory": {}, "past": {AsOf: lsn}, "valid": {ValidAt: graphTime}} {
		for where, g := range map[string]func(fn func(g graph.Graph) error) error{
			"": func(fn func(graph.Graph) error) error { return fn(w.g) },
			" in a transaction": func(fn func(graph.Graph) error) error {
				return w.db.Update(t.Context(), func(tx *engine.Tx) error { return fn(tx.Graph()) })
			},
		} {
			w.must(g(func(g graph.Graph) error {
				s := s
				s.MaxEdges = most
				q, err := g.Query(t.Context(), w.o, "hub", 3, s)
				if err != nil || len(q.Found) != most+1 || q.Plan.Limit != "edges" || q.Plan.Edges != most {
					t.Errorf("%s%s: %d found, %+v, %v", name, where, len(q.Found), q.Plan, err)
				}
				m, err := g.Match(t.Context(), w.o, graph.Pattern{Relation: "has", State: s})
				if err != nil || len(m.Matches) != most || m.Plan.Limit != "edges" {
					t.Errorf("%s%s: %d matches, %+v, %v", name, where, len(m.Matches), m.Plan, err)
				}
				c, err := g.Components(t.Context(), w.o, s)
				if err != nil || len(c.Components) != 1 || c.Plan.Limit != "edges" {
					t.Errorf("%s%s: %+v, %v", name, where, c, err)
				}
				return nil
			}))
			ctx := &patient{t.Context(), 8}
			q, err := w.g.Query(ctx, w.o, "hub", 3, s)
			if err != nil || q.Plan.Limit != "time" || len(q.Found) > n/2 {
				t.Errorf("%s: %d found at the deadline, %+v, %v", name, len(q.Found), q.Plan, err)
			}
		}
	}
}

// TestGraphRankBounds: a rank reads each relation once from each end, however many rounds it
// takes; where a limit cuts, it says so and ranks what it has read.
func TestGraphRankBounds(t *testing.T) {
	const n = 500
	w, _ := hubWorld(t, n)
	for _, c := range []struct {
		max   int
		limit string
	}{{2 * n, ""}, {n / 2, "edges"}, {1, "edges"}} {
		r, err := w.g.Rank(t.Context(), w.o, []string{"hub"}, graph.RankOptions{Limit: 10 * n, State: graph.State{MaxEdges: c.max}})
		total := 0.0
		for _, e := range r.Ranked {
			total += e.Rank
		}
		if err != nil || r.Plan.Limit != c.limit || len(r.Ranked) < 2 || r.Ranked[0].ID != "hub" || math.Abs(total-1) > 1e-9 {
			t.Errorf("at most %d relations: %d ranked, together %v, %+v, %v", c.max, len(r.Ranked), total, r.Plan, err)
		}
	}
	r, err := w.g.Rank(&patient{t.Context(), 3}, w.o, []string{"hub"}, graph.RankOptions{})
	if err != nil || len(r.Ranked) == 0 || r.Plan.Limit != "time" {
		t.Errorf("at the deadline: %+v, %v", r, err)
	}
}

// TestGraphNamesAsOf: a name means who had it as of the LSN, in a match and in a list.
func TestGraphNamesAsOf(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	name := func(id, name string) {
		_, err := w.g.Put(ctx, w.o, graph.Entity{ID: id, Name: name}, nil, nil)
		w.must(err)
	}
	w.put("a", "t", "r>b")
	w.put("b", "t", "r>a")
	name("a", "Ada")
	name("b", "Bob")
	lsn := w.db.LSN()
	name("a", "Bob")
	name("b", "Ada")
	for _, c := range []struct {
		asOf uint64
		want string
	}{{0, "b"}, {lsn, "a"}} {
		m, err := w.g.Match(ctx, w.o, graph.Pattern{From: graph.NodePattern{Name: "ada"}, State: graph.State{AsOf: c.asOf}})
		if err != nil || len(m.Matches) != 1 || m.Matches[0][0].From != c.want {
			t.Errorf("as of %d: %+v, %v", c.asOf, m, err)
		}
		p, err := w.g.List(ctx, graph.ListQuery{Owner: w.o, NamePrefix: "ad", AsOf: c.asOf})
		if err != nil || len(p.Entities) != 1 || p.Entities[0].ID != c.want {
			t.Errorf("list as of %d: %+v, %v", c.asOf, p, err)
		}
		first, err := w.g.List(ctx, graph.ListQuery{Owner: w.o, NamePrefix: "a", AsOf: c.asOf, Limit: 1})
		w.must(err)
		all := first.Entities
		for first.Next != "" {
			first, err = w.g.List(ctx, graph.ListQuery{Owner: w.o, NamePrefix: "a", AsOf: c.asOf, Limit: 1, After: first.Next})
			w.must(err)
			all = append(all, first.Entities...)
		}
		if len(all) != 1 {
			t.Errorf("pages as of %d: %+v", c.asOf, all)
		}
	}
}

// TestGraphMergedIDsLead: the ID of an entity that was merged, more than once, leads to the one
// that stayed, in all that reads and in relations; and a delete of that one counts them.
func TestGraphMergedIDsLead(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	w.put("n0", "t", "r>y")
	w.put("n3", "t")
	w.put("n4", "t")
	w.put("x", "t")
	w.put("y", "t")
	testdb.Store(t, w.db.Memories(), memory.Memory{ID: "m", Scope: w.o.Scope(), Text: "m"})
	for _, pair := range [][2]string{{"n3", "n4"}, {"n0", "n3"}} {
		_, err := w.g.Merge(ctx, w.o, pair[0], pair[1])
		w.must(err)
	}
	for _, id := range []string{"n3", "n4"} {
		s, err := w.g.Relate(ctx, w.o, graph.Relation{From: "x", Type: "likes", To: id}, &graph.Options{Strict: true})
		if err != nil || len(s.WaitsFor) > 0 {
			t.Errorf("relate to %s: %+v, %v", id, s, err)
		}
		e, err := w.g.Get(ctx, w.o, id, 0)
		if err != nil || e.ID != "n0" {
			t.Errorf("get %s: %+v, %v", id, e, err)
		}
		expectGraph(t, "query", w.query(id, 1), w.query("n0", 1))
		expectGraph(t, "neighbours", w.neighbours(id), "r>y inverse:likes>x")
		f, err := w.g.Find(ctx, w.o, id, graph.FindOptions{})
		if err != nil || len(f.Found) != 1 || f.Found[0].ID != "y" {
			t.Errorf("find %s: %+v, %v", id, f, err)
		}
		p, err := w.g.Path(ctx, w.o, "y", id, graph.State{})
		if err != nil || fmt.Sprint(p.Hops) != "[{y inverse:r n0}]" {
			t.Errorf("path to %s: %+v, %v", id, p, err)
		}
		r, err := w.g.Rank(ctx, w.o, []string{id}, graph.RankOptions{Limit: 1})
		if err != nil || len(r.Ranked) != 1 || r.Ranked[0].ID != "n0" {
			t.Errorf("rank %s: %+v, %v", id, r, err)
		}
		if all, err := w.g.Relations(ctx, w.o, "x", "likes", id, graph.State{}); err != nil || len(all) != 1 || all[0].To != "n0" || all[0].ID != s.ID {
			t.Errorf("relations to %s: %+v, %v", id, all, err)
		}
		if _, err := w.g.Link(ctx, w.o, id, "m"); err != nil {
			t.Error(err)
		}
		if ids, err := w.g.Memories(ctx, w.o, id); err != nil || fmt.Sprint(ids) != "[m]" {
			t.Errorf("memories of %s: %v, %v", id, ids, err)
		}
	}
	// Batches of many relations, whose ends are read at once, too.
	b := graph.Batch{}
	for i := range 100 {
		b.Relations = append(b.Relations, graph.Relation{From: "n4", Type: fmt.Sprint("b", i), To: "x"})
	}
	_, err := w.g.Write(ctx, w.o, b, nil)
	w.must(err)
	w.must(w.g.End(ctx, w.o, "n4", "b7", "x", ""))
	d, err := w.g.Delete(ctx, w.o, "n0")
	if err != nil || d != (graph.Deleted{Entities: 1, Relations: 101, Links: 1}) {
		t.Errorf("deleted %+v, %v", d, err)
	}
	if _, err := w.g.Get(ctx, w.o, "n4", 0); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	w.clean()
	testdb.Check(t, w.db, 1)
}
