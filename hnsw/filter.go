package hnsw

import "math/bits"

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
	b, words := r.beam, r.within.words
	b.ids = b.ids[:0]
	for i, next := 0, 0; i < seeds && next < len(words); i++ {
		at := max(next, i*len(words)/seeds)
		for at < len(words) && words[at] == 0 {
			at++
		}
		next = at + 1
		if at == len(words) {
			break
		}
		slot := uint32(at*64 + bits.TrailingZeros64(words[at]))
		if r.x.graph.node(slot).state.Load()&stateLinked != 0 && b.visited.add(slot) {
			b.ids = append(b.ids, slot)
		}
	}
	if p.strategy == Planned && p.share < islandShare && r.islands(b.ids, p.share) {
		return false
	}
	b.insertAll()
	return true
}

const (
	// islandRows is how many of the seeds' links are looked at to tell whether
	// what matches lies in islands: then more than islandFactor times as many of
	// them match as of all rows.
	islandRows   = 64
	islandFactor = 2
)

// islands reports whether so many of the links of matching slots match as well
// that the others may be out of reach.
func (r *searcher) islands(slots []uint32, share float64) bool {
	links, matching := 0, 0
	var list []uint32
	for _, slot := range slots[:min(len(slots), islandRows)] {
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
	var first, second []uint32
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
			second = g.neighbours(slot, 0, second[:0])
			for _, next := range second {
				if r.within.Has(next) && b.visited.add(next) {
					b.ids = append(b.ids, next)
				}
			}
		}
		b.insertAll()
	}
	return false
}
