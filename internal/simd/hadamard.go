package simd

import "math/bits"

// Hadamard multiplies components by factors and replaces them by their Hadamard
// transform, without its norm. They are a power of two, 8 at least. All levels add in
// the same order, and so give the same.
func Hadamard(v, factors []float32) {
	mustMatch(len(v), len(factors))
	mustMatch(len(v)%8, 0)
	mustMatch(bits.OnesCount(uint(len(v))), 1)
	hadamard(v, factors)
}

// hadamardGo does three layers of sums and differences in registers, and the others
// two at a time.
func hadamardGo(v, factors []float32) {
	for i, f := range factors {
		v[i] *= f
	}
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
			twoLayers(p[:h], p[h:2*h], p[2*h:3*h], p[3*h:4*h])
		}
	}
}

func twoLayers(a, b, c, d []float32) {
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	for i := range a {
		p, q := a[i]+b[i], a[i]-b[i]
		r, s := c[i]+d[i], c[i]-d[i]
		a[i], b[i], c[i], d[i] = p+r, q+s, p-r, q-s
	}
}

func hadamard8(v *[8]float32) {
	a, b, c, d := v[0]+v[1], v[0]-v[1], v[2]+v[3], v[2]-v[3]
	e, f, g, h := v[4]+v[5], v[4]-v[5], v[6]+v[7], v[6]-v[7]
	a, b, c, d = a+c, b+d, a-c, b-d
	e, f, g, h = e+g, f+h, e-g, f-h
	v[0], v[1], v[2], v[3] = a+e, b+f, c+g, d+h
	v[4], v[5], v[6], v[7] = a-e, b-f, c-g, d-h
}
