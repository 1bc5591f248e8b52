package hnsw

import "github.com/RoaringBitmap/roaring/v2"

// bitset is a set of slots with a fast test.
type bitset struct {
	words []uint64
	limit uint32
}

// set makes it the part of a bitmap below a limit.
func (b *bitset) set(m *roaring.Bitmap, limit uint32) {
	n := int(limit+63) / 64
	if m.DenseSize() > uint64(n) {
		m = m.Clone()
		m.RemoveRange(uint64(limit), 1<<32)
	}
	if n > len(b.words) {
		b.words = make([]uint64, n+n/2)
	}
	clear(b.words)
	m.WriteDenseTo(b.words)
	b.limit = limit
}

func (b *bitset) has(slot uint32) bool {
	return slot < b.limit && b.words[slot>>6]>>(slot&63)&1 != 0
}

const (
	// seeds is how many matching slots a walk within a filter starts from,
	// besides the closest slot of all, which need not have a match near it.
	seeds = 8
	// maxFanout bounds the rows scored for one candidate's links' links.
	maxFanout = 256
)

// startWithin adds matching slots spread over the set.
func (r *searcher) startWithin(s *Search) {
	b := r.beam
	n := s.Within.GetCardinality()
	b.ids = b.ids[:0]
	for i := range uint64(seeds) {
		slot, err := s.Within.Select(uint32(n * (2*i + 1) / (2 * seeds)))
		if err != nil || !r.within.has(slot) || r.x.graph.node(slot).state.Load()&stateLinked == 0 {
			continue
		}
		if b.visited.add(slot) {
			b.ids = append(b.ids, slot)
		}
	}
	b.insertAll(0)
}

// walkWithin expands candidates in the lowest layer, going through slots that
// don't match to those of their links that do (Patel et al., ACORN, 2024). It
// reports false if it scored more rows than the budget before.
func (r *searcher) walkWithin(budget int) bool {
	b, g := r.beam, &r.x.graph
	var first, second []uint32
	for b.steps <= budget && len(b.found) <= maxHidden+b.ef {
		c := b.nextCandidate()
		if c == nil {
			return true
		}
		first = b.visited.addLinks(g.list(c.slot&slotMask, 0), first[:0])
		b.ids = b.ids[:0]
		for _, slot := range first {
			if r.within.has(slot) {
				b.ids = append(b.ids, slot)
				continue
			}
			if len(b.ids) >= maxFanout {
				continue
			}
			second = g.neighbours(slot, 0, second[:0])
			for _, next := range second {
				if r.within.has(next) && b.visited.add(next) {
					b.ids = append(b.ids, next)
				}
			}
		}
		b.insertAll(0)
	}
	return false
}
