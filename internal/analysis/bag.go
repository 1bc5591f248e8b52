package analysis

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// TermFreq is a term and its weighted frequency.
type TermFreq struct {
	Term string
	Freq uint32
	// In are the languages in which a query that was read in several has the term; English is among them, or 0 stands
	// for it.
	In Languages
}

// Bag gathers the terms of one document or query with weighted counts. The zero Bag is ready; a Bag kept across
// documents allocates next to nothing. It is not safe for concurrent use.
type Bag struct {
	slots  []int32 // open addressing by hash; 0 is free, else 1 + index into counts
	counts []count
	order  []uint64 // of the counts; see Terms
	terms  []TermFreq
	length uint32
	sorted bool

	languages Languages // that the texts were read in
	words     int       // terms of the reading of a query that has the most; 0 where there is one reading
}

// count is one term of a Bag.
type count struct {
	entry *entry
	freq  uint32
	in    Languages // see TermFreq
}

const (
	bagSlots = 256
	// maxIdleSlots is how large a table Reset keeps; clearing a larger one would cost small documents dearly.
	maxIdleSlots = 1 << 14
)

// Reset empties the bag. What Terms returned is invalid from here on.
func (b *Bag) Reset() {
	if len(b.slots) > maxIdleSlots {
		*b = Bag{}
		return
	}
	clear(b.slots)
	clear(b.counts)
	clear(b.terms)
	b.counts, b.terms = b.counts[:0], b.terms[:0]
	b.length, b.sorted = 0, false
	b.languages, b.words = 0, 0
}

// Languages returns the languages that documents were found to be in.
func (b *Bag) Languages() Languages { return b.languages }

// Words returns how many words the terms stand for: of a query that was read in several languages fewer than there are
// terms.
func (b *Bag) Words() int {
	if b.words > 0 {
		return b.words
	}
	return len(b.counts)
}

// Add counts the terms of text, weight for each occurrence; a weight of 0 adds none. Counts saturate.
func (b *Bag) Add(a *Analyzer, text string, weight uint32) {
	_ = b.AddContext(context.Background(), a, text, weight) // it never ends
}

// AddContext is Add, which ends with the context: its error is returned, and the bag has a part of the terms.
func (b *Bag) AddContext(ctx context.Context, a *Analyzer, text string, weight uint32) error {
	if weight == 0 {
		return ctx.Err()
	}
	s := scanner{a: a, bag: b, weight: weight, detects: a.detects, meter: meter{ctx: ctx}}
	s.scan(text)
	return s.err
}

// AddField is AddContext for a field of a document beside its text, such as a name. However short, it is read in the
// language that it says, or as in English: what the text is in does not follow from it.
func (b *Bag) AddField(ctx context.Context, a *Analyzer, text string, weight uint32) error {
	if weight == 0 {
		return ctx.Err()
	}
	s := scanner{a: a, bag: b, weight: weight, detects: a.detects, field: true, meter: meter{ctx: ctx}}
	s.scan(text)
	return s.err
}

// AddWords is AddContext for words in English among a text of any language.
func (b *Bag) AddWords(ctx context.Context, a *Analyzer, text string, weight uint32) error {
	s := scanner{a: a, bag: b, weight: weight, meter: meter{ctx: ctx}}
	s.scan(text)
	return s.err
}

// AddMissing is AddWords for the terms that the bag has not.
func (b *Bag) AddMissing(ctx context.Context, a *Analyzer, text string, weight uint32) error {
	more := Bags.Get().(*Bag)
	defer Bags.Put(more)
	more.Reset()
	err := more.AddWords(ctx, a, text, weight)
	for i := range more.counts {
		if c := b.find(more.counts[i].entry); c.freq == 0 {
			c.freq = more.counts[i].freq
			b.length = addSaturating(b.length, c.freq)
		}
	}
	return err
}

// AddQuery is Add for the text of a query: of "what did she say?" it leaves out the words that questions are put with,
// whose matches are noise, unless there are no others. On judged questions that is worth .007 (Cranfield) to .06
// (LoCoMo) of nDCG@10 and recall@10 over taking every word.
func (b *Bag) AddQuery(a *Analyzer, text string, weight uint32) {
	_ = b.AddQueryContext(context.Background(), a, text, weight) // it never ends
}

// AddQueryContext is AddQuery, which ends with the context as AddContext does.
func (b *Bag) AddQueryContext(ctx context.Context, a *Analyzer, text string, weight uint32) error {
	if weight == 0 {
		return ctx.Err()
	}
	s := scanner{a: a, bag: b, weight: weight, query: true, meter: meter{ctx: ctx}}
	s.scan(text)
	if s.err == nil && !s.added {
		s = scanner{a: a, bag: b, weight: weight, meter: meter{ctx: ctx}}
		s.scan(text)
	}
	return s.err
}

// AddQueryIn is AddQueryContext for a query of documents in other languages as well: its words are read as in English
// and in each of the languages, and those that questions are put with are left out in the one that it is asked in. A
// word counts as often as in the language that has it most often, so that a term that is the same in several counts
// once. Without languages it is AddQueryContext.
func (b *Bag) AddQueryIn(ctx context.Context, a *Analyzer, text string, weight uint32, in Languages) error {
	if in == 0 || weight == 0 || !a.detects {
		return b.AddQueryContext(ctx, a, text, weight)
	}
	ask := asked(text, in)
	added, err := b.addRounds(ctx, a, text, weight, in.rounds(), func(s *scanner) { s.query, s.ask = true, ask })
	if err == nil && !added {
		_, err = b.addRounds(ctx, a, text, weight, in.rounds(), func(*scanner) {})
	}
	return err
}

// addRounds adds the terms of a text that is read in several voices, and reports whether there were any.
func (b *Bag) addRounds(ctx context.Context, a *Analyzer, text string, weight uint32, rounds []voices, set func(*scanner)) (added bool, err error) {
	var round, all Bag
	for _, v := range rounds {
		round.Reset()
		s := scanner{a: a, bag: &round, weight: weight, voices: v, meter: meter{ctx: ctx}}
		set(&s)
		s.scan(text)
		if s.err != nil {
			return added, s.err
		}
		b.words = max(b.words, len(round.counts))
		for _, c := range round.counts {
			all.raise(c.entry, c.freq).in |= Languages(0).With(v.of([]byte(c.entry.term)))
		}
	}
	for _, c := range all.counts {
		b.add(c.entry, c.freq).in |= c.in
	}
	return len(all.counts) > 0, nil
}

// raise counts a term at least so often.
func (b *Bag) raise(e *entry, freq uint32) *count {
	c := b.find(e)
	b.length = addSaturating(b.length, max(c.freq, freq)-c.freq)
	c.freq = max(c.freq, freq)
	return c
}

// mark adds the term that marks documents of a language. It is no word, and has no part in the length.
func (b *Bag) mark(l Language) {
	b.find(marks[l]).freq = 1
	b.languages = b.languages.With(l)
}

// bagPlace is what a bag holds at some time.
type bagPlace struct {
	counts int
	length uint32
	freqs  []uint32
}

// here is what the bag holds now.
func (b *Bag) here() bagPlace {
	p := bagPlace{counts: len(b.counts), length: b.length}
	if p.counts > 0 {
		p.freqs = make([]uint32, p.counts)
		for i := range b.counts {
			p.freqs[i] = b.counts[i].freq
		}
	}
	return p
}

// back takes back what was added since a place.
func (b *Bag) back(p bagPlace) {
	clear(b.counts[p.counts:])
	b.counts, b.length, b.sorted = b.counts[:p.counts], p.length, false
	for i, freq := range p.freqs {
		b.counts[i].freq = freq
	}
	if len(b.slots) > 0 {
		b.index()
	}
}

// Length returns the sum of the weights of all tokens, saturating.
func (b *Bag) Length() uint32 { return b.length }

// Each calls visit for each term, in the order in which they came first. It takes a fraction of the time of Terms.
func (b *Bag) Each(visit func(term string, freq uint32)) {
	for i := range b.counts {
		visit(b.counts[i].entry.term, b.counts[i].freq)
	}
}

// Len returns the number of terms.
func (b *Bag) Len() int { return len(b.counts) }

// Terms returns the terms in byte order, each once. The slice is valid until Reset or Add, its strings for good.
func (b *Bag) Terms() []TermFreq {
	if b.sorted {
		return b.terms
	}
	// A number for each count: the beginning of its term, and below that its place, in as many bits as are needed.
	// Numbers are sorted much faster than terms.
	place := uint64(1)<<bits.Len(uint(len(b.counts))) - 1
	order := b.order[:0]
	for i := range b.counts {
		order = append(order, b.counts[i].entry.prefix&^place|uint64(i))
	}
	b.order = order
	slices.Sort(order)
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && order[to]&^place == order[from]&^place {
			to++
		}
		if to > from+1 { // the beginnings are the same
			slices.SortFunc(order[from:to], func(x, y uint64) int {
				return strings.Compare(b.counts[x&place].entry.term, b.counts[y&place].entry.term)
			})
		}
		from = to
	}
	b.terms = slices.Grow(b.terms[:0], len(order))
	for _, o := range order {
		c := &b.counts[o&place]
		b.terms = append(b.terms, TermFreq{Term: c.entry.term, Freq: c.freq, In: c.in})
	}
	b.sorted = true
	return b.terms
}

// First returns the first n terms in byte order: Terms()[:n], which it finds without sorting the others. Of a query of
// 8 MiB, which may have a million terms, that takes a tenth of the time. It ends with the context.
func (b *Bag) First(ctx context.Context, n int) ([]TermFreq, error) {
	if n <= 0 {
		return nil, ctx.Err()
	}
	if b.sorted || len(b.counts) <= n {
		return b.Terms()[:min(n, len(b.counts))], ctx.Err()
	}
	order := func(x, y count) int {
		return cmp.Or(cmp.Compare(x.entry.prefix, y.entry.prefix), strings.Compare(x.entry.term, y.entry.term))
	}
	m := meter{ctx: ctx}
	least := make([]count, 0, 2*n) // of those seen, the first n, and others
	var last *count                // what is after it is none of the first n
	for i := range b.counts {
		if !m.spend(1) {
			return nil, m.err
		}
		if last != nil && order(b.counts[i], *last) > 0 {
			continue
		}
		if least = append(least, b.counts[i]); len(least) == cap(least) {
			slices.SortFunc(least, order)
			least = least[:n]
			last = &least[n-1]
		}
	}
	slices.SortFunc(least, order)
	terms := make([]TermFreq, n)
	for i := range terms {
		terms[i] = TermFreq{Term: least[i].entry.term, Freq: least[i].freq, In: least[i].in}
	}
	return terms, nil
}

// add counts one token.
func (b *Bag) add(e *entry, weight uint32) *count {
	b.length = addSaturating(b.length, weight)
	c := b.find(e)
	c.freq = addSaturating(c.freq, weight)
	return c
}

// find returns the count of a token's term, which is 0 for one that is new.
func (b *Bag) find(e *entry) *count {
	b.sorted = false
	if 2*len(b.counts) >= len(b.slots) {
		b.grow()
	}
	mask := uint64(len(b.slots) - 1)
	for i := e.hash & mask; ; i = (i + 1) & mask {
		n := b.slots[i]
		if n == 0 {
			b.counts = append(b.counts, count{entry: e})
			b.slots[i] = int32(len(b.counts))
			return &b.counts[len(b.counts)-1]
		}
		// Two words with one stem are two entries: compare terms, not pointers.
		if c := &b.counts[n-1]; c.entry == e || c.entry.hash == e.hash && c.entry.term == e.term {
			return c
		}
	}
}

func (b *Bag) grow() {
	b.slots = make([]int32, max(bagSlots, 2*len(b.slots)))
	b.index()
}

// index points the slots at the counts.
func (b *Bag) index() {
	clear(b.slots)
	mask := uint64(len(b.slots) - 1)
	for n, c := range b.counts {
		i := c.entry.hash & mask
		for b.slots[i] != 0 {
			i = (i + 1) & mask
		}
		b.slots[i] = int32(n + 1)
	}
}

func addSaturating(x, y uint32) uint32 {
	sum, carry := bits.Add32(x, y, 0)
	if carry != 0 {
		return math.MaxUint32
	}
	return sum
}
