package simd

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// eachLevel runs a test under every set of kernels that the processor has.
func eachLevel(t *testing.T, test func(t *testing.T)) {
	for _, l := range Levels() {
		t.Run(l.String(), func(t *testing.T) {
			defer Use(l)()
			test(t)
		})
	}
}

func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// dims are the dimensions tested: each small one, those in use, and the ends.
func dims() []int {
	var all []int
	for d := 1; d <= 140; d++ {
		all = append(all, d)
	}
	return append(all, 255, 256, 257, 300, 384, 511, 768, 784, 1023, 1024, 1536, 3071, 4095, 4096)
}

// layout places rows of a size in pages with a random stride and alignment; a
// page ends with the last byte of its last row.
type layout struct {
	Rows
	n int
}

func randomLayout(rng *rand.Rand, rowBytes int, alloc func(int) []byte) layout {
	l := layout{Rows: Rows{Shift: uint(rng.IntN(4)), Stride: uintptr((rowBytes+3)&^3 + 4*rng.IntN(20))}}
	for range 1 + rng.IntN(3) {
		last := int(l.Stride) * (1<<l.Shift - 1)
		page := alloc(last + rowBytes)
		l.Pages = append(l.Pages, unsafe.Pointer(unsafe.SliceData(page)))
		l.n += 1 << l.Shift
	}
	return l
}

func heap(n int) []byte {
	m := make([]byte, n+64)
	skip := 4 * (n % 16)
	return m[skip : skip+n : skip+n]
}

func (l *layout) floats(id uint32, dim int) []float32 {
	return unsafe.Slice((*float32)(l.At(id)), dim)
}

func (l *layout) randomIDs(rng *rand.Rand) []uint32 {
	ids := make([]uint32, 1+rng.IntN(2*l.n))
	for i := range ids {
		ids[i] = rng.Uint32N(uint32(l.n))
	}
	return ids
}

// fills are the kinds of input: ordinary, and those at which sums go wrong.
var fills = map[string]func(rng *rand.Rand, i int) float32{
	"normal": func(rng *rand.Rand, _ int) float32 { return float32(rng.NormFloat64()) },
	"magnitude": func(rng *rand.Rand, _ int) float32 {
		return float32(rng.NormFloat64() * math.Exp2(rng.Float64()*60-30))
	},
	"cancel": func(_ *rand.Rand, i int) float32 { return float32(1-2*(i&1)) * 1e15 },
	"tiny":   func(rng *rand.Rand, _ int) float32 { return float32(rng.IntN(9)) * math.SmallestNonzeroFloat32 },
}

func fill(rng *rand.Rand, dst []float32, kind string) {
	for i := range dst {
		dst[i] = fills[kind](rng, i)
	}
}

// checkSum compares a float32 sum of n products with its terms' exact sum.
func checkSum(t *testing.T, what string, got float32, n int, want, magnitude float64) {
	t.Helper()
	// Results below the smallest normal number may lose their last bits.
	bound := float64(n+8)/(1<<24)*magnitude + float64(n)*math.SmallestNonzeroFloat32
	if diff := math.Abs(float64(got) - want); !(diff <= bound) {
		t.Fatalf("%s of %d components: %v; want %v within %v", what, n, got, want, bound)
	}
}

func dotTerms(a, b []float32) (sum, magnitude float64) {
	for i, v := range a {
		p := float64(v) * float64(b[i])
		sum += p
		magnitude += math.Abs(p)
	}
	return sum, magnitude
}

func squareTerms(a, b []float32) (sum float64) {
	for i, v := range a {
		d := float64(v) - float64(b[i])
		sum += d * d
	}
	return sum
}

func TestFloatKernels(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for kind := range fills {
			for _, dim := range dims() {
				floatKernels(t, rng, dim, kind, heap)
			}
		}
	})
}

func floatKernels(t *testing.T, rng *rand.Rand, dim int, kind string, alloc func(int) []byte) {
	t.Helper()
	l := randomLayout(rng, 4*dim, alloc)
	for id := range uint32(l.n) {
		fill(rng, l.floats(id, dim), kind)
	}
	q := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(alloc(4*dim)))), dim)
	fill(rng, q, kind)
	ids := l.randomIDs(rng)
	dots, squares := make([]float32, len(ids)), make([]float32, len(ids))
	DotRows(q, &l.Rows, ids, dots)
	SquaredL2Rows(q, &l.Rows, ids, squares)
	for i, id := range ids {
		row := l.floats(id, dim)
		sum, magnitude := dotTerms(q, row)
		checkSum(t, "DotRows, "+kind, dots[i], dim, sum, magnitude)
		square := squareTerms(q, row)
		checkSum(t, "SquaredL2Rows, "+kind, squares[i], dim, square, 4*square)
		if one := Dot(q, row); one != dots[i] {
			t.Fatalf("Dot gives %v, DotRows %v", one, dots[i])
		}
		if one := SquaredL2(q, row); one != squares[i] {
			t.Fatalf("SquaredL2 gives %v, SquaredL2Rows %v", one, squares[i])
		}
	}
}

// randomCodes fills rows with codes of every kind, the unused 0 included, and
// returns a query of signed bytes that reach their ends.
func randomCodes(rng *rand.Rand, l *layout, dim int, alloc func(int) []byte) Query8 {
	for id := range uint32(l.n) {
		head := (*[2]float32)(l.At(id))
		head[0], head[1] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		extreme := rng.IntN(3) == 0
		_, _, codes := codeRow(l.At(id), dim)
		for i := range codes {
			codes[i] = uint8(rng.Uint32())
			if extreme {
				codes[i] = 255 * (codes[i] & 1)
			}
		}
	}
	q := Query8{
		Codes: unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(alloc(dim)))), dim),
		Scale: float32(rng.NormFloat64()),
	}
	extreme := rng.IntN(3) == 0
	for i := range q.Codes {
		q.Codes[i] = int8(rng.Uint32())
		if extreme {
			q.Codes[i] = int8(-128 + 255*rng.IntN(2))
		}
		q.Sum += int32(q.Codes[i])
	}
	return q
}

func TestCodeKernels(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for range 4 {
			for _, dim := range dims() {
				codeKernels(t, rng, dim, heap)
			}
		}
	})
}

func codeKernels(t *testing.T, rng *rand.Rand, dim int, alloc func(int) []byte) {
	t.Helper()
	l := randomLayout(rng, CodeHeader+dim, alloc)
	q := randomCodes(rng, &l, dim, alloc)
	ids := l.randomIDs(rng)
	scores := make([]float32, len(ids))
	Dot8Rows(&q, &l.Rows, ids, scores)
	vec, sums := make([]float32, dim), make([]float32, len(ids))
	fill(rng, vec, "normal")
	DotCodesRows(vec, &l.Rows, ids, sums)
	for i, id := range ids {
		scale, bias, codes := codeRow(l.At(id), dim)
		var exact int32
		var sum, magnitude float64
		for k, c := range codes {
			v := int32(c) - codeZero
			exact += int32(q.Codes[k]) * v
			sum += float64(vec[k]) * float64(v) * float64(scale)
			magnitude += math.Abs(float64(vec[k]) * float64(v) * float64(scale))
		}
		if want := float32(float32(exact)*(scale*q.Scale)) + bias; scores[i] != want {
			t.Fatalf("Dot8Rows of %d components: %v; want %v", dim, scores[i], want)
		}
		checkSum(t, "DotCodesRows", sums[i], dim, sum, magnitude)
	}
}

// bitDims are the dimensions tested of bits.
var bitDims = []int{128, 256, 384, 512, 640, 768, 896, 1024, 1536, 3968, 4096}

func TestBitKernels(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for range 20 {
			for _, dim := range bitDims {
				bitKernels(t, rng, dim, heap)
			}
		}
	})
}

func bitKernels(t *testing.T, rng *rand.Rand, dim int, alloc func(int) []byte) {
	t.Helper()
	l := randomLayout(rng, CodeHeader+dim/8, alloc)
	extreme := rng.IntN(4)
	for id := range uint32(l.n) {
		head := (*[2]float32)(l.At(id))
		head[0], head[1] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		_, _, row := bitRow(l.At(id), dim/64)
		for i := range row {
			if row[i] = rng.Uint64(); extreme == 0 {
				row[i] = -(row[i] & 1)
			}
		}
	}
	us := make([]uint8, dim)
	for i := range us {
		if us[i] = uint8(rng.IntN(BitLevels)); extreme == 1 {
			us[i] = 15
		}
	}
	q := QueryBits{Scale: float32(rng.NormFloat64()), Bias: float32(rng.NormFloat64())}
	q.planes = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(alloc(dim/2)))), dim/16)
	q.SetLevels(us)
	ids := l.randomIDs(rng)
	out := make([]float32, len(ids))
	DotBitsRows(&q, &l.Rows, ids, out)
	for i, id := range ids {
		scale, bias, row := bitRow(l.At(id), dim/64)
		product := 0
		for k, u := range us {
			v := 2*int(u) - (BitLevels - 1)
			if row[k/64]>>(k%64)&1 == 0 {
				v = -v
			}
			product += v
		}
		want := float32(float32(float32(product)*(scale*q.Scale))+bias) + q.Bias
		if out[i] != want {
			t.Fatalf("DotBitsRows of %d components: %v; want %v", dim, out[i], want)
		}
	}
}

// TestHadamard compares the fast transform with the sums that define it, and each
// level with the portable one.
func TestHadamard(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for n := 8; n <= 4096; n *= 2 {
			hadamards(t, rng, n, heap)
		}
	})
}

func hadamards(t *testing.T, rng *rand.Rand, n int, alloc func(int) []byte) {
	t.Helper()
	vector := func() []float32 {
		v := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(alloc(4*n)))), n)
		fill(rng, v, "normal")
		return v
	}
	got, factors := vector(), vector()
	v, portable := slices.Clone(got), slices.Clone(got)
	Hadamard(got, factors)
	hadamardGo(portable, factors)
	if !slices.Equal(got, portable) {
		t.Fatalf("%d components are transformed to others than by the portable kernel", n)
	}
	for range 8 {
		i, want, magnitude := rng.IntN(n), 0.0, 0.0
		for j, x := range v {
			term := float64(x) * float64(factors[j])
			want += term * float64(1-2*(bits.OnesCount(uint(i&j))&1))
			magnitude += math.Abs(term)
		}
		checkSum(t, "Hadamard", got[i], n, want, magnitude)
	}
}

// TestVectorKernels compares what is done to one vector with what defines it, and
// each level with the portable one.
func TestVectorKernels(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for kind := range fills {
			for _, dim := range append(dims(), 0) {
				vectorKernels(t, rng, dim, kind, heap)
			}
		}
	})
}

func vectorKernels(t *testing.T, rng *rand.Rand, dim int, kind string, alloc func(int) []byte) {
	t.Helper()
	floats := func() []float32 {
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(alloc(4*dim)))), dim)
	}
	v, scaled := floats(), floats()
	fill(rng, v, kind)
	var portable [8]float64
	squaresGo(v[:dim&^7], &portable)
	for i, x := range v[dim&^7:] {
		portable[i] += float64(x) * float64(x)
	}
	norm, square := SquaredNorm(v), 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	if norm != addUp(&portable) || math.Abs(norm-square) > 1e-12*square {
		t.Fatalf("SquaredNorm of %d components: %v; portable %v, by its definition %v", dim, norm, addUp(&portable), square)
	}
	most := float32(0)
	for _, x := range v {
		most = max(most, float32(math.Abs(float64(x))))
	}
	if got := Largest(v); got != most {
		t.Fatalf("Largest of %d components: %v; want %v", dim, got, most)
	}
	by := rng.ExpFloat64()
	Scale(scaled, v, by)
	for i, x := range v {
		if want := float32(float64(x) * by); scaled[i] != want {
			t.Fatalf("component %d of %d is scaled to %v; want %v", i, dim, scaled[i], want)
		}
	}
	if most > 0 {
		roundings(t, v, 127/float64(most), unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(alloc(dim)))), dim))
	}
}

func roundings(t *testing.T, v []float32, by float64, codes []int8) {
	t.Helper()
	got, want := Round8(v, by, codes), Rounded{}
	for i, x := range v {
		scaled := float64(x) * by
		whole := math.RoundToEven(scaled)
		if float64(codes[i]) != whole {
			t.Fatalf("component %d of %d, %v, is rounded to %d", i, len(v), scaled, codes[i])
		}
		want.Sum += int32(whole)
		want.Magnitudes += int32(math.Abs(whole))
		want.Left += (scaled - whole) * (scaled - whole)
	}
	if got.Sum != want.Sum || got.Magnitudes != want.Magnitudes || math.Abs(got.Left-want.Left) > want.Left/(1<<40) {
		t.Fatalf("Round8 of %d components: %+v; want %+v", len(v), got, want)
	}
}

func TestRoundingHalves(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		v := make([]float32, 2*127*2+1)
		for i := range v {
			v[i] = float32(i)/2 - 127
		}
		roundings(t, v, 1, make([]int8, len(v)))
	})
}

func TestEmptyAndMismatched(t *testing.T) {
	if Dot(nil, nil) != 0 || SquaredL2(nil, nil) != 0 {
		t.Error("empty vectors have a product")
	}
	defer func() {
		if recover() == nil {
			t.Error("vectors of different lengths were read")
		}
	}()
	Dot(make([]float32, 3), make([]float32, 2))
}

func BenchmarkRows(b *testing.B) {
	const n, list = 4096, 32 // rows in a page, rows in a neighbour list
	rng := random(b)
	for _, dim := range []int{256, 384, 784, 1536} {
		page := make([]float32, n*dim)
		fill(rng, page, "normal")
		rows := Rows{Pages: []unsafe.Pointer{unsafe.Pointer(&page[0])}, Shift: 12, Stride: uintptr(4 * dim)}
		codes := rows
		codes.Stride = uintptr(CodeHeader+dim+7) &^ 7
		sketches := rows
		sketches.Stride = uintptr(CodeHeader+dim/8+7) &^ 7
		query := QueryBits{planes: make([]uint64, (dim+BitGrain-1)/BitGrain*planes*grainWords)}
		vec, out := page[:dim], make([]float32, list)
		q := Query8{Codes: make([]int8, dim), Scale: 1}
		ids := make([]uint32, list)
		for i := range ids {
			ids[i] = rng.Uint32N(n)
		}
		kernels := map[string]func(){
			"dot":      func() { DotRows(vec, &rows, ids, out) },
			"l2":       func() { SquaredL2Rows(vec, &rows, ids, out) },
			"dotcodes": func() { DotCodesRows(vec, &codes, ids, out) },
			"dot8":     func() { Dot8Rows(&q, &codes, ids, out) },
			"dotbits":  func() { DotBitsRows(&query, &sketches, ids, out) },
		}
		for _, l := range Levels() {
			for name, kernel := range kernels {
				b.Run(fmt.Sprintf("%s/%d/%s", name, dim, l), func(b *testing.B) {
					defer Use(l)()
					for b.Loop() {
						kernel()
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/list, "ns/row")
				})
			}
		}
	}
}
