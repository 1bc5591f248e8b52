package hnsw

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// A block has what a walk asks of a node's neighbours in one piece of memory: for each of
// up to sixteen one bit a component, two factors and its slot. The bits are the signs of
// what the neighbour has beyond the node, after a random rotation, so that about the node
// they tell near ones apart (Gou et al., SymphonyQG, SIGMOD 2025, after RaBitQ): with s the
// signs and r that difference, <q-c, r> is about |r|² <s, q-c> / <s, r> for any query q and
// the node's row c. A hop reads the node's block and codes, and no neighbour's.
//
// Blocks follow from codes and links, and are made by Link: of a node whose links have
// changed since there is none, and a walk compares with the codes of its neighbours.

const (
	// leastBlockBits is how many components rows have at least that get blocks: signs of
	// fewer tell little.
	leastBlockBits = 96
	// Of dim components that many have a bit, mostBlockBits at most: of more, a walk
	// reads longer than it gains.
	allBits       = 128
	mostBlockBits = 384
	// leastSeedRows is how many seeds there are at least, and mostSeedRows at most; between
	// them one for so many nodes.
	leastSeedRows, mostSeedRows, nodesPerSeed = 512, 8192, 256
)

// blockBits is how many components of rows have a bit in blocks; 0: there are none.
func blockBits(dim int) int {
	if dim < leastBlockBits {
		return 0
	}
	n := min(max(3*dim/5, allBits), mostBlockBits)
	return min(n, dim) / simd.BlockGrain * simd.BlockGrain
}

// blocks are those of a graph's nodes, and what walks over them start from.
type blocks struct {
	arena
	of       *coding   // that they follow from
	rotation *rotation // nil: the coding turns rows itself
	bits     int
	lines    int   // of 64 bytes, of a block
	marks    arena // a marks for each 64 slots
	limit    atomic.Uint32
	uncoded  atomic.Int64 // nodes, about
	sown     int64        // nodes there were when seeds were chosen; the builder's
	seeds    atomic.Pointer[sown]
	walks    grace // those that read blocks
}

// marks has a bit for each of 64 slots.
type marks struct {
	coded uint64 // the block is that of the node's links
	made  uint64 // it was, of links that it has had: the builder's
}

// sown are some nodes, the seeds, coded about their mean: a walk starts from those closest to the
// query.
type sown struct {
	slots  []uint32
	blocks []uint64 // room for blocks of simd.BlockRows each
	mean   []float32
	square float64 // of its length
}

func (c *coding) newBlocks() *blocks {
	k := &blocks{of: c, bits: blockBits(c.dim), rotation: newRotation(c.dim)}
	if c.rotation != nil {
		k.rotation = nil
	}
	k.init(uintptr(simd.BlockBytes(k.bits)))
	k.lines = simd.BlockBytes(k.bits) / 64
	k.marks.init(unsafe.Sizeof(marks{}))
	return k
}

// room makes room for blocks of slots below n.
func (k *blocks) room(n uint32) error {
	if err := k.grow(n); err != nil {
		return err
	}
	if err := k.marks.grow(n/64 + 1); err != nil {
		return err
	}
	k.limit.Store(n)
	return nil
}

// marked has the marks of a slot and those beside it.
func (k *blocks) marked(slot uint32) *marks {
	return (*marks)(k.marks.table.Load().At(slot >> 6))
}

// isCoded reports whether a slot's block is that of its links.
func (k *blocks) isCoded(slot uint32) bool {
	return slot < k.limit.Load() && atomic.LoadUint64(&k.marked(slot).coded)>>(slot&63)&1 != 0
}

func (k *blocks) memory(n uint32) int64 {
	if k == nil {
		return 0
	}
	codes, _ := k.bytes(n)
	marks, _ := k.marks.bytes(n/64 + 1)
	if s := k.seeds.Load(); s != nil {
		marks += int64(8*len(s.blocks) + 4*len(s.slots))
	}
	return codes + marks
}

// changed says that a node's links in the lowest layer are others.
func (g *graph) changed(slot uint32) {
	k := g.blocks.Load()
	if k == nil || slot >= k.limit.Load() {
		return
	}
	bit := uint64(1) << (slot & 63)
	if atomic.AndUint64(&k.marked(slot).coded, ^bit)&bit != 0 {
		k.uncoded.Add(1)
	}
}

// forget says that a slot holds another row.
func (k *blocks) forget(slot uint32) {
	if k != nil && slot < k.limit.Load() {
		atomic.AndUint64(&k.marked(slot).made, ^(uint64(1) << (slot & 63)))
	}
}

// turned is a row as blocks compare it.
type turned struct {
	vec    []float32
	bias   float64
	length float64 // of the row as it was added: what Dot adds to its bias; else 0
}

// turn appends to t.vec[:0] the row of a slot.
func (k *blocks) turn(slot uint32, t *turned) {
	row := k.of.row(slot)
	t.vec, t.bias, t.length = row.decode(t.vec[:0]), float64(row.head[1]), 0
	if k.of.metric == Dot {
		t.length = float64(row.head[1]) + simd.SquaredNorm(t.vec)/2
	}
	if k.rotation != nil {
		k.rotation.turn(t.vec)
	}
}

// blockCoder codes blocks; each builder has one.
type blockCoder struct {
	node, other turned
	words       []uint16
	links       []uint32
	places      []int
	near        []uint32
	kept        []keptTurned // empty where few blocks are made
}

// keptTurned is a row that was turned of late.
type keptTurned struct {
	turned
	of uint32 // its slot plus one; 0: there is none
}

const (
	// keptRows is how many turned rows are kept while blocks are made, and so many blocks of
	// nodes near each other are made in turn: of 30,000 rows of 784 components, this took a
	// fifth off what making blocks takes.
	keptRows, nearBlocks = 2048, 256
	// keepFrom is how many blocks there are to make where it is worth it.
	keepFrom = 4 * keptRows
)

// turned returns the row of a slot, until the next call.
func (w *blockCoder) turned(k *blocks, slot uint32) *turned {
	if len(w.kept) == 0 {
		k.turn(slot, &w.other)
		return &w.other
	}
	kept := &w.kept[slot%keptRows]
	if kept.of != slot+1 {
		k.turn(slot, &kept.turned)
		kept.of = slot + 1
	}
	return &kept.turned
}

// set codes a row as one of a block about another row.
func (w *blockCoder) set(block unsafe.Pointer, place int, slot uint32, row *turned) {
	s := simd.SignsOf(row.vec, w.node.vec, w.words)
	add, rescale := s.Square/2, 0.0
	if s.Sum > 0 {
		rescale = -s.Square / s.Sum
		add -= rescale * s.Centre
	}
	add -= row.length - w.node.length
	simd.SetBlockRow(block, place, w.words, float32(add), float32(rescale), slot)
}

// recode makes the blocks of the nodes whose links have changed, if there is room for
// them. Nothing is linked meanwhile.
func (w *builder) recode(ctx context.Context) error {
	x, g := w.beam.x, w.graph
	w.beam.pin()
	w.pruner.beam.pin()
	c, n := w.beam.coding, w.beam.limit
	k := g.blocks.Load()
	if !x.wantsBlocks(n) || !c.takesBlocks() {
		g.blocks.Store(nil)
		return nil
	}
	if k == nil || k.of != c {
		k = c.newBlocks()
	}
	if err := k.room(n); err != nil {
		return err
	}
	g.blocks.Store(k)
	// Blocks are rebuilt in place. A walk that began before may still be reading one.
	if err := k.walks.wait(ctx); err != nil {
		k.uncoded.Add(1)
		return err
	}
	w.coder.words, w.coder.kept = make([]uint16, k.bits/16), nil
	if k.seeds.Load() == nil || k.uncoded.Load() >= keepFrom {
		w.coder.kept = make([]keptTurned, keptRows)
	}
	k.uncoded.Store(0)
	for first := uint32(0); first < n; first += 64 {
		if first%rowsPerCheck == 0 && ctx.Err() != nil {
			k.uncoded.Add(1)
			return ctx.Err()
		}
		for left := ^atomic.LoadUint64(&k.marked(first).coded); left != 0; left &= left - 1 {
			slot := first + uint32(bits.TrailingZeros64(left))
			if slot >= n {
				break
			}
			w.codeNear(k, slot)
		}
	}
	w.coder.kept = nil
	if s := k.seeds.Load(); s != nil && g.linked.Load() < 2*k.sown {
		return nil
	}
	w.sow(k)
	k.sown = g.linked.Load()
	if w.misled(k) {
		g.blocks.Store(nil)
		g.unfit.Store(k.sown)
	}
	return nil
}

// misled reports whether walks by blocks find too few of the rows that those by links find
// close to some: where rows are all about as far from each other, signs don't tell which is
// closer.
func (w *builder) misled(k *blocks) bool {
	const queries = 64
	b := w.beam
	b.byDistance = false // as searches score
	defer func() { b.byDistance = true }()
	found, wanted := 0, 0
	h := &hop{}
	for _, slot := range w.sample(queries, proofRounds+2) {
		want := w.find(slot, defaultEf)
		if len(want) < proofHits {
			continue
		}
		floor := want[proofHits-1].score
		wanted += proofHits
		w.row = b.queryRow(w.row[:0])
		h.ask(k, w.row, defaultEf)
		b.reset(defaultEf)
		h.start(k, k.seeds.Load(), b)
		b.hop(h, k, math.MaxInt)
		for _, c := range b.shownOnes()[:min(proofHits, b.shown)] {
			if c.score >= floor {
				found++
			}
		}
		w.pass()
	}
	return float64(found) < w.beam.x.leastByBlocks*float64(wanted)
}

// leastByBlocks is the least share of what walks by links find that those by blocks find.
const leastByBlocks = .98

// queryRow appends to dst what the query's codes stand for.
func (b *beam) queryRow(dst []float32) []float32 {
	for _, code := range b.query.Codes {
		dst = append(dst, b.query.Scale*float32(code))
	}
	return dst
}

// codeNear makes the block of a slot, if it is a node that has none, and those of nodes near
// it, whose blocks have many of the same rows.
func (w *builder) codeNear(k *blocks, slot uint32) {
	near, made := append(w.coder.near[:0], slot), 0
	for i := 0; i < len(near) && made < nearBlocks; i++ {
		slot := near[i]
		if slot >= w.beam.limit || k.isCoded(slot) || w.graph.node(slot).state.Load()&stateLinked == 0 {
			continue
		}
		w.codeBlock(k, slot)
		if made++; len(w.coder.kept) > 0 {
			near = w.graph.neighbours(slot, 0, near)
		}
		w.pass()
	}
	w.coder.near = near
}

// codeBlock makes the block of a node, of which it leaves what is right.
func (w *builder) codeBlock(k *blocks, slot uint32) {
	coder, block := &w.coder, k.table.Load().At(slot)
	links := w.graph.neighbours(slot, 0, coder.links[:0])
	coder.links = links
	if len(links) > simd.BlockRows {
		links = w.choose(slot, links)
	}
	marks, bit := k.marked(slot), uint64(1)<<(slot&63)
	places := coder.places[:0]
	for place, id := range simd.BlockIDs(block, k.bits) {
		at := -1
		if atomic.LoadUint64(&marks.made)&bit != 0 {
			at = slices.Index(links, id)
		}
		if at < 0 {
			places = append(places, place)
			continue
		}
		links[at] = links[len(links)-1]
		links = links[:len(links)-1]
	}
	coder.places = places
	if len(links) > 0 {
		t := coder.turned(k, slot)
		coder.node = turned{append(coder.node.vec[:0], t.vec...), t.bias, t.length}
	}
	for i, place := range places {
		if i >= len(links) {
			simd.NoBlockRow(block, k.bits, place)
			continue
		}
		coder.set(block, place, links[i], coder.turned(k, links[i]))
	}
	atomic.OrUint64(&marks.made, bit)
	atomic.OrUint64(&marks.coded, bit)
}

// choose returns the links of a node that its block has room for: the closest that lead in
// different directions, then the closest of the others.
func (w *builder) choose(slot uint32, links []uint32) []uint32 {
	p := &w.pruner
	p.ids = append(p.ids[:0], links...)
	p.kept = p.best(slot, simd.BlockRows, p.kept[:0])
	return fill(p.near, float32(math.Inf(1)), simd.BlockRows, p.kept)
}

// sow chooses seeds anew.
func (w *builder) sow(k *blocks) {
	g := w.graph
	want := int(min(max(g.linked.Load()/nodesPerSeed, leastSeedRows), mostSeedRows))
	slots := append(w.sample(want, proofRounds+1), g.entriesNow()...)
	if len(slots) == 0 {
		k.seeds.Store(nil)
		return
	}
	s := &sown{slots: slots, mean: make([]float32, k.of.dim)}
	sum := make([]float64, k.of.dim)
	for _, slot := range slots {
		k.turn(slot, &w.coder.other)
		for i, v := range w.coder.other.vec {
			sum[i] += float64(v)
		}
	}
	for i, v := range sum {
		s.mean[i] = float32(v / float64(len(slots)))
	}
	s.square = simd.SquaredNorm(s.mean)
	size := simd.BlockBytes(k.bits)
	n := (len(slots) + simd.BlockRows - 1) / simd.BlockRows
	s.blocks = make([]uint64, n*size/8)
	w.coder.node = turned{vec: s.mean}
	for i := range n * simd.BlockRows {
		block := s.block(i/simd.BlockRows, size)
		if i >= len(slots) {
			simd.NoBlockRow(block, k.bits, i%simd.BlockRows)
			continue
		}
		k.turn(slots[i], &w.coder.other)
		w.coder.set(block, i%simd.BlockRows, slots[i], &w.coder.other)
	}
	w.coder.node = turned{}
	k.seeds.Store(s)
}

func (s *sown) block(i, size int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.blocks)), i*size)
}

// wantsBlocks reports whether so many rows get blocks.
func (x *Index) wantsBlocks(rows uint32) bool {
	n, most := blockBits(x.cfg.Dim), x.cfg.BlockMemory
	switch linked := x.graph.linked.Load(); {
	case n == 0 || most < 0 || linked == 0 || int(rows) < x.cfg.BlocksFrom || linked < 2*x.graph.unfit.Load():
		return false
	default:
		return most == 0 || int64(rows)*int64(simd.BlockBytes(n)) <= most
	}
}

// blocksDue reports whether there are nodes whose blocks are to be made.
func (x *Index) blocksDue() bool {
	g := &x.graph
	if !x.wantsBlocks(x.length.Load()) {
		return false
	}
	c := x.coding.Load()
	if !c.takesBlocks() {
		return false
	}
	k := g.blocks.Load()
	return k == nil || k.of != c || k.uncoded.Load() > 0
}

// takesBlocks reports whether walks may go by blocks: where keys of all rows compare, and
// their codes are in memory.
func (c *coding) takesBlocks() bool { return !c.grouped() && !c.sketches.Load().walks(noSlot-1) }
