package invindex

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/query"
)

// damage is a sealed chunk of which pages are damaged, one at a time.
type damage struct {
	store *memStore
	want  string // the answers of the sound chunk
	rng   *rand.Rand
}

func newDamage(t *testing.T) *damage {
	t.Helper()
	_, store := sealedSample(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	x, err := loaded(store)
	if err != nil {
		t.Fatal(err)
	}
	want, err := answers(t, x, store)
	if err != nil {
		t.Fatal(err)
	}
	return &damage{store, want, rand.New(rand.NewPCG(seed, 0))}
}

func (d *damage) keys() []string { return slices.Sorted(maps.Keys(d.store.pages)) }

// with answers the questions with a page replaced: it must be found that it is not
// what was written, and the error must name the page.
func (d *damage) with(t *testing.T, key string, page []byte, what string) {
	t.Helper()
	sound := d.store.pages[key]
	d.store.pages[key] = page
	defer func() { d.store.pages[key] = sound }()
	x, err := loaded(d.store)
	got := ""
	if err == nil {
		got, err = answers(t, x, d.store)
	}
	id := fmt.Sprintf("page %c%d of chunk 0", key[4], key[6])
	switch {
	case err == nil && got != d.want:
		t.Errorf("%s: another answer\n%s", what, got)
	case err == nil:
		t.Errorf("%s: nothing noticed", what)
	case !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), id):
		t.Errorf("%s: error %v, want one of %s", what, err, id)
	}
}

func TestTruncatedChunk(t *testing.T) {
	d := newDamage(t)
	for _, key := range d.keys() {
		page := d.store.pages[key]
		for range 20 {
			n := d.rng.IntN(len(page))
			d.with(t, key, page[:n], fmt.Sprintf("%q cut to %d bytes", key, n))
		}
		d.with(t, key, nil, fmt.Sprintf("%q emptied", key))
		d.with(t, key, append(bytes.Clone(page), 0), fmt.Sprintf("%q with a byte more", key))
	}
	for _, key := range d.keys() {
		page := d.store.pages[key]
		delete(d.store.pages, key)
		x, err := loaded(d.store)
		if err == nil {
			_, err = answers(t, x, d.store)
		}
		if !errors.Is(err, errNoPage) {
			t.Errorf("%q is missing: error %v", key, err)
		}
		d.store.pages[key] = page
	}
}

func TestFlippedBit(t *testing.T) {
	d := newDamage(t)
	sections := map[byte]bool{}
	for _, key := range d.keys() {
		page := d.store.pages[key]
		sections[key[4]] = true
		for range min(200, len(page)) {
			i, bit := d.rng.IntN(len(page)), byte(1)<<d.rng.IntN(8)
			flipped := bytes.Clone(page)
			flipped[i] ^= bit
			d.with(t, key, flipped, fmt.Sprintf("bit %#x of byte %d of %q", bit, i, key))
		}
	}
	for _, section := range []byte{sectionHeader, sectionLengths, sectionTerms, sectionValues, sectionPostings, sectionNumbers, sectionGrams} {
		if !sections[section] {
			t.Errorf("no page of section %c", section)
		}
	}
}

func TestPageInPlaceOfAnother(t *testing.T) {
	d := newDamage(t)
	keys := d.keys()
	for i, key := range keys {
		other := keys[(i+1)%len(keys)]
		d.with(t, key, d.store.pages[other], fmt.Sprintf("%q in place of %q", other, key))
	}
}

func TestNewerVersion(t *testing.T) {
	_, store := sealedSample(t)
	id := pageID{section: sectionHeader}
	key := string(id.key([]byte("i1")))
	page := bytes.Clone(store.pages[key])
	page[len(sealMagic)] = sealVersion + 1
	store.pages[key] = sealPage(id, page[:len(page)-checksumBytes])
	if _, err := loaded(store); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), fmt.Sprint("version ", sealVersion+1)) {
		t.Errorf("a chunk: error %v", err)
	}
	record := AppendDoc(nil, &Doc{})
	record[0] = numberedVersion + 1
	if _, _, err := DecodeDoc(record); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "version 5") {
		t.Errorf("a forward record: error %v", err)
	}
}

// textOf makes a document of a text.
func textOf(a *analysis.Analyzer, text string) *Doc {
	var b analysis.Bag
	b.Add(a, text, 1)
	d := &Doc{Length: b.Length()}
	for _, term := range b.Terms() {
		d.Terms = append(d.Terms, Term{Text: term.Term, Freq: term.Freq})
	}
	return d
}

// word makes words that no rule takes apart or stems.
func word(i int) string {
	b := []byte("q....x")
	for at := 1; at < 5; at++ {
		b[at] = byte('a' + i%26)
		i /= 26
	}
	return string(b)
}

// typed returns the documents that a typed text finds.
func typed(t *testing.T, x *Index, s Snapshot, a *analysis.Analyzer, text string) []uint32 {
	t.Helper()
	q, err := x.Bind(t.Context(), s, query.Parse(a, text), Docs{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := x.Stats(t.Context(), s, q.Terms(), Docs{})
	if err != nil {
		t.Fatal(err)
	}
	hits, err := x.Query(t.Context(), s, q, st, Docs{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	docs := []uint32{}
	for _, h := range hits {
		docs = append(docs, h.Doc)
	}
	slices.Sort(docs)
	return docs
}

// A word of any length is a word; a term over the limit is refused, and found nowhere.
func TestTermOf1MB(t *testing.T) {
	a, x := analysis.NewEnglish(), New(Config{})
	long := strings.Repeat("x", 1<<20)
	if err := errors.Join(x.Add(0, textOf(a, "tea "+long)), x.Add(1, textOf(a, long+"y tea"))); err != nil {
		t.Fatal(err)
	}
	s := x.Snapshot()
	for text, want := range map[string][]uint32{long: {0}, long + "y": {1}, long + "z": {}, "+tea +" + long: {0}, "+tea -" + long: {1}} {
		if got := typed(t, x, s, a, text); !slices.Equal(got, want) {
			t.Errorf("%.10q… of %d bytes finds %v, want %v", text, len(text), got, want)
		}
	}
	if err := x.Add(2, &Doc{Terms: []Term{{long, 1}}, Length: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a document with the term: error %v", err)
	}
	if x.Snapshot() != s {
		t.Error("a refused document changed the index")
	}
	if _, _, err := DecodeDoc(AppendDoc(nil, &Doc{Terms: []Term{{long, 1}}})); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a record with the term: error %v", err)
	}
	st, err := x.Stats(t.Context(), s, []string{long}, Docs{})
	if err != nil || st.DF[0] != 0 {
		t.Errorf("statistics of the term: %v, error %v", st, err)
	}
	if set, err := x.FindTerm(s, long); err != nil || !set.IsEmpty() {
		t.Errorf("documents with the term: %v, error %v", set, err)
	}
	if set, err := x.Find(s, Value{1, long}); err != nil || !set.IsEmpty() {
		t.Errorf("documents with the value: %v, error %v", set, err)
	}
	if terms, err := x.Expand(t.Context(), s, long, nil, Docs{}, 10); err != nil || len(terms) > 0 {
		t.Errorf("what begins with it: %q, error %v", terms, err)
	}
}

// Frequencies saturate, lengths are exact, and hot and sealed chunks agree on both.
func TestDocumentOf10MillionTokens(t *testing.T) {
	race.Sequential(t)
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const tokens, repeated, distinct = 10_000_000, 100_000, 20_000
	var text strings.Builder
	for i := range tokens {
		if i < repeated {
			text.WriteString("tea ")
		} else {
			text.WriteString(word(i%distinct) + " ")
		}
	}
	a := analysis.NewEnglish()
	d := textOf(a, text.String())
	if d.Length != tokens || len(d.Terms) != distinct+1 {
		t.Fatalf("%d terms, length %d", len(d.Terms), d.Length)
	}
	x, store := New(Config{}), newMemStore()
	if err := errors.Join(x.Add(0, d), x.Add(1, textOf(a, "green tea")), x.Add(1<<16, &Doc{})); err != nil {
		t.Fatal(err)
	}
	q := []QueryTerm{{"tea", 1}, {word(17), 1}}
	var before []Hit
	for _, state := range []string{"hot", "sealed"} {
		s := x.Snapshot()
		s.Reader = store
		st, err := x.Stats(t.Context(), s, texts(q), Docs{})
		if err != nil || st.Length != tokens+2 || st.DF[0] != 2 || st.DF[1] != 1 {
			t.Fatalf("%s: statistics %+v, error %v", state, st, err)
		}
		hits, err := x.Search(t.Context(), s, q, st, Docs{}, 10)
		if err != nil || len(hits) != 2 || state == "sealed" && !slices.Equal(hits, before) {
			t.Fatalf("%s: %v, error %v, before %v", state, hits, err, before)
		}
		scores := make([]Hit, 2)
		if err := x.Score(t.Context(), s, q, st, []uint32{0, 1}, scores); err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			if scores[h.Doc] != h {
				t.Errorf("%s: %v is scored as %v", state, h, scores[h.Doc])
			}
		}
		before = hits
		if state == "hot" {
			seal(t, x, store)
		}
	}
	if back, _, err := DecodeDoc(AppendDoc(nil, d)); err != nil || back.Length != d.Length || !slices.Equal(back.Terms, d.Terms) {
		t.Errorf("the record is read back with length %d, error %v", back.Length, err)
	}
	if err := x.Add(2<<16, &Doc{Terms: make([]Term, MaxDocTerms+1)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("%d terms: error %v", MaxDocTerms+1, err)
	}
}

// Of a text of 100,000 words the first 1,024 in ascending order count, as the query
// language says; 100,000 terms at once are refused.
func TestQueryOf100000Terms(t *testing.T) {
	a, x := analysis.NewEnglish(), New(Config{})
	var text, signed strings.Builder
	var terms []string
	for i := range 100_000 {
		text.WriteString(word(i) + " ")
		signed.WriteString("+" + word(i) + " ")
		terms = append(terms, word(i))
	}
	written := []int{0, 99_998}
	for doc, i := range written {
		if err := x.Add(uint32(doc), textOf(a, word(i))); err != nil {
			t.Fatal(err)
		}
	}
	s := x.Snapshot()
	sorted := textOf(a, text.String()).Terms[:query.MaxTerms]
	want := []uint32{}
	for doc, i := range written {
		if slices.ContainsFunc(sorted, func(k Term) bool { return k.Text == word(i) }) {
			want = append(want, uint32(doc))
		}
	}
	if got := typed(t, x, s, a, text.String()); !slices.Equal(got, want) {
		t.Errorf("plain: %v, want %v", got, want)
	}
	if got := typed(t, x, s, a, signed.String()); len(got) > 0 {
		t.Errorf("all demanded: %v", got)
	}
	if _, err := x.Stats(t.Context(), s, terms, Docs{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("statistics: error %v", err)
	}
	if _, err := x.Search(t.Context(), s, make([]QueryTerm, len(terms)), Stats{DF: make([]uint32, len(terms))}, Docs{}, 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("search: error %v", err)
	}
	many := &Query{Clauses: []Clause{{Terms: make([]QueryTerm, len(terms))}}}
	if _, err := x.Query(t.Context(), s, many, Stats{}, Docs{}, 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("query: error %v", err)
	}
}
