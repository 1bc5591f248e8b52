package graph_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// hubVar is how many relations the entity of TestGraphHub has, where it is set.
const hubVar = "MEMDB_HUB"

// TestGraphHub has an entity with very many relations: pages of them come soon, it goes in
// one small commit, and others write and read while what it leaves is cleaned up.
//
// MEMDB_HUB=1000000 gives it so many.
func TestGraphHub(t *testing.T) {
	n := race.Times(20_000)
	if v, err := strconv.Atoi(os.Getenv(hubVar)); err == nil {
		n = v
	}
	w := newGraphWorld(t)
	ctx := t.Context()
	for i := 0; i < n; {
		var b graph.Batch
		for ; i < n && len(b.Relations) < graph.MaxBatch/2; i++ {
			r := graph.Relation{From: "hub", Type: "has", To: fmt.Sprint("spoke", i)}
			if i%2 == 1 {
				r.From, r.To = r.To, r.From
			}
			b.Relations = append(b.Relations, r)
		}
		_, err := w.g.Write(ctx, w.o, b, &graph.Options{Create: true})
		w.must(err)
	}

	began := time.Now()
	page, err := w.g.Neighbours(ctx, w.o, "hub", graph.NeighbourQuery{})
	w.must(err)
	t.Logf("%d relations, the first page of %d after %v", n, len(page.Neighbours), time.Since(began))
	seen := len(page.Neighbours)
	for page.Next != "" {
		page, err = w.g.Neighbours(ctx, w.o, "hub", graph.NeighbourQuery{After: page.Next, Limit: 1000})
		w.must(err)
		seen += len(page.Neighbours)
	}
	if seen != n {
		t.Errorf("the pages have %d of %d relations", seen, n)
	}

	before := w.db.LSN()
	began = time.Now()
	w.must(w.db.Update(ctx, func(tx *engine.Tx) error {
		size := 0
		d, err := graph.Measured(tx.Graph(), &size).Delete(ctx, w.o, "hub")
		if err != nil {
			return err
		}
		if d != (graph.Deleted{Entities: 1, Relations: n}) {
			t.Errorf("deleted: %+v", d)
		}
		if size > 16<<10 {
			t.Errorf("the commit has %d bytes", size)
		}
		return nil
	}))
	t.Logf("deleted after %v", time.Since(began))
	if got := w.db.LSN(); got != before+1 {
		t.Errorf("%d commits", got-before)
	}

	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		w.clean()
	}()
	other := memory.Owner{Agent: "b"}
	for i, busy := 0, true; busy; i++ {
		select {
		case <-cleaned:
			busy = false
		default:
		}
		_, err := w.g.Put(ctx, other, graph.Entity{ID: fmt.Sprint("e", i)}, nil, nil)
		w.must(err)
		if _, err := w.g.Neighbours(ctx, w.o, "hub", graph.NeighbourQuery{}); !errors.Is(err, memory.ErrNotFound) {
			t.Fatalf("the neighbours of what is deleted: %v", err)
		}
		if got := w.neighbours("spoke1"); got != "" {
			t.Fatalf("spoke1 still has %q", got)
		}
	}
	s, err := w.g.Stats(ctx, w.o)
	w.must(err)
	if s.Relations != 0 || s.Entities != int64(n) {
		t.Errorf("left: %+v", s)
	}
	testdb.Check(t, w.db, 0)
}
