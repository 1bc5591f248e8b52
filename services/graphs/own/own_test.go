package own

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/graphs/graphtest"
)

func open(t *testing.T) (*engine.DB, graphtest.Subject) {
	t.Helper()
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, graphtest.Subject{Store: New(db.Graph(), graphtest.Owners...), Fact: func(s scope.Scope, text string) graphs.Fact {
		stored, err := db.Memories().Store(t.Context(), memory.Memory{Scope: s, Kind: memory.KindFact, Text: text}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return graphs.Fact{ID: stored.ID, Scope: s, Text: text}
	}}
}

func TestStore(t *testing.T) {
	graphtest.Run(t, func(t *testing.T) graphtest.Subject {
		_, s := open(t)
		return s
	})
}

// TestLeavesOthersAlone: entities that others have put into the graph are neither found nor
// deleted, also where they are linked to a fact that goes.
func TestLeavesOthersAlone(t *testing.T) {
	db, s := open(t)
	ctx, owner := t.Context(), scope.Owner{User: "alice"}
	if _, err := db.Graph().Put(ctx, owner, graph.Entity{ID: "mine", Type: "person", Name: "Alice"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	f := s.Fact(owner.Scope(), "Alice is here")
	if _, err := db.Graph().Link(ctx, owner, "mine", f.ID); err != nil {
		t.Fatal(err)
	}
	everything := graphs.Selection{All: true}
	if near, err := s.Around(ctx, everything, "Alice"); err != nil || len(near.Names) > 0 {
		t.Errorf("%+v, %v", near, err)
	}
	if _, err := s.Apply(ctx, graphs.Change{Gone: []graphs.Fact{f}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, everything); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Graph().Get(ctx, owner, "mine", 0); err != nil {
		t.Error(err)
	}
}
