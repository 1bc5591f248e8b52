package invindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/RoaringBitmap/roaring/v2"
)

// Over windows that are full, in hot and in sealed chunks, what Search finds is
// what scoring every document gives, bit by bit.
func TestPrunedEqualsExhaustive(t *testing.T) {
	race.Sequential(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newCorpus(seed, 3000)
	x, store := New(Config{}), newMemStore()
	n := uint32(100_000)
	if testing.Short() {
		n = 70_000
	}
	all := make([]uint32, n)
	for doc := range n {
		all[doc] = doc
		if err := x.Add(doc, c.shortDoc()); err != nil {
			t.Fatal(err)
		}
	}
	third := roaring.New()
	for doc := range n {
		if c.rng.IntN(3) == 0 {
			third.Add(doc)
		}
	}
	hot := x.Snapshot()
	seal(t, x, store)
	sealed := x.Snapshot()
	sealed.Reader = store
	sameSets(t, c, x, hot, sealed)
	hits := make([]Hit, n)
	for range 60 {
		q := c.query()
		for name, s := range map[string]Snapshot{"hot": hot, "sealed": sealed} {
			for scope, in := range map[string]Docs{"all": {}, "third": {Set: third}} {
				st, err := x.Stats(t.Context(), s, texts(q), in)
				if err != nil {
					t.Fatal(err)
				}
				if err := x.Score(t.Context(), s, q, st, all, hits); err != nil {
					t.Fatal(err)
				}
				k := 1 + c.rng.IntN(100)
				got, err := x.Search(t.Context(), s, q, st, in, k)
				if err != nil {
					t.Fatal(err)
				}
				if want := best(hits, in, k); !slices.Equal(got, want) {
					t.Fatalf("%s, %s, %v: the best %d are\n%v\nwant\n%v", name, scope, q, k, got, want)
				}
			}
		}
	}
}

// sameSets finds the documents of common and rare terms by both snapshots, and by
// one that ends in the middle of a sealed chunk.
func sameSets(t *testing.T, c *corpus, x *Index, hot, sealed Snapshot) {
	t.Helper()
	cut := Snapshot{Docs: 50_001, Reader: sealed.Reader}
	for range 20 {
		term := c.word()
		a, err := x.FindTerm(hot, term)
		if err != nil {
			t.Fatal(err)
		}
		b, err := x.FindTerm(sealed, term)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Equals(b) {
			t.Fatalf("%q: %d documents, %d once sealed", term, a.GetCardinality(), b.GetCardinality())
		}
		if b, err = x.FindTerm(cut, term); err != nil {
			t.Fatal(err)
		}
		a.RemoveRange(uint64(cut.Docs), 1<<32)
		if !a.Equals(b) {
			t.Fatalf("%q: %d documents below the mark, want %d", term, b.GetCardinality(), a.GetCardinality())
		}
	}
}

// best returns the k best of hits, of which documents of score 0 are none.
func best(hits []Hit, in Docs, k int) []Hit {
	var out []Hit
	for _, h := range hits {
		if h.Score > 0 && (in.Set == nil || in.Set.Contains(h.Doc)) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	return out[:min(k, len(out))]
}

// shortDoc draws a document of few words, which are drawn faster than those of doc.
func (c *corpus) shortDoc() *Doc {
	d := &Doc{Length: 5 + c.rng.Uint32N(40)}
	for range 1 + c.rng.IntN(8) {
		d.Terms = append(d.Terms, Term{Text: c.word(), Freq: 1 + c.rng.Uint32N(1+c.rng.Uint32N(4))})
	}
	slices.SortFunc(d.Terms, func(a, b Term) int {
		if a.Text < b.Text {
			return -1
		} else if a.Text > b.Text {
			return 1
		}
		return 0
	})
	d.Terms = slices.CompactFunc(d.Terms, func(a, b Term) bool { return a.Text == b.Text })
	return d
}

// benchIndex is an index of 200,000 synthetic documents of 30 words or so, and the
// queries that benchmarks ask: of 1 to 6 terms, common and rare.
func benchIndex(b *testing.B, sealed bool) (*Index, Snapshot, [][]QueryTerm) {
	b.Helper()
	c := newCorpus(1, 20_000)
	x, o, store := New(Config{}), &oracle{}, newMemStore()
	c.fill(b, x, o, 200_000)
	if sealed {
		c.leap(b, x, o)
		seal(b, x, store)
	}
	s := x.Snapshot()
	s.Reader = store
	var queries [][]QueryTerm
	for range 500 {
		queries = append(queries, c.query())
	}
	return x, s, queries
}

func BenchmarkSearch(b *testing.B) {
	for _, sealed := range []bool{false, true} {
		x, s, queries := benchIndex(b, sealed)
		run := func(name string, in Docs) {
			b.Run(fmt.Sprintf("sealed=%v/%s", sealed, name), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					q := queries[i%len(queries)]
					st, err := x.Stats(b.Context(), s, texts(q), in)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := x.Search(b.Context(), s, q, st, in, 10); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("all", Docs{})
		for _, every := range []uint32{1000, 30, 2} {
			set := roaring.New()
			for doc := uint32(0); doc < s.Docs; doc++ {
				if doc*2_654_435_761>>8%every == 0 {
					set.Add(doc)
				}
			}
			run(fmt.Sprintf("one in %d", every), Docs{Set: set})
		}
		alive := roaring.New()
		for doc := uint32(0); doc < s.Docs; doc++ {
			if doc*2_654_435_761>>8%10 < 7 {
				alive.Add(doc)
			}
		}
		run("seven in ten", Docs{Set: alive})
	}
}

func BenchmarkAdd(b *testing.B) {
	c := newCorpus(1, 20_000)
	docs := make([]*Doc, 10_000)
	for i := range docs {
		docs[i] = c.doc()
	}
	x, next := New(Config{}), uint32(0)
	for i := 0; b.Loop(); i++ {
		if next == 4<<16 {
			x, next = New(Config{}), 0
		}
		if err := x.Add(next, docs[i%len(docs)]); err != nil {
			b.Fatal(err)
		}
		next++
	}
}

func BenchmarkDecodeDoc(b *testing.B) {
	c := newCorpus(1, 20_000)
	var records [][]byte
	for range 1000 {
		records = append(records, AppendDoc(nil, c.doc()))
	}
	for i := 0; b.Loop(); i++ {
		if _, _, err := DecodeDoc(records[i%len(records)]); err != nil {
			b.Fatal(err)
		}
	}
}
