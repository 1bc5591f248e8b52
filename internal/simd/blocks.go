package simd

import (
	"math"
	"math/bits"
	"unsafe"
)

// A block holds rows of bits in the order in which a processor looks them up sixteen at a
// time (André, Kermarrec and Le Scouarnec, FastScan, VLDB 2015): of each four components
// the bits of all sixteen rows, then two factors and the number of each row. What the
// bits stand for is the caller's: a row's cost for a query is
//
//	base + add + rescale * sum of the query's components, those without a bit negated
//
// with add and rescale in bfloat16, the upper half of a float32.
const (
	// BlockRows is how many rows a block has.
	BlockRows = 16
	// BlockGrain is what the components of a block are multiples of.
	BlockGrain = 32
	// MaxBlockBits bounds them: sums of table entries fit 16 bits.
	MaxBlockBits = 4096

	// tableRow is the size of the table of four components.
	tableRow = 16
	// grainBytes is what a grain's bits take in a block.
	grainBytes = BlockGrain / 8 * BlockRows
	// tableMost is the largest entry of a table: four fit a byte together.
	tableMost = 63
)

// BlockBytes returns the size of a block of so many components.
func BlockBytes(n int) int { return n/8*BlockRows + BlockRows*(2+2+4) }

// QueryTables are a query as blocks are compared with it.
type QueryTables struct {
	table []uint8 // of each four components, for each pattern of their bits
	// A sum of entries stands for itself times delta, and shift.
	delta, shift float32
}

// Set makes the tables of a query's components, a multiple of [BlockGrain].
func (q *QueryTables) Set(v []float32) {
	mustMatch(len(v)%BlockGrain, 0)
	groups := len(v) / 4
	if cap(q.table) < groups*tableRow {
		q.table = make([]uint8, groups*tableRow)
	}
	q.table = q.table[:groups*tableRow]
	widest := float32(0)
	for p := v; len(p) >= 4; p = p[4:] {
		widest = max(widest, abs(p[0])+abs(p[1])+abs(p[2])+abs(p[3]))
	}
	if widest == 0 {
		widest = 1
	}
	q.delta, q.shift = 2*widest/tableMost, -float32(groups)*widest
	if len(v) > 0 {
		blockTables(v, tableMost/2.0/widest, q.table)
	}
}

// sum is what a sum of entries stands for.
func (q *QueryTables) sum(entries uint32) float32 { return float32(entries)*q.delta + q.shift }

func abs(f float32) float32 { return math.Float32frombits(math.Float32bits(f) &^ (1 << 31)) }

// blockTablesGo rounds scale times the sums of four components to 0 to tableMost. Adding
// 1.5*2^23 leaves the nearest integer in the low bits.
func blockTablesGo(v []float32, scale float32, table []uint8) {
	const magic = 3 << 22
	for ; len(v) >= 4; v, table = v[4:], table[tableRow:] {
		a, b, c, d := v[0]*scale, v[1]*scale, v[2]*scale, v[3]*scale
		low := [4]float32{-a - b, a - b, -a + b, a + b}
		high := [4]float32{-c - d, c - d, -c + d, c + d}
		for i := range tableRow {
			f := low[i&3] + high[i>>2] + tableMost/2.0
			table[i] = uint8(math.Float32bits(f + magic))
		}
	}
}

// Found is what a block holds below a bar.
type Found struct {
	Costs [BlockRows]float32
	IDs   [BlockRows]uint32
}

// ScanBlock sets the first of found to the rows of a block whose cost, about, is below
// bar, and returns how many they are.
func ScanBlock(q *QueryTables, block unsafe.Pointer, base, bar float32, found *Found) int {
	return scanBlock(q, block, base, bar, found)
}

// place is where the entry of a row lies among the bytes of a group: kernels add even and
// odd bytes apart, and even ones come first in what they return.
func place(row int) int {
	if row < BlockRows/2 {
		return 2 * row
	}
	return 2*(row-BlockRows/2) + 1
}

// factorsOf returns the factors of a block of so many bytes of bits.
func factorsOf(block unsafe.Pointer, bits int) *[2][BlockRows]uint16 {
	return (*[2][BlockRows]uint16)(unsafe.Add(block, bits))
}

func idsOf(block unsafe.Pointer, bits int) *[BlockRows]uint32 {
	return (*[BlockRows]uint32)(unsafe.Add(block, bits+2*2*BlockRows))
}

func scanBlockGo(q *QueryTables, block unsafe.Pointer, base, bar float32, found *Found) int {
	size := len(q.table) / 2
	codes := unsafe.Slice((*uint8)(block), size)
	var sums [BlockRows]uint32
	for chunk := 0; chunk < size; chunk += grainBytes {
		for g := range grainBytes / tableRow {
			low, high := q.table[2*chunk+g*tableRow:], q.table[2*chunk+grainBytes+g*tableRow:]
			for row := range sums {
				code := codes[chunk+g*tableRow+place(row)]
				sums[row] += uint32(low[code&15]) + uint32(high[code>>4])
			}
		}
	}
	return q.below(&sums, block, base, bar, found)
}

// below keeps the rows whose sums make a cost below bar.
func (q *QueryTables) below(sums *[BlockRows]uint32, block unsafe.Pointer, base, bar float32, found *Found) int {
	size := len(q.table) / 2
	factors, ids := factorsOf(block, size), idsOf(block, size)
	n := 0
	for row, sum := range sums {
		cost := base + widen(factors[0][row]) + widen(factors[1][row])*q.sum(sum)
		if cost < bar {
			found.Costs[n], found.IDs[n] = cost, ids[row]
			n++
		}
	}
	return n
}

func widen(half uint16) float32 { return math.Float32frombits(uint32(half) << 16) }

// narrow rounds to bfloat16, to the even one of two that are equally near.
func narrow(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff >= 0x7f7f8000 { // it rounds to infinity, or is it
		return uint16(b>>31<<15 | 0x7f80)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// SetBlockRow writes one row of a block of len(signs)*16 components: bit i of word w of
// signs is that of component 16*w+i.
func SetBlockRow(block unsafe.Pointer, row int, signs []uint16, add, rescale float32, id uint32) {
	size := len(signs) * 2 * BlockRows
	codes, at := unsafe.Slice((*uint8)(block), size), place(row)
	for w, word := range signs {
		// A word has four groups: those of even words lie in the low halves of a grain's
		// bytes, those of odd ones in the high halves.
		shift := w & 1 * 4
		for g := range 4 {
			b := &codes[w>>1*grainBytes+g*tableRow+at]
			*b = *b&^(15<<shift) | uint8(word>>(4*g)&15)<<shift
		}
	}
	factors := factorsOf(block, size)
	factors[0][row], factors[1][row] = narrow(add), narrow(rescale)
	idsOf(block, size)[row] = id
}

// NoBlockRow has a block have no such row: its cost is below no bar.
func NoBlockRow(block unsafe.Pointer, components, row int) {
	size := components / 8 * BlockRows
	factors := factorsOf(block, size)
	factors[0][row], factors[1][row] = narrow(float32(math.Inf(1))), 0
	idsOf(block, size)[row] = math.MaxUint32
}

// BlockIDs are the numbers of a block's rows; math.MaxUint32 where there is none.
func BlockIDs(block unsafe.Pointer, components int) *[BlockRows]uint32 {
	return idsOf(block, components/8*BlockRows)
}

// Signs are a difference of two vectors as a block has it.
type Signs struct {
	Square float64 // of its length
	Sum    float64 // of the magnitudes of the components that have bits
	Centre float64 // of the second vector's components under the signs
}

// SignsOf sets bit i%16 of words[i/16] where x[i] is greater than c[i]. All components
// count in Square, those that have a bit in the others.
func SignsOf(x, c []float32, words []uint16) (s Signs) {
	mustMatch(len(x), len(c))
	n := 16 * len(words)
	if n > 0 {
		s = signs(x[:n], c[:n], words)
	}
	if n < len(x) {
		s.Square += float64(SquaredL2(x[n:], c[n:]))
	}
	return s
}

func signsGo(x, c []float32, words []uint16) (s Signs) {
	clear(words)
	for i, v := range x {
		r := v - c[i]
		s.Square += float64(r) * float64(r)
		if r > 0 {
			words[i>>4] |= 1 << (i & 15)
			s.Sum += float64(r)
			s.Centre += float64(c[i])
		} else {
			s.Sum -= float64(r)
			s.Centre -= float64(c[i])
		}
	}
	return s
}

const (
	// PoolRoom is how many candidates a [Pool] holds.
	PoolRoom = 64
	// PoolDone marks a candidate of a pool that is not open.
	PoolDone = 1 << 31
)

// Pool holds candidates in the order of their costs, the least first. The kernels keep it
// in registers while they put others in their places.
type Pool struct {
	Costs [PoolRoom]float32
	IDs   [PoolRoom]uint32 // with PoolDone
	out   [PoolRoom / 16]uint16
	ef    int
}

// Reset empties a pool of which up to ef candidates are kept, PoolRoom at most.
func (p *Pool) Reset(ef int) {
	inf := float32(math.Inf(1))
	for i := range p.Costs {
		p.Costs[i], p.IDs[i] = inf, PoolDone
	}
	for i := range p.out {
		p.out[i] = uint16(^uint64(0) << min(max(ef-16*i, 0), 16))
	}
	p.ef = ef
}

// Bar is the cost below which a candidate enters.
func (p *Pool) Bar() float32 { return p.Costs[p.ef-1] }

// Absorb puts the first n found in their places, less those that are in the set, a bit
// for each number. It returns the places of the candidates that are open, a bit for each.
func (p *Pool) Absorb(found *Found, n int, set []uint64) (open uint64) {
	return absorb(p, found, n, set)
}

func absorbGo(p *Pool, found *Found, n int, set []uint64) (open uint64) {
	for i, cost := range found.Costs[:n] {
		id := found.IDs[i]
		if cost >= p.Costs[p.ef-1] || set[id>>6]>>(id&63)&1 != 0 {
			continue
		}
		at := p.ef - 1
		for at > 0 && p.Costs[at-1] > cost {
			p.Costs[at], p.IDs[at] = p.Costs[at-1], p.IDs[at-1]
			at--
		}
		p.Costs[at], p.IDs[at] = cost, id
	}
	for i, id := range p.IDs[:p.ef] {
		open |= uint64(^id>>31) << i
	}
	return open
}

// First is the place of the first of the open ones.
func First(open uint64) int { return bits.TrailingZeros64(open) }

// PrefetchLines is [Prefetch] for n lines of 64 bytes.
func PrefetchLines(p unsafe.Pointer, n int) { prefetchLines(p, n) }
