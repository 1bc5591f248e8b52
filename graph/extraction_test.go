package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// What texts bring into a graph, with the extractor by rule.

func TestGraphEntityExtraction(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("m", "Alice works at Google")
	for id, want := range map[string]string{"alice": "Alice person", "google": "Google organization"} {
		e, err := w.g.Get(t.Context(), w.o, id, 0)
		w.must(err)
		expectGraph(t, id, e.Name+" "+e.Type, want)
	}
}

func TestGraphRelationshipExtraction(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("m", "Alice works at Google")
	expectGraph(t, "alice", w.neighbours("alice"), "works_at>google")
	expectGraph(t, "google", w.neighbours("google"), "inverse:works_at>alice")
}

func TestGraphEnhancedSearchReturnsMemoriesOfConnectedEntities(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("job", "Alice works at Google")
	w.say("campus", "the campus of Google is large")
	w.say("weather", "it rains a lot here")
	got, plan := w.recall(memory.Query{Text: "Alice", Graph: policy.GraphWeight})
	if expectGraph(t, "Alice, and what she is connected with", got, "job campus"); len(plan.Graph) != 1 {
		t.Errorf("%+v", plan)
	}
	got, _ = w.recall(memory.Query{Text: "Alice"})
	expectGraph(t, "without the graph", got, "job")
}

func TestGraphMergesResultsWithThoseOfVectors(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	for _, m := range []memory.Memory{
		{ID: "near", Text: "the sky was clear", Embedding: []float32{1, 0}},
		{ID: "linked", Text: "we asked Alice about it", Embedding: []float32{0, 1}},
	} {
		m.Scope = w.o.Scope()
		_, err := w.db.Memories().Store(t.Context(), m, nil)
		w.must(err)
	}
	got, _ := w.recall(memory.Query{Text: "alice", Embedding: []float32{1, 0}, Graph: 1})
	expectGraph(t, "both", got, "linked near")
}

func TestGraphUpsertsEntitiesByName(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("1", "Alice met Bob")
	w.say("2", "yes, ALICE met Carol")
	expectGraph(t, "one Alice", w.linked("1")+" | "+w.linked("2"), "alice, bob | alice, carol")
	expectGraph(t, "figures", w.figures(), "3 2 4")
	w.say("3", "Alice met Bob, again")
	expectGraph(t, "a relation once", w.figures(), "3 2 6")
}

func TestGraphUpsertByNameKeepsToItsScope(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("1", "Alice met Bob")
	other := memory.Owner{User: "u"}
	_, err := w.db.Memories().Store(t.Context(), memory.Memory{Scope: other.Scope(), Text: "Alice met Carol"}, nil)
	w.must(err)
	expectGraph(t, "this one", w.neighbours("alice"), "met>bob")
	n, err := w.g.Neighbours(t.Context(), other, "alice", graph.NeighbourQuery{})
	if err != nil || len(n.Neighbours) != 1 || n.Neighbours[0].Target != "carol" {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestGraphUnavailableSkipsExtractionAndCompletesTheRest(t *testing.T) {
	w := newMentionWorld(t, odd(func(context.Context, string) (mention.Found, error) {
		return mention.Found{}, errors.New("unavailable")
	}))
	s, err := w.db.Memories().Store(t.Context(), memory.Memory{ID: "m", Scope: w.o.Scope(), Text: "Alice works at Google", Embedding: []float32{1, 0}}, nil)
	if err != nil || !s.Stored || !strings.Contains(s.Unextracted, "unavailable") {
		t.Errorf("%+v, %v", s, err)
	}
	got, _ := w.recall(memory.Query{Text: "who?", Embedding: []float32{1, 0}})
	expectGraph(t, "by its vector", got, "m")
	expectGraph(t, "figures", w.figures(), "0 0 0")
}

func TestGraphEntitiesOfAScope(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("1", "Alice works at Google")
	page, err := w.g.List(t.Context(), graph.ListQuery{Owner: w.o})
	if err != nil || len(page.Entities) != 2 || page.Entities[0].Name != "Alice" || page.Entities[1].Name != "Google" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestGraphRelationsOfAnEntityByName(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("1", "Alice works at Google")
	expectGraph(t, "by name", w.match(graph.Pattern{From: graph.NodePattern{Name: "ALICE"}}), "alice-works_at>google")
}

func TestGraphSevenTypesAndDescriptions(t *testing.T) {
	var all mention.Found
	for _, typ := range []string{"person", "organization", "concept", "location", "event", "technology", "product"} {
		all.Entities = append(all.Entities, mention.Entity{Name: "the " + typ, Type: typ, Description: "a " + typ})
	}
	w := newMentionWorld(t, odd(func(context.Context, string) (mention.Found, error) { return all, nil }))
	w.say("m", "a text")
	for _, e := range all.Entities {
		got, err := w.g.Get(t.Context(), w.o, e.Name, 0)
		w.must(err)
		var p struct{ Description string }
		if err := json.Unmarshal(got.Properties, &p); err != nil || got.Type != e.Type || p.Description != e.Description {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
