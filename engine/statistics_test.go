package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/languageset"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// parted is a database with everything, and several that have a part of it each.
type parted struct {
	t     *testing.T
	whole *engine.DB
	parts []*engine.DB
}

// newParted stores memories of many users: all that a user has is in one part.
func newParted(t *testing.T, n, parts int) *parted {
	t.Helper()
	clk := testdb.NewClock()
	o := &engine.Options{Clock: clk.Now}
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
	words := strings.Fields("tea green black garden train journey Berlin doctor music piano plan morning river mountain bread letter window winter summer colleague meeting")
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
			ID: fmt.Sprint("m", i), Text: fmt.Sprint(text, "number ", i), Metadata: map[string]any{"half": i % 2},
			Scope:     memory.Scope{User: fmt.Sprint("user", user), Agent: "planner", Run: fmt.Sprint("run", r.IntN(3))},
			Embedding: []float32{r.Float32(), r.Float32(), r.Float32()},
		}
		for _, db := range []*engine.DB{p.whole, p.parts[user%parts]} {
			_, err := db.Memories().Store(t.Context(), m, nil)
			testdb.NoError(t, err)
		}
	}
	return p
}

// recall asks all parts, and joins what they find.
func (p *parted) recall(q memory.Query) []memory.Hit {
	p.t.Helper()
	for range 2 {
		var sum memory.Statistics
		for _, db := range p.parts {
			s, err := db.Memories().Statistics(p.t.Context(), q)
			testdb.NoError(p.t, err)
			testdb.NoError(p.t, sum.Add(&s))
		}
		q.Statistics = &sum
	}
	var all []memory.Hit
	for _, db := range p.parts {
		found, err := db.Memories().Recall(p.t.Context(), q)
		testdb.NoError(p.t, err)
		all = append(all, found.Hits...)
	}
	slices.SortStableFunc(all, func(a, b memory.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.CreatedAt.Compare(b.CreatedAt))
	})
	return all[:min(len(all), q.Limit)]
}

// TestStatistics: databases that have a part each, asked with the statistics of all, find together what
// one finds that has everything: in the same order, with the same scores.
func TestStatistics(t *testing.T) {
	p := newParted(t, 900, 4)
	found := 0
	for _, text := range []string{
		"green tea", "a journey by train to Berlin", "who plays the piano?", "morning meeting with a colleague in winter", "number 17", "zebra", "zebra tea",
		"Was trinkt sie am Morgen?", "où est le train ?", "お茶", "tea tea tea",
	} {
		for _, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest, memory.ProfileVector, memory.ProfileHybrid} {
			for _, limit := range []int{1, 10, 100} {
				q := memory.Query{Scope: memory.Scope{Agent: "planner"}, Text: text, Profile: profile, Limit: limit, OnlyWords: true, OneLook: true, NoTouch: true}
				if limit == 10 || profile == memory.ProfileBest { // of more than 500 matches not all lend in one database
					q.Filter = filter.Eq("half", 1)
				}
				if profile == memory.ProfileVector {
					q.Embedding = []float32{.2, .5, .8}
				}
				one, err := p.whole.Memories().Recall(t.Context(), q)
				testdb.NoError(t, err)
				same(t, fmt.Sprintf("%s %q %d", profile, text, limit), one.Hits, p.recall(q))
				found += len(one.Hits)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d hits were compared", found)
	}
}

func same(t *testing.T, what string, want, got []memory.Hit) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %d hits, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if want[i].ID != got[i].ID || want[i].Score != got[i].Score {
			t.Errorf("%s: hit %d is %s with %v, want %s with %v", what, i, got[i].ID, got[i].Score, want[i].ID, want[i].Score)
			return
		}
	}
}

// TestStatisticsRefuse: what is not exact over several databases is refused by name.
func TestStatisticsRefuse(t *testing.T) {
	p := newParted(t, 5, 1)
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
	if err := (&memory.Statistics{Languages: []int{1}}).Add(&memory.Statistics{Languages: []int{1, 2}}); !errors.Is(err, memory.ErrMismatch) {
		t.Error(err)
	}
}
