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
	cursors   []cursor
	order     []*cursor
	top       top
	sums      []uint32
	matched   []uint32
	docs      []uint32
	win       window
}

// scratchPool spares each call a hundred kilobytes.
var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// cursor is one query term in one chunk.
type cursor struct {
	postings []posting // from the current place on
	weight   float64
	bounds   *bounds // nil for a short list
	closed   int     // number of windows that bounds describes
	read     uint32  // postings before the current place

	in    []posting // those of the current window
	bound uint32    // no part in the current window is above it
	rest  uint32    // the sum of bounds of the cursors up to this one
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
	scorer, err := x.newScorer(q, &st)
	if err != nil {
		return nil, err
	}
	if k < 0 || k > MaxHits {
		return nil, fmt.Errorf("%w: the best %d documents; at most %d are possible", ErrInvalid, k, MaxHits)
	}
	if k == 0 || len(q) == 0 {
		return nil, ctx.Err()
	}
	sc := scratchPool.Get().(*scratch)
	defer scratchPool.Put(sc)
	sc.top.reset(k)
	for v, err := range sc.chunks(ctx, x, s, in) {
		if err != nil {
			return nil, err
		}
		if err := v.search(ctx, q, scorer, sc); err != nil {
			return nil, err
		}
	}
	hits := sc.top.hits(scorer)
	x.countMatches(s, q, hits)
	return hits, nil
}

// Score scores given documents, in ascending order, as Search would: out[i] is
// that of docs[i], with a score of 0 where no term matches. Visibility is the
// caller's affair.
func (x *Index) Score(ctx context.Context, s Snapshot, q []QueryTerm, st Stats, docs []uint32, out []Hit) error {
	scorer, err := x.newScorer(q, &st)
	if err != nil {
		return err
	}
	if len(out) != len(docs) {
		return fmt.Errorf("%w: room for %d scores of %d documents", ErrInvalid, len(out), len(docs))
	}
	if !slices.IsSorted(docs) {
		return fmt.Errorf("%w: the documents to score are not in ascending order", ErrInvalid)
	}
	sc := scratchPool.Get().(*scratch)
	defer scratchPool.Put(sc)
	for i, doc := range docs {
		out[i] = Hit{Doc: doc}
	}
	for _, c := range *x.chunks.Load() {
		if err := ctx.Err(); err != nil {
			return err
		}
		v := view{hotChunk: c, base: uint32(c.number) << 16, limit: s.limit(c.number)}
		lo, _ := slices.BinarySearch(docs, v.base)
		hi, _ := slices.BinarySearch(docs, v.base+v.limit)
		if lo == hi {
			continue
		}
		sc.slots = sc.slots[:0]
		for _, doc := range docs[lo:hi] {
			sc.slots = append(sc.slots, uint16(doc))
		}
		v.open(q, scorer, sc)
		sc.probe(&v, scorer, sc.slots)
		for i, sum := range sc.sums {
			out[lo+i].Score, out[lo+i].Matched = scorer.score(sum), sc.matched[i]
		}
	}
	return nil
}

// countMatches fills in how many terms each hit has: the evaluation skips terms
// where they can't matter, and hits are few.
func (x *Index) countMatches(s Snapshot, q []QueryTerm, hits []Hit) {
	order := make([]int, len(hits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(int64(hits[a].Doc) - int64(hits[b].Doc)) })
	chunks := *x.chunks.Load()
	for len(order) > 0 {
		number := uint16(hits[order[0]].Doc >> 16)
		for chunks[0].number != number {
			chunks = chunks[1:]
		}
		n := 1
		for n < len(order) && uint16(hits[order[n]].Doc>>16) == number {
			n++
		}
		for _, t := range q {
			l := chunks[0].terms.find(t.Text)
			if l == nil {
				continue
			}
			p := below(l.postings(), s.limit(number))
			for _, i := range order[:n] {
				slot := hits[i].Doc & (chunkDocs - 1)
				if p = p[gallop(p, slot<<16):]; len(p) == 0 {
					break
				}
				if p[0]>>16 == slot {
					hits[i].Matched++
				}
			}
		}
		order = order[n:]
	}
}

// open fills the scratch's cursors with the query terms that the view has.
func (v *view) open(q []QueryTerm, s *scorer, sc *scratch) {
	sc.cursors = sc.cursors[:0]
	for i, t := range q {
		l := v.terms.find(t.Text)
		if l == nil {
			continue
		}
		c := cursor{weight: s.weights[i]}
		// Bounds are read before postings: those they count were published before.
		if b := l.bounds.Load(); b != nil {
			c.bounds, c.closed = b, int(b.closed.Load())
		}
		if c.postings = below(l.postings(), v.limit); len(c.postings) > 0 {
			sc.cursors = append(sc.cursors, c)
		}
	}
}

// search offers the view's documents to the top.
func (v *view) search(ctx context.Context, q []QueryTerm, s *scorer, sc *scratch) error {
	v.open(q, s, sc)
	if len(sc.cursors) == 0 {
		return nil
	}
	all := 0
	for i := range sc.cursors {
		all += len(sc.cursors[i].postings)
	}
	if v.docs != nil && v.docs.card*len(sc.cursors)*probeCost < all {
		sc.slots = v.docs.slots(sc.slots[:0])
		sc.probe(v, s, sc.slots)
		for i, sum := range sc.sums {
			sc.offer(v, uint32(sc.slots[i]), sum)
		}
		return nil
	}
	if v.docs != nil {
		v.docs.mask(&sc.mask)
	}
	for w := 0; uint32(w)<<windowBits < v.limit; w++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		sc.searchWindow(v, s, w)
	}
	return nil
}

// offer gives a document to the top, if it belongs there and is visible.
func (sc *scratch) offer(v *view, slot, sum uint32) {
	if sum > sc.top.min && (v.visible == nil || v.visible(v.base+slot)) {
		sc.top.push(v.base+slot, sum)
	}
}

// probe looks up slots, ascending, in each list: sums and matched are theirs.
func (sc *scratch) probe(v *view, s *scorer, slots []uint16) {
	sc.sums = append(sc.sums[:0], make([]uint32, len(slots))...)
	sc.matched = append(sc.matched[:0], make([]uint32, len(slots))...)
	for i := range sc.cursors {
		c := &sc.cursors[i]
		p := c.postings
		for j, slot := range slots {
			if p = p[gallop(p, posting(slot)<<16):]; len(p) == 0 {
				break
			}
			if uint16(p[0]>>16) == slot {
				sc.sums[j] += s.part(c.weight, p[0]&MaxFreq, v.length(slot))
				sc.matched[j]++
			}
		}
	}
}

// window holds the sums of the documents of a window, and which of them any
// essential term has touched.
type window struct {
	sums    [windowDocs]uint32
	touched [windowDocs / 64]uint64
}

// enter moves the cursor to a window, and says whether it has postings there.
// Windows ascend.
func (c *cursor) enter(w int, s *scorer) bool {
	if len(c.postings) == 0 {
		return false
	}
	if w >= c.closed {
		n := len(c.postings)
		if w < windows-1 {
			n = gallop(c.postings, posting(w+1)<<(windowBits+16))
		}
		c.take(n)
		c.bound = s.most(c.weight)
		return n > 0
	}
	b := &c.bounds.win[w]
	n := min(int(b.end-c.read), len(c.postings))
	c.take(n)
	c.bound = 0
	for _, i := range b.impacts {
		c.bound = max(c.bound, s.bound(c.weight, i))
	}
	return n > 0
}

func (c *cursor) take(n int) {
	c.in, c.postings = c.postings[:n], c.postings[n:]
	c.read += uint32(n)
}

// searchWindow offers a window's documents to the top.
func (sc *scratch) searchWindow(v *view, s *scorer, w int) {
	sc.order = sc.order[:0]
	for i := range sc.cursors {
		if c := &sc.cursors[i]; c.enter(w, s) {
			sc.order = append(sc.order, c)
		}
	}
	order := sc.order
	slices.SortFunc(order, func(a, b *cursor) int { return int(int64(a.bound) - int64(b.bound)) })
	total := uint32(0)
	optional := 0 // so many terms can't lift a document into the top by themselves
	for i, c := range order {
		total += c.bound
		c.rest = total
		if total <= sc.top.min {
			optional = i + 1
		}
	}
	if optional == len(order) {
		return
	}
	lengths := v.lengths[w].Load()
	for _, c := range order[optional:] {
		sc.win.score(c, s, lengths)
	}
	sc.collect(v, s, w, order[:optional])
}

// score adds a term's parts.
func (win *window) score(c *cursor, s *scorer, lengths *lengthPage) {
	for _, p := range c.in {
		i := p >> 16 % windowDocs
		win.sums[i] += s.part(c.weight, p&MaxFreq, lengths[i]-1)
		win.touched[i>>6] |= 1 << (i & 63)
	}
}

// collect completes the documents that were touched by the optional terms, and
// leaves the window empty.
func (sc *scratch) collect(v *view, s *scorer, w int, optional []*cursor) {
	win := &sc.win
	lengths := v.lengths[w].Load()
	var within []uint64
	if v.docs != nil {
		within = sc.mask[w*len(win.touched):][:len(win.touched)]
	}
	for word, touched := range win.touched {
		win.touched[word] = 0
		for ; touched != 0; touched &= touched - 1 {
			bit := bits.TrailingZeros64(touched)
			i := uint32(word<<6 | bit)
			sum := win.sums[i]
			win.sums[i] = 0
			if within != nil && within[word]>>bit&1 == 0 {
				continue
			}
			slot := uint32(w)<<windowBits | i
			if sum, ok := sc.complete(s, optional, slot, sum, lengths[i]-1); ok {
				sc.offer(v, slot, sum)
			}
		}
	}
}

// complete adds the parts of the optional terms, the highest bound first, until
// the document can no longer reach the top.
func (sc *scratch) complete(s *scorer, optional []*cursor, slot, sum, length uint32) (uint32, bool) {
	for _, c := range slices.Backward(optional) {
		if sum+c.rest <= sc.top.min {
			return 0, false
		}
		c.in = c.in[gallop(c.in, slot<<16):]
		if len(c.in) > 0 && c.in[0]>>16 == slot {
			sum += s.part(c.weight, c.in[0]&MaxFreq, length)
		}
	}
	return sum, true
}
