package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/languageset"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// parted is a database with everything, and several that have a part of it each.
type parted struct {
	t     *testing.T
	whole *engine.DB
	parts []*engine.DB
	// rounds is how many the last statistics took.
	rounds int
}

// placeEmbedder makes vectors in which words have directions of their own, near each other where they begin
// with one letter.
type placeEmbedder struct{}

func (placeEmbedder) Dim() int      { return 24 }
func (placeEmbedder) Model() string { return "places" }

func (placeEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, 24)
		for word := range strings.FieldsSeq(text) {
			r := rand.New(rand.NewPCG(uint64(word[0]), 1))
			own := rand.New(rand.NewPCG(xxh3.HashString(word), 1))
			for j := range v {
				v[j] += float32(r.NormFloat64() + .5*own.NormFloat64())
			}
		}
		vecs[i] = v
	}
	return vecs, nil
}

// newParted stores memories of many users: all that a user has is in one part. Some are facts, some have no
// run, some a vector of their own in a space that one part alone has.
func newParted(t *testing.T, n, parts int, e embed.Embedder) *parted {
	t.Helper()
	return newPartedOf(t, n, parts, e, corpus{runs: true, facts: true, words: "tea green black garden train journey Berlin doctor music piano plan morning river mountain bread letter window winter summer colleague meeting"})
}

// corpus is what the memories of a test are made of.
type corpus struct {
	runs, facts bool   // some are in runs, some are facts
	words       string // of their texts, the frequent ones first
}

// newPartedOf is newParted of other memories.
func newPartedOf(t *testing.T, n, parts int, e embed.Embedder, of corpus) *parted {
	t.Helper()
	clk := testdb.NewClock()
	o := &engine.Options{Clock: clk.Now, Embedder: e}
	open := func() *engine.DB {
		db, err := engine.OpenMemory(o)
		testdb.NoError(t, err)
		t.Cleanup(func() { testdb.NoError(t, db.Close()) })
		return db
	}
	p := &parted{t: t, whole: open()}
	for range parts {
		p.parts = append(p.parts, open())
	}
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(of.words)
	var texts []string
	for _, l := range languageset.Short() {
		for _, pair := range l.List {
			texts = append(texts, pair.Memory)
		}
	}
	for i := range n {
		clk.Advance(time.Second)
		text := ""
		if r.IntN(4) == 0 {
			text = texts[r.IntN(len(texts))] + " "
		}
		for range 3 + r.IntN(12) {
			text += words[min(r.IntN(len(words)), r.IntN(len(words)))] + " "
		}
		user := r.IntN(20)
		m := memory.Memory{
			ID: fmt.Sprint("m", i), Text: fmt.Sprint(text, "number ", i), Metadata: map[string]any{"half": i % 2, "tenth": i % 10},
			Scope: memory.Scope{User: fmt.Sprint("user", user), Agent: "planner"}, Kind: memory.KindMessage,
		}
		if n := r.IntN(4); of.runs && n > 0 {
			m.Run = fmt.Sprint("run", n)
		}
		if of.facts && i%5 == 0 {
			m.Kind = memory.KindFact
		}
		if user == 3 {
			m.Vectors = map[string][]float32{"colours": {r.Float32(), r.Float32(), r.Float32()}}
		}
		for _, db := range []*engine.DB{p.whole, p.parts[user%parts]} {
			_, err := db.Memories().Store(t.Context(), m, nil)
			testdb.NoError(t, err)
		}
	}
	return p
}

// learn asks users questions, in the whole and in the part that has them, until vectors have shown something.
func (p *parted) learn(questions int) {
	p.t.Helper()
	for i := range questions {
		user := i % len(p.parts) // that of this number is in the part of this number
		q := memory.Query{Scope: memory.Scope{User: fmt.Sprint("user", user)}, Text: []string{"green tea", "a garden", "black tea", "by train"}[i/len(p.parts)%4], NoTouch: true}
		for _, db := range []*engine.DB{p.whole, p.parts[user]} {
			_, err := db.Memories().Recall(p.t.Context(), q)
			testdb.NoError(p.t, err)
		}
	}
}

// statistics asks some databases for all rounds, and returns the query as they are to be asked.
func (p *parted) statistics(q memory.Query, dbs ...*engine.DB) memory.Query {
	p.t.Helper()
	var err error
	q.Embedding, q.Space, _, err = dbs[0].Memories().Embedding(p.t.Context(), q)
	testdb.NoError(p.t, err)
	sum := &memory.Statistics{}
	for p.rounds = 0; sum.Lacks(); p.rounds++ {
		if p.rounds == 8 {
			p.t.Fatalf("after %d rounds: %+v", p.rounds, sum)
		}
		q.Statistics = sum
		var more []memory.Statistics
		for _, db := range dbs {
			s, err := db.Memories().Statistics(p.t.Context(), q)
			testdb.NoError(p.t, err)
			more = append(more, s)
		}
		for _, s := range more {
			testdb.NoError(p.t, sum.Add(&s))
		}
	}
	q.Statistics = sum
	return q
}

// recall asks all parts, and joins what they find.
func (p *parted) recall(q memory.Query) []memory.Hit {
	p.t.Helper()
	q = p.statistics(q, p.parts...)
	lists := make([][]memory.Hit, len(p.parts))
	for i, db := range p.parts {
		found, err := db.Memories().Recall(p.t.Context(), q)
		testdb.NoError(p.t, err)
		lists[i] = found.Hits
	}
	var all []memory.Hit
	for len(all) < q.Limit {
		lists = slices.DeleteFunc(lists, func(l []memory.Hit) bool { return len(l) == 0 })
		if len(lists) == 0 {
			break
		}
		slices.SortFunc(lists, func(a, b []memory.Hit) int {
			return cmp.Or(cmp.Compare(b[0].Score, a[0].Score), cmp.Compare(a[0].Alike, 0)-cmp.Compare(b[0].Alike, 0), cmp.Compare(b[0].Alike, a[0].Alike), a[0].CreatedAt.Compare(b[0].CreatedAt))
		})
		all, lists[0] = append(all, lists[0][0]), lists[0][1:]
	}
	return all
}

// TestStatistics: databases that have a part each, asked with the statistics of all, find together what
// one finds that has everything: in the same order, with the same scores.
func TestStatistics(t *testing.T) {
	for _, e := range []embed.Embedder{nil, placeEmbedder{}} {
		testStatistics(t, newParted(t, 1500, 4, e), e != nil)
	}
}

func testStatistics(t *testing.T, p *parted, vectors bool) {
	p.learn(64)
	all := p.statistics(memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: "tea"}, p.parts...).Statistics
	one := p.statistics(memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: "tea"}, p.whole).Statistics
	if got, want := policy.Trust(all.Vectors.Shown), policy.Trust(one.Vectors.Shown); got.Asked != want.Asked || vectors && (want.Asked < 32 || math.Abs(got.Weight()-want.Weight()) > 1e-3 || want.Weight() == 0) {
		t.Errorf("the vectors have shown %+v to the parts, %+v to the whole", got, want)
	}
	if !slices.Equal(all.Lenders, one.Lenders) || len(all.Lenders) != 500 {
		t.Errorf("%d lend, of one database %d", len(all.Lenders), len(one.Lenders))
	}
	found := map[memory.Profile]int{}
	for _, text := range []string{
		"green tea", "a journey by train to Berlin", "who plays the piano?", "morning meeting with a colleague in winter", "number 17", "zebra", "zebra tea",
		"Was trinkt sie am Morgen?", "où est le train ?", "お茶", "tea tea tea",
	} {
		for _, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest, memory.ProfileVector, memory.ProfileHybrid} {
			for _, limit := range []int{1, 10, 100} {
				q := memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: text, Profile: profile, Limit: limit, OnlyWords: true, Ranking: policy.Ranking{OneLook: true}, NoTouch: true}
				switch limit {
				case 10: // of more than 256, some are a sample
					q.Filter = filter.Eq("tenth", 1)
				case 100:
					q.Filter = filter.Eq("half", 1)
				}
				one, err := p.whole.Memories().Recall(t.Context(), q)
				testdb.NoError(t, err)
				off := rounding
				switch {
				case vectors && profile == memory.ProfileBest && limit == 10:
					off = byCodes
				case vectors && profile == memory.ProfileBest:
					off = bySample
				}
				same(t, fmt.Sprintf("%s %q %d", profile, text, limit), one.Hits, p.recall(q), off)
				found[profile] += len(one.Hits)
			}
		}
	}
	for profile, n := range found {
		if n < 250 {
			t.Errorf("of %s only %d hits were compared", profile, n)
		}
	}
}

// TestStatisticsSpace: a vector is compared where its space is, and one of a space that no part has is refused.
func TestStatisticsSpace(t *testing.T) {
	p := newParted(t, 200, 4, nil)
	for _, profile := range []memory.Profile{memory.ProfileBest, memory.ProfileVector, memory.ProfileHybrid} {
		for _, text := range []string{"tea", ""} {
			q := memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: text, Embedding: []float32{.2, .5, .8}, Space: "colours", Profile: profile, Limit: 50, Ranking: policy.Ranking{OneLook: true}, NoTouch: true}
			one, err := p.whole.Memories().Recall(t.Context(), q)
			testdb.NoError(t, err)
			same(t, string(profile)+text, one.Hits, p.recall(q), byCodes)
			if len(one.Hits) < 5 {
				t.Errorf("%s found %d", profile, len(one.Hits))
			}
			q = p.statistics(q, p.parts...)
			q.Embedding = q.Embedding[:2]
			if _, err := p.parts[3].Memories().Statistics(t.Context(), q); !errors.Is(err, memory.ErrInvalid) {
				t.Errorf("another dimension: %v", err)
			}
		}
	}
	// A space that the whole alone has, as if all parts had lost it.
	q := memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: "tea", Embedding: []float32{.2, .5, .8}, Space: "colours"}
	q = p.statistics(q, p.parts[3])
	q.Statistics.Vectors.Metric = ""
	if _, err := p.parts[0].Memories().Recall(t.Context(), q); !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), "no vector space") {
		t.Error(err)
	}
}

// How far scores may be apart: those of sums that were added up in another order, and those that go by what
// vectors have shown, which their codes say, and these depend on all vectors of a database; or by a sample of them. A
// fact that stands above one of several messages of the same score is next to nothing above the others, too.
const rounding, lifted, byCodes, bySample = 1e-12, 2e-9, 5e-4, .01

// same compares hits, of which those may change places that are no further apart.
func same(t *testing.T, what string, want, got []memory.Hit, off float64) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %d hits, want %d", what, len(got), len(want))
		return
	}
	scores := map[string]float64{}
	for _, h := range want {
		scores[h.ID] = h.Score
	}
	for i, g := range got {
		of, known := scores[g.ID]
		last := want[len(want)-1].Score
		if g.Near != want[i].Near {
			t.Errorf("%s: hit %d is near %v, want %v", what, i, g.Near, want[i].Near)
			return
		}
		if math.Abs(want[i].Score-g.Score) > off || known && math.Abs(of-g.Score) > off || !known && math.Abs(last-g.Score) > off || off == rounding && g.ID != want[i].ID {
			t.Errorf("%s: hit %d is %s with %v, want %s with %v", what, i, g.ID, g.Score, want[i].ID, want[i].Score)
			return
		}
	}
}

// TestStatisticsRefuse: what is not exact over several databases is refused by name.
func TestStatisticsRefuse(t *testing.T) {
	p := newParted(t, 5, 1, nil)
	for what, q := range map[string]memory.Query{
		"substrate": {Profile: memory.ProfileSubstrate}, "operators": {Syntax: memory.SyntaxOperators}, "graph": {Graph: .2},
		"past": {AsOf: 1}, "plan": {Explain: true}, "tokens": {Tokens: 10},
	} {
		q.Scope, q.Text, q.Statistics = memory.Scope{Agent: "planner"}, "tea", &memory.Statistics{}
		if _, err := p.whole.Memories().Recall(t.Context(), q); !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	q := memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: "tea", Statistics: &memory.Statistics{Languages: []int{1}}}
	if _, err := p.whole.Memories().Recall(t.Context(), q); !errors.Is(err, memory.ErrMismatch) {
		t.Error(err)
	}
	of := func(metric string) memory.Statistics {
		return memory.Statistics{Vectors: memory.VectorStatistics{Metric: metric}}
	}
	dot, cosine := of("dot"), of("cosine")
	if err := dot.Add(&cosine); !errors.Is(err, memory.ErrMismatch) {
		t.Error(err)
	}
	if err := (&memory.Statistics{Languages: []int{1}}).Add(&memory.Statistics{Languages: []int{1, 2}}); !errors.Is(err, memory.ErrMismatch) {
		t.Error(err)
	}
	if err := (&memory.Statistics{}).Add(&memory.Statistics{Languages: []int{1}}); !errors.Is(err, memory.ErrMismatch) || !strings.Contains(err.Error(), "version 0") {
		t.Errorf("of another version: %v", err)
	}
}
