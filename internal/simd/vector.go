package simd

import "math"

// What a query, or a row that is added, goes through before it is compared with many
// takes a tenth of a short search in Go alone. On arm64 it is Go.

// SquaredNorm returns a vector's squared length, in float64, where the square of a
// float32 is exact. All levels add in the same order, and so give the same.
func SquaredNorm(v []float32) float64 {
	whole := len(v) &^ 7
	var sums [8]float64
	if whole > 0 {
		squares(v[:whole], &sums)
	}
	for i, x := range v[whole:] {
		sums[i] += float64(x) * float64(x)
	}
	return addUp(&sums)
}

func addUp(s *[8]float64) float64 {
	return (s[0] + s[1] + (s[2] + s[3])) + (s[4] + s[5] + (s[6] + s[7]))
}

func squaresGo(v []float32, sums *[8]float64) {
	var a, b, c, d, e, f, g, h float64
	for len(v) >= 8 {
		p, q, r, s := float64(v[0]), float64(v[1]), float64(v[2]), float64(v[3])
		t, u, w, x := float64(v[4]), float64(v[5]), float64(v[6]), float64(v[7])
		a += p * p
		b += q * q
		c += r * r
		d += s * s
		e += t * t
		f += u * u
		g += w * w
		h += x * x
		v = v[8:]
	}
	*sums = [8]float64{a, b, c, d, e, f, g, h}
}

// Largest returns the largest magnitude of a vector's components, none of which is
// NaN; 0 if there are none.
func Largest(v []float32) float32 {
	whole := len(v) &^ 7
	var most uint32
	if whole > 0 {
		most = largest(v[:whole])
	}
	return math.Float32frombits(max(most, largestGo(v[whole:])))
}

// largestGo compares magnitudes by their bits, whose order is theirs.
func largestGo(v []float32) uint32 {
	const sign = 1 << 31
	var a, b, c, d uint32
	for len(v) >= 4 {
		a = max(a, math.Float32bits(v[0])&^sign)
		b = max(b, math.Float32bits(v[1])&^sign)
		c = max(c, math.Float32bits(v[2])&^sign)
		d = max(d, math.Float32bits(v[3])&^sign)
		v = v[4:]
	}
	for _, x := range v {
		a = max(a, math.Float32bits(x)&^sign)
	}
	return max(a, b, c, d)
}

// Scale sets dst to v times a factor, rounded once. All levels give the same.
func Scale(dst, v []float32, by float64) {
	mustMatch(len(dst), len(v))
	whole := len(v) &^ 7
	if whole > 0 {
		scale(dst[:whole], v[:whole], by)
	}
	scaleGo(dst[whole:], v[whole:], by)
}

func scaleGo(dst, v []float32, by float64) {
	dst = dst[:len(v)]
	for i, x := range v {
		dst[i] = float32(float64(x) * by)
	}
}

// Rounded is what rounding a vector to codes leaves to be known.
type Rounded struct {
	Sum, Magnitudes int32   // of the codes
	Left            float64 // the sum of the squares of what was rounded off
}

// Round8 sets codes to the integers nearest to a vector times a factor, none of which
// is beyond 127, and a half to the even one. All levels give the same codes, and Left
// to within a part in 2^40.
func Round8(v []float32, by float64, codes []int8) Rounded {
	mustMatch(len(v), len(codes))
	whole := len(v) &^ 7
	var s roundSums
	if whole > 0 {
		round8(v[:whole], by, codes[:whole], &s)
	}
	round8Go(v[whole:], by, codes[whole:], &s)
	r := Rounded{Left: addUp(&s.left)}
	for i := range s.sum {
		r.Sum += s.sum[i]
		r.Magnitudes += s.magnitudes[i]
	}
	return r
}

// roundSums are the sums of Rounded, in lanes.
type roundSums struct {
	left            [8]float64
	sum, magnitudes [4]int32
}

// round8Go does two at a time, so that no addition waits for the one before. The outer
// conversions keep processors that could from fusing a product with what round adds.
func round8Go(v []float32, by float64, codes []int8, s *roundSums) {
	var sum, magnitudes int32
	var left, other float64
	for len(v) >= 2 && len(codes) >= 2 {
		x, y := float64(float64(v[0])*by), float64(float64(v[1])*by)
		a, b := round(x), round(y)
		codes[0], codes[1] = int8(a), int8(b)
		sum += a + b
		magnitudes += max(a, -a) + max(b, -b)
		x -= float64(a)
		y -= float64(b)
		left += x * x
		other += y * y
		v, codes = v[2:], codes[2:]
	}
	if len(v) == 1 && len(codes) == 1 {
		x := float64(float64(v[0]) * by)
		a := round(x)
		codes[0] = int8(a)
		sum += a
		magnitudes += max(a, -a)
		x -= float64(a)
		left += x * x
	}
	s.sum[0] += sum
	s.magnitudes[0] += magnitudes
	s.left[0] += left
	s.left[1] += other
}

// round returns the integer nearest to a number of small magnitude: added to a
// number so large that its last bit is worth one, it is rounded by that.
func round(v float64) int32 {
	const large = 3 << 51
	return int32(math.Float64bits(v + large))
}
