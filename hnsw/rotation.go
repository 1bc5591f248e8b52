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
	dim     int
	factors [turns][]float32 // one for each component that a transform takes
}

// leastTurned is the least dimension of vectors that can be turned.
const leastTurned = 8

// newRotation makes the rotation of vectors of a dimension, at least leastTurned.
func newRotation(dim int) *rotation {
	r := &rotation{dim: dim}
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

// turnBack undoes turn.
func (r *rotation) turnBack(v []float32) {
	normal := make([]float32, len(r.factors[0]))
	for i, f := range r.factors[0] {
		normal[i] = max(f, -f)
	}
	for t := turns - 1; t >= 0; t-- {
		part := r.part(v, t)
		simd.Hadamard(part, normal)
		for i, f := range r.factors[t] {
			part[i] = math.Float32frombits(math.Float32bits(part[i]) ^ math.Float32bits(f)&(1<<31))
		}
	}
}

// part is what a transform takes of a vector.
func (r *rotation) part(v []float32, t int) []float32 {
	if t%2 == 1 {
		return v[r.dim-len(r.factors[t]):]
	}
	return v[:len(r.factors[t])]
}

// turn rotates a vector of dim components in place.
func (r *rotation) turn(v []float32) {
	for t, factors := range r.factors {
		simd.Hadamard(r.part(v, t), factors)
	}
}
