package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

type forgetWorld struct {
	*graphWorld
	clock *testClock
}

// forgetWays are all the ways in which a text goes.
var forgetWays = map[string]func(ctx context.Context, w *forgetWorld) error{
	"delete": func(ctx context.Context, w *forgetWorld) error { return w.db.Memories().Delete(ctx, w.o.Scope(), "m") },
	"delete matching": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().DeleteMatching(ctx, DeleteQuery{Scope: w.o.Scope(), Filter: filter.Eq("id", "m")})
		return err
	},
	"delete a run": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().DeleteScope(ctx, Scope{User: w.o.User, Agent: w.o.Agent, Run: "r"})
		return err
	},
	"update": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().Update(ctx, w.o.Scope(), "m", Patch{Text: new("nothing of note")})
		return err
	},
	"upsert": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Memories().Store(ctx, Memory{ID: "m", Scope: Scope{User: w.o.User, Agent: w.o.Agent, Run: "r"}, Text: "nothing of note"}, &StoreOptions{Upsert: true})
		return err
	},
	"evict": func(ctx context.Context, w *forgetWorld) error {
		_, err := w.db.Evict(ctx, &EvictOptions{MinImportance: new(1.0), MaxAge: new(time.Nanosecond)})
		return err
	},
	"expire": func(ctx context.Context, w *forgetWorld) error {
		if _, err := w.db.Memories().Update(ctx, w.o.Scope(), "m", Patch{ExpiresAt: new(w.db.clock().Add(time.Second))}); err != nil {
			return err
		}
		w.clock.advance(time.Minute)
		return w.db.expire(ctx)
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
	ctx, fs, now := t.Context(), vfs.NewMem(), newTestClock()
	open := func(x mention.Extractor) *forgetWorld {
		db := openTest(t, fs, Options{Extractor: x, Clock: now.now})
		return &forgetWorld{&graphWorld{t, db, db.Graph(), Owner{Agent: "a"}}, now}
	}
	w := open(mention.Rules{})
	setPolicy(t, w.db, func(p *policy.Policy) { p.Kinds = []string{"message"} })
	store := func(id, run, text string) {
		_, err := w.db.Memories().Store(ctx, Memory{ID: id, Scope: Scope{Agent: "a", Run: run}, Text: text, Pinned: id == "n"}, nil)
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
		closeTest(t, w.db)
		w = open(nil)
	}
	now.advance(time.Hour)
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
