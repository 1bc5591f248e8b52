package hnsw

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/turn"
)

const (
	// Crossover is the number of rows from which on a graph is built: a flat
	// search of fewer is as fast.
	Crossover = 4096
	// linkBatch is how many pending slots are linked before the list of them
	// is cut: what a search may score flat although it is linked already.
	linkBatch = 1024
	// lockStripes is how many locks the nodes share while several goroutines
	// link; a power of two.
	lockStripes = 1024
)

// Link adds the pending rows in slots below upto to the graph, and leads links
// around removed rows once there are enough of them. Each row becomes part of
// the graph at once; until then searches score it flat. Below [Crossover] rows
// it does nothing. One call at a time does the work, others wait; adding,
// removing and searching go on beside it. It returns ctx's error once ctx is
// done, with the rows linked so far in the graph, and [ErrFile].
//
// It takes about EfConstruction * M score computations for each row.
func (x *Index) Link(ctx context.Context, upto uint32) (err error) {
	g := &x.graph
	g.linking.Lock()
	defer g.linking.Unlock()
	defer x.spill.guard()(&err)
	if err := x.spill.err(); err != nil {
		return err
	}
	// A slot beyond may have been announced already, but searches, the builders'
	// own among them, don't go there.
	upto = min(upto, x.length.Load())
	left := len(*g.pending.Load())
	if !x.links() {
		return ctx.Err()
	}
	x.gatherEquals()
	builders := make([]*builder, x.builders.Load())
	for i := range builders {
		builders[i] = newBuilder(x)
	}
	if err := builders[0].place(ctx); err != nil {
		return err
	}
	if builders[0].yields && g.removedShare(repairFirst) {
		if err := builders[0].repair(ctx); err != nil {
			return err
		}
	}
	for skip := 0; left > 0; {
		n := min(left, linkBatch)
		work := (*g.pending.Load())[skip : skip+n]
		if err := linkAll(ctx, builders, work, upto); err != nil {
			return err
		}
		skip = g.settle(skip, n, upto)
		left -= n
		if err := builders[0].prove(ctx, proofGrowth); err != nil {
			return err
		}
	}
	if err := builders[0].repair(ctx); err != nil {
		return err
	}
	if err := builders[0].prove(ctx, proofEnd); err != nil {
		return err
	}
	if err := builders[0].place(ctx); err != nil {
		return err
	}
	return builders[0].recode(ctx)
}

// SetBuilders changes how many goroutines the calls of Link use that begin after
// it: fewer while the processor has other work, more while somebody waits. It is
// kept within what [Config] allows.
func (x *Index) SetBuilders(n int) { x.builders.Store(int32(min(max(n, 1), maxBuilders))) }

// SetYield tells the calls of Link that begin after it that nobody waits for them. Their
// goroutines let others run every millisecond: while the processor is busy they get on
// slowly, and on a single one a search waits a millisecond and not ten. And where very
// many rows are removed, links are led around those before others are made.
func (x *Index) SetYield(yield bool) { x.yields.Store(yield) }

// linkAll links the slots below upto that need it.
func linkAll(ctx context.Context, builders []*builder, work []uint32, upto uint32) error {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		failed atomic.Pointer[error]
	)
	for _, b := range builders {
		wg.Go(func() {
			err := panics.Catch("links vectors", func() {
				for failed.Load() == nil {
					i := int(next.Add(1)) - 1
					if i >= len(work) {
						return
					}
					err := ctx.Err()
					if err == nil && work[i] < upto && b.graph.claim(work[i]) {
						err = b.link(work[i])
					}
					b.pass()
					if err != nil {
						failed.CompareAndSwap(nil, &err)
					}
				}
			})
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// builder links slots; each goroutine of Link has one.
type builder struct {
	graph  *graph
	beam   *beam // its query is the row being linked
	chosen [maxLevel + 1][]uint32
	pruner pruner
	near   []candidate
	row    []float32
	queue  []uint32 // see spread
	coder  blockCoder
	yields bool
	turn   turn.Turn
}

func newBuilder(x *Index) *builder {
	w := &builder{graph: &x.graph, beam: newBeam(x), pruner: pruner{beam: newBeam(x)}, yields: x.yields.Load()}
	w.beam.byDistance, w.pruner.beam.byDistance = true, true
	return w
}

// pass lets others run if the builder's turn is over. No lock is held then that a
// search waits for.
func (w *builder) pass() {
	if w.yields {
		w.turn.Pass()
	}
}

// load makes a row the beam's query and returns the row's bias, which turns
// scores of rows for this query into a similarity that is symmetric.
func (b *beam) load(slot uint32) (bias float32) {
	row := b.coding.row(slot)
	b.query.Scale = row.head[0]
	b.query.Sum = signedCodes(row.codes, b.query.Codes)
	if b.coding.grouped() {
		scale := float64(row.head[0])
		b.leaveHome(b.coding.label(slot), slot, scale*scale*squaredCodes(b.query.Codes))
	}
	if b.byDistance && b.coding.metric == Dot && b.coding.grouped() {
		return row.head[1] - float32(b.coding.square(slot)/2)
	}
	return row.head[1]
}

// signedCodes takes the offset off codes and returns their sum.
func signedCodes(codes []uint8, dst []int8) (sum int32) {
	n := int32(len(codes))
	out := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(dst[:n]))), n)
	const zeros, even = codeZero * 0x0101010101010101, 0x00ff00ff00ff00ff
	total := int32(0)
	for len(codes) >= 8 {
		// Up to 64 words fit the 16-bit lanes that hold two bytes' sum each.
		var lanes uint64
		for n := min(len(codes)/8, 64); n > 0; n-- {
			w := binary.LittleEndian.Uint64(codes)
			binary.LittleEndian.PutUint64(out, w^zeros)
			lanes += w&even + w>>8&even
			codes, out = codes[8:], out[8:]
		}
		total += int32(lanes&0xffff + lanes>>16&0xffff + lanes>>32&0xffff + lanes>>48)
	}
	for i, c := range codes {
		out[i] = c ^ codeZero
		total += int32(c)
	}
	return total - codeZero*n
}

// link takes a claimed slot into the graph.
func (w *builder) link(slot uint32) (err error) {
	defer w.beam.x.spill.guard()(&err)
	g := w.graph
	if g.becomesTwin(slot) {
		return nil
	}
	level := g.level(slot)
	if err := g.allocUpper(slot, level); err != nil {
		g.equals.Load().drop(slot)
		g.unclaim(slot)
		return err
	}
	if _, _, ok := g.entryPoint(); !ok && g.firstEntryPoint(slot, level) {
		return nil
	}
	w.connect(slot, level)
	g.setLinked(slot, level)
	return nil
}

// connect finds a slot's neighbours in each of its layers, gives it links to
// them, and only then lets them link back: whoever meets the slot can go on.
func (w *builder) connect(slot uint32, level int) {
	g := w.graph
	w.beam.pin()
	w.pruner.beam.pin()
	w.beam.sketches = nil
	bias := w.beam.load(slot)
	self := w.beam.scoreOne(slot)
	w.row = w.beam.coding.row(slot).decode(w.row[:0])
	w.beam.bySketches(w.row)
	entry, top, _ := g.entryPoint()
	shared := min(level, top)
	from := w.beam.approach(entry, top, shared, approachEf)
	for l := shared; l >= 0; l-- {
		near := w.nearest(slot, from, l)
		w.chosen[l] = w.pruner.diverse(near, bias, self, g.room(l), w.chosen[l][:0])
		g.setNeighbours(slot, l, w.chosen[l])
		from = w.beam.keepStarts()
	}
	for l := shared; l >= 0; l-- {
		kept := false
		for _, to := range w.chosen[l] {
			kept = w.linkBack(to, slot, l) || kept
		}
		if !kept && l == 0 && len(w.chosen[l]) > 0 {
			g.forceLink(w.chosen[l][0], slot)
		}
	}
}

// nearest returns the candidates for a slot's links in a layer, best first:
// live ones, unless there are none. Of those found by sketches it reads the codes of
// the better half: links to the others are next to never chosen.
func (w *builder) nearest(slot uint32, from []candidate, level int) []candidate {
	b := w.beam
	b.visible = nil
	if w.graph.dead.Load() > 0 {
		b.visible = w.graph.live
	}
	b.reset(b.x.cfg.EfConstruction)
	b.start(from...)
	if level == 0 {
		b.enter()
	}
	b.walk(level, math.MaxInt)
	w.near = w.near[:0]
	for _, c := range b.found {
		if c.slot&slotMask != slot && (b.shown == 0 || c.slot&markHidden == 0) {
			w.near = append(w.near, candidate{c.score, c.slot & slotMask})
		}
	}
	if b.sketches != nil {
		w.near = w.near[:min(len(w.near), max(b.x.cfg.EfConstruction/2, 2*w.graph.m0))]
		b.recode(w.near)
	}
	return w.near
}

// linkBack adds a link from a node to a slot, and drops the least useful one if
// there is no room. It reports whether the new link was kept.
func (w *builder) linkBack(from, to uint32, level int) bool {
	g := w.graph
	lock := g.lock(from)
	lock.Lock()
	defer lock.Unlock()
	list := g.list(from, level)
	for i := range list {
		switch list[i].Load() {
		case 0:
			list[i].Store(to + 1)
			if level == 0 {
				g.changed(from)
			}
			return true
		case to + 1:
			return true
		}
	}
	p := &w.pruner
	p.ids = append(g.neighbours(from, level, p.ids[:0]), to)
	p.kept = p.best(from, len(list), p.kept[:0])
	g.setNeighbours(from, level, p.kept)
	return slices.Contains(p.kept, to)
}

// pruner chooses links that lead in different directions.
type pruner struct {
	beam *beam // its query is the candidate that others are compared with
	near []candidate
	ids  []uint32
	base []float32
	kept []uint32
}

// best chooses up to m links for a node among the slots in ids.
func (p *pruner) best(node uint32, m int, dst []uint32) []uint32 {
	bias := p.beam.load(node)
	self := p.beam.scoreOne(node)
	p.beam.ids = append(p.beam.ids[:0], p.ids...)
	p.near = p.near[:0]
	for i, score := range p.beam.score() {
		p.near = append(p.near, candidate{score, p.ids[i]})
	}
	slices.SortFunc(p.near, compareCandidates)
	return p.diverse(p.near, bias, self, m, dst)
}

func compareCandidates(a, b candidate) int {
	if c := cmp.Compare(b.score, a.score); c != 0 {
		return c
	}
	return cmp.Compare(a.slot, b.slot)
}

// diverse appends to dst up to m of the candidates, best first: those that are
// closer to the node, whose bias and score for itself are given, than to any
// chosen before them (Malkov and Yashunin, algorithm 4). Of exact duplicates of
// the node it takes half of m at most, lest they link to each other alone. Where these
// are few it adds others (see fill).
func (p *pruner) diverse(near []candidate, bias, self float32, m int, dst []uint32) []uint32 {
	ids, base := p.ids[:0], p.base[:0]
	duplicates := 0
	for _, c := range near {
		if c.score == self {
			if duplicates++; duplicates > m/2 {
				continue
			}
		}
		ids, base = append(ids, c.slot), append(base, c.score+bias)
	}
	p.ids, p.base = ids, base
	for len(ids) > 0 && len(dst) < m {
		dst = append(dst, ids[0])
		ids, base = p.reject(ids[0], ids[1:], base[1:])
	}
	return fill(near, self, m/fillShare, dst)
}

// fillShare: a node has no fewer links than one for each fillShare that there is room
// for. Where the rows near the origin are closer to all others than those are to each
// other, one or two links rule out the rest: nearly all rows were then linked from three
// others or fewer, and a walk met a third of what it does elsewhere. Where links lead in
// many directions there are more of them than that.
const fillShare = 5

// fill appends the closest of the candidates that were not chosen, exact duplicates
// aside, until there are so many (Malkov and Yashunin, algorithm 4,
// keepPrunedConnections).
func fill(near []candidate, self float32, least int, dst []uint32) []uint32 {
	for _, c := range near {
		if len(dst) >= least {
			break
		}
		if c.score != self && !slices.Contains(dst, c.slot) {
			dst = append(dst, c.slot)
		}
	}
	return dst
}

// reject drops the candidates that are closer to a chosen one than to the node.
func (p *pruner) reject(chosen uint32, ids []uint32, base []float32) ([]uint32, []float32) {
	if len(ids) == 0 {
		return ids, base
	}
	bias := p.beam.load(chosen)
	p.beam.ids = append(p.beam.ids[:0], ids...)
	n := 0
	for i, score := range p.beam.score() {
		if score+bias <= base[i] {
			ids[n], base[n] = ids[i], base[i]
			n++
		}
	}
	return ids[:n], base[:n]
}
