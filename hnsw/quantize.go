package hnsw

import (
	"math"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// codeMax is the largest magnitude of a code less its offset.
const codeMax = 127

// codeZero is the offset of row codes: the code of 0.
const codeZero = 128

// codeRow is a view of a quantised row in its arena.
type codeRow struct {
	head  *[2]float32 // scale, bias
	codes []uint8
}

func (x *Index) codeRow(slot uint32) codeRow {
	row := x.codes.table.Load().At(slot)
	return codeRow{
		head:  (*[2]float32)(row),
		codes: unsafe.Slice((*uint8)(unsafe.Add(row, simd.CodeHeader)), x.cfg.Dim),
	}
}

func codeStride(dim int) uintptr { return (simd.CodeHeader + uintptr(dim) + 7) &^ 7 }

// quantize rounds a vector to codes in steps of the largest component's 127th,
// and returns the step.
func quantize(vec []float32, codes []uint8) (scale float64) {
	largest := largestMagnitude(vec)
	if largest == 0 {
		for i := range codes {
			codes[i] = codeZero
		}
		return 0
	}
	inv := codeMax / largest
	for i, v := range vec {
		codes[i] = uint8(int(math.RoundToEven(float64(v)*inv)) + codeZero)
	}
	return largest / codeMax
}

func largestMagnitude(vec []float32) float64 {
	var largest float32
	for _, v := range vec {
		largest = max(largest, v, -v)
	}
	return float64(largest)
}

// unitScale returns the scale under which codes make a vector of length one.
func unitScale(codes []uint8) float64 {
	var sum int
	for _, c := range codes {
		v := int(c) - codeZero
		sum += v * v
	}
	return 1 / math.Sqrt(float64(sum))
}

func (r codeRow) decode(dst []float32) []float32 {
	scale := r.head[0]
	for _, c := range r.codes {
		dst = append(dst, scale*float32(int32(c)-codeZero))
	}
	return dst
}
