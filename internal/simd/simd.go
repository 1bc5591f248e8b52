// Package simd computes dot products and distances of vectors, one pair or one query against many rows at a time.
//
// Each kernel exists in portable Go and, where the processor has the
// instructions, in assembly. The best level is chosen once, at start-up; [Use]
// forces another one in tests. All levels read exactly the bytes they are given
// (tails are masked or done one by one), accept any alignment, and agree:
//
//   - integer kernels return the same integer;
//   - float32 kernels add in another order, so that each result is within
//     (n+8) * 2^-24 * sum|a_i*b_i| of the exact sum, n being the length.
//
// # Codes
//
// A quantised row is a scale and one byte for each component: component i is
// scale * (code[i] - 128), with codes 1 to 255. The offset makes rows unsigned,
// as the byte dot product of AVX-512 VNNI wants them; its correction depends on
// the query alone.
//
// # Bits
//
// A row of bits has one for each component, and the query four. The products of both
// are the bits in which they agree less those in which they differ, four times over.
package simd

import (
	"fmt"
	"slices"
	"unsafe"
)

// Level names a set of kernels.
type Level uint8

// The levels, in no order across architectures.
const (
	Portable      Level = iota // Go, everywhere
	NEON                       // arm64
	NEONDot                    // the same with the byte dot product SDOT
	AVX2                       // amd64 with AVX2 and FMA
	AVX512                     // amd64 with AVX-512 F, BW, DQ and VL; int8 kernels as in AVX2
	AVX512VNNI                 // the same with the byte dot product VPDPBUSD
	AVX512VPOPCNT              // the same with the count of bits VPOPCNTQ
)

// String returns the level's name.
func (l Level) String() string {
	switch l {
	case Portable:
		return "portable"
	case NEON:
		return "neon"
	case NEONDot:
		return "neondot"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	case AVX512VNNI:
		return "avx512vnni"
	case AVX512VPOPCNT:
		return "avx512vpopcnt"
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// CodeHeader is the size of what precedes the codes of a quantised row, or the bits
// of a row of them, in [Rows]: its scale and its bias, one native float32 each.
const CodeHeader = 8

var (
	supported = detect()
	active    = supported[len(supported)-1]
)

// Levels returns what this processor can run, slowest first.
func Levels() []Level { return supported }

// Active returns the level in use.
func Active() Level { return active }

// Use switches to a level that [Levels] lists and returns a function that
// switches back. It is for tests and benchmarks: nothing may compute meanwhile.
func Use(l Level) (restore func()) {
	if slices.Contains(supported, l) {
		before := active
		active = l
		return func() { active = before }
	}
	panic("simd: level " + l.String() + " is not supported here")
}

// Rows locates fixed-stride rows in pages: row id lies in page id>>Shift. Every
// id given to a kernel must lie within Pages: kernels do not check.
type Rows struct {
	Pages  []unsafe.Pointer
	Shift  uint
	Stride uintptr
}

// At returns the address of a row.
func (r *Rows) At(id uint32) unsafe.Pointer {
	return unsafe.Add(r.Pages[id>>r.Shift], uintptr(id&(1<<r.Shift-1))*r.Stride)
}

// Query8 is a query quantised to signed bytes: component i is Scale * Codes[i].
type Query8 struct {
	Codes []int8
	Sum   int32 // of Codes
	Scale float32
}

// Dot returns the dot product of two vectors of one length.
func Dot(a, b []float32) float32 {
	mustMatch(len(a), len(b))
	if len(a) == 0 {
		return 0
	}
	var out [1]float32
	dotRows(a, pair(b), oneRow[:], out[:])
	return out[0]
}

// SquaredL2 returns the squared Euclidean distance of two vectors of one length.
func SquaredL2(a, b []float32) float32 {
	mustMatch(len(a), len(b))
	if len(a) == 0 {
		return 0
	}
	var out [1]float32
	squaredL2Rows(a, pair(b), oneRow[:], out[:])
	return out[0]
}

// oneRow and pair make a batch of a single vector.
var oneRow = [1]uint32{0}

func pair(v []float32) *Rows {
	return &Rows{Pages: []unsafe.Pointer{unsafe.Pointer(&v[0])}}
}

// DotRows sets out[i] to the dot product of q and the float32 row ids[i].
func DotRows(q []float32, rows *Rows, ids []uint32, out []float32) {
	mustMatch(len(ids), len(out))
	if len(ids) == 0 || len(q) == 0 {
		clear(out)
		return
	}
	dotRows(q, rows, ids, out)
}

// SquaredL2Rows sets out[i] to the squared distance of q and the float32 row
// ids[i].
func SquaredL2Rows(q []float32, rows *Rows, ids []uint32, out []float32) {
	mustMatch(len(ids), len(out))
	if len(ids) == 0 || len(q) == 0 {
		clear(out)
		return
	}
	squaredL2Rows(q, rows, ids, out)
}

// DotCodesRows sets out[i] to the dot product of q and the quantised row
// ids[i], without its bias. Rows begin with [CodeHeader].
func DotCodesRows(q []float32, rows *Rows, ids []uint32, out []float32) {
	mustMatch(len(ids), len(out))
	if len(ids) == 0 || len(q) == 0 {
		clear(out)
		return
	}
	dotCodesRows(q, rows, ids, out)
}

// Dot8Rows sets out[i] to the dot product of q and the quantised row ids[i],
// scaled by both scales, plus the row's bias. Rows begin with [CodeHeader].
func Dot8Rows(q *Query8, rows *Rows, ids []uint32, out []float32) {
	mustMatch(len(ids), len(out))
	if len(ids) == 0 || len(q.Codes) == 0 {
		clear(out)
		return
	}
	dot8Rows(q, rows, ids, out)
}

// mustMatch asserts what callers owe: an assembly kernel would read beyond the
// shorter slice.
func mustMatch(a, b int) {
	if a != b {
		panic("simd: slices of different lengths")
	}
}

// Prefetch asks for the 128 bytes at an address, which need not be readable, to
// be brought into the first-level cache.
func Prefetch(p unsafe.Pointer) { prefetch(p) }
