package invindex

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/query"
)

// vocabulary makes prefixes, near words, phrases and identifiers likely.
var vocabulary = strings.Fields("tea teas team steam cream creams coffee coffees green greens run running runner src/auth.rs auth café 天気 天")

func someText(rng *rand.Rand) string {
	words := make([]string, 1+rng.IntN(12))
	for i := range words {
		words[i] = vocabulary[rng.IntN(len(vocabulary))]
	}
	return strings.Join(words, " ")
}

func someQuery(rng *rand.Rand) string {
	words := make([]string, 1+rng.IntN(4))
	for i := range words {
		w := vocabulary[rng.IntN(len(vocabulary))]
		switch rng.IntN(7) {
		case 0:
			w = w[:2] + "*"
		case 1:
			w += "~"
		case 2:
			w = `"` + w + " " + vocabulary[rng.IntN(len(vocabulary))] + `"`
		}
		words[i] = []string{"", "", "", "+", "-", "NOT "}[rng.IntN(6)] + w
	}
	return strings.Join(words, []string{" ", " AND ", " OR "}[rng.IntN(3)])
}

// TestBind asks typed queries of hot and sealed chunks, and of every text.
func TestBind(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := analysis.NewEnglish()
	x, store, texts, docs := New(Config{}), newMemStore(), map[uint32]string{}, map[uint32]*Doc{}
	for range 3 {
		next := (x.Snapshot().Docs>>16 + 1) << 16
		for i := range uint32(300) {
			text := someText(rng)
			d := &Doc{}
			var bag analysis.Bag
			bag.Add(a, text, 1)
			for _, k := range bag.Terms() {
				d.Terms = append(d.Terms, Term{Text: k.Term, Freq: k.Freq})
			}
			d.Length = bag.Length()
			if err := x.Add(next+i, d); err != nil {
				t.Fatal(err)
			}
			texts[next+i], docs[next+i] = text, d
		}
		seal(t, x, store)
	}
	s := x.Snapshot()
	s.Reader = store
	in := Docs{Visible: func(doc uint32) bool { return doc%5 > 0 }}
	found := 0
	for range 400 {
		text := someQuery(rng)
		parsed := query.Parse(a, text)
		verify := func(_ context.Context, doc uint32) (bool, error) { return parsed.Matches(texts[doc]), nil }
		q, err := x.Bind(t.Context(), s, parsed, in, verify)
		if err != nil {
			t.Fatal(err)
		}
		st, err := x.Stats(t.Context(), s, q.Terms(), in)
		if err != nil {
			t.Fatal(err)
		}
		hits, err := x.Query(t.Context(), s, q, st, in, 20)
		if err != nil {
			t.Fatal(err)
		}
		var want []uint32
		for doc, d := range docs {
			if in.Visible(doc) && wants(parsed, d, texts[doc]) {
				want = append(want, doc)
			}
		}
		slices.Sort(want)
		var all []Hit
		if len(want) > 0 {
			all = make([]Hit, len(want))
			if err := x.Score(t.Context(), s, q.scoring(), blended(q, st), want, all); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortStableFunc(all, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
		if all = all[:min(20, len(all))]; !slices.Equal(hits, all) {
			t.Fatalf("%s:\n%v\nwant\n%v", text, hits, all)
		}
		found += len(hits)
	}
	if found == 0 {
		t.Error("nothing was ever found")
	}
}

// wants is the query language, for one document.
func wants(q *query.Query, d *Doc, text string) bool {
	scores := false
	for i := range q.Clauses {
		c := &q.Clauses[i]
		has := slices.ContainsFunc(d.Terms, func(k Term) bool {
			_, ok := c.Accept([]byte(k.Text))
			return ok
		})
		if c.Kind == query.Phrase {
			continue // below
		}
		if c.Occur == query.Must && !has || c.Occur == query.MustNot && has {
			return false
		}
		scores = scores || has && c.Occur != query.MustNot
	}
	for i := range q.Clauses {
		scores = scores || q.Clauses[i].Kind == query.Phrase && q.Clauses[i].Occur == query.Must
	}
	return scores && q.Matches(text)
}

// What prefixes and fuzzy words stand for is decided by the documents of in alone:
// what others hold changes neither hits nor scores.
func TestBindLeaksNothing(t *testing.T) {
	a := analysis.NewEnglish()
	answer := func(others bool) []Hit {
		x := New(Config{})
		words := []string{"ledger", "lodger"}
		for i := range uint32(200) {
			text := words[i%2]
			if i >= 100 && others {
				text = "ledges ledge lecture lend " + strings.Repeat("le", int(i%30))
			}
			d := &Doc{Length: 4}
			var bag analysis.Bag
			bag.Add(a, text, 1)
			for _, k := range bag.Terms() {
				d.Terms = append(d.Terms, Term{Text: k.Term, Freq: k.Freq})
			}
			if err := x.Add(i, d); err != nil {
				t.Fatal(err)
			}
		}
		in := Docs{Visible: func(doc uint32) bool { return doc < 100 }}
		q, err := x.Bind(t.Context(), x.Snapshot(), query.Parse(a, "le* lodgar~"), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		st, err := x.Stats(t.Context(), x.Snapshot(), q.Terms(), in)
		if err != nil {
			t.Fatal(err)
		}
		hits, err := x.Query(t.Context(), x.Snapshot(), q, st, in, 200)
		if err != nil {
			t.Fatal(err)
		}
		return hits
	}
	if alone, beside := answer(false), answer(true); len(alone) != 100 || !slices.Equal(alone, beside) {
		t.Errorf("%d hits alone, %d beside others", len(alone), len(beside))
	}
}
