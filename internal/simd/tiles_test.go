package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// randomTiles returns tiles of rows of so many components, and the rows.
func randomTiles(rng *rand.Rand, n, dim int, alloc func(int) []byte) (tiles []unsafe.Pointer, rows [][]float32) {
	for range n {
		m := alloc(TileSize(dim))
		at := unsafe.Pointer(unsafe.SliceData(m))
		tile := Tile(at, dim)
		for r := range TileRows {
			row := make([]float32, dim)
			fill(rng, row, "normal")
			tile.SetRow(r, row)
			tile.Biases[r], tile.Factors[r], tile.Slacks[r], tile.Leans[r] = rng.Float32(), rng.Float32(), rng.Float32(), rng.Float32()
			rows = append(rows, row)
		}
		tiles = append(tiles, at)
	}
	return tiles, rows
}

// TestScanTiles: all levels give the same keys and masks, which differ from those of the
// rows' own products by what entries of tables are off.
func TestScanTiles(t *testing.T) {
	rng := random(t)
	for _, dim := range []int{16, 32, 48, 64, 96, 128, 384, 784, 1024, 1536, 4096} {
		tiles, rows := randomTiles(rng, 1+rng.IntN(4), dim, heap)
		vec := make([]float32, dim)
		fill(rng, vec, "normal")
		var q TileQuery
		q.Set(vec)
		bar := TileBar{Base: rng.Float32(), Reach: rng.Float32(), Lean: rng.Float32(), Floor: rng.Float32()}
		masks, keys := make([]uint32, len(tiles)), make([]float32, len(rows))
		own := TileBar{Base: q.Low + bar.Base, Reach: bar.Reach, Lean: bar.Lean, Floor: bar.Floor}
		scanTilesGo(&q, tiles, &own, masks, keys)
		for i, row := range rows {
			product := 0.0
			for c, v := range row {
				product += math.Copysign(float64(vec[c]), float64(v)*float64(vec[c]))
			}
			tile := Tile(tiles[i/TileRows], dim)
			r := i % TileRows
			f := float64(tile.Factors[r])
			want := float64(tile.Biases[r]) + f*(product+float64(bar.Base)) + float64(tile.Slacks[r]*bar.Reach+tile.Leans[r]*bar.Lean)
			if off := math.Abs(float64(keys[i]) - want); off > f*float64(q.Step)*float64(dim/tileComponents)/2+1e-3 {
				t.Fatalf("%d components: key %v; want %v to within %v a table", dim, keys[i], want, q.Step/2)
			}
			if masks[i/TileRows]>>r&1 != 0 != (keys[i] >= bar.Floor) {
				t.Fatalf("%d components: row %d of key %v, floor %v: mask %b", dim, r, keys[i], bar.Floor, masks[i/TileRows])
			}
		}
		eachLevel(t, func(t *testing.T) {
			got, gotMasks := make([]float32, len(keys)), make([]uint32, len(masks))
			ScanTiles(&q, tiles, &bar, gotMasks, got)
			for i, key := range keys {
				if got[i] != key {
					t.Fatalf("%d components: row %d has key %v; in portable Go %v", dim, i, got[i], key)
				}
			}
			again := make([]uint32, len(masks))
			if AtLeast(got, bar.Floor, again); !slices.Equal(again, masks) {
				t.Fatalf("%d components: %b of the keys are at least the floor; want %b", dim, again, masks)
			}
			for i, mask := range masks {
				if gotMasks[i] != mask {
					t.Fatalf("%d components: tile %d has mask %b; in portable Go %b", dim, i, gotMasks[i], mask)
				}
			}
		})
	}
}

// TestTileQueryHolds: entries and their sums stay within what kernels hold, be all of a
// query in one component or even.
func TestTileQueryHolds(t *testing.T) {
	for _, dim := range []int{16, 1024, 4096} {
		for _, fill := range []func(i int) float32{
			func(int) float32 { return -3 },
			func(i int) float32 { return float32(i % 2) },
			func(i int) float32 { return map[bool]float32{true: 1e30}[i == 5] },
			func(int) float32 { return 0 },
			func(int) float32 { return math.SmallestNonzeroFloat32 },
		} {
			vec := make([]float32, dim)
			for i := range vec {
				vec[i] = fill(i)
			}
			var q TileQuery
			q.Set(vec)
			tile := make([]byte, TileSize(dim))
			at := unsafe.Pointer(unsafe.SliceData(tile))
			view := Tile(at, dim)
			view.SetRow(3, vec)
			view.Factors[3] = 1
			view.SetRow(20, vec)
			view.Factors[20] = 1
			want := 0.0
			for _, v := range vec {
				want += math.Abs(float64(v))
			}
			eachLevel(t, func(t *testing.T) {
				masks, keys := make([]uint32, 1), make([]float32, TileRows)
				ScanTiles(&q, []unsafe.Pointer{at}, &TileBar{Floor: -math.MaxFloat32}, masks, keys)
				for _, r := range []int{3, 20} {
					if off := math.Abs(float64(keys[r]) - want); off > float64(q.Step)*float64(dim/tileComponents)/2+1e-5*want+1e-40 {
						t.Errorf("%d components: a query's product with its own signs is %v; want %v", dim, keys[r], want)
					}
				}
			})
		}
	}
}

func BenchmarkScanTiles(b *testing.B) {
	const dim, n = 384, 256
	rng := random(b)
	tiles, _ := randomTiles(rng, n, dim, heap)
	vec := make([]float32, dim)
	fill(rng, vec, "normal")
	var q TileQuery
	q.Set(vec)
	masks, keys := make([]uint32, n), make([]float32, n*TileRows)
	for _, l := range Levels() {
		b.Run(l.String(), func(b *testing.B) {
			defer Use(l)()
			for b.Loop() {
				ScanTiles(&q, tiles, &TileBar{Floor: 1e9}, masks, keys)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n/TileRows, "ns/row")
		})
	}
	b.Run("query", func(b *testing.B) {
		for b.Loop() {
			q.Set(vec)
		}
	})
}
