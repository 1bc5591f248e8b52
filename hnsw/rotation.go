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
		for i, f := range factors {
			part[i] *= f
		}
		hadamard(part)
	}
}

// hadamard replaces a power of two of components, 8 at least, by their transform,
// without its norm: three layers of sums and differences in registers, the others
// two at a time.
func hadamard(v []float32) {
	for p := v; len(p) >= 8; p = p[8:] {
		hadamard8((*[8]float32)(p))
	}
	h := 8
	if bits.Len(uint(len(v)/h))%2 == 0 {
		for p := v; len(p) >= 2*h; p = p[2*h:] {
			a, b := p[:h], p[h:2*h]
			for i, x := range a {
				y := b[i]
				a[i], b[i] = x+y, x-y
			}
		}
		h *= 2
	}
	for ; h < len(v); h *= 4 {
		for p := v; len(p) >= 4*h; p = p[4*h:] {
			hadamard4(p[:h], p[h:2*h], p[2*h:3*h], p[3*h:4*h])
		}
	}
}

// hadamard4 is two layers of sums and differences.
func hadamard4(a, b, c, d []float32) {
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	for i := range a {
		p, q := a[i]+b[i], a[i]-b[i]
		r, s := c[i]+d[i], c[i]-d[i]
		a[i], b[i], c[i], d[i] = p+r, q+s, p-r, q-s
	}
}

// hadamard8 is the transform of 8 components.
func hadamard8(v *[8]float32) {
	a, b, c, d := v[0]+v[1], v[0]-v[1], v[2]+v[3], v[2]-v[3]
	e, f, g, h := v[4]+v[5], v[4]-v[5], v[6]+v[7], v[6]-v[7]
	a, b, c, d = a+c, b+d, a-c, b-d
	e, f, g, h = e+g, f+h, e-g, f-h
	v[0], v[1], v[2], v[3] = a+e, b+f, c+g, d+h
	v[4], v[5], v[6], v[7] = a-e, b-f, c-g, d-h
}
