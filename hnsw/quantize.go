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
	codes = codes[:len(vec)]
	largest := largestMagnitude(vec)
	if largest == 0 {
		for i := range codes {
			codes[i] = codeZero
		}
		return 0
	}
	inv := codeMax / largest
	for i, v := range vec {
		codes[i] = uint8(round(float64(v)*inv) + codeZero)
	}
	return largest / codeMax
}

// round returns the integer nearest to a number of small magnitude: added to a
// number so large that its last bit is worth one, it is rounded by that.
func round(v float64) int32 {
	const large = 3 << 51
	return int32(math.Float64bits(v + large))
}

// largestMagnitude compares magnitudes by their bits, whose order is theirs.
func largestMagnitude(vec []float32) float64 {
	const sign = 1 << 31
	var a, b, c, d uint32
	for len(vec) >= 4 {
		a = max(a, math.Float32bits(vec[0])&^sign)
		b = max(b, math.Float32bits(vec[1])&^sign)
		c = max(c, math.Float32bits(vec[2])&^sign)
		d = max(d, math.Float32bits(vec[3])&^sign)
		vec = vec[4:]
	}
	for _, v := range vec {
		a = max(a, math.Float32bits(v)&^sign)
	}
	return float64(math.Float32frombits(max(a, b, c, d)))
}

// squaredNorm returns a vector's squared length, in four chains of additions that
// don't wait for each other.
func squaredNorm(vec []float32) float64 {
	var a, b, c, d float64
	for len(vec) >= 4 {
		s, t, u, v := float64(vec[0]), float64(vec[1]), float64(vec[2]), float64(vec[3])
		a += s * s
		b += t * t
		c += u * u
		d += v * v
		vec = vec[4:]
	}
	for _, v := range vec {
		a += float64(v) * float64(v)
	}
	return a + b + (c + d)
}

// distance returns the distance of two vectors, likewise.
func distance(x, y []float32) float64 {
	y = y[:len(x)]
	var a, b, c, d float64
	for len(x) >= 4 && len(y) >= 4 {
		s, t := float64(x[0])-float64(y[0]), float64(x[1])-float64(y[1])
		u, v := float64(x[2])-float64(y[2]), float64(x[3])-float64(y[3])
		a += s * s
		b += t * t
		c += u * u
		d += v * v
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		s := float64(v) - float64(y[i])
		a += s * s
	}
	return math.Sqrt(a + b + (c + d))
}

// coarse says that codes, most of them 0 and 1, say little of a vector: one of
// its components is so large that the others are lost in the rounding. Errors
// are then what those were, and not independent of anything.
func coarse(codes []uint8) bool {
	sum := 0
	for _, c := range codes {
		sum += max(int(c)-codeZero, codeZero-int(c))
		if sum >= len(codes) {
			return false // most often a few components tell
		}
	}
	return true
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
