package invindex

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/near"
)

// nearCorpus makes words that look like those of texts: of syllables, often with an ending.
type nearCorpus struct {
	rng       *rand.Rand
	syllables []string
}

func newNearCorpus(seed uint64) *nearCorpus {
	c := &nearCorpus{rng: rand.New(rand.NewPCG(seed, 4))}
	for _, onset := range []string{"b", "br", "d", "f", "g", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "ш", "z"} {
		for _, rest := range []string{"a", "e", "i", "o", "u", "an", "en", "er", "is", "ol", "ö", "ag", "ep", "ix", "om", "ud", "ath", "ech", "ilt", "orm", "und", "yr"} {
			c.syllables = append(c.syllables, onset+rest)
		}
	}
	return c
}

func (c *nearCorpus) word() string {
	var b strings.Builder
	for range 1 + c.rng.IntN(4) {
		// The square of an even number: some syllables are in many words, most in few.
		at := c.rng.Float64()
		b.WriteString(c.syllables[int(at*at*float64(len(c.syllables)))])
	}
	b.WriteString([]string{"", "", "ing", "ed", "ion", "7", "ttttt"}[c.rng.IntN(7)])
	return b.String()
}

// fill adds documents of a number of words each, from one number up.
func (c *nearCorpus) fill(t testing.TB, x *Index, from uint32, docs, words int) {
	t.Helper()
	for i := range docs {
		d := &Doc{Length: uint32(words)}
		for range words {
			d.Terms = append(d.Terms, Term{c.word(), 1})
		}
		slices.SortFunc(d.Terms, func(a, b Term) int { return strings.Compare(a.Text, b.Text) })
		d.Terms = slices.CompactFunc(d.Terms, func(a, b Term) bool { return a.Text == b.Text })
		if err := x.Add(from+uint32(i), d); err != nil {
			t.Fatal(err)
		}
	}
}

// misspelt are words of which some letter is another.
func (c *nearCorpus) misspelt(n int) (words []near.Word) {
	for len(words) < n {
		letters := []rune(c.word())
		letters[c.rng.IntN(len(letters))] = 'x'
		if w, ok := near.New(string(letters)); ok {
			words = append(words, w)
		}
	}
	return words
}

// exhaustive is Near by a look at every term.
func exhaustive(t testing.TB, x *Index, s Snapshot, words []near.Word, in Docs, limit int) (found []NearTerm) {
	t.Helper()
	nearness := func(term []byte) (most float64) {
		for i := range words {
			most = max(most, words[i].Nearness(term))
		}
		return most
	}
	terms, err := x.Expand(t.Context(), s, "", func(term []byte) (int, bool) {
		n := nearness(term)
		return int((1 - n) * 100), n > 0
	}, in, limit)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := x.Stats(t.Context(), s, terms, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, term := range terms {
		found = append(found, NearTerm{term, nearness([]byte(term)), stats.DF[i]})
	}
	return found
}

// TestNearIsExhaustive compares Near with a look at every term: in hot and sealed chunks, in
// one that was moved, for sets of all sizes, and for snapshots that are older than the index.
func TestNearIsExhaustive(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	c := newNearCorpus(seed)
	x, store := New(Config{Prefix: []byte("i1")}), newMemStore()
	const looks = 30
	check := func(what string, s Snapshot) {
		t.Helper()
		some := 0
		for range looks {
			words := c.misspelt(1 + c.rng.IntN(3))
			in := Docs{}
			switch c.rng.IntN(4) {
			case 0:
				in.Set = roaring.New()
				for range 1 + c.rng.IntN(40) {
					in.Set.Add(c.rng.Uint32N(4)<<16 | c.rng.Uint32N(400))
				}
			case 1:
				in.Set = roaring.New()
				in.Set.AddRange(100, 1<<16+200)
				in.Visible = func(doc uint32) bool { return doc%3 == 0 }
			case 2:
				in.Visible = func(doc uint32) bool { return doc%7 == 0 }
			}
			got, err := x.Near(t.Context(), s, words, in, 20)
			if err != nil {
				t.Fatal(err)
			}
			if want := exhaustive(t, x, s, words, in, 20); !slices.Equal(got, want) {
				t.Fatalf("seed %d, %s: %v\nwant %v", seed, what, got, want)
			}
			some += min(1, len(got))
		}
		if some < 4 {
			t.Errorf("seed %d, %s: %d of %d looks found something: the test says little", seed, what, some, looks)
		}
	}
	c.fill(t, x, 0, 400, 8)
	older := x.Snapshot()
	check("hot", older)
	c.fill(t, x, 1<<16, 400, 8)
	check("an older snapshot", older)
	check("two hot chunks", x.Snapshot())
	c.fill(t, x, 2<<16, 400, 8)
	seal(t, x, store)
	sealed := func() Snapshot {
		s := x.Snapshot()
		s.Reader = store
		return s
	}
	check("two sealed chunks and a hot one", sealed())
	var docs []uint32
	for i := range uint32(300) {
		docs = append(docs, i, 1<<16|i)
	}
	if err := x.Move(t.Context(), sealed(), store, 9, docs); err != nil {
		t.Fatal(err)
	}
	if err := x.Moved(store, 9, 0, 1); err != nil {
		t.Fatal(err)
	}
	check("a moved chunk and a hot one", sealed())
}

// TestNearInBanks looks for words in a chunk of more terms than a bank has.
func TestNearInBanks(t *testing.T) {
	const docs, words = 650, 110
	seed := uint64(time.Now().UnixNano())
	c := newNearCorpus(seed)
	x, store := New(Config{Prefix: []byte("i1")}), newMemStore()
	n := 0
	for doc := range uint32(docs) {
		d := &Doc{Length: words}
		for range words {
			d.Terms = append(d.Terms, Term{fmt.Sprintf("%c%c%c%s", 'a'+n%26, 'a'+n/26%26, 'a'+n/676%26, c.word()), 1})
			n++
		}
		if err := x.Add(doc, d); err != nil {
			t.Fatal(err)
		}
	}
	c.fill(t, x, 1<<16, 1, 1)
	if terms := x.list()[0].countTerms(); terms <= bankTerms {
		t.Fatalf("%d terms are one bank", terms)
	}
	for _, what := range []string{"hot", "sealed"} {
		s := x.Snapshot()
		s.Reader = store
		for whole := 0; whole < 3; {
			w := c.misspelt(1)
			got, err := x.Near(t.Context(), s, w, Docs{}, 50)
			if err != nil {
				t.Fatal(err)
			}
			if !withinBounds(t, x, s, w) { // it finds less, and nothing else
				all := exhaustive(t, x, s, w, Docs{}, MaxQueryTerms)
				for _, found := range got {
					if !slices.ContainsFunc(all, func(a NearTerm) bool {
						return a.Text == found.Text && a.Nearness == found.Nearness && a.Docs >= found.Docs
					}) {
						t.Errorf("seed %d, %s: %+v is not near", seed, what, found)
					}
				}
				continue
			}
			whole++
			if want := exhaustive(t, x, s, w, Docs{}, 50); !slices.Equal(got, want) {
				t.Fatalf("seed %d, %s: %v\nwant %v", seed, what, got, want)
			}
		}
		seal(t, x, store)
	}
}

// withinBounds reports whether Near looks for some words as far as there is anything, and not only as far as
// its work goes: in so many terms there are words with more terms beside them.
func withinBounds(t testing.TB, x *Index, s Snapshot, words []near.Word) bool {
	t.Helper()
	n := nearSearch{sc: newScratch(), words: words}
	n.sc.near = new(nearScratch)
	var views []view
	for v, err := range n.sc.views(t.Context(), x, &s, Docs{}) {
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
	}
	n.share(len(views))
	for i := range views {
		banks := (views[i].countTerms() + bankTerms - 1) / bankTerms
		for bank := range banks {
			for w := range words {
				unread, err := n.meet(&views[i], &words[w], uint32(bank), n.postings/banks)
				if err != nil {
					t.Fatal(err)
				}
				n.choose(&words[w], uint32(bank), unread, math.MaxInt)
				if unread > 0 || len(n.sc.near.scored) > n.looks/banks {
					return false
				}
			}
		}
	}
	return true
}

// TestNearInOldChunks looks for words in chunks without grams.
func TestNearInOldChunks(t *testing.T) {
	golden := readGolden(t, "testdata/sealed-v2.txt")
	x, err := loaded(golden)
	if err != nil {
		t.Fatal(err)
	}
	s := x.Snapshot()
	s.Reader = golden
	w, _ := near.New("densse")
	got, err := x.Near(t.Context(), s, []near.Word{w}, Docs{}, 5)
	if want := exhaustive(t, x, s, []near.Word{w}, Docs{}, 5); err != nil || len(got) != 1 || !slices.Equal(got, want) {
		t.Errorf("%v, error %v, want %v", got, err, want)
	}
}

// TestNearLimits: what a call may ask for, and what it looks at of many words.
func TestNearLimits(t *testing.T) {
	x := New(Config{})
	if _, err := x.Near(t.Context(), x.Snapshot(), nil, Docs{}, MaxQueryTerms+1); !errors.Is(err, ErrInvalid) {
		t.Errorf("a limit that is too high: error %v", err)
	}
	eight, _ := near.New("abcdefgh")
	long, _ := near.New(strings.Repeat("ab", 31))
	for _, tc := range []struct {
		words []near.Word
		want  int
	}{
		{slices.Repeat([]near.Word{eight}, 9), 8},
		{slices.Repeat([]near.Word{long}, 3), 1},
		{nil, 0},
	} {
		if got := len(firstWords(tc.words)); got != tc.want {
			t.Errorf("of %d words %d are looked for, want %d", len(tc.words), got, tc.want)
		}
	}
}

// BenchmarkNear looks for two misspelt words of a query in chunks of about as many terms as
// texts of 100 bytes have.
func BenchmarkNear(b *testing.B) {
	for _, chunks := range []int{1, 4, 16} {
		for _, kind := range []string{"hot", "sealed"} {
			b.Run(fmt.Sprintf("%d %s", chunks, kind), func(b *testing.B) {
				c := newNearCorpus(1)
				x, store := New(Config{Prefix: []byte("i1"), CacheBytes: 1 << 30}), newMemStore()
				for i := range chunks {
					c.fill(b, x, uint32(i)<<16, 8_000, 10)
				}
				if kind == "sealed" {
					c.fill(b, x, uint32(chunks)<<16, 1, 1)
					seal(b, x, store)
				}
				s := x.Snapshot()
				s.Reader = store
				set := roaring.New()
				for range 100 {
					set.Add(c.rng.Uint32N(uint32(chunks))<<16 | c.rng.Uint32N(8_000))
				}
				words := c.misspelt(200)
				for i := 0; b.Loop(); i = (i + 2) % 200 {
					if _, err := x.Near(b.Context(), s, words[i:i+2], Docs{Set: set}, 64); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(x.list()[0].countTerms()), "terms/chunk")
			})
		}
	}
}
