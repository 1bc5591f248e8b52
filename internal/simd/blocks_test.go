package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// blockOf makes a block of random rows, in memory of its own.
func blockOf(rng *rand.Rand, n int, alloc func(int) []byte) (block []byte, signs [][]uint16) {
	block = alloc(BlockBytes(n))
	at := unsafe.Pointer(&block[0])
	for row := range BlockRows {
		words := make([]uint16, n/16)
		for i := range words {
			words[i] = uint16(rng.Uint32())
		}
		signs = append(signs, words)
		SetBlockRow(at, row, words, float32(rng.NormFloat64()), float32(rng.NormFloat64())/8, rng.Uint32N(1000))
	}
	return block, signs
}

func blockQuery(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// costOf is what a row of a block costs, by the query itself.
func costOf(block unsafe.Pointer, n, row int, signs []uint16, q []float32, base float32) float64 {
	sum := 0.0
	for i, v := range q {
		if signs[i/16]>>(i%16)&1 == 0 {
			v = -v
		}
		sum += float64(v)
	}
	f := factorsOf(block, n/8*BlockRows)
	return float64(base) + float64(widen(f[0][row])) + float64(widen(f[1][row]))*sum
}

func scanBlocks(t *testing.T, rng *rand.Rand, n int, alloc func(int) []byte) {
	block, signs := blockOf(rng, n, alloc)
	at, v := unsafe.Pointer(&block[0]), blockQuery(rng, n)
	var q QueryTables
	q.Set(v)
	widest := 0.0
	for i := 0; i < n; i += 4 {
		sum := 0.0
		for _, f := range v[i : i+4] {
			sum += math.Abs(float64(f))
		}
		widest = max(widest, sum)
	}
	const base = 3
	inf := float32(math.Inf(1))
	var all Found
	if got := ScanBlock(&q, at, base, inf, &all); got != BlockRows {
		t.Fatalf("%d components: %d rows below infinity", n, got)
	}
	for row, id := range BlockIDs(at, n) {
		rescale := math.Abs(float64(widen(factorsOf(at, n/8*BlockRows)[1][row])))
		// Each entry of a table is off by half a step at most.
		most := rescale*float64(n/4)*widest/tableMost + 1e-3
		if want := costOf(at, n, row, signs[row], v, base); all.IDs[row] != id || math.Abs(float64(all.Costs[row])-want) > most {
			t.Fatalf("%d components, row %d: %d costs %v, want %d and %v within %v", n, row, all.IDs[row], all.Costs[row], id, want, most)
		}
	}
	costs := slices.Clone(all.Costs[:])
	slices.Sort(costs)
	for _, i := range []int{0, 1, 7, BlockRows - 1} {
		var some Found
		if got := ScanBlock(&q, at, base, costs[i], &some); got != i {
			t.Fatalf("%d components: %d rows below the one in place %d", n, got, i)
		}
	}
}

var blockDims = []int{32, 64, 96, 128, 256, 288, 384, 1024, MaxBlockBits}

func TestScanBlock(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for _, n := range blockDims {
			for range 20 {
				scanBlocks(t, rng, n, func(n int) []byte { return make([]byte, n) })
			}
		}
	})
}

// The largest sums fit: every entry of every table is the largest one.
func TestScanBlockLargest(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		block := make([]byte, BlockBytes(MaxBlockBits))
		at := unsafe.Pointer(&block[0])
		ones := make([]uint16, MaxBlockBits/16)
		for i := range ones {
			ones[i] = math.MaxUint16
		}
		for row := range BlockRows {
			SetBlockRow(at, row, ones, 0, 1, uint32(row))
		}
		v := make([]float32, MaxBlockBits)
		for i := range v {
			v[i] = 1
		}
		var q QueryTables
		q.Set(v)
		var found Found
		if n := ScanBlock(&q, at, 0, float32(math.Inf(1)), &found); n != BlockRows {
			t.Fatalf("%d rows", n)
		}
		for _, cost := range found.Costs {
			if math.Abs(float64(cost)-MaxBlockBits) > 1e-2*MaxBlockBits {
				t.Fatalf("a sum of %d ones is %v", MaxBlockBits, cost)
			}
		}
	})
}

// A block takes one row after another, and rows that are none are found below no bar.
func TestSetBlockRow(t *testing.T) {
	rng := random(t)
	const n = 96
	block, signs := blockOf(rng, n, func(n int) []byte { return make([]byte, n) })
	at := unsafe.Pointer(&block[0])
	NoBlockRow(at, n, 5)
	var q QueryTables
	v := blockQuery(rng, n)
	q.Set(v)
	var found Found
	if got := ScanBlock(&q, at, 0, float32(math.Inf(1)), &found); got != BlockRows-1 {
		t.Fatalf("%d rows with one gone", got)
	}
	if ids := BlockIDs(at, n); ids[5] != math.MaxUint32 {
		t.Fatalf("the row that is none is %d", ids[5])
	}
	SetBlockRow(at, 5, signs[6], .5, .25, 77)
	for row := range BlockRows {
		want := signs[row]
		if row == 5 {
			want = signs[6]
		}
		if cost := costOf(at, n, row, want, v, 0); math.IsNaN(cost) {
			t.Fatalf("row %d has no cost", row)
		}
	}
	if got := ScanBlock(&q, at, 0, float32(math.Inf(1)), &found); got != BlockRows || found.IDs[5] != 77 {
		t.Fatalf("%d rows, the new one is %d", got, found.IDs[5])
	}
}

func TestNarrow(t *testing.T) {
	rng := random(t)
	// What is as far from the largest bfloat16 as from the next power of two, or farther.
	edge := float64(math.Float32frombits(0x7f7f8000))
	for range 10_000 {
		f := float32(rng.NormFloat64() * math.Exp(40*rng.NormFloat64()))
		if math.Abs(float64(f)) >= edge {
			continue
		}
		if got := widen(narrow(f)); math.Abs(float64(got-f)) > math.Abs(float64(f))/256+1e-40 {
			t.Fatalf("%v becomes %v", f, got)
		}
	}
	for _, f := range []float32{0, float32(math.Inf(1)), float32(math.Inf(-1))} {
		if got := widen(narrow(f)); got != f {
			t.Errorf("%v becomes %v", f, got)
		}
	}
	if got := widen(narrow(math.MaxFloat32)); !math.IsInf(float64(got), 1) {
		t.Errorf("the largest becomes %v", got)
	}
	largest := math.Float32frombits(0x7f7f0000)
	if got := widen(narrow(math.Nextafter32(float32(edge), 0))); got != largest {
		t.Errorf("what is just below %v becomes %v", edge, got)
	}
	if got := widen(narrow(float32(-edge))); !math.IsInf(float64(got), -1) {
		t.Errorf("%v becomes %v", -edge, got)
	}
}

func TestSignsOf(t *testing.T) {
	eachLevel(t, signsOf)
}

func signsOf(t *testing.T) {
	rng := random(t)
	for _, n := range []int{32, 96, 384} {
		x, c := blockQuery(rng, n+13), blockQuery(rng, n+13)
		words := make([]uint16, n/16)
		got := SignsOf(x, c, words)
		var want Signs
		for i := range x {
			r := float64(x[i] - c[i])
			want.Square += r * r
			if i >= n {
				continue
			}
			sign := -1.0
			if r > 0 {
				sign = 1
			}
			if bit := words[i/16]>>(i%16)&1 == 1; bit != (r > 0) {
				t.Fatalf("component %d: the bit is %v and the difference %v", i, bit, r)
			}
			want.Sum += sign * r
			want.Centre += sign * float64(c[i])
		}
		if !near(got.Square, want.Square) || !near(got.Sum, want.Sum) || !near(got.Centre, want.Centre) {
			t.Fatalf("%d components: %+v, want %+v", n, got, want)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-4*(1+math.Abs(b)) }

// A pool keeps the least costs of what it was offered, each once more for each time.
func TestAbsorb(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := random(t)
		for _, ef := range []int{1, 2, 10, 16, 17, 31, 32, 33, 50, 64} {
			var p Pool
			p.Reset(ef)
			set := make([]uint64, 1000/64+1)
			set[3] = rng.Uint64()
			var offered []float32
			for range 30 {
				var f Found
				n := rng.IntN(BlockRows + 1)
				for i := range n {
					f.Costs[i], f.IDs[i] = float32(rng.IntN(400)), rng.Uint32N(1000)
					if set[f.IDs[i]>>6]>>(f.IDs[i]&63)&1 == 0 {
						offered = append(offered, f.Costs[i])
					}
				}
				open := p.Absorb(&f, n, set)
				slices.Sort(offered)
				offered = offered[:min(len(offered), ef)]
				if got := p.Costs[:len(offered)]; !slices.Equal(got, offered) {
					t.Fatalf("ef %d: %v, want %v", ef, got, offered)
				}
				if len(offered) < ef && !math.IsInf(float64(p.Costs[len(offered)]), 1) {
					t.Fatalf("ef %d: there is a cost too many: %v", ef, p.Costs)
				}
				for i, id := range p.IDs {
					if isOpen := open>>i&1 == 1; isOpen != (i < ef && id&PoolDone == 0) {
						t.Fatalf("ef %d: place %d with %x is open: %v", ef, i, id, isOpen)
					}
				}
				if len(offered) > 0 {
					p.IDs[rng.IntN(len(offered))] |= PoolDone
				}
			}
		}
	})
}

func TestPrefetchLines(*testing.T) {
	row := make([]byte, 1)
	PrefetchLines(unsafe.Pointer(&row[0]), 100) // beyond what can be read
}
