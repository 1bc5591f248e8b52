package simd

import (
	"math"
	"unsafe"
)

// A tile is TileRows rows of one bit a component, each of which is 1 or -1, that are
// compared with a query together: for every four components a byte shuffle looks the
// partial products of 16 rows up in a table of the 16 that there are (André, Kermarrec and
// Le Scouarnec, Cache locality is not enough, VLDB 2015). In memory:
//
//	for every four components  16 bytes: the low half of byte i is of row i, the high one
//	                           of row i+16; the lowest bit is of the first component
//	biases, factors, slacks, leans    TileRows native float32 each
//	numbers                    TileRows native uint32, for the caller
//
// The components of a row are a multiple of TileGrain.
const (
	TileRows  = 32
	TileGrain = 16

	tileComponents = 4                          // that one look-up takes
	tileEntries    = 1 << tileComponents        // of a table
	tileBytes      = TileRows / 8               // that a component takes
	mostTileSum    = math.MaxUint16             // that kernels add up to
	mostTileEntry  = math.MaxUint8              // that a table holds
	tileStats      = 5 * TileRows               // of four bytes each behind the bits
	tileGroupBytes = tileComponents * tileBytes // of four components of all rows
)

// TileSize returns the bytes of a tile of rows of so many components.
func TileSize(dim int) int { return dim*tileBytes + 4*tileStats }

// TileQuery is a query as tiles are compared with it.
type TileQuery struct {
	// Step is what one unit of a table's entries is worth: no entry is off by more than half
	// of it.
	Step float32
	// Low is the least that a row's product can be, which all entries are above.
	Low   float32
	table []uint8
}

// Set makes a vector of a multiple of [TileGrain] components the query.
func (q *TileQuery) Set(vec []float32) {
	mustMatch(len(vec)%TileGrain, 0)
	q.table = q.table[:0]
	var most, all float32
	for g := 0; g < len(vec); g += tileComponents {
		reach := tileReach((*[tileComponents]float32)(vec[g:]))
		most, all = max(most, reach), all+reach
	}
	q.Step = max(2*most/mostTileEntry, 2*all/(mostTileSum-float32(len(vec))))
	q.Low = -all
	inverse := float32(0)
	if q.Step > 0 {
		inverse = 1 / q.Step
	}
	if math.IsInf(float64(inverse), 0) {
		q.Step, q.Low, inverse = 0, 0, 0 // so short that float32 has no digits for it
	}
	var sums [tileEntries]float32
	for g := 0; g < len(vec); g += tileComponents {
		v := (*[tileComponents]float32)(vec[g:])
		sums[0] = 0
		// From the least sum each bit adds twice its component, or takes it off.
		for b, c := range v {
			for i := range 1 << b {
				if c >= 0 {
					sums[i|1<<b] = sums[i] + 2*c
				} else {
					sums[i|1<<b] = sums[i]
					sums[i] -= 2 * c
				}
			}
		}
		for _, s := range sums {
			q.table = append(q.table, uint8(min(s*inverse+.5, mostTileEntry)))
		}
	}
}

func tileReach(v *[tileComponents]float32) (sum float32) {
	for _, c := range v {
		sum += max(c, -c)
	}
	return sum
}

// TileView is a tile whose rows can be set.
type TileView struct {
	Bits                           []uint8
	Biases, Factors, Slacks, Leans *[TileRows]float32
	Numbers                        *[TileRows]uint32
}

// Tile returns a view of the tile that begins at an address.
func Tile(at unsafe.Pointer, dim int) TileView {
	stats := (*[tileStats]float32)(unsafe.Add(at, dim*tileBytes))
	return TileView{
		Bits:    unsafe.Slice((*uint8)(at), dim*tileBytes),
		Biases:  (*[TileRows]float32)(stats[:TileRows]),
		Factors: (*[TileRows]float32)(stats[TileRows : 2*TileRows]),
		Slacks:  (*[TileRows]float32)(stats[2*TileRows : 3*TileRows]),
		Leans:   (*[TileRows]float32)(stats[3*TileRows : 4*TileRows]),
		Numbers: (*[TileRows]uint32)(unsafe.Pointer(&stats[4*TileRows])),
	}
}

// SetRow makes the signs of a vector those of a tile's row, whose bits are 0: negative
// components are -1, others 1.
func (t *TileView) SetRow(row int, vec []float32) {
	shift, at := uint(row/tileEntries*4), row%tileEntries
	for g := 0; g < len(vec); g += tileComponents {
		var nibble uint8
		for b, c := range (*[tileComponents]float32)(vec[g:]) {
			nibble |= uint8(^math.Float32bits(c)>>31) << b
		}
		t.Bits[g/tileComponents*tileGroupBytes+at] |= nibble << shift
	}
}

// TileBar is what keys of a tile's rows are made of, besides the tile, and compared with.
type TileBar struct {
	Base  float32 // added to products
	Reach float32 // which slacks are multiplied with
	Lean  float32 // which leans are
	Floor float32 // at least -math.MaxFloat32
}

// ScanTiles sets out to the keys of the rows of some tiles, and the bits of masks to which
// of them are at least the floor. The key of a row, whose product with the query q.Set has
// is p, is bias + factor*(p + base) + slack*reach + lean*bar.Lean. All levels give the same keys.
func ScanTiles(q *TileQuery, tiles []unsafe.Pointer, bar *TileBar, masks []uint32, out []float32) {
	mustMatch(len(tiles), len(masks))
	mustMatch(len(tiles)*TileRows, len(out))
	if len(tiles) == 0 || len(q.table) == 0 {
		return
	}
	own := TileBar{Base: q.Low + bar.Base, Reach: bar.Reach, Lean: bar.Lean, Floor: bar.Floor}
	scanTiles(q, tiles, &own, masks, out)
}

func scanTilesGo(q *TileQuery, tiles []unsafe.Pointer, bar *TileBar, masks []uint32, out []float32) {
	dim := len(q.table) / tileEntries * tileComponents
	for i, at := range tiles {
		t := Tile(at, dim)
		var sums [TileRows]uint32
		for g := 0; g < len(t.Bits); g += tileGroupBytes {
			table, bits := (*[tileEntries]uint8)(q.table[g:]), (*[tileGroupBytes]uint8)(t.Bits[g:])
			for r, b := range bits {
				sums[r] += uint32(table[b&(tileEntries-1)])
				sums[r+tileEntries] += uint32(table[b>>4])
			}
		}
		masks[i] = 0
		keys := (*[TileRows]float32)(out[i*TileRows:])
		for r, sum := range sums {
			// The conversions keep processors that could from fusing the sums.
			p := float32(float32(sum)*q.Step) + bar.Base
			keys[r] = float32(float32(p*t.Factors[r])+t.Biases[r]) + float32(bar.Reach*t.Slacks[r]) + float32(bar.Lean*t.Leans[r])
			if keys[r] >= bar.Floor {
				masks[i] |= 1 << r
			}
		}
	}
}

// AtLeast sets the bits of masks to which of 32 keys each are at least a floor.
func AtLeast(keys []float32, floor float32, masks []uint32) {
	mustMatch(len(keys), TileRows*len(masks))
	if len(masks) > 0 {
		atLeast(keys, floor, masks)
	}
}

func atLeastGo(keys []float32, floor float32, masks []uint32) {
	for i := range masks {
		masks[i] = 0
		for r, key := range (*[TileRows]float32)(keys[i*TileRows:]) {
			if key >= floor {
				masks[i] |= 1 << r
			}
		}
	}
}
