package hnsw

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

const (
	// seeds is how many matching slots a walk within a filter starts from,
	// besides the closest slots of all, which need not have a match near them.
	// What matches may lie in many places with no links between them, and one
	// call of a kernel scores so many.
	seeds = batch
	// maxFanout bounds the rows scored for one candidate's links' links.
	maxFanout = 256
)

// startWithin adds matching slots spread over the set. It reports false if a
// planned walk from them would miss some of what matches.
func (r *searcher) startWithin(p *plan) bool {
	b := r.beam
	if p.strategy == Planned && p.share < islandShare && p.near*islandNear < p.share && r.islands(p.share) {
		return false
	}
	b.ids = slices.DeleteFunc(r.spread(seeds, b.ids[:0]), func(slot uint32) bool { return !b.visited.add(slot) })
	b.insertAll()
	return true
}

// spread appends to dst up to n slots in the graph that match, spread over the set.
func (r *searcher) spread(n int, dst []uint32) []uint32 {
	words := r.within.words
	for i, next := 0, 0; i < n && next < len(words); i++ {
		at := max(next, i*len(words)/n)
		for at < len(words) && words[at] == 0 {
			at++
		}
		next = at + 1
		if at == len(words) {
			break
		}
		slot := uint32(at*64 + bits.TrailingZeros64(words[at]))
		if r.x.graph.node(slot).state.Load()&stateLinked != 0 {
			dst = append(dst, slot)
		}
	}
	return dst
}

const (
	// The links of islandRows matching slots are looked at to tell whether
	// what matches lies in islands: then more than islandFactor times as many of
	// them match as of all rows.
	islandRows   = 16
	islandFactor = 2
	// That matters where less than one in islandNear as many rows match near the query as of
	// all: else it lies on an island or beside one. Of 100,000 rows of which the 3 to 7 % furthest
	// in one direction match, walks with 10 candidates found .962 to .978 then.
	islandNear = 4
)

// islands reports whether so many of the links of matching slots match as well
// that the others may be out of reach.
func (r *searcher) islands(share float64) bool {
	b, links, matching := r.beam, 0, 0
	b.ids = r.spread(islandRows, b.ids[:0])
	var list []uint32
	for _, slot := range b.ids {
		list = r.x.graph.neighbours(slot, 0, list[:0])
		links += len(list)
		for _, to := range list {
			if r.within.Has(to) {
				matching++
			}
		}
	}
	return float64(matching) > islandFactor*share*float64(links)
}

// walkWithin expands candidates in the lowest layer, going through slots that
// don't match to those of their links that do (Patel et al., ACORN, 2024). It
// reports false if it scored more rows than the budget before.
func (r *searcher) walkWithin(p *plan) bool {
	b, g := r.beam, &r.x.graph
	var first []uint32
	for b.steps <= p.budget && len(b.found) <= maxHidden+b.ef {
		c := b.nextCandidate()
		if c == nil {
			return true
		}
		first = b.visited.addLinks(g.list(c.slot&slotMask, 0), first[:0])
		b.ids = b.ids[:0]
		for _, slot := range first {
			if r.within.Has(slot) {
				b.ids = append(b.ids, slot)
				continue
			}
			if len(b.ids) >= maxFanout {
				continue
			}
			b.ids = r.addWithin(g.list(slot, 0), b.ids)
		}
		b.insertAll()
	}
	return false
}

// addWithin appends to dst the slots of a link list that match and are new. Few do, and which
// no processor could predict: it takes no branch on it.
func (r *searcher) addWithin(list []atomic.Uint32, dst []uint32) []uint32 {
	v := &r.beam.visited
	words := r.within.words[:min(len(r.within.words), len(v.words))]
	n := len(dst)
	dst = slices.Grow(dst, len(list))[:n+len(list)]
	for i := range list {
		slot := list[i].Load() - 1
		at := int(slot >> 6)
		if at >= len(words) {
			if slot == math.MaxUint32 {
				break // the end of the list
			}
			continue
		}
		dst[n] = slot
		n += int(words[at] &^ v.words[at] >> (slot & 63) & 1)
	}
	kept := dst[:len(dst)-len(list)]
	for _, slot := range dst[len(kept):n] {
		if v.add(slot) {
			kept = append(kept, slot)
		}
	}
	return kept
}
