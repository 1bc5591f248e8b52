package hnsw

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// Marks in the upper bits of a candidate's slot.
const (
	markExpanded = 1 << 31 // its links have been followed
	markHidden   = 1 << 30 // a waypoint that the search may not return
	slotMask     = 1<<30 - 1
)

// maxHidden bounds the hidden candidates that a walk keeps: inserting one among
// them moves a few kilobytes.
const maxHidden = 2048

// candidate is a slot and its key, by its codes or by its sketch.
type candidate struct {
	score float32
	slot  uint32 // with marks
}

// beam walks over the graph: it keeps the best candidates it has met, sorted,
// and follows the links of the best one not yet expanded until there is none.
// The candidates beyond the ef-th that may be returned are dropped, as they are
// never expanded in HNSW either; hidden ones don't count.
type beam struct {
	x *Index
	// What is compared, and below which slot: the coding has all of them.
	coding *coding
	limit  uint32
	query  simd.Query8
	frames frames // the query for rows of other groups
	// Rows of groups are linked by their distances under Dot, too: by products, all rows
	// of a far group lead to its few longest ones, and none to those that are best for a
	// query of another direction.
	byDistance bool
	// With sketches, estimates stand in for the keys of the rows that have one.
	sketches *sketches
	sketch   sketchQuery
	ef       int
	// What is not within, or not visible, is hidden; where both are nil, nothing is.
	within  *Set
	visible func(slot uint32) bool

	found  []candidate
	shown  int // of found, those not hidden
	next   int // none before it is unexpanded
	expand int // so many of found, the best, are expanded

	starts  []candidate // see approach
	twinsOf []candidate // room for findTwins

	visited slotSet
	ids     []uint32
	scores  []float32
	steps   int // rows scored
}

func newBeam(x *Index) *beam {
	return &beam{
		x:      x,
		query:  simd.Query8{Codes: make([]int8, x.cfg.Dim)},
		ids:    make([]uint32, 0, batch),
		scores: make([]float32, batch),
	}
}

// pin has the beam compare the rows that there are now, as they are coded now.
func (b *beam) pin() {
	b.limit = b.x.length.Load()
	b.coding = b.x.coding.Load()
}

// reset prepares for another walk with the same query.
func (b *beam) reset(ef int) {
	b.ef, b.shown, b.next, b.steps, b.expand = ef, 0, 0, 0, math.MaxInt
	b.found = b.found[:0]
	b.visited.reset(b.limit)
}

// widen has the walk go on with more candidates, as if it had kept as many from the
// start: those of the set that it has met, all if that is nil, are there again, the ones it
// expanded as expanded. They are scored anew: few walks go on, and keeping all scores takes up
// to a tenth of a walk's time.
func (b *beam) widen(ef int, within *Set) {
	expanded := make(map[uint32]uint32, len(b.found))
	for _, c := range b.found {
		expanded[c.slot&slotMask] = c.slot & markExpanded
	}
	met := b.visited.members(nil)
	if within != nil {
		met = slices.DeleteFunc(met, func(slot uint32) bool { return !within.Has(slot) })
	}
	all := make([]candidate, 0, len(met))
	for ids := range slices.Chunk(met, batch) {
		scores := b.room(len(ids))
		b.keys(ids, scores)
		for i, score := range scores {
			all = append(all, candidate{score, ids[i]})
		}
	}
	slices.SortFunc(all, compareCandidates)
	b.ef, b.found, b.shown, b.next = ef, b.found[:0], 0, 0
	for _, c := range all {
		if c.score <= b.bar() {
			break
		}
		b.insert(c.score, c.slot|expanded[c.slot])
	}
}

// scoreOne returns the score of one slot's codes.
func (b *beam) scoreOne(slot uint32) float32 {
	id := [1]uint32{slot}
	var out [1]float32
	b.keys(id[:], out[:])
	return out[0]
}

// approachEf is how many candidates are kept in each layer on the way down. With one
// alone, as Malkov and Yashunin go down, a search ends in the wrong one of many
// clusters, and no width below finds the way out of a cluster that is larger: of
// 1,000,000 rows in 1,000 clusters seven of a hundred queries found nothing, and a
// row that is linked so is lost to its own cluster. The layers above are small: it
// costs some 200 scores.
const approachEf = 8

// arriveExpand is how many of them a search expands in the layer above the lowest: the
// walk that follows goes on from all eight. On 1,000,000 rows it finds as much with 20
// candidates and more, .9321 instead of .9329 with 10, and spares a fifth of those
// scores.
const arriveExpand = 3

// approach returns slots from which to walk in a layer, the best first. In the one
// above it, no more than the best few are expanded. They are valid until the next call
// of it or of keepStarts.
func (b *beam) approach(entry uint32, top, level, expand int) []candidate {
	b.within, b.visible = nil, nil
	b.starts = append(b.starts[:0], candidate{b.scoreOne(entry), entry})
	for l := top; l > level; l-- {
		b.reset(approachEf)
		b.start(b.starts...)
		b.expand = approachEf
		if l == level+1 {
			b.expand = expand
		}
		b.walk(l, math.MaxInt)
		b.keepStarts()
	}
	return b.starts
}

// keepStarts returns the best candidates found, to walk from in the next layer.
func (b *beam) keepStarts() []candidate {
	b.starts = b.starts[:0]
	for _, c := range b.found[:min(len(b.found), approachEf)] {
		b.starts = append(b.starts, candidate{c.score, c.slot & slotMask})
	}
	return b.starts
}

// score scores the slots in ids, which it may put in another order.
func (b *beam) score() []float32 {
	out := b.room(len(b.ids))
	b.keys(b.ids, out)
	b.steps += len(out)
	return out
}

// room returns room for n scores.
func (b *beam) room(n int) []float32 {
	if n > len(b.scores) {
		b.scores = make([]float32, 2*n)
	}
	return b.scores[:n]
}

// keys sets out[i] to the key of ids[i]. It may put the ids in another order.
func (b *beam) keys(ids []uint32, out []float32) {
	n := len(ids)
	if b.sketches != nil {
		n = b.sketches.split(ids)
		simd.DotBitsRows(&b.sketch.bits, b.sketches.table.Load(), ids[n:], out[n:])
	}
	b.codeKeys(ids[:n], out[:n])
}

// start adds candidates to begin from, once.
func (b *beam) start(from ...candidate) {
	for _, c := range from {
		if b.visited.add(c.slot) {
			b.insert(c.score, c.slot)
		}
	}
}

// walk expands candidates in a layer until the best are all expanded. It
// reports false if it scored more rows than the budget before, or met so many
// hidden ones that keeping them in order would take longer than it is worth.
func (b *beam) walk(level, budget int) bool {
	g := &b.x.graph
	for b.steps <= budget && len(b.found) <= maxHidden+b.ef {
		c := b.nextCandidate()
		if c == nil {
			return true
		}
		b.ids = b.visited.addLinks(g.list(c.slot&slotMask, level), b.ids[:0])
		if b.next < len(b.found) {
			// Most often it is the next one to be expanded: its links arrive
			// while these rows are scored.
			simd.Prefetch(unsafe.Pointer(unsafe.SliceData(g.list(b.found[b.next].slot&slotMask, level))))
		}
		b.insertAll()
	}
	return false
}

// nextCandidate marks the best unexpanded candidate and returns it, or nil.
func (b *beam) nextCandidate() *candidate {
	for b.next < min(len(b.found), b.expand) {
		c := &b.found[b.next]
		b.next++
		if c.slot&markExpanded == 0 {
			c.slot |= markExpanded
			return c
		}
	}
	return nil
}

// insertAll scores the slots in ids and inserts those good enough.
func (b *beam) insertAll() {
	bar := b.bar()
	for i, score := range b.score() {
		if score > bar {
			b.insert(score, b.ids[i])
			bar = b.bar()
		}
	}
}

// bar is what a score must be above to be inserted.
func (b *beam) bar() float32 {
	if b.shown < b.ef {
		return float32(math.Inf(-1))
	}
	return b.found[len(b.found)-1].score
}

// insertPending scores the slots in ids, which the graph does not lead to, inserts
// those good enough that may be returned, and empties ids.
func (b *beam) insertPending() {
	for i, score := range b.score() {
		slot := b.ids[i]
		if score <= b.bar() || b.hides(slot) {
			continue
		}
		if b.visited.add(slot) {
			b.insert(score, slot|markExpanded)
		}
	}
	b.ids = b.ids[:0]
}

// insert puts a candidate in its place and drops what falls off the end.
func (b *beam) insert(score float32, slot uint32) {
	if b.hides(slot & slotMask) {
		slot |= markHidden
	}
	// The search halves the range. Each step is a branch that no processor can predict;
	// without it, by numbers that compare as the scores do, each waits for the one before,
	// which took as long.
	at, n := 0, len(b.found)
	for n > 0 {
		half := (n + 1) >> 1
		if b.found[at+half-1].score >= score {
			at += half
		}
		n -= half
	}
	b.found = append(b.found, candidate{})
	copy(b.found[at+1:], b.found[at:])
	b.found[at] = candidate{score: score, slot: slot}
	b.next = min(b.next, at)
	if slot&markHidden == 0 {
		b.shown++
		b.trim()
	}
}

// hides reports whether the search may not return a slot.
func (b *beam) hides(slot uint32) bool {
	return b.within != nil && !b.within.Has(slot) || b.visible != nil && !b.visible(slot)
}

// shownOnes drops what is hidden, and returns the rest.
func (b *beam) shownOnes() []candidate {
	shown := b.found[:0]
	for _, c := range b.found {
		if c.slot&markHidden == 0 {
			shown = append(shown, c)
		}
	}
	return shown
}

// trim drops the last of more than ef shown candidates, and with it what is no
// better than the new last one.
func (b *beam) trim() {
	n := len(b.found)
	if b.shown > b.ef {
		b.shown--
		n--
	}
	if b.shown == b.ef {
		for n > 0 && b.found[n-1].slot&markHidden != 0 {
			n--
		}
	}
	b.found = b.found[:n]
}

// slotSet is a set of slots that is emptied in time proportional to its size.
type slotSet struct {
	words   []uint64
	touched []uint32
	limit   uint32 // slots at or above it are never members
}

func (s *slotSet) reset(limit uint32) {
	for _, w := range s.touched {
		s.words[w] = 0
	}
	s.touched = s.touched[:0]
	s.limit = limit
	if need := int(limit+63) / 64; need > len(s.words) {
		// Half as much again, so that a growing index doesn't mean a new set
		// for each search.
		s.words = make([]uint64, need+need/2)
	}
}

// add reports whether a slot below the limit was not a member yet.
func (s *slotSet) add(slot uint32) bool {
	if slot >= s.limit {
		return false
	}
	w, bit := &s.words[slot>>6], uint64(1)<<(slot&63)
	if *w&bit != 0 {
		return false
	}
	if *w == 0 {
		s.touched = append(s.touched, slot>>6)
	}
	*w |= bit
	return true
}

// addLinks appends to dst the slots of a link list that are new. Half of them are, in
// no order that a processor could predict: it takes no branch on it.
func (s *slotSet) addLinks(list []atomic.Uint32, dst []uint32) []uint32 {
	n, t := len(dst), len(s.touched)
	dst = slices.Grow(dst, len(list))[:n+len(list)]
	touched := slices.Grow(s.touched, len(list))[:t+len(list)]
	for i := range list {
		slot := list[i].Load() - 1
		if slot >= s.limit {
			if slot == math.MaxUint32 {
				break // the end of the list
			}
			continue
		}
		w := &s.words[slot>>6]
		old := *w
		*w = old | 1<<(slot&63)
		dst[n] = slot
		n += 1 - int(old>>(slot&63)&1)
		touched[t] = slot >> 6
		t += 1 - int((old|-old)>>63) // unless it had a member
	}
	s.touched = touched[:t]
	return dst[:n]
}

// members appends the members to dst, in no order that counts.
func (s *slotSet) members(dst []uint32) []uint32 {
	for _, at := range s.touched {
		for w := s.words[at]; w != 0; w &= w - 1 {
			dst = append(dst, at<<6+uint32(bits.TrailingZeros64(w)))
		}
	}
	return dst
}

func (s *slotSet) has(slot uint32) bool {
	return slot < s.limit && s.words[slot>>6]>>(slot&63)&1 != 0
}
