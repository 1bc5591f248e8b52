package hnsw

import (
	"math"
	"math/bits"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// turns is how many transforms a rotation consists of.
const turns = 4

// rotation turns vectors by an orthogonal map that has nothing to do with them: the
// Hadamard transform of the first and of the last components in turns, a power of
// two of them each, with signs by a fixed pattern each time.
type rotation struct {
	dim     int              // a multiple of simd.BitGrain
	factors [turns][]float32 // one for each component that a transform takes
}

// newRotation makes the rotation of vectors of a dimension, which are filled up with
// zeros.
func newRotation(dim int) *rotation {
	r := &rotation{dim: (dim + simd.BitGrain - 1) / simd.BitGrain * simd.BitGrain}
	block := 1 << (bits.Len(uint(r.dim)) - 1)
	normal := math.Float32bits(float32(1 / math.Sqrt(float64(block))))
	for t := range r.factors {
		r.factors[t] = make([]float32, block)
		for i := range r.factors[t] {
			sign := uint32(splitmix(uint64(t*MaxDim+i+1)*splitmixStep) >> 63 << 31)
			r.factors[t][i] = math.Float32frombits(normal ^ sign)
		}
	}
	return r
}

// turn rotates a vector of dim components in place.
func (r *rotation) turn(v []float32) {
	for t, factors := range r.factors {
		part := v[:len(factors)]
		if t%2 == 1 {
			part = v[r.dim-len(factors):]
		}
		simd.Hadamard(part, factors)
	}
}
