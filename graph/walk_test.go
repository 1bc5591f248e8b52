package graph_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func TestGraphIfAWorksOnBThenBIsInverseWorksOnA(t *testing.T) {
	w := newGraphWorld(t)
	w.put("b", "project")
	w.put("a", "person", "works_on>b")
	expectGraph(t, "b", w.neighbours("b"), "inverse:works_on>a")
}

func TestGraphPreventsDuplicateInverseRelations(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "person", "works_on>b", "works_on>b")
	w.put("b", "project", "inverse:works_on>a")
	w.put("a", "person", "works_on>b")
	expectGraph(t, "b", w.neighbours("b"), "inverse:works_on>a")
	expectGraph(t, "figures", w.figures(), "2 1 0")
}

func TestGraphMaintainsConsistencyAcrossUpdates(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "person", "works_on>b", "knows>c")
	w.put("b", "project")
	w.put("c", "person")
	w.put("a", "engineer")
	expectGraph(t, "relations that an update leaves out stay", w.neighbours("a"), "works_on>b knows>c")
	w.must(w.g.End(t.Context(), w.o, "a", "works_on", "b", ""))
	expectGraph(t, "a relation that ends does so from both ends", w.neighbours("b"), "")
	_, err := w.g.Delete(t.Context(), w.o, "a")
	w.must(err)
	expectGraph(t, "a deleted entity leaves no inverse", w.neighbours("c"), "")
	testdb.Check(t, w.db, 0)
}

func TestGraphQueryReturnsEntitiesInOrderDiscoveredBreadthFirst(t *testing.T) {
	w := newGraphWorld(t)
	w.put("start", "", "x>near", "x>also")
	w.put("near", "", "x>far")
	w.put("also", "")
	w.put("far", "")
	expectGraph(t, "order", w.query("start", graph.DefaultDepth), "start:0 near:1 also:1 far:2")
}

func TestGraphQueryTracksVisitedNodesToPreventCycles(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "", "x>b", "x>a")
	w.put("b", "", "x>c")
	w.put("c", "", "x>a", "y>b")
	expectGraph(t, "each once", w.query("a", 1_000_000), "a:0 b:1 c:1")
}

func TestGraphQueryStopsAtTheDepthOrWhenAllPathsAreExhausted(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "", "x>b")
	w.put("b", "", "x>c")
	w.put("c", "", "x>d")
	w.put("d", "")
	for depth, want := range []string{"a:0", "a:0 b:1", "a:0 b:1 c:2", "a:0 b:1 c:2 d:3", "a:0 b:1 c:2 d:3"} {
		expectGraph(t, fmt.Sprint("depth ", depth), w.query("a", depth), want)
	}
	if graph.DefaultDepth != 2 {
		t.Error("the default depth is", graph.DefaultDepth)
	}
	expectGraph(t, "an unknown start gives nothing", w.query("nobody", 2), "")
}

// openAI is the example of entities and relations: without IDs, with attributes.
func openAI(w *graphWorld) (person, company string) {
	w.t.Helper()
	put := func(e graph.Entity) string {
		w.t.Helper()
		s, err := w.g.Put(w.t.Context(), w.o, e, nil, nil)
		w.must(err)
		return s.ID
	}
	company = put(graph.Entity{Type: "Company", Name: "OpenAI", Properties: json.RawMessage(`{"founded":"2015","ceo":"Sam Altman","industry":"AI Research"}`)})
	person = put(graph.Entity{Type: "Person", Name: "Sam Altman"})
	_, err := w.g.Relate(w.t.Context(), w.o, graph.Relation{From: person, Type: "works_for", To: company, Properties: json.RawMessage(`{"role":"CEO","since":"2019"}`)}, nil)
	w.must(err)
	return person, company
}

func TestGraphEntitiesHaveUUIDsAndAttributesAndRelationsHaveProperties(t *testing.T) {
	w := newGraphWorld(t)
	person, company := openAI(w)
	e, err := w.g.Get(t.Context(), w.o, company, 0)
	if err != nil || len(e.ID) != 36 || e.Agent != "a" || e.CreatedAt.IsZero() || string(e.Properties) != `{"ceo":"Sam Altman","founded":"2015","industry":"AI Research"}` {
		t.Errorf("%+v, %v", e, err)
	}
	r, err := w.g.Relations(t.Context(), w.o, person, "works_for", company, graph.State{})
	if err != nil || len(r) != 1 || len(r[0].ID) != 36 || r[0].CreatedAt.IsZero() || string(r[0].Properties) != `{"role":"CEO","since":"2019"}` {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestGraphFindRelatedByTypeWithinHops(t *testing.T) {
	w := newGraphWorld(t)
	person, company := openAI(w)
	w.put("chat", "Product")
	w.relate(company, "launched", "chat")
	expectGraph(t, "one hop of a type", w.find(person, "works_for", 1), company+":1")
	expectGraph(t, "two hops of any", w.find(person, "", 2), company+":1 chat:2")
	expectGraph(t, "two hops of a type", w.find(person, "works_for", 2), company+":1")
}

func TestGraphReturnsAllPersonWorksForOpenAIMatches(t *testing.T) {
	w := newGraphWorld(t)
	person, company := openAI(w)
	w.put("bot", "Product")
	w.relate("bot", "works_for", company)
	w.relate(person, "works_for", "bot")
	expectGraph(t, "matches", w.match(graph.Pattern{
		From: graph.NodePattern{Type: "Person"}, Relation: "works_for", To: graph.NodePattern{Type: "Company", Name: "OpenAI"},
	}), person+"-works_for>"+company)
}

func TestGraphDeleteCascadesToRelations(t *testing.T) {
	w := newGraphWorld(t)
	person, company := openAI(w)
	d, err := w.g.Delete(t.Context(), w.o, company)
	if err != nil || d != (graph.Deleted{Entities: 1, Relations: 1}) {
		t.Errorf("%+v, %v", d, err)
	}
	expectGraph(t, "the other end", w.neighbours(person), "")
}

func TestGraphGoesWithItsAgent(t *testing.T) {
	w := newGraphWorld(t)
	_, company := openAI(w)
	deleted, err := w.db.DeleteOwner(t.Context(), w.o)
	if err != nil || deleted["entities"] != 2 || deleted["relations"] != 1 {
		t.Errorf("%v, %v", deleted, err)
	}
	if _, err := w.g.Get(t.Context(), w.o, company, 0); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	testdb.Check(t, w.db, 0)
}
