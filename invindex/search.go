package invindex

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync"
)

// scratch is the memory of one running call.
type scratch struct {
	selection selection
	mask      mask
	slots     []uint16
	docs      []uint32
	decoded   []posting // lists that are not read in place
	cursors   []cursor
	order     []*cursor
	top       top
	lists     []postingList    // of each term of the plan
	found     []postingList    // of a condition
	sizes     []sizedCondition // conditions that Must, the smallest first
	other     mask
	sums      []uint32 // of slots
	win       window
	near      *nearScratch // nil until a near word is looked for
}

// scratchPool spares each call a hundred kilobytes.
var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratchPool.Get().(*scratch) }

// free gives the scratch back, without what would keep pages or chunks alive. One
// whose window is not empty, since Docs.Visible panicked, is left to the collector.
func (sc *scratch) free() {
	if sc.win.n > 0 {
		return
	}
	clear(sc.cursors[:cap(sc.cursors)])
	clear(sc.order[:cap(sc.order)])
	clear(sc.lists[:cap(sc.lists)])
	clear(sc.found[:cap(sc.found)])
	clear(sc.sizes[:cap(sc.sizes)])
	if sc.near != nil {
		clear(sc.near.grams[:cap(sc.near.grams)])
	}
	scratchPool.Put(sc)
}

// Search returns the k documents of in that score best for q, best first; equal
// scores in ascending order of documents. A document without any of the terms is
// no hit. The statistics are those of Stats for q's terms, in the same order.
//
// Documents are scored by windows of 4,096, whose sums fit the L1 cache. Within a
// window the terms of the lowest bounds that together can't lift a document into
// the top k are only looked up for documents that the others found (MaxScore, of
// Turtle and Flood 1995, with bounds for each window as in block-max WAND, of Ding
// and Suel 2011). Where in has few documents in a chunk, each of them is looked
// up instead.
func (x *Index) Search(ctx context.Context, s Snapshot, q []QueryTerm, st Stats, in Docs, k int) ([]Hit, error) {
	if k > MaxHits {
		return nil, tooManyHits(k)
	}
	return x.search(ctx, s, &plan{terms: q}, st, in, k)
}

func tooManyHits(k int) error {
	return fmt.Errorf("%w: the best %d documents; at most %d are possible", ErrInvalid, k, MaxHits)
}

// search carries out a plan, but for what is to be verified.
func (x *Index) search(ctx context.Context, s Snapshot, p *plan, st Stats, in Docs, k int) ([]Hit, error) {
	scorer, err := x.newScorer(p.terms, &st)
	if err != nil {
		return nil, err
	}
	if k < 0 {
		return nil, tooManyHits(k)
	}
	if k == 0 || len(p.terms) == 0 {
		return nil, ctx.Err()
	}
	sc := newScratch()
	defer sc.free()
	sc.top.reset(k)
	for v, err := range sc.views(ctx, x, &s, in) {
		sc.decoded = sc.decoded[:0]
		if err == nil {
			err = v.search(ctx, p, scorer, sc)
		}
		if err != nil {
			return nil, err
		}
	}
	return sc.top.hits(scorer), nil
}

// Score scores given documents, in ascending order, as Search would: out[i] is
// that of docs[i], with a score of 0 where no term matches. Visibility is the
// caller's affair.
func (x *Index) Score(ctx context.Context, s Snapshot, q []QueryTerm, st Stats, docs []uint32, out []Hit) error {
	scorer, err := x.newScorer(q, &st)
	if err != nil {
		return err
	}
	if err := checkDocs(docs, len(out)); err != nil {
		return err
	}
	sc := newScratch()
	defer sc.free()
	for i, doc := range docs {
		out[i] = Hit{Doc: doc}
	}
	return x.among(ctx, s, docs, func(v *view, lo, hi int) error {
		sc.slots = sc.slots[:0]
		for _, doc := range docs[lo:hi] {
			sc.slots = append(sc.slots, uint16(doc))
		}
		sc.decoded = sc.decoded[:0]
		if err := v.open(q, scorer, sc); err != nil {
			return err
		}
		lengths, err := v.lengths(v.reader)
		if err != nil {
			return err
		}
		sc.probe(scorer, lengths)
		for i, sum := range sc.sums {
			out[lo+i].Score = scorer.score(sum)
		}
		return nil
	})
}

// open fills the scratch's cursors with the query terms that the view has.
func (v *view) open(q []QueryTerm, s *scorer, sc *scratch) error {
	sc.cursors, sc.lists = sc.cursors[:0], sc.lists[:0]
	for i, t := range q {
		l, err := v.list(ofTerms, t.Text, sc)
		if err != nil {
			return err
		}
		sc.lists = append(sc.lists, l)
		if l.n > 0 {
			sc.cursors = append(sc.cursors, cursor{postingList: l, weight: s.weights[i]})
		}
	}
	return nil
}

// search offers the view's documents to the top.
func (v *view) search(ctx context.Context, p *plan, s *scorer, sc *scratch) error {
	if err := v.open(p.terms, s, sc); err != nil || len(sc.cursors) == 0 {
		return err
	}
	lengths, err := v.lengths(v.reader)
	if err != nil {
		return err
	}
	within, few, err := v.candidates(p, sc)
	if err != nil {
		return err
	}
	if few {
		sc.probe(s, lengths)
		for i, sum := range sc.sums {
			sc.offer(v, uint32(sc.slots[i]), sum)
		}
		return nil
	}
	for w := 0; uint32(w)<<windowBits < v.limit; w++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		words := within.window(w)
		if within != nil && allZero(words) {
			continue
		}
		if err := sc.searchWindow(v, s, w, lengths.window(w), words); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the documents that are to be scored: the scratch's slots where
// they are few, else a mask, or nil for all that a term finds.
func (v *view) candidates(p *plan, sc *scratch) (within *mask, few bool, err error) {
	if len(p.must) > 0 || len(p.not) > 0 {
		few, err = v.restrict(p, sc)
		return &sc.mask, few, err
	}
	all, packed := 0, false
	for i := range sc.cursors {
		all += sc.cursors[i].n
		packed = packed || sc.cursors[i].isPacked
	}
	if v.docs != nil && v.docs.card*len(sc.cursors)*probeCost < all {
		sc.slots = v.slots(sc.slots[:0])
		return nil, true, nil
	}
	if v.docs != nil || packed && v.limit < chunkDocs { // packed lists are not cut
		within = &sc.mask
		v.mask(within)
	}
	return within, false, nil
}

func allZero(words []uint64) bool {
	for _, word := range words {
		if word != 0 {
			return false
		}
	}
	return true
}

// offer gives a document to the top, if it belongs there and is visible.
func (sc *scratch) offer(v *view, slot, sum uint32) {
	if sum > sc.top.min && (v.visible == nil || v.visible(v.base+slot)) {
		sc.top.push(v.base+slot, sum)
	}
}

// probe looks up the scratch's slots in each list: the sums are theirs.
func (sc *scratch) probe(s *scorer, lengths lengthsOf) {
	sc.sums = append(sc.sums[:0], make([]uint32, len(sc.slots))...)
	for i := range sc.cursors {
		c := &sc.cursors[i]
		for j, slot := range sc.slots {
			if freq := c.freq(uint32(slot)); freq > 0 {
				sc.sums[j] += s.part(c.weight, freq, lengths.stored(uint32(slot))-1)
			}
		}
	}
}

// window is where the documents of a window are scored.
type window struct {
	sums    [windowDocs]uint32 // 0 but for documents of touched and candidates
	touched [windowDocs / 64]uint64
	decoded [windowDocs]posting

	candidates [windowDocs]uint16 // ascending
	n          int                // of candidates
}

// searchWindow offers a window's documents to the top.
func (sc *scratch) searchWindow(v *view, s *scorer, w int, lengths *lengthPage, within []uint64) error {
	sc.order = sc.order[:0]
	for i := range sc.cursors {
		if c := &sc.cursors[i]; c.enter(w, s) {
			sc.order = append(sc.order, c)
		}
	}
	order, least := sc.order, sc.top.min
	byBound(order)
	total, missing := uint32(0), uint32(0)
	optional := 0 // so many terms can't lift a document into the top by themselves
	for i, c := range order {
		total += c.bound
		c.rest = total
		if total <= least {
			optional, missing = i+1, total
		}
	}
	if optional == len(order) {
		return nil
	}
	// A document needs more than least, and the optional terms give it missing at
	// the most.
	if err := sc.win.find(order, optional, s, lengths, least, missing, within); err != nil {
		sc.win = window{} // the scratch will be used again
		return err
	}
	for _, i := range sc.win.candidates[:sc.win.n] {
		sc.offer(v, uint32(w)<<windowBits|uint32(i), sc.win.sums[i])
		sc.win.sums[i] = 0
	}
	sc.win.n = 0
	return nil
}

// find leaves the documents that may be above least as candidates, with their
// sums: those that the terms from optional on give more than least-missing.
func (win *window) find(order []*cursor, optional int, s *scorer, lengths *lengthPage, least, missing uint32, within []uint64) error {
	essential := order[optional:]
	for _, c := range essential {
		in, err := c.postingsIn(win.decoded[:])
		if err != nil {
			return err
		}
		if within != nil {
			in = win.only(in, within)
		}
		if len(essential) == 1 {
			win.single(in, c.weight, s, lengths, least-missing)
		} else {
			win.add(in, c.weight, s, lengths)
		}
	}
	if len(essential) > 1 {
		win.gather(least - missing)
	}
	for _, c := range slices.Backward(order[:optional]) {
		if err := win.complete(c, s, lengths, least); err != nil {
			return err
		}
	}
	return nil
}

// add adds a term's parts.
func (win *window) add(in []posting, weight float64, s *scorer, lengths *lengthPage) {
	for _, p := range in {
		i := p >> 16 % windowDocs
		win.sums[i] += s.part(weight, p&MaxFreq, lengths[i]-1)
		win.touched[i>>6] |= 1 << (i & 63)
	}
}

// gather makes candidates of the documents whose sum is above least, and forgets
// the others. Which they are is close to random, so there is no branch on it.
func (win *window) gather(least uint32) {
	n := uint(0)
	for word, touched := range win.touched {
		win.touched[word] = 0
		for ; touched != 0; touched &= touched - 1 {
			i := word<<6 | bits.TrailingZeros64(touched)
			sum := win.sums[i]
			above := uint32((uint64(least) - uint64(sum)) >> 63) // 1 or 0
			win.sums[i] = sum & -above
			win.candidates[n%windowDocs] = uint16(i) // n is below windowDocs
			n += uint(above)
		}
	}
	win.n = int(n)
}

// single is add and gather for a term that is the only one.
func (win *window) single(in []posting, weight float64, s *scorer, lengths *lengthPage, least uint32) {
	n := 0
	for _, p := range in {
		i := p >> 16 % windowDocs
		if part := s.part(weight, p&MaxFreq, lengths[i]-1); part > least {
			win.sums[i] = part
			win.candidates[n] = uint16(i)
			n++
		}
	}
	win.n = n
}

// only returns the postings whose documents are in a mask. It overwrites decoded.
func (win *window) only(in []posting, within []uint64) []posting {
	n := uint(0)
	for _, p := range in {
		i := p >> 16 % windowDocs
		win.decoded[n%windowDocs] = p // n is below windowDocs
		n += uint(within[i>>6] >> (i & 63) & 1)
	}
	return win.decoded[:n]
}

// complete adds the parts of an optional term to the candidates that with it and
// those still to come may get above least. Others stay at or below it.
func (win *window) complete(c *cursor, s *scorer, lengths *lengthPage, least uint32) error {
	need := least - c.rest // not below 0, or the term would not be optional
	if c.readsWhole(win.n) {
		in, err := c.postingsIn(win.decoded[:])
		if err != nil {
			return err
		}
		for _, p := range in {
			i := p >> 16 % windowDocs
			if win.sums[i] > need { // 0 where it is no candidate
				win.sums[i] += s.part(c.weight, p&MaxFreq, lengths[i]-1)
			}
		}
		return nil
	}
	n := 0
	for _, i := range win.candidates[:win.n] {
		if win.sums[i] <= need {
			win.sums[i] = 0
			continue
		}
		if freq := c.freqIn(uint32(i)); freq > 0 {
			win.sums[i] += s.part(c.weight, freq, lengths[i]-1)
		}
		win.candidates[n] = i
		n++
	}
	win.n = n
	return nil
}
