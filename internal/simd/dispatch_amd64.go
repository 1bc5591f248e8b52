package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

func detect() []Level {
	levels := []Level{Portable}
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasBMI2 || !x.HasPOPCNT {
		return levels
	}
	levels = append(levels, AVX2)
	if !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL {
		return levels
	}
	levels = append(levels, AVX512)
	if !x.HasAVX512VNNI {
		return levels
	}
	levels = append(levels, AVX512VNNI)
	if x.HasAVX512VPOPCNTDQ {
		levels = append(levels, AVX512VPOPCNT)
	}
	return levels
}

func dotRows(q []float32, rows *Rows, ids []uint32, out []float32) {
	switch active {
	case AVX512VPOPCNT, AVX512VNNI, AVX512:
		dotRowsAVX512(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
	case AVX2:
		dotRowsAVX2(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
	default:
		dotRowsGo(q, rows, ids, out)
	}
}

func squaredL2Rows(q []float32, rows *Rows, ids []uint32, out []float32) {
	switch active {
	case AVX512VPOPCNT, AVX512VNNI, AVX512:
		squaredL2RowsAVX512(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
	case AVX2:
		squaredL2RowsAVX2(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
	default:
		squaredL2RowsGo(q, rows, ids, out)
	}
}

func dotCodesRows(q []float32, rows *Rows, ids []uint32, out []float32) {
	switch active {
	case AVX512VPOPCNT, AVX512VNNI, AVX512:
		dotCodesRowsAVX512(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
	case AVX2:
		dotCodesRowsAVX2(&q[0], len(q), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0])
	default:
		dotCodesRowsGo(q, rows, ids, out)
	}
}

func dot8Rows(q *Query8, rows *Rows, ids []uint32, out []float32) {
	switch active {
	case AVX512VPOPCNT, AVX512VNNI:
		dot8RowsVNNI(&q.Codes[0], len(q.Codes), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0], codeZero*q.Sum, q.Scale)
	case AVX512, AVX2:
		dot8RowsAVX2(&q.Codes[0], len(q.Codes), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0], codeZero*q.Sum, q.Scale)
	default:
		dot8RowsGo(q, rows, ids, out)
	}
}

func dotBitsRows(q *QueryBits, rows *Rows, ids []uint32, out []float32) {
	switch active {
	case AVX512VPOPCNT:
		dotBitsRowsVPOPCNT(&q.planes[0], len(q.planes), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0], q.most(), q.Scale, q.Bias)
	case AVX512VNNI, AVX512, AVX2:
		dotBitsRowsPOPCNT(&q.planes[0], len(q.planes), &rows.Pages[0], rows.Shift, rows.Stride, &ids[0], len(ids), &out[0], q.most(), q.Scale, q.Bias)
	default:
		dotBitsRowsGo(q, rows, ids, out)
	}
}

func scanTiles(q *TileQuery, tiles []unsafe.Pointer, bar *TileBar, masks []uint32, out []float32) {
	dim := len(q.table) / tileEntries * tileComponents
	switch active {
	case AVX512VPOPCNT, AVX512VNNI, AVX512:
		scanTilesAVX512(&q.table[0], dim, &tiles[0], len(tiles), bar, &masks[0], &out[0], q.Step)
	case AVX2:
		scanTilesAVX2(&q.table[0], dim, &tiles[0], len(tiles), bar, &masks[0], &out[0], q.Step)
	default:
		scanTilesGo(q, tiles, bar, masks, out)
	}
}

func atLeast(keys []float32, floor float32, masks []uint32) {
	switch active {
	case AVX512VPOPCNT, AVX512VNNI, AVX512:
		atLeastAVX512(&keys[0], floor, &masks[0], len(masks))
	case AVX2:
		atLeastAVX2(&keys[0], floor, &masks[0], len(masks))
	default:
		atLeastGo(keys, floor, masks)
	}
}

func hadamard(v, factors []float32) {
	if active == Portable {
		hadamardGo(v, factors)
		return
	}
	hadamardAVX2(&v[0], &factors[0], len(v))
}

func squares(v []float32, sums *[8]float64) {
	if active == Portable {
		squaresGo(v, sums)
		return
	}
	squaresAVX2(&v[0], len(v), sums)
}

func largest(v []float32) uint32 {
	if active == Portable {
		return largestGo(v)
	}
	return largestAVX2(&v[0], len(v))
}

func scale(dst, v []float32, by float64) {
	if active == Portable {
		scaleGo(dst, v, by)
		return
	}
	scaleAVX2(&dst[0], &v[0], len(v), by)
}

func round8(v []float32, by float64, codes []int8, s *roundSums) {
	if active == Portable {
		round8Go(v, by, codes, s)
		return
	}
	round8AVX2(&v[0], len(v), by, &codes[0], s)
}

//go:noescape
func dotRowsAVX512(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func squaredL2RowsAVX512(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func dotCodesRowsAVX512(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func dot8RowsVNNI(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, offset int32, scale float32)

//go:noescape
func dotRowsAVX2(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func squaredL2RowsAVX2(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func dotCodesRowsAVX2(q *float32, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32)

//go:noescape
func dot8RowsAVX2(q *int8, dim int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, offset int32, scale float32)

//go:noescape
func dotBitsRowsVPOPCNT(q *uint64, words int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, most int32, scale, bias float32)

//go:noescape
func dotBitsRowsPOPCNT(q *uint64, words int, pages *unsafe.Pointer, shift uint, stride uintptr, ids *uint32, n int, out *float32, most int32, scale, bias float32)

//go:noescape
func scanTilesAVX512(table *uint8, dim int, tiles *unsafe.Pointer, n int, bar *TileBar, masks *uint32, out *float32, step float32)

//go:noescape
func scanTilesAVX2(table *uint8, dim int, tiles *unsafe.Pointer, n int, bar *TileBar, masks *uint32, out *float32, step float32)

//go:noescape
func atLeastAVX512(keys *float32, floor float32, masks *uint32, n int)

//go:noescape
func atLeastAVX2(keys *float32, floor float32, masks *uint32, n int)

//go:noescape
func hadamardAVX2(v, factors *float32, n int)

//go:noescape
func squaresAVX2(v *float32, n int, sums *[8]float64)

//go:noescape
func largestAVX2(v *float32, n int) uint32

//go:noescape
func scaleAVX2(dst, v *float32, n int, by float64)

//go:noescape
func round8AVX2(v *float32, n int, by float64, codes *int8, s *roundSums)

//go:noescape
func prefetch(p unsafe.Pointer)

func blockTables(v []float32, scale float32, table []uint8) {
	if active == Portable || active == AVX2 {
		blockTablesGo(v, scale, table)
		return
	}
	blockTablesAVX512(&v[0], len(v)/4, scale, &table[0])
}

func scanBlock(q *QueryTables, block unsafe.Pointer, base, bar float32, found *Found) int {
	switch {
	case len(q.table) == 0 || active == Portable:
		return scanBlockGo(q, block, base, bar, found)
	case active == AVX2:
		var sums [BlockRows]uint32
		sumBlockAVX2(&q.table[0], len(q.table)/(2*grainBytes), block, &sums)
		return q.below(&sums, block, base, bar, found)
	}
	return scanBlockAVX512(&q.table[0], len(q.table)/(2*grainBytes), block, q.delta, q.shift, base, bar, found)
}

func signs(x, c []float32, words []uint16) Signs {
	if active == Portable || active == AVX2 {
		return signsGo(x, c, words)
	}
	var sums [3]float32
	signsAVX512(&x[0], &c[0], len(x), &words[0], &sums)
	return Signs{Square: float64(sums[0]), Sum: float64(sums[1]), Centre: float64(sums[2])}
}

func absorb(p *Pool, found *Found, n int, set []uint64) uint64 {
	switch {
	case n == 0 || active == Portable || active == AVX2:
		return absorbGo(p, found, n, set)
	case p.ef <= PoolRoom/2:
		return absorb32AVX512(p, &found.Costs[0], &found.IDs[0], n, &set[0])
	}
	return absorb64AVX512(p, &found.Costs[0], &found.IDs[0], n, &set[0])
}

//go:noescape
func blockTablesAVX512(v *float32, groups int, scale float32, table *uint8)

//go:noescape
func scanBlockAVX512(table *uint8, grains int, block unsafe.Pointer, delta, shift, base, bar float32, found *Found) int

//go:noescape
func sumBlockAVX2(table *uint8, grains int, block unsafe.Pointer, sums *[BlockRows]uint32)

//go:noescape
func signsAVX512(x, c *float32, n int, words *uint16, sums *[3]float32)

//go:noescape
func absorb32AVX512(p *Pool, costs *float32, ids *uint32, n int, set *uint64) uint64

//go:noescape
func absorb64AVX512(p *Pool, costs *float32, ids *uint32, n int, set *uint64) uint64

//go:noescape
func prefetchLines(p unsafe.Pointer, n int)
