package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

func detect() []Level {
	levels := []Level{Portable, NEON} // every arm64 processor that Go runs on has NEON
	if cpu.ARM64.HasASIMDDP {
		levels = append(levels, NEONDot)
	}
	return levels
}

func dotRows(q []float32, rows *Rows, ids []uint32, out []float32) {
	if active == Portable {
		dotRowsGo(q, rows, ids, out)
		return
	}
	dotRowsNEON(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
}

func squaredL2Rows(q []float32, rows *Rows, ids []uint32, out []float32) {
	if active == Portable {
		squaredL2RowsGo(q, rows, ids, out)
		return
	}
	squaredL2RowsNEON(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
}

func dotCodesRows(q []float32, rows *Rows, ids []uint32, out []float32) {
	if active == Portable {
		dotCodesRowsGo(q, rows, ids, out)
		return
	}
	dotCodesRowsNEON(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
}

func dot8Rows(q *Query8, rows *Rows, ids []uint32, out []float32) {
	switch active {
	case NEONDot:
		dot8RowsNEONDot(&q.Codes[0], len(q.Codes), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0], q.Scale)
	case NEON:
		dot8RowsNEON(&q.Codes[0], len(q.Codes), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0], q.Scale)
	default:
		dot8RowsGo(q, rows, ids, out)
	}
}

func dotBitsRows(q *QueryBits, rows *Rows, ids []uint32, out []float32) {
	if active == Portable {
		dotBitsRowsGo(q, rows, ids, out)
		return
	}
	dotBitsRowsNEON(&q.planes[0], len(q.planes), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0], q.most(), q.Scale, q.Bias)
}

func scanTiles(q *TileQuery, tiles []unsafe.Pointer, bar *TileBar, masks []uint32, out []float32) {
	if active == Portable {
		scanTilesGo(q, tiles, bar, masks, out)
		return
	}
	scanTilesNEON(&q.table[0], len(q.table)/tileEntries*tileComponents, &tiles[0], len(tiles), bar, &masks[0], &out[0], q.Step)
}

func atLeast(keys []float32, floor float32, masks []uint32) {
	if active == Portable {
		atLeastGo(keys, floor, masks)
		return
	}
	atLeastNEON(&keys[0], floor, &masks[0], len(masks))
}

func hadamard(v, factors []float32) {
	if active == Portable {
		hadamardGo(v, factors)
		return
	}
	hadamardNEON(&v[0], &factors[0], len(v))
}

func squares(v []float32, sums *[8]float64) { squaresGo(v, sums) }

func largest(v []float32) uint32 { return largestGo(v) }

func scale(dst, v []float32, by float64) { scaleGo(dst, v, by) }

func round8(v []float32, by float64, codes []int8, s *roundSums) { round8Go(v, by, codes, s) }

//go:noescape
func atLeastNEON(keys *float32, floor float32, masks *uint32, n int)

//go:noescape
func scanTilesNEON(table *uint8, dim int, tiles *unsafe.Pointer, n int, bar *TileBar, masks *uint32, out *float32, step float32)

//go:noescape
func dotRowsNEON(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func squaredL2RowsNEON(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func dotCodesRowsNEON(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func dot8RowsNEON(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, scale float32)

//go:noescape
func dot8RowsNEONDot(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, scale float32)

//go:noescape
func dotBitsRowsNEON(q *uint64, words int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, most int32, scale, bias float32)

//go:noescape
func hadamardNEON(v, factors *float32, n int)

//go:noescape
func prefetch(p unsafe.Pointer)

func blockTables(v []float32, scale float32, table []uint8) { blockTablesGo(v, scale, table) }

func scanBlock(q *QueryTables, block unsafe.Pointer, base, bar float32, found *Found) int {
	if len(q.table) == 0 || active == Portable {
		return scanBlockGo(q, block, base, bar, found)
	}
	var sums [BlockRows]uint32
	sumBlockNEON(&q.table[0], len(q.table)/(2*grainBytes), block, &sums)
	return q.below(&sums, block, base, bar, found)
}

//go:noescape
func sumBlockNEON(table *uint8, grains int, block unsafe.Pointer, sums *[BlockRows]uint32)

func signs(x, c []float32, words []uint16) Signs { return signsGo(x, c, words) }

func absorb(p *Pool, found *Found, n int, set []uint64) uint64 { return absorbGo(p, found, n, set) }

func prefetchLines(p unsafe.Pointer, n int) {
	for ; n > 0; n -= 2 { // prefetch takes two
		prefetch(p)
		p = unsafe.Add(p, 128)
	}
}
