package hnsw

import (
	"math"
	"slices"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// quantize rounds a vector to codes in steps of the largest component's 127th,
// and returns the step.
func quantize(vec []float32, codes []uint8) (scale float64) {
	codes = codes[:len(vec)]
	largest := float64(simd.Largest(vec))
	if largest == 0 {
		for i := range codes {
			codes[i] = codeZero
		}
		return 0
	}
	simd.Round8(vec, codeMax/largest, unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(codes))), len(codes)))
	for i := range codes {
		codes[i] ^= codeZero // which adds the offset to a signed byte
	}
	return largest / codeMax
}

// distance returns the distance of two vectors, in four chains of additions that
// don't wait for each other.
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
	scale, before := r.head[0], len(dst)
	dst = slices.Grow(dst, len(r.codes))[:before+len(r.codes)]
	own := dst[before:]
	for i, c := range r.codes[:len(own)] {
		own[i] = scale * float32(int32(c)-codeZero)
	}
	return dst
}
