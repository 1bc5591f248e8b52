package graph_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

type forgetWorld struct {
	*graphWorld
	clock *testdb.Clock
}

// forgetWays are all the ways in which a text goes.
var forgetWays = map[string]func(ctx context.Context, w *forgetWorld) error{
	"delete": func(ctx context.Context, w *forgetWorld) error { return w.db.Memories().Delete(ctx, w.o.Scope(), "m") },
	"delete matching": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().DeleteMatching(ctx, memory.DeleteQuery{Scope: w.o.Scope(), Filter: filter.Eq("id", "m")})
		return err
	},
	"delete a run": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().DeleteScope(ctx, memory.Scope{User: w.o.User, Agent: w.o.Agent, Run: "r"})
		return err
	},
	"update": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().Update(ctx, w.o.Scope(), "m", memory.Patch{Text: new("nothing of note")})
		return err
	},
	"upsert": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().Store(ctx, memory.Memory{ID: "m", Scope: memory.Scope{User: w.o.User, Agent: w.o.Agent, Run: "r"}, Text: "nothing of note"}, &memory.StoreOptions{Upsert: true})
		return err
	},
	"evict": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Evict(ctx, &engine.EvictOptions{MinImportance: new(1.0), MaxAge: new(time.Nanosecond)})
		return err
	},
	"expire": func(ctx context.Context, w *forgetWorld) error {
		if _, err := w.db.Memories().Update(ctx, w.o.Scope(), "m", memory.Patch{ExpiresAt: new(w.clock.Now().Add(time.Second))}); err != nil {
			return err
		}
		w.clock.Advance(time.Minute)
		_, err := w.db.Evict(ctx, nil)
		return err
	},
}

// TestExtractedGoesWithItsTexts: whatever way a text goes, in the process that stored it or in
// another one without an extractor, the entities and relations that it alone was the reason for
// are in no list and no export any more. What another living memory tells of stays, and so does
// what a caller has put.
func TestExtractedGoesWithItsTexts(t *testing.T) {
	for way, forget := range forgetWays {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(way, again), func(t *testing.T) { testForget(t, forget, again) })
		}
	}
}

func testForget(t *testing.T, forget func(ctx context.Context, w *forgetWorld) error, again bool) {
	ctx, fs, now := t.Context(), vfs.NewMem(), testdb.NewClock()
	open := func(x mention.Extractor) *forgetWorld {
		db := testdb.Open(t, fs, engine.Options{Extractor: x, Clock: now.Now})
		return &forgetWorld{&graphWorld{t, db, db.Graph(), memory.Owner{Agent: "a"}}, now}
	}
	w := open(mention.Rules{})
	testdb.SetPolicy(t, w.db, func(p *policy.Policy) { p.Kinds = []string{"message"} })
	store := func(id, run, text string) {
		_, err := w.db.Memories().Store(ctx, memory.Memory{ID: id, Scope: memory.Scope{Agent: "a", Run: run}, Text: text, Pinned: id == "n"}, nil)
		w.must(err)
	}
	store("n", "", "Ada met Bob. Cyd knows Dora.")
	_, err := w.g.Put(ctx, w.o, graph.Entity{ID: "hand"}, nil, nil)
	w.must(err)
	before := graphLines(t, w.db)
	store("m", "r", "Ada met Bob. Eve met Ada. Finn met Gus in Ghent.")
	_, err = w.g.Relate(ctx, w.o, graph.Relation{From: "eve", Type: "met", To: "ada"}, nil) // by hand now
	w.must(err)
	between := graphLines(t, w.db)
	for _, id := range []string{"finn", "gus", "ghent"} {
		if !strings.Contains(between, fmt.Sprintf("%q", id)) {
			t.Fatalf("%s is not extracted: %s", id, between)
		}
	}
	if again {
		testdb.Close(t, w.db)
		w = open(nil)
	}
	now.Advance(time.Hour)
	w.must(forget(ctx, w))
	var want []string
	for s := range strings.Lines(before) {
		want = append(want, s)
	}
	for s := range strings.Lines(between) { // what the caller has related, and its end
		if by := strings.Contains(s, `"from":"eve"`) && !strings.Contains(s, "extracted") && !strings.Contains(s, `"memory"`); by || strings.Contains(s, `"id":"eve"`) {
			want = append(want, s)
		}
	}
	expectLines(t, "the graph", graphLines(t, w.db), strings.Join(want, ""))
	ids := w.entities()
	slices.Sort(ids)
	expectGraph(t, "the entities", fmt.Sprint(ids), "[ada bob cyd dora eve hand]")
	if r, err := w.db.Check(ctx); err != nil || !r.OK {
		t.Error(r, err)
	}
}

// TestMergedMemoriesLead: what a memory has in the graph leads to the one that it is merged into,
// and is its own again when the merge is undone.
func TestMergedMemoriesLead(t *testing.T) {
	w := newMentionWorld(t, mention.Rules{})
	ctx := t.Context()
	testdb.SetPolicy(t, w.db, func(p *policy.Policy) { p.Merge, p.Trash, p.Kinds = true, policy.Span(time.Hour), []string{"message"} })
	w.say("m1", "Ada met Bob in Ghent, and they talked about the old engine.")
	w.say("m2", "Ada met Bob in Ghent, and they talked about the old engine.")
	_, err := w.g.Put(ctx, w.o, graph.Entity{ID: "hand"}, nil, nil)
	w.must(err)
	for _, m := range []string{"m1", "m2"} {
		_, err = w.g.Put(ctx, w.o, graph.Entity{ID: "of " + m}, nil, nil)
		w.must(err)
		_, err = w.g.Link(ctx, w.o, "of "+m, m)
		w.must(err)
	}
	before := graphLines(t, w.db)
	r, err := w.db.Consolidate(ctx, nil)
	if err != nil || r.Merged != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	page, err := w.db.Memories().List(ctx, memory.ListQuery{Scope: w.o.Scope()})
	w.must(err)
	if len(page.Memories) != 1 {
		t.Fatal(page.Memories)
	}
	for _, id := range []string{"of m1", "of m2", "ada", "bob"} {
		if ids, err := w.g.Memories(ctx, w.o, id); err != nil || fmt.Sprint(ids) != fmt.Sprintf("[%s]", page.Memories[0].ID) {
			t.Errorf("%s is linked to %v, %v", id, ids, err)
		}
	}
	if _, err := w.db.Undo(ctx, r.LSN); err != nil {
		t.Fatal(err)
	}
	expectLines(t, "undone, the graph", graphLines(t, w.db), before)
	for _, m := range []string{"m1", "m2"} {
		w.must(w.db.Memories().Delete(ctx, w.o.Scope(), m))
	}
	expectGraph(t, "both deleted", fmt.Sprint(w.entities()), "[hand of m1 of m2]")
	testdb.Check(t, w.db, 0)
}

// TestMergedEntitiesForget: a relation that a merge of entities has made of extracted ones goes
// with the texts that told of these, the merge is undone without it, and what was merged goes
// with the entity that stayed.
func TestMergedEntitiesForget(t *testing.T) {
	for _, c := range []struct {
		name       string
		do         func(w *graphWorld)
		entities   string
		unmergeErr bool
	}{
		{"merged", func(*graphWorld) {}, "[bob eve finn]", true},
		{"unmerged", func(w *graphWorld) {
			_, err := w.g.Unmerge(w.t.Context(), w.o, "adah")
			w.must(err)
		}, "[bob eve finn]", true},
		{"put again", func(w *graphWorld) {
			_, err := w.g.Put(w.t.Context(), w.o, graph.Entity{ID: "adah"}, nil, nil)
			w.must(err)
		}, "[adah bob eve finn]", true},
	} {
		w := newMentionWorld(t, mention.Rules{})
		ctx := t.Context()
		w.say("m1", "Ada met Cyd.")
		w.say("m2", "Adah met Bob.")
		w.say("m3", "Eve met Bob. Finn met Bob.")
		_, err := w.g.Merge(ctx, w.o, "ada", "adah")
		w.must(err)
		if n := w.neighbours("ada"); n != "met>bob met>cyd" && n != "met>cyd met>bob" {
			t.Fatalf("merged: %s", n)
		}
		c.do(w)
		copied := w.copied(rand.New(rand.NewPCG(1, 1)))
		for where, w := range map[string]*graphWorld{"": w, " in a copy": copied} {
			for _, m := range []string{"m1", "m2"} {
				w.must(w.db.Memories().Delete(ctx, w.o.Scope(), m))
			}
			ids := w.entities()
			slices.Sort(ids)
			expectGraph(t, c.name+where, fmt.Sprint(ids), c.entities)
			if s := graphLines(t, w.db); strings.Contains(s, `"cyd"`) || c.name != "put again" && strings.Contains(s, "ada") {
				t.Errorf("%s%s: %s", c.name, where, s)
			}
			if _, err := w.g.Unmerge(ctx, w.o, "adah"); (err != nil) != c.unmergeErr {
				t.Errorf("%s%s: unmerge: %v", c.name, where, err)
			}
			w.clean()
			testdb.Check(t, w.db, 1)
		}
	}
}
