package simd

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

const (
	// BitGrain is what the dimensions of rows of bits are multiples of.
	BitGrain = 128
	// BitLevels is how many values a component of a [QueryBits] has.
	BitLevels = 1 << planes
	// planes is how many bits that are.
	planes = 4
	// grainWords is how many words a plane has of so many components as a grain.
	grainWords = BitGrain / 64
)

// QueryBits is a query in four bits a component: component i is
// Scale * (2*level - 15), its level being 0 to 15.
type QueryBits struct {
	Scale, Bias float32
	// For each grain of components the four bits of their levels, the lowest first,
	// each as two words.
	planes []uint64
}

// SetLevels gives each component its level, of a multiple of [BitGrain] of them.
func (q *QueryBits) SetLevels(levels []uint8) {
	mustMatch(len(levels)%BitGrain, 0)
	if need := len(levels) / 64 * planes; cap(q.planes) < need {
		q.planes = make([]uint64, need)
	}
	q.planes = q.planes[:len(levels)/64*planes]
	clear(q.planes)
	for i := 0; i < len(levels); i += 8 {
		// A bit of each of eight bytes, moved to the highest one by a product.
		eight := binary.LittleEndian.Uint64(levels[i:])
		word := i/BitGrain*planes*grainWords + i/64%grainWords
		for p := range planes {
			bit := eight >> p & 0x0101010101010101 * 0x0102040810204080 >> 56
			q.planes[word+p*grainWords] |= bit << (i % 64)
		}
	}
}

// DotBitsRows sets out[i] to the dot product of q and the row ids[i] of one bit a
// component, which is 1 where the bit is set and else -1, scaled by both scales,
// plus both biases. Rows begin with [CodeHeader].
func DotBitsRows(q *QueryBits, rows *Rows, ids []uint32, out []float32) {
	mustMatch(len(ids), len(out))
	if len(ids) == 0 || len(q.planes) == 0 {
		clear(out)
		return
	}
	dotBitsRows(q, rows, ids, out)
}

// most is the product of a query of the highest levels and a row that has all bits.
func (q *QueryBits) most() int32 { return int32(len(q.planes) / planes * 64 * (BitLevels - 1)) }

func dotBitsRowsGo(q *QueryBits, rows *Rows, ids []uint32, out []float32) {
	most := q.most()
	for i, id := range ids {
		scale, bias, row := bitRow(rows.At(id), len(q.planes)/planes)
		product := most - 2*differing(q.planes, row)
		// The conversions keep processors that could from fusing the sums.
		out[i] = float32(float32(float32(product)*(scale*q.Scale))+bias) + q.Bias
	}
}

// differing counts the bits in which a row differs from the levels: those from the
// lowest bits of these once, from the next ones twice, and so on.
func differing(levels, row []uint64) int32 {
	n := 0
	for len(row) >= grainWords && len(levels) >= planes*grainWords {
		a, b, p := row[0], row[1], (*[planes * grainWords]uint64)(levels)
		n += bits.OnesCount64(a^p[0]) + bits.OnesCount64(b^p[1])
		n += (bits.OnesCount64(a^p[2]) + bits.OnesCount64(b^p[3])) << 1
		n += (bits.OnesCount64(a^p[4]) + bits.OnesCount64(b^p[5])) << 2
		n += (bits.OnesCount64(a^p[6]) + bits.OnesCount64(b^p[7])) << 3
		row, levels = row[grainWords:], levels[planes*grainWords:]
	}
	return int32(n)
}

func bitRow(row unsafe.Pointer, words int) (scale, bias float32, bits []uint64) {
	head := (*[2]float32)(row)
	return head[0], head[1], unsafe.Slice((*uint64)(unsafe.Add(row, CodeHeader)), words)
}
