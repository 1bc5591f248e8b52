package hnsw

import (
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// cascade is what a search by cells needs of memory.
type cascade struct {
	queries [maxGroups]simd.TileQuery
	ready   [maxGroups]bool    // queries that are of this search
	squares [maxGroups]float64 // of the lengths of these
	turned  []float32
	ids     []uint32
	dists   []float32
	order   []uint64 // distances of cells, above their numbers
	masks   []uint32
	keys    []float32 // of all rows, in that order
	adds    []float64 // of the cells, in that order: see cellView
	most    topK      // the rows of the highest keys
	queue   []uint32  // rows that bits don't rule out
	left    int       // of them there were so many
}

// firstRows is how many rows are compared by their codes first, or how many for each hit: of
// the highest keys by their bits. They give the bar that others must reach.
const firstRows, firstShare = 64, 4

// searchCells finds the top k as a flat search does, but for the rows that the error of
// their bits hides: see CellMiss.
func (r *searcher) searchCells(ctx context.Context, s *Search, all *cells, fresh []uint32) ([]Hit, error) {
	r.beam.sketches = nil
	r.beam.visited.reset(r.beam.limit)
	r.startFlat(s)
	if err := r.scoreFresh(ctx, s, fresh); err != nil {
		return nil, err
	}
	if err := r.scanCells(ctx, s, all); err != nil {
		return nil, err
	}
	r.queueMost(s)
	if err := r.raiseBar(s); err != nil {
		return nil, err
	}
	if err := r.queueRest(ctx, s, all); err != nil {
		return nil, err
	}
	r.beam.coding.cover.leaves(float64(r.cascade.left) / float64(s.matching()))
	return r.finishFlat(s)
}

// scanCells sets the keys of all rows by their bits, and finds the highest ones of those that
// the search may return.
func (r *searcher) scanCells(ctx context.Context, s *Search, all *cells) error {
	c := &r.cascade
	c.ready = [maxGroups]bool{}
	c.sortCells(r, all)
	c.adds, c.keys = c.adds[:0], c.keys[:0]
	c.most = topK{k: max(firstRows, firstShare*s.K), hits: c.most.hits[:0]}
	own := simd.SquaredNorm(r.probe.own)
	for _, o := range c.order {
		at := int(uint32(o))
		cell, dist := &all.list[at], math.Sqrt(float64(math.Float32frombits(uint32(o>>32))))
		view := r.cellView(all, at, own, dist)
		c.adds = append(c.adds, view.add)
		from, n := len(c.keys), len(cell.tiles)
		if from/rowsPerCheck != (from+n*simd.TileRows)/rowsPerCheck && ctx.Err() != nil {
			return ctx.Err()
		}
		c.keys = slices.Grow(c.keys, n*simd.TileRows)[:from+n*simd.TileRows]
		c.masks = slices.Grow(c.masks[:0], n)[:n]
		bar := float32(math.Inf(-1))
		if len(c.most.hits) == c.most.k {
			bar = c.most.hits[0].Score
		}
		view.bar.Floor = r.tileFloor(bar, view.add)
		simd.ScanTiles(view.query, cell.tiles, &view.bar, c.masks, c.keys[from:])
		r.pass(s, all, cell, func(row int, slot uint32) {
			c.most.push(Hit{Slot: slot, Score: float32(float64(c.keys[from+row]) + view.add - r.flat.shift)})
		})
	}
	return nil
}

// tileFloor returns a key of tiles, which lacks add, below which no row reaches the bar.
func (r *searcher) tileFloor(bar float32, add float64) float32 {
	floor := float32(max(float64(bar)+r.flat.shift-add, -math.MaxFloat32))
	return max(math.Nextafter32(floor, float32(math.Inf(-1))), -math.MaxFloat32)
}

// pass calls do for the rows of a cell whose bits in the masks are set, within the limits
// of the search.
func (r *searcher) pass(s *Search, all *cells, cell *cell, do func(row int, slot uint32)) {
	for i, mask := range r.cascade.masks {
		if mask == 0 {
			continue
		}
		numbers := simd.Tile(cell.tiles[i], all.rotation.dim).Numbers
		for ; mask != 0; mask &= mask - 1 {
			row := bits.TrailingZeros32(mask) % simd.TileRows
			if slot := numbers[row]; slot < s.Slots && (s.Within == nil || s.Within.Has(slot)) {
				do(i*simd.TileRows+row, slot)
			}
		}
	}
}

// queueMost compares the rows of the highest keys by their codes.
func (r *searcher) queueMost(s *Search) {
	c := &r.cascade
	c.queue = c.queue[:0]
	for _, h := range c.most.hits {
		c.queue = append(c.queue, h.Slot)
	}
	r.scoreQueue(s)
}

// raiseBar sets the bar by the scores of the best rows themselves: bounds by codes are wider
// than those by bits where these are many and the rows near each other.
func (r *searcher) raiseBar(s *Search) error {
	f := &r.flat
	if len(f.bar.hits) < s.K || s.Rough {
		return nil
	}
	slices.SortFunc(f.found, compareCandidates)
	r.ids = r.ids[:0]
	for _, c := range f.found[:min(s.K+rescoreStep, len(f.found), batch)] {
		r.ids = append(r.ids, c.slot)
	}
	out := r.out[:len(r.ids)]
	if err := r.score(r.ids, out); err != nil {
		return err
	}
	f.bar.hits = f.bar.hits[:0]
	for i, c := range f.found {
		low := c.score - float32(r.slack(c))
		if i < len(out) {
			key := r.keyOf(out[i])
			square := max(0, r.probe.sharp.square-2*key)
			low = max(low, math.Nextafter32(float32(key-f.shift-r.probe.rounding-r.probe.perSquare*square), float32(math.Inf(-1))))
		}
		f.bar.push(Hit{Slot: c.slot, Score: low})
	}
	f.floor = r.lowest(float64(f.bar.hits[0].Score))
	f.drop(r)
	return nil
}

// queueRest compares all others that reach the bar.
func (r *searcher) queueRest(ctx context.Context, s *Search, all *cells) error {
	c, f := &r.cascade, &r.flat
	from := 0
	c.left = 0
	for i, o := range c.order {
		cell := &all.list[uint32(o)]
		n := len(cell.tiles)
		keys := c.keys[from : from+n*simd.TileRows]
		if from/rowsPerCheck != (from+len(keys))/rowsPerCheck && ctx.Err() != nil {
			return ctx.Err()
		}
		from += len(keys)
		bar := float32(math.Inf(-1))
		if len(f.bar.hits) == f.bar.k {
			bar = f.bar.hits[0].Score
		}
		c.masks = slices.Grow(c.masks[:0], n)[:n]
		simd.AtLeast(keys, r.tileFloor(bar, c.adds[i]), c.masks)
		r.pass(s, all, cell, func(_ int, slot uint32) { c.queue = append(c.queue, slot) })
		if len(c.queue) >= batch/2 {
			r.scoreQueue(s)
		}
	}
	r.scoreQueue(s)
	return nil
}

// scoreQueue compares the rows on the queue by their codes.
func (r *searcher) scoreQueue(s *Search) {
	c := &r.cascade
	c.left += len(c.queue)
	for rest := c.queue; len(rest) > 0; {
		n := min(batch, len(rest))
		r.scoreFlat(s, rest[:n])
		rest = rest[n:]
	}
	c.queue = c.queue[:0]
}

// sortCells sorts the cells by the distances of their centres from the query.
func (c *cascade) sortCells(r *searcher, all *cells) {
	c.order = c.order[:0]
	for group := range all.groups {
		g := &all.groups[group]
		if g.n == 0 {
			continue
		}
		for len(c.ids) < g.n {
			c.ids = append(c.ids, uint32(len(c.ids)))
		}
		c.dists = slices.Grow(c.dists[:0], g.n)[:g.n]
		simd.SquaredL2Rows(r.ownOf(group), &g.centres, c.ids[:g.n], c.dists)
		for i, d := range c.dists {
			c.order = append(c.order, uint64(math.Float32bits(d))<<32|uint64(g.from+i))
		}
	}
	slices.Sort(c.order)
}

// ownOf returns the query as rows of a group are coded.
func (r *searcher) ownOf(group int) []float32 {
	if !r.beam.coding.grouped() || group == r.beam.frames.home {
		return r.probe.own
	}
	return r.beam.frames.each[group].own
}

// tileQuery returns the query as bits of a group's rows are compared with it.
func (r *searcher) tileQuery(all *cells, group int) *simd.TileQuery {
	c := &r.cascade
	q := &c.queries[group]
	if !c.ready[group] {
		c.turned = slices.Grow(c.turned[:0], all.rotation.dim)[:all.rotation.dim]
		clear(c.turned[copy(c.turned, r.ownOf(group)):])
		all.rotation.turn(c.turned)
		q.Set(c.turned)
		c.squares[group], c.ready[group] = simd.SquaredNorm(r.ownOf(group)), true
	}
	return q
}

// cellView is how a query compares with the rows of a cell. Keys of tiles lack add, which
// includes what all of them may be off by besides.
type cellView struct {
	query *simd.TileQuery
	bar   simd.TileBar
	add   float64
}

// cellView prepares the query for a cell whose centre is at that distance from it. own is the
// square of the query's length as it is coded in its own group, which keys of all groups are
// compared by.
func (r *searcher) cellView(all *cells, at int, own, dist float64) cellView {
	group := 0
	for at >= all.groups[group].from+all.groups[group].n {
		group++
	}
	p, cell := &r.probe, &all.list[at]
	q := r.tileQuery(all, group)
	near := r.cascade.squares[group]
	const half = 1.0 / (1 << 24)
	dim := float64(all.rotation.dim)
	// The part of the query in the direction of the centre, which signs need not estimate.
	lean, aside := 0.0, dist
	if cell.square > 0 {
		along := (near - cell.square - dist*dist) / 2 / math.Sqrt(cell.square)
		lean = 1 + along/math.Sqrt(cell.square)
		aside = math.Sqrt(max(0, dist*dist-along*along) + dim*4*half*dist*dist)
	}
	// What entries of tables are off by is even, and as many of them are added up.
	noise := deviationsCell * float64(q.Step) * math.Sqrt(dim/4/12)
	far, err := dist+cell.reach, cell.err+p.sharp.err
	lengths := math.Sqrt(p.sharp.square) + math.Sqrt(cell.square) + dist
	add := (own-dist*dist)/2 + far*err + err*err/2 + p.rounding + 2*p.perSquare*far*far
	add += 32*half*(far*far+p.sharp.square-own+lengths*cell.reach) + dim*half*dist*dist
	return cellView{query: q, bar: simd.TileBar{Base: roundUp(noise), Reach: roundUp(aside), Lean: float32(lean)}, add: add}
}

// scoreFresh compares the fresh rows that the search may return by their codes.
func (r *searcher) scoreFresh(ctx context.Context, s *Search, fresh []uint32) error {
	for len(fresh) > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		some := fresh[:min(rowsPerCheck, len(fresh))]
		fresh = fresh[len(some):]
		r.ids = r.ids[:0]
		for _, slot := range some {
			if slot >= s.Slots || s.Within != nil && !s.Within.Has(slot) {
				continue
			}
			if r.ids = append(r.ids, slot); len(r.ids) == batch {
				r.scoreFlat(s, r.ids)
				r.ids = r.ids[:0]
			}
		}
		r.scoreFlat(s, r.ids)
	}
	return nil
}

// scoreFlat compares some rows, which are within the set, by their codes, and keeps those
// that are live, that the search may see and that may be among the best.
func (r *searcher) scoreFlat(s *Search, ids []uint32) {
	out := r.out[:len(ids)]
	r.beam.codeKeys(ids, out)
	for i, key := range out {
		// A row may have a place and be fresh, or have two.
		if slot := ids[i]; key >= r.flat.floor && r.x.graph.live(slot) && r.beam.visited.add(slot) && (s.Visible == nil || s.Visible(slot)) {
			r.flat.add(candidate{key, slot}, r)
		}
	}
}
