package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// texts returns the texts of all memories of an owner, sorted.
func texts(t *testing.T, db *engine.DB, o memory.Owner) (all []string) {
	t.Helper()
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{Scope: o.Scope()}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Text)
	}
	slices.Sort(all)
	return all
}

// TestObservations verifies that each observation of an entity is a memory that is linked to the
// entity, through random changes of entities, merges and their undoing, and deletes.
func TestObservations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	o := memory.Owner{User: "ada"}
	ctx := t.Context()
	type entity struct {
		name         string
		observations []string
	}
	want := map[string]entity{}
	for range 120 {
		id := fmt.Sprintf("e%d", rnd.IntN(5))
		e, there := want[id]
		switch rnd.IntN(5) {
		case 0:
			if there {
				if _, err := db.Graph().Delete(ctx, o, id); err != nil {
					t.Fatal(err)
				}
				delete(want, id)
			}
		case 1:
			e.name = fmt.Sprintf("Name %d", rnd.IntN(3))
			if _, err := db.Graph().Put(ctx, o, graph.Entity{ID: id, Name: e.name}, nil, nil); err != nil {
				t.Fatal(err)
			}
			want[id] = e
		default:
			e.observations = nil
			for range rnd.IntN(4) {
				e.observations = append(e.observations, []string{"keeps bees", "", "plays\tthe viola", "lives in Aarhus"}[rnd.IntN(4)])
			}
			raw, err := json.Marshal(map[string]any{graph.Observations: e.observations})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Graph().Put(ctx, o, graph.Entity{ID: id, Properties: raw}, nil, nil); err != nil {
				t.Fatal(err)
			}
			want[id] = e
		}
		var expected []string
		for id, e := range want {
			name := e.name
			if name == "" {
				name = id
			}
			for i, text := range e.observations {
				if text != "" && !slices.Contains(e.observations[:i], text) {
					expected = append(expected, name+": "+text)
				}
			}
		}
		slices.Sort(expected)
		if got := texts(t, db, o); !slices.Equal(got, expected) {
			t.Fatalf("memories %q, want %q", got, expected)
		}
	}
	checkDB(t, db)
	r, err := db.Memories().Recall(ctx, memory.Query{Scope: o.Scope(), Text: "bees viola Aarhus"})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Hits {
		linked, err := db.Graph().Linked(ctx, o, h.ID)
		if err != nil || len(linked) != 1 {
			t.Errorf("%q is linked to %q, %v", h.Text, linked, err)
		}
	}
}

// TestObservationsOfMerged verifies that recall finds the observations that an entity has after a
// merge, those of both after its undoing, and none after the delete.
func TestObservationsOfMerged(t *testing.T) {
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	o, ctx := memory.Owner{User: "ada"}, t.Context()
	put := func(id, text string) {
		t.Helper()
		if _, err := db.Graph().Put(ctx, o, graph.Entity{ID: id, Properties: fmt.Appendf(nil, `{"observations":[%q]}`, text)}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	put("oda", "keeps bees")
	put("Oda B", "sells honey")
	before := texts(t, db, o)
	if _, err := db.Graph().Merge(ctx, o, "oda", "Oda B"); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, db, o); !slices.Equal(got, []string{"oda: keeps bees"}) { // the properties of the one that stays win
		t.Errorf("after the merge %q", got)
	}
	if _, err := db.Graph().Unmerge(ctx, o, "Oda B"); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, db, o); !slices.Equal(got, before) {
		t.Errorf("after its undoing %q", got)
	}
	if _, err := db.Graph().Merge(ctx, o, "oda", "Oda B"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Graph().Delete(ctx, o, "oda"); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, db, o); len(got) > 0 {
		t.Errorf("after the delete %q", got)
	}
	checkDB(t, db)
}

func checkDB(t *testing.T, db *engine.DB) {
	t.Helper()
	report, err := db.Check(context.WithoutCancel(t.Context()))
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v %+v", err, report.Problems)
	}
}
