package invindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// clauses draws a query of up to five clauses, some of them phrases.
func (c *corpus) clauses() *Query {
	q := &Query{Verify: func(_ context.Context, doc uint32) (bool, error) { return inPlace(doc), nil }}
	for range 1 + c.rng.IntN(5) {
		clause := Clause{Occur: Occur(c.rng.IntN(3))}
		if c.rng.IntN(2) == 0 {
			clause.Occur = Should
		}
		for range 1 + c.rng.IntN(3) {
			clause.Terms = append(clause.Terms, QueryTerm{Text: c.word(), Weight: float64(1 + c.rng.IntN(3))})
		}
		clause.Phrase = clause.Occur != Should && c.rng.IntN(3) == 0
		q.Clauses = append(q.Clauses, clause)
	}
	return q
}

// inPlace stands for texts whose phrases are as they should be.
func inPlace(doc uint32) bool { return doc*2_654_435_761>>7%3 > 0 }

// fits is what Query documents, for one document.
func (d *Doc) fits(q *Query, doc uint32) bool {
	scores, doubt := false, false
	for _, c := range q.Clauses {
		any, all := false, true
		for _, t := range c.Terms {
			has := d.freq(t.Text) > 0
			any, all = any || has, all && has
		}
		has := any
		if c.Phrase {
			has = all
		}
		switch {
		case c.Occur == Should:
		case c.Occur == Must && !has, c.Occur == MustNot && has && !c.Phrase:
			return false
		case c.Phrase && has:
			doubt = true
		}
		scores = scores || any && c.Occur != MustNot
	}
	return scores && (!doubt || inPlace(doc))
}

// blended is what Query documents of the statistics of alternatives.
func blended(q *Query, st Stats) Stats {
	terms := q.Terms()
	out := slices.Clone(st.DF)
	for _, c := range q.Clauses {
		if c.Occur == MustNot || c.Phrase || len(c.Terms) == 1 {
			continue
		}
		sum := uint32(0)
		for _, t := range c.Terms {
			sum += st.DF[slices.Index(terms, t.Text)]
		}
		for _, t := range c.Terms {
			i := slices.Index(terms, t.Text)
			out[i] = max(out[i], min(sum, uint32(st.N)))
		}
	}
	return Stats{N: st.N, Length: st.Length, DF: out}
}

// Every query equals one that looks at each document, over hot and sealed chunks,
// subsets and documents that are not visible.
func TestQueryAgainstOracle(t *testing.T) {
	race.Sequential(t)
	for range 3 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			c := newCorpus(seed, 30+int(seed%3)*300)
			x, o, store := New(Config{}), &oracle{}, newMemStore()
			for range 3 {
				c.fill(t, x, o, 1+c.rng.IntN(9000))
				if c.rng.IntN(2) == 0 {
					c.leap(t, x, o)
					seal(t, x, store)
				}
				s := x.Snapshot()
				s.Reader = store
				for range 60 {
					compareQuery(t, c, x, o, s)
				}
			}
		})
	}
}

func compareQuery(t *testing.T, c *corpus, x *Index, o *oracle, s Snapshot) {
	t.Helper()
	q := c.clauses()
	name, in := c.someDocs(s)
	st, err := x.Stats(t.Context(), s, q.Terms(), in)
	if err != nil {
		t.Fatal(err)
	}
	k := 1 + c.rng.IntN(30)
	hits, err := x.Query(t.Context(), s, q, st, in, k)
	if err != nil {
		t.Fatal(err)
	}
	var docs []uint32
	for _, id := range o.in(s, in) {
		if o.docs[id].fits(q, id) {
			docs = append(docs, id)
		}
	}
	var all []Hit
	if len(docs) > 0 {
		all = make([]Hit, len(docs))
		if err := x.Score(t.Context(), s, q.scoring(), blended(q, st), docs, all); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortStableFunc(all, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	if want := all[:min(k, len(all))]; !slices.Equal(hits, want) {
		t.Fatalf("%s: %+v, best %d:\n%v\nwant\n%v", name, q.Clauses, k, hits, want)
	}
}

func TestQueryRefuses(t *testing.T) {
	x := New(Config{})
	word := []QueryTerm{{Text: "a", Weight: 1}}
	many := make([]QueryTerm, MaxQueryTerms+1)
	for i := range many {
		many[i] = QueryTerm{Text: fmt.Sprint(i), Weight: 1}
	}
	verify := func(context.Context, uint32) (bool, error) { return true, nil }
	for name, q := range map[string]*Query{
		"no terms":           {Clauses: []Clause{{Occur: Must}}},
		"an unknown occur":   {Clauses: []Clause{{Occur: 3, Terms: word}}},
		"a should phrase":    {Clauses: []Clause{{Terms: word, Phrase: true}}, Verify: verify},
		"no Verify":          {Clauses: []Clause{{Occur: Must, Terms: word, Phrase: true}}},
		"too many terms":     {Clauses: []Clause{{Terms: many}}},
		"too many not terms": {Clauses: []Clause{{Terms: word}, {Occur: MustNot, Terms: many}}},
		"a bad weight":       {Clauses: []Clause{{Terms: []QueryTerm{{Text: "a"}}}}},
	} {
		st := Stats{DF: make([]uint32, len(q.Terms()))}
		if _, err := x.Query(t.Context(), x.Snapshot(), q, st, Docs{}, 1); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := x.Query(t.Context(), x.Snapshot(), &Query{Clauses: []Clause{{Terms: word}}}, Stats{}, Docs{}, 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("statistics of no terms: %v", err)
	}
	for _, k := range []int{-1, MaxHits + 1} {
		q := &Query{Clauses: []Clause{{Occur: Must, Terms: word, Phrase: true}}, Verify: verify}
		if _, err := x.Query(t.Context(), x.Snapshot(), q, Stats{DF: []uint32{0}}, Docs{}, k); !errors.Is(err, ErrInvalid) {
			t.Errorf("the best %d: %v", k, err)
		}
	}
}

// What Verify returns, and a context that ends, end a query.
func TestQueryEnds(t *testing.T) {
	c, x, o := newCorpus(1, 30), New(Config{}), &oracle{}
	c.fill(t, x, o, 1000)
	ask := func(ctx context.Context, verify func(context.Context, uint32) (bool, error)) error {
		q := &Query{Clauses: []Clause{{Occur: Must, Terms: []QueryTerm{{"w0", 1}}, Phrase: true}}, Verify: verify}
		st, err := x.Stats(t.Context(), x.Snapshot(), q.Terms(), Docs{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Query(ctx, x.Snapshot(), q, st, Docs{}, 10)
		return err
	}
	broken := errors.New("broken")
	err := ask(t.Context(), func(context.Context, uint32) (bool, error) { return false, broken })
	if !errors.Is(err, broken) {
		t.Errorf("Verify failed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err = ask(ctx, func(context.Context, uint32) (bool, error) { calls++; cancel(); return false, nil })
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("cancelled in the first of %d calls: %v", calls, err)
	}
}
