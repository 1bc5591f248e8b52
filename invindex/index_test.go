package invindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/RoaringBitmap/roaring/v2"
)

// oracle is an index that keeps documents and computes everything from them, in
// floating point.
type oracle struct {
	ids  []uint32
	docs map[uint32]*Doc
}

func (o *oracle) add(id uint32, d *Doc) {
	if o.docs == nil {
		o.docs = map[uint32]*Doc{}
	}
	o.ids = append(o.ids, id)
	o.docs[id] = d
}

func (o *oracle) in(s Snapshot, in Docs) []uint32 {
	var out []uint32
	for _, id := range o.ids {
		if id < s.Docs && (in.Set == nil || in.Set.Contains(id)) && (in.Visible == nil || in.Visible(id)) {
			out = append(out, id)
		}
	}
	return out
}

func (d *Doc) freq(term string) uint32 {
	i, ok := slices.BinarySearchFunc(d.Terms, term, func(t Term, s string) int {
		if t.Text < s {
			return -1
		} else if t.Text > s {
			return 1
		}
		return 0
	})
	if !ok {
		return 0
	}
	return min(d.Terms[i].Freq, MaxFreq)
}

func (o *oracle) stats(s Snapshot, terms []string, in Docs) Stats {
	st := Stats{DF: make([]uint32, len(terms))}
	for _, id := range o.in(s, in) {
		d := o.docs[id]
		st.N++
		st.Length += uint64(d.Length)
		for i, t := range terms {
			if d.freq(t) > 0 {
				st.DF[i]++
			}
		}
	}
	return st
}

// hits returns every document that matches, unordered, with its score.
func (o *oracle) hits(s Snapshot, q []QueryTerm, st Stats, in Docs, k1, b float64) map[uint32]Hit {
	hits := map[uint32]Hit{}
	avg := float64(st.Length) / float64(st.N)
	for _, id := range o.in(s, in) {
		d := o.docs[id]
		score, matched := 0.0, uint32(0)
		for i, t := range q {
			f := float64(d.freq(t.Text))
			if f == 0 {
				continue
			}
			idf := math.Log(1 + (float64(st.N)-float64(st.DF[i])+0.5)/(float64(st.DF[i])+0.5))
			score += t.Weight * idf * f / (f + k1*(1-b+b*float64(d.Length)/avg))
			matched++
		}
		if matched > 0 {
			hits[id] = Hit{Doc: id, Score: float32(score)}
		}
	}
	return hits
}

// corpus draws documents whose terms are distributed like words: few that are
// everywhere, many that are rare.
type corpus struct {
	rng   *rand.Rand
	zipf  *rand.Zipf
	words int
}

func newCorpus(seed uint64, words int) *corpus {
	rng := rand.New(rand.NewPCG(seed, 0))
	return &corpus{rng: rng, zipf: rand.NewZipf(rng, 1.1, 3, uint64(words-1)), words: words}
}

func (c *corpus) word() string { return fmt.Sprintf("w%d", c.zipf.Uint64()) }

func (c *corpus) doc() *Doc {
	n := 1 + c.rng.IntN(60)
	freq := map[string]uint32{}
	for range n {
		freq[c.word()]++
	}
	if c.rng.IntN(50) == 0 {
		freq[c.word()] += 1 + uint32(c.rng.IntN(100_000))
	}
	d := &Doc{Values: []Value{{Field: 1, Key: fmt.Sprint(c.rng.IntN(20))}, {Field: 2, Key: fmt.Sprint(c.rng.IntN(500))}}}
	d.Numbered = true
	for range c.rng.IntN(4) { // few numbers, many, and of any size
		d.Numbers = append(d.Numbers, c.number())
	}
	for w, f := range freq {
		d.Terms = append(d.Terms, Term{Text: w, Freq: f})
		d.Length += f
	}
	slices.SortFunc(d.Terms, func(a, b Term) int {
		if a.Text < b.Text {
			return -1
		}
		return 1
	})
	return d
}

// number draws a number from one of fields of few, of many, and of extreme numbers.
func (c *corpus) number() Number {
	switch field := uint16(c.rng.IntN(4)); field {
	case 0:
		return Number{field, FloatOrder(float64(c.rng.IntN(5)))}
	case 1:
		return Number{field, IntOrder(1_700_000_000_000 + c.rng.Int64N(1_000_000))}
	case 2:
		return Number{field, FloatOrder(c.rng.NormFloat64())}
	default:
		return Number{field, []uint64{0, 1, 1 << 63, math.MaxUint64, c.rng.Uint64()}[c.rng.IntN(5)]}
	}
}

func (c *corpus) query() []QueryTerm {
	seen := map[string]bool{}
	var q []QueryTerm
	for range 1 + c.rng.IntN(6) {
		w := c.word()
		if c.rng.IntN(4) == 0 {
			w = fmt.Sprintf("w%d", c.rng.IntN(c.words*2)) // rare, or in no document
		}
		if !seen[w] {
			seen[w] = true
			q = append(q, QueryTerm{Text: w, Weight: float64(1 + c.rng.IntN(3))})
		}
	}
	return q
}

func texts(q []QueryTerm) []string {
	var out []string
	for _, t := range q {
		out = append(out, t.Text)
	}
	return out
}

// fill adds n documents with gaps, some of them wide, to both.
func (c *corpus) fill(t testing.TB, x *Index, o *oracle, n int) {
	t.Helper()
	next := x.Snapshot().Docs
	for range n {
		switch r := c.rng.IntN(1000); {
		case r == 0:
			next += uint32(c.rng.IntN(3 * windowDocs))
		case r < 100:
			next += uint32(c.rng.IntN(4))
		}
		d := c.doc()
		if err := x.Add(next, c.shuffled(d)); err != nil {
			t.Fatal(err)
		}
		o.add(next, d)
		next++
	}
}

// shuffled is the document with its terms in another order, and one of them perhaps
// once more, which must not count.
func (c *corpus) shuffled(d *Doc) *Doc {
	s := *d
	s.Terms = slices.Clone(d.Terms)
	c.rng.Shuffle(len(s.Terms), func(i, j int) { s.Terms[i], s.Terms[j] = s.Terms[j], s.Terms[i] })
	if len(s.Terms) > 0 && c.rng.IntN(4) == 0 {
		s.Terms = append(s.Terms, Term{Text: s.Terms[c.rng.IntN(len(d.Terms))].Text, Freq: 7})
	}
	return &s
}

// leap adds a document in the next chunk, so that the one before can be sealed.
func (c *corpus) leap(t testing.TB, x *Index, o *oracle) {
	t.Helper()
	next := (x.Snapshot().Docs>>16 + 1) << 16
	d := c.doc()
	if err := x.Add(next, d); err != nil {
		t.Fatal(err)
	}
	o.add(next, d)
}

// memStore keeps pages.
type memStore struct {
	mu    sync.Mutex
	pages map[string][]byte
}

func newMemStore() *memStore { return &memStore{pages: map[string][]byte{}} }

func (m *memStore) Set(key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages[string(key)] = slices.Clone(value)
	return nil
}

var errNoPage = errors.New("no such page")

func (m *memStore) Get(key []byte) ([]byte, io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.pages[string(key)]
	if !ok {
		return nil, nil, errNoPage
	}
	return v, io.NopCloser(nil), nil
}

// seal seals every chunk but the last.
func seal(t testing.TB, x *Index, store *memStore) {
	t.Helper()
	for _, chunk := range x.Sealable() {
		if err := x.Seal(store, chunk); err != nil {
			t.Fatal(err)
		}
		if err := x.Sealed(store, chunk); err != nil {
			t.Fatal(err)
		}
	}
	if left := x.Sealable(); len(left) > 0 {
		t.Fatalf("the chunks %v can still be sealed", left)
	}
}

// someDocs draws one of the ways in which a caller limits a call.
func (c *corpus) someDocs(s Snapshot) (string, Docs) {
	switch c.rng.IntN(7) {
	case 0:
		return "all", Docs{}
	case 6: // nearly all, in each of the forms that a bitmap has
		set := roaring.New()
		set.AddRange(0, uint64(s.Docs)+c.rng.Uint64N(100))
		if c.rng.IntN(2) == 0 {
			set.Remove(c.rng.Uint32N(s.Docs))
		}
		if c.rng.IntN(2) == 0 {
			set.RunOptimize()
		}
		return "nearly all", Docs{Set: set}
	case 1:
		return "visible", Docs{Visible: func(doc uint32) bool { return doc%3 != 0 }}
	case 2: // a small scope
		set := roaring.New()
		for range 1 + c.rng.IntN(50) {
			set.Add(c.rng.Uint32N(s.Docs + 1000))
		}
		return "small", Docs{Set: set}
	case 3: // a range, which is held as a run
		set := roaring.New()
		lo := c.rng.Uint32N(s.Docs)
		set.AddRange(uint64(lo), uint64(lo+1+c.rng.Uint32N(s.Docs)))
		set.RunOptimize()
		return "range", Docs{Set: set, Visible: func(doc uint32) bool { return doc%7 != 1 }}
	case 4:
		set := roaring.New()
		for doc := range s.Docs {
			if c.rng.IntN(3) == 0 {
				set.Add(doc)
			}
		}
		return "third", Docs{Set: set}
	default:
		set := roaring.New()
		for doc := range s.Docs {
			if c.rng.IntN(30) == 0 {
				set.Add(doc)
			}
		}
		return "thirtieth", Docs{Set: set, Visible: func(doc uint32) bool { return doc%2 == 0 }}
	}
}

func TestAgainstOracle(t *testing.T) {
	race.Sequential(t)
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			c := newCorpus(seed, 30+round%4*400)
			cfg := []Config{{}, {K1: 0.9, B: 0.4}, {K1: 2, B: 1}}[round%3]
			cfg.CacheBytes = []int64{0, 1, 1 << 20}[c.rng.IntN(3)]
			x, o, store := New(cfg), &oracle{}, newMemStore()
			for range 4 {
				c.fill(t, x, o, 1+c.rng.IntN(6000))
				pinned := x.Snapshot()
				if c.rng.IntN(2) == 0 {
					c.fill(t, x, o, 1+c.rng.IntN(2000)) // beyond the pinned mark
				}
				loose := Snapshot{Docs: pinned.Docs, Reader: store} // reads whatever the chunks have become
				if c.rng.IntN(2) == 0 {
					c.leap(t, x, o)
					seal(t, x, store)
				}
				newest := x.Snapshot()
				pinned.Reader, newest.Reader = store, store
				for range 4 {
					compare(t, c, x, o, pinned)
					compare(t, c, x, o, loose)
					compare(t, c, x, o, newest)
				}
			}
			lookups(t, c, x, o, store)
			for range 12 {
				ranges(t, c, x, o, store)
			}
			expansions(t, c, x, o, store)
		})
	}
}

// compare runs a random query and checks it against the oracle.
func compare(t *testing.T, c *corpus, x *Index, o *oracle, s Snapshot) {
	t.Helper()
	q := c.query()
	name, in := c.someDocs(s)
	st, err := x.Stats(t.Context(), s, texts(q), in)
	if err != nil {
		t.Fatal(err)
	}
	if want := o.stats(s, texts(q), in); st.N != want.N || st.Length != want.Length || !slices.Equal(st.DF, want.DF) {
		t.Fatalf("%s: statistics of %v are %+v, want %+v", name, q, st, want)
	}
	// Sums and counts of large sets are remembered.
	if again, err := x.Stats(t.Context(), s, texts(q), in); err != nil || again.N != st.N || again.Length != st.Length || !slices.Equal(again.DF, st.DF) {
		t.Fatalf("%s: statistics asked for again are %+v, want %+v (%v)", name, again, st, err)
	}
	k := 1 + c.rng.IntN(40)
	hits, err := x.Search(t.Context(), s, q, st, in, k)
	if err != nil {
		t.Fatal(err)
	}
	want := o.hits(s, q, st, in, x.k1, x.b)
	if len(hits) != min(k, len(want)) {
		t.Fatalf("%s: %d hits for %v, want %d", name, len(hits), q, min(k, len(want)))
	}

	// Every matching document, scored one by one: the ranking that Search prunes.
	var docs []uint32
	for id := range want {
		docs = append(docs, id)
	}
	slices.Sort(docs)
	all := make([]Hit, len(docs))
	if err := x.Score(t.Context(), s, q, st, docs, all); err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		w := want[h.Doc]
		if diff := math.Abs(float64(h.Score - w.Score)); diff > 1e-6*float64(w.Score)+1e-6 {
			t.Fatalf("%s: %v scores %+v, want %+v", name, q, h, w)
		}
	}
	counts := make([]uint16, len(docs))
	if err := x.Matched(t.Context(), s, texts(q), docs, counts); err != nil {
		t.Fatal(err)
	}
	for i, h := range all {
		has := uint16(0)
		for _, term := range q {
			if o.docs[h.Doc].freq(term.Text) > 0 {
				has++
			}
		}
		if counts[i] != has {
			t.Fatalf("%s: document %d has %d terms of %v, want %d", name, h.Doc, counts[i], q, has)
		}
	}
	slices.SortStableFunc(all, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	for i, h := range hits {
		if h != all[i] {
			t.Fatalf("%s: place %d of %v is %+v, want %+v", name, i, q, h, all[i])
		}
	}
}

func lookups(t *testing.T, c *corpus, x *Index, o *oracle, r Reader) {
	t.Helper()
	s := Snapshot{Docs: o.ids[c.rng.IntN(len(o.ids))], Reader: r}
	for field := range uint16(4) {
		for key := range 25 {
			v := Value{Field: field, Key: fmt.Sprint(key)}
			want := roaring.New()
			for _, id := range o.ids {
				if id < s.Docs && slices.Contains(o.docs[id].Values, v) {
					want.Add(id)
				}
			}
			got, err := x.Find(s, v)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equals(want) {
				t.Fatalf("%v: %d documents, want %d", v, got.GetCardinality(), want.GetCardinality())
			}
		}
	}
}

// odd accepts the terms of an odd length, those that end in 7 first.
func odd(term []byte) (rank int, ok bool) {
	if term[len(term)-1] != '7' {
		rank = 1
	}
	return rank, len(term)%2 == 1
}

// expand finds the terms that documents of in have.
func (o *oracle) expand(s Snapshot, in Docs, prefix string, accept Accept) (terms []string, counts map[string]int) {
	counts, ranks := map[string]int{}, map[string]int{}
	for _, id := range o.in(s, in) {
		for _, term := range o.docs[id].Terms {
			rank, ok := 0, true
			if accept != nil {
				rank, ok = accept([]byte(term.Text))
			}
			if ok && strings.HasPrefix(term.Text, prefix) {
				counts[term.Text]++
				ranks[term.Text] = rank
			}
		}
	}
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(ranks[a]-ranks[b], counts[b]-counts[a], strings.Compare(a, b))
	}), counts
}

func expansions(t *testing.T, c *corpus, x *Index, o *oracle, r Reader) {
	t.Helper()
	s := Snapshot{Reader: r}
	for _, prefix := range []string{"", "w", c.word(), c.word()[:2], "w9", "x", "a"} {
		for _, accept := range []Accept{nil, odd} {
			s.Docs = o.ids[c.rng.IntN(len(o.ids))] + 1
			name, in := c.someDocs(s)
			want, counts := o.expand(s, in, prefix, accept)
			got, err := x.Expand(t.Context(), s, prefix, accept, in, 64)
			if err != nil {
				t.Fatal(err)
			}
			if want = want[:min(64, len(want))]; !slices.Equal(got, want) {
				t.Fatalf("%s: %q is expanded to %q, want %q (%v)", name, prefix, got, want, counts)
			}
		}
	}
	s.Docs = o.ids[c.rng.IntN(len(o.ids))]
	for range 5 {
		term, want := c.word(), roaring.New()
		for _, id := range o.ids {
			if id < s.Docs && o.docs[id].freq(term) > 0 {
				want.Add(id)
			}
		}
		if got, err := x.FindTerm(s, term); err != nil || !got.Equals(want) {
			t.Fatalf("%v: %d documents with %q, want %d", err, got.GetCardinality(), term, want.GetCardinality())
		}
	}
}

func TestManyChunks(t *testing.T) {
	x := New(Config{})
	for _, id := range []uint32{0, 1, 65535, 65536, 65536*3 + 7, 65536*3 + 65535, MaxDoc} {
		if err := x.Add(id, &Doc{Terms: []Term{{Text: "a", Freq: 1}}, Length: 1, Values: []Value{{Key: "v"}, {Key: "v"}}}); err != nil {
			t.Fatal(err)
		}
	}
	s := x.Snapshot()
	q := []QueryTerm{{Text: "a", Weight: 1}}
	st, err := x.Stats(t.Context(), s, []string{"a"}, Docs{})
	if err != nil || st.N != 7 || st.DF[0] != 7 || st.Length != 7 {
		t.Fatalf("%+v, %v", st, err)
	}
	hits, err := x.Search(t.Context(), s, q, st, Docs{}, 5)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for _, h := range hits {
		got = append(got, h.Doc)
	}
	if want := []uint32{0, 1, 65535, 65536, 65536*3 + 7}; !slices.Equal(got, want) {
		t.Errorf("hits %v, want %v", got, want)
	}
	if set, err := x.Find(s, Value{Key: "v"}); err != nil || set.GetCardinality() != 7 {
		t.Errorf("%v have the value, error %v; want 7 documents", set, err)
	}
	if x.Terms() != 4 { // one in each chunk
		t.Errorf("%d terms, want 4", x.Terms())
	}
}

func TestEmpty(t *testing.T) {
	x := New(Config{})
	s := x.Snapshot()
	q := []QueryTerm{{Text: "a", Weight: 1}}
	st, err := x.Stats(t.Context(), s, []string{"a"}, Docs{Set: roaring.BitmapOf(1, 2)})
	if err != nil || st.N != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	hits, err := x.Search(t.Context(), s, q, st, Docs{}, 10)
	if err != nil || len(hits) != 0 {
		t.Fatalf("%v, %v", hits, err)
	}
	if err := x.Add(3, &Doc{}); err != nil {
		t.Fatal(err)
	}
	if st, err = x.Stats(t.Context(), x.Snapshot(), nil, Docs{}); err != nil || st.N != 1 || st.Length != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	if hits, err = x.Search(t.Context(), x.Snapshot(), nil, st, Docs{}, 10); err != nil || len(hits) != 0 {
		t.Fatalf("%v, %v", hits, err)
	}
}

func TestBadInput(t *testing.T) {
	one := []QueryTerm{{Text: "a", Weight: 1}}
	stOf := func(n int) Stats { return Stats{N: 1, Length: 1, DF: make([]uint32, n)} }
	weight := func(w float64) []QueryTerm { return []QueryTerm{{Text: "a", Weight: w}} }
	long := string(make([]byte, MaxTermBytes+1))
	x := New(Config{})
	if err := x.Add(5, &Doc{Terms: []Term{{Text: "a", Freq: 1}}, Length: 1}); err != nil {
		t.Fatal(err)
	}
	add := func(doc uint32, d Doc) func() error { return func() error { return x.Add(doc, &d) } }
	search := func(q []QueryTerm, st Stats, k int) func() error {
		return func() error {
			_, err := x.Search(t.Context(), x.Snapshot(), q, st, Docs{}, k)
			return err
		}
	}
	for _, tc := range []struct {
		name string
		call func() error
		want error
	}{
		{"the same document again", add(5, Doc{}), ErrOrder},
		{"an earlier document", add(4, Doc{}), ErrOrder},
		{"the last number", add(math.MaxUint32, Doc{}), ErrOrder},
		{"a frequency of 0", add(9, Doc{Terms: []Term{{"a", 0}}}), ErrInvalid},
		{"a long term", add(9, Doc{Terms: []Term{{long, 1}}}), ErrInvalid},
		{"a long value", add(9, Doc{Values: []Value{{1, long}}}), ErrInvalid},
		{"many numbers", add(9, Doc{Numbers: make([]Number, MaxDocNumbers+1), Numbered: true}), ErrInvalid},
		{"some numbers", add(9, Doc{Numbers: make([]Number, 1)}), ErrInvalid},
		{"many values", add(9, Doc{Values: make([]Value, MaxDocValues+1)}), ErrInvalid},
		{"statistics of another query", search(one, stOf(2), 1), ErrInvalid},
		{"weight 0", search(weight(0), stOf(1), 1), ErrInvalid},
		{"weight below 0", search(weight(-1), stOf(1), 1), ErrInvalid},
		{"weight NaN", search(weight(math.NaN()), stOf(1), 1), ErrInvalid},
		{"weight infinite", search(weight(math.Inf(1)), stOf(1), 1), ErrInvalid},
		{"a huge weight", search(weight(math.MaxFloat64), stOf(1), 1), ErrInvalid},
		{"a tiny weight", search(weight(math.SmallestNonzeroFloat64), stOf(1), 1), ErrInvalid},
		{"k below 0", search(one, stOf(1), -1), ErrInvalid},
		{"a huge k", search(one, stOf(1), MaxHits+1), ErrInvalid},
		{"many terms", search(make([]QueryTerm, MaxQueryTerms+1), stOf(MaxQueryTerms+1), 1), ErrInvalid},
		{"statistics of many terms", func() error {
			_, err := x.Stats(t.Context(), x.Snapshot(), make([]string, MaxQueryTerms+1), Docs{})
			return err
		}, ErrInvalid},
		{"many expansions", func() error {
			_, err := x.Expand(t.Context(), x.Snapshot(), "", nil, Docs{}, MaxQueryTerms+1)
			return err
		}, ErrInvalid},
		{"unsorted documents", func() error {
			return x.Score(t.Context(), x.Snapshot(), one, stOf(1), []uint32{5, 4}, make([]Hit, 2))
		}, ErrInvalid},
		{"no room for scores", func() error {
			return x.Score(t.Context(), x.Snapshot(), one, stOf(1), []uint32{5}, nil)
		}, ErrInvalid},
		{"counts for unsorted documents", func() error {
			return x.Matched(t.Context(), x.Snapshot(), nil, []uint32{5, 4}, make([]uint16, 2))
		}, ErrInvalid},
		{"no room for counts", func() error {
			return x.Matched(t.Context(), x.Snapshot(), nil, []uint32{5}, nil)
		}, ErrInvalid},
		{"counts of many terms", func() error {
			return x.Matched(t.Context(), x.Snapshot(), make([]string, MaxQueryTerms+1), nil, nil)
		}, ErrInvalid},
	} {
		if err := tc.call(); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", tc.name, err, tc.want)
		}
	}
	if x.Snapshot().Docs != 6 || x.Terms() != 1 {
		t.Errorf("refused documents left %d documents and %d terms", x.Snapshot().Docs, x.Terms())
	}
	if set, err := x.Find(x.Snapshot(), Value{Key: long}); err != nil || !set.IsEmpty() {
		t.Errorf("%v have a value that is too long, error %v", set, err)
	}
}

// A caller's function that panics leaves nothing behind that a later search would
// count.
func TestVisiblePanics(t *testing.T) {
	x, o, c := New(Config{}), &oracle{}, newCorpus(1, 100)
	c.fill(t, x, o, 5000)
	s, q := x.Snapshot(), []QueryTerm{{Text: "w0", Weight: 1}, {Text: "w1", Weight: 1}}
	st, err := x.Stats(t.Context(), s, texts(q), Docs{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := x.Search(t.Context(), s, q, st, Docs{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		func() {
			defer func() { _ = recover() }()
			_, _ = x.Search(t.Context(), s, q, st, Docs{Visible: func(uint32) bool { panic("no") }}, 10)
			t.Error("no panic")
		}()
		if got, err := x.Search(t.Context(), s, q, st, Docs{}, 10); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
	}
}

func TestCancel(t *testing.T) {
	x, o, c := New(Config{}), &oracle{}, newCorpus(1, 100)
	c.fill(t, x, o, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, q := x.Snapshot(), []QueryTerm{{Text: "w0", Weight: 1}}
	st := Stats{N: 10, Length: 10, DF: []uint32{1}}
	if _, err := x.Stats(ctx, s, texts(q), Docs{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Stats: %v", err)
	}
	if _, err := x.Search(ctx, s, q, st, Docs{}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Search: %v", err)
	}
	if _, err := x.Expand(ctx, s, "", nil, Docs{}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Expand: %v", err)
	}
	if err := x.Score(ctx, s, q, st, []uint32{1}, make([]Hit, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Score: %v", err)
	}
	if err := x.Matched(ctx, s, texts(q), []uint32{1}, make([]uint16, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Matched: %v", err)
	}
}
