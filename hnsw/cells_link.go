package hnsw

import (
	"context"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

const (
	// leastFresh is how many fresh rows are given their places at once.
	leastFresh = 64
	// cellSample is how many rows a centre is the mean of, of those it is chosen by, and
	// cellRounds how often it is moved there.
	cellSample, cellRounds = 16, 4
	// spreadSample is of how many rows each centre is chosen, before it is moved.
	spreadSample = 4
	// Centres are chosen anew where there are so many times as many rows as when they were,
	// where those that came since are so many times as far off, or where so many times as many
	// have a place as there are.
	cellGrowth, cellMisfit, cellStale = 4, 2, 2
	// cellsPerCheck is how many rows get their places between looks at the context.
	cellsPerCheck = 1024
)

// celled reports whether rows are to have cells.
func (x *Index) celled() bool {
	rows := x.graph.rows.Load()
	return rows >= int64(x.cfg.Celled) && rows <= mostCelled
}

// links reports whether Link has anything to do with so few rows.
func (x *Index) links() bool {
	return x.graph.linked.Load() > 0 || x.graph.rows.Load() >= int64(x.cfg.Crossover)
}

// cellsDue reports whether Link has rows to give places to.
func (x *Index) cellsDue() bool {
	if !x.celled() || !x.links() {
		return false
	}
	all, fresh := x.coding.Load().cover.look()
	return all == nil || len(fresh) >= leastFresh
}

// place gives the fresh rows their places.
func (w *builder) place(ctx context.Context) error {
	x := w.beam.x
	c := x.coding.Load()
	if !x.celled() {
		c.cover.drop(w.graph)
		return nil
	}
	epoch := w.graph.grace.enter()
	defer w.graph.grace.leave(epoch)
	all, fresh := c.cover.look()
	if all == nil {
		return w.placeAll(ctx, c)
	}
	if len(fresh) < leastFresh {
		return nil
	}
	p := newPlacer(c, all.clone())
	n, left := w.placeRows(ctx, p, fresh)
	rows := int(w.graph.rows.Load())
	if len(left) > 0 {
		c.cover.settle(w.graph, p.cells, len(fresh), left)
		return ctx.Err()
	}
	if p.cells.rows > cellStale*rows+leastFresh || rows >= cellGrowth*all.chosen || n > rows/8 && p.off > cellMisfit*all.usual*float64(n) {
		return w.placeAll(ctx, c)
	}
	c.cover.settle(w.graph, p.cells, len(fresh), nil)
	return nil
}

// placeRows gives some slots' rows their places, until the context is done, but some in any
// case. It returns how many had one, and the slots that are left.
func (w *builder) placeRows(ctx context.Context, p *placer, slots []uint32) (n int, left []uint32) {
	for i, slot := range slots {
		if i > 0 && i%cellsPerCheck == 0 && ctx.Err() != nil {
			return n, slots[i:]
		}
		if w.graph.live(slot) {
			p.place(slot)
			n++
		}
		w.pass()
	}
	return n, nil
}

// placeAll chooses centres, and gives all rows their places.
func (w *builder) placeAll(ctx context.Context, c *coding) error {
	x := w.beam.x
	w.graph.mu.Lock()
	if c.cover.fresh.Load() == nil {
		c.cover.fresh.Store(new([]uint32)) // from now on rows that come are noted
	}
	fresh := len(*c.cover.fresh.Load())
	w.graph.mu.Unlock()
	slots := w.graph.liveSlots(x.length.Load())
	p := newPlacer(c, w.chooseCells(c, slots))
	n, left := w.placeRows(ctx, p, slots)
	p.cells.chosen, p.cells.usual = len(slots), p.off/math.Max(1, float64(n))
	c.cover.settle(w.graph, p.cells, fresh, left)
	if len(left) > 0 {
		return ctx.Err()
	}
	return nil
}

// liveSlots returns those that hold a row, the one that is about to be handed out among
// them: its row may be there before it is, and before it would have been noted as fresh.
func (g *graph) liveSlots(length uint32) (slots []uint32) {
	nodes := g.nodes.table.Load()
	for slot := range min(length+1, uint32(len(nodes.Pages))<<nodes.Shift) {
		if g.live(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// chooseCells returns cells without rows about centres of the rows in some slots: by
// k-means, from rows that are spread over them.
func (w *builder) chooseCells(c *coding, slots []uint32) *cells {
	all := &cells{rotation: newRotation(cellBits(c.dim))}
	n := min(max(len(slots)/rowsPerCell, leastCells), mostCells)
	var samples [maxGroups][]float32
	var row []float32
	// A step that has no factor with the order in which rows may lie.
	rng := rand.New(rand.NewPCG(uint64(len(slots)), uint64(c.dim)))
	sampled := min(n*cellSample, len(slots))
	for i := range sampled {
		at := i*len(slots)/sampled + rng.IntN(max(1, len(slots)/sampled))
		slot := slots[min(at, len(slots)-1)]
		row = c.row(slot).decode(row[:0])
		samples[c.label(slot)] = append(samples[c.label(slot)], row...)
	}
	for group := range max(1, len(c.centres)) {
		vecs := samples[group]
		if len(vecs) == 0 {
			all.setGroup(group, [][]float32{make([]float32, c.dim)})
			continue
		}
		share := max(1, n*len(vecs)/(sampled*c.dim))
		w.moveCells(all, group, c, vecs, share)
	}
	return all
}

// moveCells makes the cells of a group those about n centres for the vectors.
func (w *builder) moveCells(all *cells, group int, c *coding, vecs []float32, n int) {
	dim := c.dim
	rows := len(vecs) / dim
	centres := w.spreadCentres(vecs, dim, min(n, rows))
	coarse := coarseRows(vecs, dim)
	for range cellRounds {
		one := &cells{rotation: all.rotation}
		one.setGroup(0, centres)
		p := newPlacer(c, one)
		sums, counts := make([]float64, len(centres)*dim), make([]int, len(centres))
		for i := range rows {
			vec := vecs[i*dim : (i+1)*dim]
			at := p.nearest(codesAt(&coarse, uint32(i), dim), 0)
			counts[at]++
			sum := sums[at*dim : (at+1)*dim]
			for k, v := range vec {
				sum[k] += float64(v)
			}
			w.pass()
		}
		for i, count := range counts {
			if count == 0 {
				continue // nothing is nearest to it
			}
			centres[i] = make([]float32, dim)
			for k, v := range sums[i*dim : (i+1)*dim] {
				centres[i][k] = float32(v / float64(count))
			}
		}
	}
	all.setGroup(group, centres)
}

// spreadCentres returns vectors of a sample that are likely far from each other (Arthur and
// Vassilvitskii, k-means++, 2007), of spreadSample for each.
func (w *builder) spreadCentres(vecs []float32, dim, n int) [][]float32 {
	rng := rand.New(rand.NewPCG(uint64(len(vecs)/dim), uint64(n)))
	all := simd.Rows{Pages: []unsafe.Pointer{unsafe.Pointer(&vecs[0])}, Shift: mostCellShift, Stride: uintptr(4 * dim)}
	var ids []uint32
	for at := 0; at < len(vecs)/dim; at += max(1, len(vecs)/dim/(n*spreadSample)) {
		ids = append(ids, uint32(at))
	}
	dists, near := make([]float32, len(ids)), make([]float32, len(ids))
	for i := range near {
		near[i] = math.MaxFloat32
	}
	at, centres := rng.IntN(len(ids)), make([][]float32, 0, n)
	for {
		from := int(ids[at]) * dim
		centre := vecs[from : from+dim]
		if centres = append(centres, centre); len(centres) == n {
			return centres
		}
		simd.SquaredL2Rows(centre, &all, ids, dists)
		sum := 0.0
		for i, d := range dists {
			near[i] = min(near[i], d)
			sum += float64(near[i])
		}
		at = 0
		for left := rng.Float64() * sum; at < len(ids)-1 && left >= float64(near[at]); at++ {
			left -= float64(near[at])
		}
		w.pass()
	}
}
