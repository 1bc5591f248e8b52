package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// odd is an extractor that does what a test wants.
type odd func(ctx context.Context, text string) (mention.Found, error)

func (odd) Name() string { return "odd-1" }

func (o odd) Extract(ctx context.Context, text string) (mention.Found, error) { return o(ctx, text) }

// newMentionWorld is a graph of one owner in a database with an extractor.
func newMentionWorld(t *testing.T, x mention.Extractor) *graphWorld {
	t.Helper()
	db := testdb.New(t, engine.Options{Extractor: x})
	return &graphWorld{t, db, db.Graph(), memory.Owner{Agent: "a"}}
}

// say stores a memory.
func (w *graphWorld) say(id, text string) memory.Stored {
	w.t.Helper()
	s, err := w.db.Memories().Store(w.t.Context(), memory.Memory{ID: id, Scope: w.o.Scope(), Text: text}, &memory.StoreOptions{Upsert: true})
	w.must(err)
	return s
}

// linked are the entities that a memory is linked to.
func (w *graphWorld) linked(id string) string {
	w.t.Helper()
	ids, err := w.g.Linked(w.t.Context(), w.o, id)
	w.must(err)
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// TestStoreLinksWhatATextMentions follows a memory from its store over a new text to its end.
func TestStoreLinksWhatATextMentions(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	_, err := w.g.Put(t.Context(), w.o, graph.Entity{ID: "p1", Type: "person", Name: "Ada Lovelace", Aliases: []string{"ADA"}}, nil, nil)
	w.must(err)
	before := w.db.LSN()
	w.say("m", "Ada works at Google. She met Bob in Ghent on 7 May 2023.")
	if lsn := w.db.LSN(); lsn != before+1 {
		t.Errorf("the memory and its links are %d commits", lsn-before)
	}
	expectGraph(t, "a name that an entity has means that one", w.linked("m"), "2023-05-07, bob, ghent, google, p1")
	expectGraph(t, "a relation of the text", w.neighbours("p1"), "works_at>google")
	if e, err := w.g.Get(t.Context(), w.o, "ghent", 0); err != nil || e.Type != "location" || e.Name != "Ghent" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := w.g.Link(t.Context(), w.o, "google", "m"); err != nil {
		t.Error(err)
	}
	w.say("given", "no names here")
	_, err = w.g.Link(t.Context(), w.o, "ghent", "given")
	w.must(err)
	text := "Bob lives in Rome"
	_, err = w.db.Memories().Update(t.Context(), w.o.Scope(), "m", memory.Patch{Text: &text})
	w.must(err)
	expectGraph(t, "links follow the text", w.linked("m"), "bob, rome")
	text = "still no names"
	_, err = w.db.Memories().Update(t.Context(), memory.Scope{}, "given", memory.Patch{Text: &text})
	w.must(err)
	expectGraph(t, "a link that a caller has made stays", w.linked("given"), "ghent")
	w.say("m", "Bob lives in Oslo")
	expectGraph(t, "under Upsert, too", w.linked("m"), "bob, oslo")
	err = w.db.Update(t.Context(), func(tx *engine.Tx) error {
		for i := range 3 {
			if _, err := tx.Memories().Store(t.Context(), memory.Memory{ID: fmt.Sprint("n", i), Scope: w.o.Scope(), Text: fmt.Sprintf("we met Carol in Paris, %d times", i)}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	w.must(err)
	expectGraph(t, "in one transaction", w.linked("n0")+" | "+w.linked("n2"), "carol, paris | carol, paris")
	s, err := w.db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{Run: "r"}, Text: "Ada met Bob"}, nil)
	if err != nil || s.Unextracted != "" {
		t.Errorf("a run without an owner has no graph: %+v, %v", s, err)
	}
	w.must(w.db.Memories().Delete(t.Context(), w.o.Scope(), "m"))
	testdb.Check(t, w.db, 5)
}

// TestMergedMentions: a name of an entity that was merged into another means that one.
func TestMergedMentions(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	w.say("1", "we met Bob in Ghent")
	w.say("2", "we met Bobby in Ghent")
	_, err := w.g.Merge(t.Context(), w.o, "bob", "bobby")
	w.must(err)
	w.say("3", "I asked Bobby again")
	expectGraph(t, "linked", w.linked("3"), "bob")
	testdb.Check(t, w.db, 3)
}

// TestExtractorThatFails: the memory is stored, without entities, and says why.
func TestExtractorThatFails(t *testing.T) {
	down := true
	w := newMentionWorld(t, odd(func(_ context.Context, text string) (mention.Found, error) {
		if down {
			panic("no fingers")
		}
		return mention.Rules{}.Extract(t.Context(), text)
	}))
	if s := w.say("m", "Ada met Bob"); !s.Stored || !strings.Contains(s.Unextracted, "odd-1") || !strings.Contains(s.Unextracted, "no fingers") {
		t.Errorf("%+v", s)
	}
	if _, err := w.db.ExtractEntities(t.Context(), engine.ExtractOptions{Scope: w.o.Scope()}); !errors.Is(err, memory.ErrExtractor) || !strings.Contains(err.Error(), `"m"`) {
		t.Error(err)
	}
	down = false
	for _, want := range []engine.Extracted{{Memories: 1, Entities: 2, Relations: 1, Links: 2}, {}} {
		if done, err := w.db.ExtractEntities(t.Context(), engine.ExtractOptions{Scope: w.o.Scope()}); err != nil || done != want {
			t.Errorf("%+v, %v", done, err)
		}
	}
	if done, err := w.db.ExtractEntities(t.Context(), engine.ExtractOptions{Scope: w.o.Scope(), Again: true}); err != nil || done != (engine.Extracted{Memories: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
	expectGraph(t, "linked", w.linked("m"), "ada, bob")
	err := w.db.Update(t.Context(), func(tx *engine.Tx) error {
		s, err := tx.Memories().Store(t.Context(), memory.Memory{Scope: w.o.Scope(), Text: "Bob met Carol"}, nil)
		if !strings.Contains(s.Unextracted, "no extractor but that by rule") {
			t.Errorf("in an Update: %+v", s)
		}
		return err
	})
	w.must(err)
	if _, err := newGraphWorld(t).db.ExtractEntities(t.Context(), engine.ExtractOptions{AllScopes: true}); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
	testdb.Check(t, w.db, 2)
}

// TestMentionsOfManyTexts stores texts at random, changes and deletes them, and compares the
// links with what the extractor says of the texts that are there.
func TestMentionsOfManyTexts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	w := newMentionWorld(t, mention.Rules{})
	names := []string{"Ada", "Bob", "Carol", "Dan", "Eve", "Ghent", "Rome", "Oslo"}
	texts := map[string]string{}
	for i := range 200 {
		id := fmt.Sprint("m", rng.IntN(40))
		if rng.IntN(5) == 0 {
			if _, there := texts[id]; there {
				w.must(w.db.Memories().Delete(t.Context(), w.o.Scope(), id))
				delete(texts, id)
			}
			continue
		}
		texts[id] = fmt.Sprintf("no %d, yes, we met %s and saw %s", i, names[rng.IntN(len(names))], names[rng.IntN(len(names))])
		w.say(id, texts[id])
	}
	for id, text := range texts {
		f, err := mention.Rules{}.Extract(t.Context(), text)
		w.must(err)
		var want []string
		for _, e := range f.Entities {
			want = append(want, mention.Fold(e.Name))
		}
		slices.Sort(want)
		expectGraph(t, text, w.linked(id), strings.Join(want, ", "))
	}
	testdb.Check(t, w.db, len(texts))
}

// hits are the IDs of what a recall finds.
func (w *graphWorld) recall(q memory.Query) (string, *memory.Plan) {
	w.t.Helper()
	q.Scope, q.Explain = w.o.Scope(), true
	r, err := w.db.Memories().Recall(w.t.Context(), q)
	w.must(err)
	var ids []string
	for _, h := range r.Hits {
		ids = append(ids, h.ID)
		p := h.Parts
		if sum := p.Cosine + p.Keywords + p.BM25 + p.Neighbours + p.Session + p.SecondLook + p.Recency + p.Access + p.Importance + p.Confidence + p.Graph + p.Fact; sum != h.Score {
			w.t.Errorf("%s: the parts of %v are %v", h.ID, h.Score, sum)
		}
	}
	return strings.Join(ids, " "), r.Plan
}

// TestRecallWithTheGraph finds memories by what their entities are related to.
func TestRecallWithTheGraph(t *testing.T) {
	w := newMentionWorld(t, nil)
	for id, text := range map[string]string{
		"zoo": "the animals were fed at noon", "pay": "the invoice is due on Friday", "tea": "green tea is best", "far": "the harbour was frozen",
	} {
		w.say(id, text)
	}
	_, err := w.g.Put(t.Context(), w.o, graph.Entity{ID: "p1", Type: "person", Name: "Ada Lovelace", Aliases: []string{"Countess"}}, []graph.Edge{{Type: "works_at", Target: "acme"}}, nil)
	w.must(err)
	w.put("acme", "company", "near>harbour")
	w.put("harbour", "place")
	for entity, memory := range map[string]string{"p1": "tea", "acme": "pay", "harbour": "far"} {
		_, err := w.g.Link(t.Context(), w.o, entity, memory)
		w.must(err)
	}
	for query, want := range map[string]string{
		"Ada Lovelace":              "tea pay far", // nearer entities say more
		"What about the countess?":  "tea pay far", // an alias, whatever its case
		"Is Ada Lovelase well?":     "tea pay far", // a slip of the pen
		"where is the HARBOUR’s":    "far pay tea",
		"Ada":                       "", // a part of a name is none
		"animals and Ada Lovelace’": "zoo tea pay far",
	} {
		got, plan := w.recall(memory.Query{Text: query, Graph: policy.GraphWeight})
		expectGraph(t, query, got, want)
		if want != "" && (len(plan.Graph) != 1 || plan.Graph[0].Scope != w.o.Scope() || plan.Graph[0].Entities != 3 || plan.Graph[0].Memories != 3) {
			t.Errorf("%s: %+v", query, plan.Graph)
		}
	}
	got, plan := w.recall(memory.Query{Text: "Ada Lovelace"})
	if expectGraph(t, "without a weight", got, ""); plan.Graph != nil {
		t.Errorf("%+v", plan.Graph)
	}
	for name, q := range map[string]memory.Query{
		"weight": {Graph: -1}, "high": {Graph: 1.5}, "profile": {Graph: .1, Profile: memory.ProfileText},
	} {
		q.Text, q.Scope = "x", w.o.Scope()
		if _, err := w.db.Memories().Recall(t.Context(), q); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecallWithTheGraphStaysInScope: another owner's graph, another run's memories and what the
// filter leaves out are not found.
func TestRecallWithTheGraphStaysInScope(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	for _, m := range []memory.Memory{
		{ID: "mine", Scope: memory.Scope{User: "u", Agent: "a", Run: "1"}, Text: "tea with Ada"},
		{ID: "other run", Scope: memory.Scope{User: "u", Agent: "a", Run: "2"}, Text: "coffee with Ada"},
		{ID: "other agent", Scope: memory.Scope{User: "u", Agent: "b"}, Text: "water with Ada"},
		{ID: "other user", Scope: memory.Scope{User: "v", Agent: "a"}, Text: "wine with Ada"},
		{ID: "nothing", Scope: memory.Scope{User: "u", Agent: "a"}, Text: "juice"},
		{ID: "nothing else", Scope: memory.Scope{User: "u", Agent: "b"}, Text: "milk"},
	} {
		_, err := w.db.Memories().Store(t.Context(), m, nil)
		w.must(err)
	}
	for want, s := range map[string]memory.Scope{
		"[mine]":                       {User: "u", Agent: "a", Run: "1"},
		"[mine other agent other run]": {User: "u"},
		"[other agent]":                {Agent: "b"},
		"[mine other run other user]":  {Agent: "a"},
	} {
		r, err := w.db.Memories().Recall(t.Context(), memory.Query{Scope: s, Text: "Ada", Graph: 1})
		w.must(err)
		var ids []string
		for _, h := range r.Hits {
			ids = append(ids, h.ID)
		}
		if slices.Sort(ids); fmt.Sprint(ids) != want {
			t.Errorf("%+v: %v, want %s", s, ids, want)
		}
	}
}
