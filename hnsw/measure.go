package hnsw

import (
	"time"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

const (
	measuredRows, measuredDim = 2048, 384
	// measurings is how often each is measured: the least time counts.
	measurings = 5
	// Of what a search by cells takes, the bits are about a third.
	bitsPart = 3
	// leastBitRows and mostBitRows bound what is measured, lest other work on the machine
	// decide. With the least, 66,000 rows are few enough to be looked at all.
	leastBitRows, mostBitRows = 3, 8
)

// MeasureBits returns [Config].BitRows for this processor. elapsed calls a function and says
// how long that took. It takes about a millisecond.
func MeasureBits(elapsed func(f func()) time.Duration) int {
	var q simd.TileQuery
	q.Set(make([]float32, measuredDim))
	tiles := make([]unsafe.Pointer, measuredRows/simd.TileRows)
	for i := range tiles {
		tiles[i] = newTile(measuredDim).at()
	}
	masks, keys := make([]uint32, len(tiles)), make([]float32, measuredRows)
	stride := codeStride(measuredDim)
	rows := simd.Rows{Pages: []unsafe.Pointer{unsafe.Pointer(&make([]uint64, measuredRows*stride/8)[0])}, Shift: mostCellShift, Stride: stride}
	query, ids := simd.Query8{Codes: make([]int8, measuredDim)}, make([]uint32, measuredRows)
	for i := range ids {
		ids[i] = uint32(i)
	}
	bits, codes := time.Duration(1<<62), time.Duration(1<<62)
	for range measurings {
		bits = min(bits, elapsed(func() { simd.ScanTiles(&q, tiles, &simd.TileBar{}, masks, keys) }))
		codes = min(codes, elapsed(func() { simd.Dot8Rows(&query, &rows, ids, keys) }))
	}
	return int(min(max(codes/max(bits, 1)/bitsPart, leastBitRows), mostBitRows))
}
