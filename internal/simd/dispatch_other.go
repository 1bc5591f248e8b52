//go:build !amd64 && !arm64

package simd

import "unsafe"

func detect() []Level { return []Level{Portable} }

func dotRows(q []float32, rows *Rows, ids []uint32, out []float32) { dotRowsGo(q, rows, ids, out) }

func squaredL2Rows(q []float32, rows *Rows, ids []uint32, out []float32) {
	squaredL2RowsGo(q, rows, ids, out)
}

func dotCodesRows(q []float32, rows *Rows, ids []uint32, out []float32) {
	dotCodesRowsGo(q, rows, ids, out)
}

func dot8Rows(q *Query8, rows *Rows, ids []uint32, out []float32) { dot8RowsGo(q, rows, ids, out) }

func dotBitsRows(q *QueryBits, rows *Rows, ids []uint32, out []float32) {
	dotBitsRowsGo(q, rows, ids, out)
}

func scanTiles(q *TileQuery, tiles []unsafe.Pointer, bar *TileBar, masks []uint32, out []float32) {
	scanTilesGo(q, tiles, bar, masks, out)
}

func atLeast(keys []float32, floor float32, masks []uint32) { atLeastGo(keys, floor, masks) }

func hadamard(v, factors []float32) { hadamardGo(v, factors) }

func squares(v []float32, sums *[8]float64) { squaresGo(v, sums) }

func largest(v []float32) uint32 { return largestGo(v) }

func scale(dst, v []float32, by float64) { scaleGo(dst, v, by) }

func round8(v []float32, by float64, codes []int8, s *roundSums) { round8Go(v, by, codes, s) }

func prefetch(unsafe.Pointer) {}

func blockTables(v []float32, scale float32, table []uint8) { blockTablesGo(v, scale, table) }

func scanBlock(q *QueryTables, block unsafe.Pointer, base, bar float32, found *Found) int {
	return scanBlockGo(q, block, base, bar, found)
}

func signs(x, c []float32, words []uint16) Signs { return signsGo(x, c, words) }

func absorb(p *Pool, found *Found, n int, set []uint64) uint64 { return absorbGo(p, found, n, set) }

func prefetchLines(unsafe.Pointer, int) {}
