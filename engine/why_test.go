package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func mustWhy(t *testing.T, m Memories, q memory.Query, id string) memory.Why {
	t.Helper()
	w, err := m.Why(t.Context(), q, id)
	if err != nil {
		t.Fatalf("why %s for %+v: %v", id, q, err)
	}
	return w
}

// TestWhyReasons: each reason why a recall finds a memory, or does not.
func TestWhyReasons(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	for _, mem := range []memory.Memory{
		{ID: "tea", Text: "Ada drinks green tea in the morning", Metadata: map[string]any{"topic": "drinks"}},
		{ID: "tea2", Text: "tea tea tea"},
		{ID: "rain", Text: "It rained in Ghent", Embedding: []float32{1, 0}},
		{ID: "sun", Text: "Es regnet nicht, die Sonne scheint heute", Embedding: []float32{0, 1}},
		{ID: "brief", Text: "The tea is brewing", ExpiresAt: clock.now().Add(time.Hour)},
		{ID: "gone", Text: "No more tea"},
	} {
		mem.Scope = ada
		mustStore(t, m, mem)
	}
	if err := m.Delete(t.Context(), ada, "gone"); err != nil {
		t.Fatal(err)
	}
	clock.advance(2 * time.Hour)
	tea := memory.Query{Scope: ada, Text: "who drinks tea", Profile: memory.ProfileText}
	with := func(q memory.Query, change func(*memory.Query)) memory.Query {
		change(&q)
		return q
	}
	for _, tc := range []struct {
		name string
		q    memory.Query
		id   string
		want memory.WhyReason
	}{
		{"found", tea, "tea", memory.WhyFound},
		{"deleted", tea, "gone", memory.WhyDeleted},
		{"expired", tea, "brief", memory.WhyExpired},
		{"filter", with(tea, func(q *memory.Query) { q.Filter = filter.And(filter.Eq("role", "user"), filter.Eq("topic", "food")) }), "tea", memory.WhyFilter},
		{"excluded", memory.Query{Scope: ada, Text: "tea -morning", Syntax: memory.SyntaxOperators}, "tea", memory.WhyDemanded},
		{"excluded by text", memory.Query{Scope: ada, Text: "tea -morning", Syntax: memory.SyntaxOperators, Profile: memory.ProfileText}, "tea", memory.WhyDemanded},
		{"phrase", memory.Query{Scope: ada, Text: `+"tea green"`, Syntax: memory.SyntaxOperators, Profile: memory.ProfileText}, "tea", memory.WhyDemanded},
		{"no words", memory.Query{Scope: ada, Text: "?!"}, "tea", memory.WhyNoWords},
		{"no match", tea, "rain", memory.WhyNoMatch},
		{"no vector", memory.Query{Scope: ada, Embedding: []float32{1, 0}, Profile: memory.ProfileVector}, "tea", memory.WhyNoVector},
		{"by vector", memory.Query{Scope: ada, Embedding: []float32{1, 0}, Profile: memory.ProfileVector}, "sun", memory.WhyFound},
		{"limit", with(tea, func(q *memory.Query) { q.Limit, q.Text = 1, "tea" }), "tea", memory.WhyLimit},
		{"least score", with(tea, func(q *memory.Query) { q.MinScore, q.Text = 1e3, "tea" }), "tea", memory.WhyMinScore},
	} {
		w := mustWhy(t, m, tc.q, tc.id)
		if w.Reason != tc.want || w.Found != (tc.want == memory.WhyFound) || w.ID != tc.id || w.Memory.User != "ada" {
			t.Errorf("%s: %+v", tc.name, w)
		}
	}
	w := mustWhy(t, m, with(tea, func(q *memory.Query) { q.Filter = filter.And(filter.Exists("topic"), filter.Eq("topic", "food")) }), "tea")
	if !slices.Equal(w.Filter, []string{filter.Eq("topic", "food").String()}) {
		t.Errorf("conditions that do not hold: %q", w.Filter)
	}
	w = mustWhy(t, m, tea, "tea")
	if got := fmt.Sprint(w.Memory.Languages, w.Memory.Terms, w.Languages); got != "[en] [ada drink green morn tea] [en de]" {
		t.Errorf("terms: %s", got)
	}
	if got := mustWhy(t, m, tea, "sun").Memory.Languages; !slices.Equal(got, []string{"de"}) {
		t.Errorf("languages of a German text: %v", got)
	}
	if w := mustWhy(t, m, tea, "gone"); w.Memory.DeletedAt == nil || w.Plan != nil {
		t.Errorf("deleted: %+v", w)
	}
	if w := mustWhy(t, m, memory.Query{Scope: ada, Embedding: []float32{1, 0}, Profile: memory.ProfileVector}, "sun"); w.Vector == nil || w.Vector.Similarity == nil || *w.Vector.Similarity != 0 || w.Rank != 2 || w.Before[0].ID != "rain" {
		t.Errorf("by vector: %+v", w)
	}
	near := mustWhy(t, m, memory.Query{Scope: ada, Text: "mornign"}, "tea")
	if near.Reason != memory.WhyFound || !slices.ContainsFunc(near.Terms, func(t memory.WhyTerm) bool { return t.Near && t.Term == "morn" && t.Has }) {
		t.Errorf("near words: %+v", near)
	}
}

// TestWhyAgrees: rank, score, parts and what stands before a memory are those of the recall, in
// every profile.
func TestWhyAgrees(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Clock: newTestClock().now})
	m, s := db.Memories(), memory.Scope{User: "ada", Agent: "a"}
	words := strings.Fields("tea coffee rain train night letter garden stone river cloud")
	for i := range 60 {
		mem := memory.Memory{ID: fmt.Sprint("m", i), Scope: s, Text: fmt.Sprintf("%s and %s, number %d", words[i%10], words[i*7%10], i), Importance: new(float64(i%5) / 5)}
		mem.Run = fmt.Sprint("r", i/20)
		if i%3 > 0 {
			mem.Embedding = []float32{float32(i%7) - 3, float32(i % 5), 1}
		}
		mustStore(t, m, mem)
	}
	if _, err := db.Graph().Put(t.Context(), s.Owner(), graph.Entity{ID: "tea", Name: "tea"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"m5", "m33"} {
		if _, err := db.Graph().Link(t.Context(), s.Owner(), "tea", id); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []memory.Query{
		{Text: "tea in the garden"},
		{Text: "tea in the garden", Graph: .1},
		{Text: "tea in the garden", Embedding: []float32{1, 2, 1}},
		{Text: "tea in the garden", Profile: memory.ProfileText},
		{Text: "tea in the garden", Profile: memory.ProfileHybrid},
		{Text: "tea in the garden", Profile: memory.ProfileSubstrate},
		{Embedding: []float32{1, 2, 1}, Profile: memory.ProfileVector},
		{Text: "tea in the garden", Embedding: []float32{1, 2, 1}, Profile: memory.ProfileHybrid, Filter: filter.Ne("run", "r1")},
		{Text: "+tea garden", Syntax: memory.SyntaxOperators},
	} {
		q.Scope, q.NoTouch = s, true
		for range 40 { // the vectors have earned a weight
			db.spaces.At(memory.DefaultSpace, state.MaxLSN).Learn(.5, 0)
		}
		err := db.View(t.Context(), func(tx *Tx) error {
			whyAgrees(t, tx.Memories(), q)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// whyAgrees compares what is said of each hit with the hits.
func whyAgrees(t *testing.T, m Memories, q memory.Query) {
	t.Helper()
	q.Limit = 60
	all := mustRecall(t, m, q)
	q.Limit = 5
	if first := mustRecall(t, m, q); len(all) < 6 || len(first) != 5 {
		t.Fatalf("%+v: %d and %d hits", q, len(all), len(first))
	}
	for i, h := range all {
		w := mustWhy(t, m, q, h.ID)
		if w.Rank != i+1 || w.Score != h.Score || w.Ranked != len(all) || w.Found != (i < 5) || len(w.Before) != min(i, 5) {
			t.Fatalf("%+v, %s at place %d with %v: %+v", q, h.ID, i+1, h.Score, w)
		}
		for n, b := range w.Before {
			if b.ID != all[n].ID || b.Score != all[n].Score {
				t.Fatalf("%+v: before %s stand %+v", q, h.ID, w.Before)
			}
		}
		sum := 0.0
		for _, p := range w.Parts {
			sum += p.Value
			more := 0
			for _, other := range all {
				other.Parts.Each(func(name string, value float64) {
					if name == p.Part && value > p.Value {
						more++
					}
				})
			}
			if p.Rank != more+1 {
				for _, o := range all {
					t.Log(o.ID, o.Parts.Cosine, o.Score)
				}
				t.Fatalf("%+v: %s by %s is at %d, and %d have more %v", q, h.ID, p.Part, p.Rank, more, w.Parts)
			}
		}
		if diff := sum - h.Score; diff > 1e-9 || diff < -1e-9 {
			t.Fatalf("%+v: the parts of %s give %v, its score is %v", q, h.ID, sum, h.Score)
		}
	}
}

// TestWhyLarge: where not all in scope are ranked, a memory that is not says so, and one that
// stands behind the hits of a walk has its place among all.
func TestWhyLarge(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{vectors: smallLimits()}})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	all := make([]memory.Memory, recall.LendersMost+20)
	for i := range all {
		all[i] = memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: "tea" + strings.Repeat(" and more", i), Embedding: []float32{float32(i), 100}}
	}
	if _, err := m.StoreBatch(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
	last := fmt.Sprint("m", len(all)-1)
	w := mustWhy(t, m, memory.Query{Scope: ada, Text: "tea"}, last)
	if w.Reason != memory.WhyNoCandidate || w.Rank != 0 || w.Ranked != recall.LendersMost || len(w.Before) != 10 {
		t.Errorf("behind the best matches: %+v", w)
	}
	if w := mustWhy(t, m, memory.Query{Scope: ada, Text: "tea", Profile: memory.ProfileText}, last); w.Reason != memory.WhyLimit || w.Rank != len(all) {
		t.Errorf("by text alone: %+v", w)
	}
	if err := db.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := memory.Query{Scope: ada, Embedding: []float32{0, 1}, Profile: memory.ProfileVector, Limit: 3}
	if w := mustWhy(t, m, q, "m1"); !w.Found || w.Rank != 2 || !w.Plan.Approximate {
		t.Errorf("a hit of a walk: %+v", w)
	}
	if w := mustWhy(t, m, q, "m400"); w.Reason != memory.WhyLimit || w.Rank != 401 || len(w.Before) != 3 {
		t.Errorf("behind the hits of a walk: %+v", w)
	}
}

// TestWhyTouchesNothing: the question leaves access counts alone.
func TestWhyTouchesNothing(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Scope: ada, Text: "tea"})
	mustWhy(t, db.Memories(), memory.Query{Scope: ada, Text: "tea"}, "m")
	if got, err := db.Memories().Get(t.Context(), ada, "m"); err != nil || got.AccessCount != 0 {
		t.Errorf("%d accesses, %v", got.AccessCount, err)
	}
}

// TestWhyScope: of a memory outside the scope nothing is told, whether it lives or is gone, and it
// has no part in what is told of others.
func TestWhyScope(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ada, bob := db.Memories(), memory.Scope{User: "ada"}, memory.Scope{User: "bob"}
	mustStore(t, m, memory.Memory{ID: "mine", Scope: ada, Text: "tea in the morning"})
	alone := mustWhy(t, m, memory.Query{Scope: ada, Text: "tea"}, "mine")
	for _, mem := range []memory.Memory{{ID: "theirs", Text: "tea tea tea"}, {ID: "dead", Text: "tea"}, {ID: "both", Text: "bob's tea"}} {
		mem.Scope = bob
		mustStore(t, m, mem)
	}
	mustStore(t, m, memory.Memory{ID: "both", Scope: ada, Text: "coffee"})
	if err := m.Delete(t.Context(), bob, "dead"); err != nil {
		t.Fatal(err)
	}
	_, never := m.Why(t.Context(), memory.Query{Scope: ada, Text: "tea"}, "never")
	for _, q := range []memory.Query{{Scope: ada}, {Scopes: []memory.Scope{ada, {Agent: "none"}}}, {Scope: memory.Scope{User: "ada", Run: "r"}}} {
		q.Text = "tea"
		for _, id := range []string{"theirs", "dead"} {
			_, err := m.Why(t.Context(), q, id)
			if !errors.Is(err, memory.ErrNotFound) || strings.ReplaceAll(err.Error(), id, "never") != never.Error() {
				t.Errorf("%s in %+v: %v", id, q, err)
			}
		}
	}
	after := mustWhy(t, m, memory.Query{Scope: ada, Text: "tea"}, "mine")
	if len(after.Before) != 0 || after.Ranked != alone.Ranked || after.Terms[0].Memories != 1 {
		t.Errorf("beside others: %+v, alone %+v", after, alone)
	}
	if w := mustWhy(t, m, memory.Query{Scope: ada, Text: "coffee"}, "both"); w.Memory.User != "ada" || !w.Found {
		t.Errorf("one of two: %+v", w)
	}
	if _, err := m.Why(context.Background(), memory.Query{AllScopes: true, Text: "tea"}, "both"); !errors.Is(err, memory.ErrAmbiguous) {
		t.Errorf("of two owners: %v", err)
	}
	if w := mustWhy(t, m, memory.Query{AllScopes: true, Text: "tea"}, "theirs"); w.Reason != memory.WhyFound {
		t.Errorf("for administration: %+v", w)
	}
}
