package hnsw

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// Rows that are not too many lie in cells besides: each by the signs of what it has beyond
// the nearest of some hundred centres, which lie among the rows, after a rotation. A search
// that looks at all rows reads these bits first, by tiles of 32 rows, then the codes of the
// few rows that they don't rule out, and the rows themselves of those that codes don't
// (Gao and Long, RaBitQ, SIGMOD 2024, for the bits and the error that they have). About one
// centre the bits rule out a half of the rows where the query is unlike all of them, about
// 256 some nineteen of twenty.
//
// Cells are never changed: Link makes others of them in which more rows have their place,
// and a search keeps those that it began with. Until then rows are fresh, and are scored
// one by one. A row that was removed keeps its place, as a slot that was used again keeps
// that of its last row: what a search finds by the bits it compares by the codes of the
// row that there is.

const (
	// leastCellBits is how many signs there are at least: what lies in few components is
	// spread over as many.
	leastCellBits = 64
	// mostCelled is how many rows have cells at most: of more, looking at all takes longer
	// than a walk, even one that keeps many candidates.
	mostCelled = 1 << 17
	// rowsPerCell is how many rows a cell has in the mean where there are few cells.
	rowsPerCell           = 128
	leastCells, mostCells = 16, 512
	// deviationsCell is how many deviations of the error of a row's bits a search allows for.
	deviationsCell = 3.5
)

// CellMiss is the chance at most that a search by cells misses a certain one of the best
// rows: that of an error of more than deviationsCell deviations on one side.
const CellMiss = 3e-4

// cells are the places of rows.
type cells struct {
	rotation *rotation // of the bits' components
	list     []cell    // by group
	groups   [maxGroups]cellGroup
	rows     int // that have a place, removed ones too
	// Rows that there were when the centres were chosen, and the mean of their squared
	// distances from their centres.
	chosen int
	usual  float64
}

// cellGroup are the cells of the rows of a group.
type cellGroup struct {
	from, n int
	centres simd.Rows
	// The same by their codes, which say nearly as well which is nearest to a row, in a third
	// of the time.
	coarse simd.Rows
}

// cell is a centre and the rows that are nearest to it.
type cell struct {
	centre []float32 // as rows of its group are coded
	turned []float32 // the same, rotated
	square float64   // of the centre's length
	// The largest distance of a row's codes from the centre, and of a row from its codes.
	reach, err float64
	tiles      []unsafe.Pointer // of tile
	rows       int              // the last tile may have room
}

// tile is simd.TileRows rows, whose numbers are their slots.
type tile []uint64

func newTile(dim int) tile {
	t := make(tile, (simd.TileSize(dim)+7)/8)
	view := t.view(dim)
	for i := range view.Biases {
		view.Biases[i] = noRow
	}
	return t
}

func (t tile) at() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(t)) }

func (t tile) view(dim int) simd.TileView { return simd.Tile(t.at(), dim) }

// cellBits is how many signs a row of some dimension has.
func cellBits(dim int) int {
	return max(leastCellBits, (dim+simd.TileGrain-1)/simd.TileGrain*simd.TileGrain)
}

// cover says which rows of a coding are in cells.
type cover struct {
	cells atomic.Pointer[cells] // nil: there are none
	// The slots of rows that may have no place, live or not; nil while no row has one nor
	// is to get one. Like the list of pending slots it is only appended to or replaced.
	fresh atomic.Pointer[[]uint32]
	// The share of the rows that a search may return which bits did not rule out, a float64:
	// a mean of the last searches by cells. spared counts those that went another way for it.
	left   atomic.Uint64
	spared atomic.Uint32
}

const (
	// leftMean is how many searches the mean of what bits leave is of, about.
	leftMean = 8
	// Where bits leave too much, one search in retryCells goes by cells still: other queries,
	// and rows that came since, may be other.
	retryCells = 64
)

// leaves says which share of the rows a search had to compare by their codes.
func (c *cover) leaves(share float64) {
	mean := load(&c.left)
	c.left.Store(math.Float64bits(mean + (share-mean)/leftMean))
}

// note has a slot's row, which is live, be scored one by one if others are not.
func (c *cover) note(g *graph, slot uint32) {
	if c.fresh.Load() == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := c.fresh.Load()
	if old == nil {
		return
	}
	if fresh := append(*old, slot); int64(len(fresh)) <= freshMost+freshShare*g.rows.Load() {
		c.fresh.Store(&fresh)
		return
	}
	// Rows come and go, and nothing gives them places.
	c.cells.Store(nil)
	c.fresh.Store(nil)
}

// Fresh rows are so many and so many times the rows that there are, at most.
const freshMost, freshShare = 4096, 2

// look returns the cells and the slots of the rows that may be in none of them: in that
// order a row that gets its place meanwhile is in both.
func (c *cover) look() (*cells, []uint32) {
	fresh := c.fresh.Load()
	all := c.cells.Load()
	if fresh == nil || all == nil {
		return nil, nil
	}
	return all, *fresh
}

// settle takes the first n of the fresh slots off, as they are in these cells, but for those
// that are left.
func (c *cover) settle(g *graph, all *cells, n int, left []uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fresh := c.fresh.Load(); fresh != nil {
		rest := slices.Concat(left, (*fresh)[n:])
		c.cells.Store(all)
		c.fresh.Store(&rest)
	}
}

// drop forgets all cells.
func (c *cover) drop(g *graph) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.cells.Store(nil)
	c.fresh.Store(nil)
}

// bytes returns the memory that cells take.
func (c *cover) bytes() (n int64) {
	all := c.cells.Load()
	if all == nil {
		return 0
	}
	for i := range all.list {
		cell := &all.list[i]
		n += int64(len(cell.centre)+len(cell.turned)) * 4
		n += int64(len(cell.tiles) * simd.TileSize(all.rotation.dim))
	}
	return n
}

// setGroup makes the cells of a group those about centres, which are its rows' means.
func (c *cells) setGroup(group int, centres [][]float32) {
	dim := len(centres[0])
	from, all := len(c.list), make([]float32, 0, len(centres)*dim)
	for _, centre := range centres {
		all = append(all, centre...)
	}
	for i := range centres {
		centre := all[i*dim : (i+1)*dim : (i+1)*dim]
		turned := make([]float32, c.rotation.dim)
		copy(turned, centre)
		c.rotation.turn(turned)
		c.list = append(c.list, cell{centre: centre, turned: turned, square: simd.SquaredNorm(centre)})
	}
	c.groups[group] = cellGroup{from, len(centres), simd.Rows{
		Pages: []unsafe.Pointer{unsafe.Pointer(&all[0])}, Shift: mostCellShift, Stride: uintptr(4 * dim),
	}, coarseRows(all, dim)}
}

// coarseRows returns codes of vectors that lie one after the other.
func coarseRows(vecs []float32, dim int) simd.Rows {
	stride := codeStride(dim)
	room := make([]uint64, uintptr(len(vecs)/dim)*stride/8)
	rows := simd.Rows{Pages: []unsafe.Pointer{unsafe.Pointer(&room[0])}, Shift: mostCellShift, Stride: stride}
	var decoded []float32
	for i := range len(vecs) / dim {
		row := codesAt(&rows, uint32(i), dim)
		row.head[0] = float32(quantize(vecs[i*dim:(i+1)*dim], row.codes))
		decoded = row.decode(decoded[:0])
		row.head[1] = float32(-simd.SquaredNorm(decoded) / 2)
	}
	return rows
}

// codesAt is a view of the codes of a row.
func codesAt(rows *simd.Rows, id uint32, dim int) codeRow {
	at := rows.At(id)
	return codeRow{head: (*[2]float32)(at), codes: unsafe.Slice((*uint8)(unsafe.Add(at, simd.CodeHeader)), dim)}
}

// mostCellShift has the centres of a group lie in one page.
const mostCellShift = 20

// clone returns cells to which rows can be added: beside the old ones, which stay as they
// are.
func (c *cells) clone() *cells {
	to := *c
	to.list = slices.Clone(c.list)
	return &to
}

// placer gives rows places in cells that nobody else has yet.
type placer struct {
	cells  *cells
	coding *coding
	own    []bool // cells whose last tile is not shared
	ids    []uint32
	near   []float32
	query  simd.Query8
	row    []float32
	turned []float32
	off    float64 // the sum of the squared distances of the rows from their centres
}

func newPlacer(c *coding, all *cells) *placer {
	p := &placer{cells: all, coding: c, own: make([]bool, len(all.list)), turned: make([]float32, all.rotation.dim)}
	p.query.Codes = make([]int8, c.dim)
	most := 0
	for _, g := range all.groups {
		most = max(most, g.n)
	}
	for i := range most {
		p.ids = append(p.ids, uint32(i))
	}
	p.near = make([]float32, most)
	return p
}

// nearest returns the cell of a group whose centre is nearest to a row, as codes tell.
func (p *placer) nearest(row codeRow, group int) int {
	g := &p.cells.groups[group]
	near := p.near[:g.n]
	p.query.Sum, p.query.Scale = signedCodes(row.codes, p.query.Codes), row.head[0]
	simd.Dot8Rows(&p.query, &g.coarse, p.ids[:g.n], near)
	best := 0
	for i, key := range near {
		if key > near[best] {
			best = i
		}
	}
	return g.from + best
}

// place gives a slot's row, as it is coded, a place.
func (p *placer) place(slot uint32) {
	codes := p.coding.row(slot)
	p.row = codes.decode(p.row[:0])
	at := p.nearest(codes, p.coding.label(slot))
	to := &p.cells.list[at]
	p.room(at)
	view, n := simd.Tile(to.tiles[len(to.tiles)-1], p.cells.rotation.dim), to.rows%simd.TileRows
	view.Numbers[n] = slot
	for i, v := range to.centre {
		p.row[i] -= v
	}
	square := simd.SquaredNorm(p.row)
	turned := p.turned
	clear(turned[copy(turned, p.row):])
	p.cells.rotation.turn(turned)
	view.SetRow(n, turned)
	magnitudes, product := 0.0, 0.0
	for i, v := range turned {
		const sign = 1 << 31
		bits := math.Float32bits(v)
		magnitudes += float64(math.Float32frombits(bits &^ sign))
		product += float64(math.Float32frombits(math.Float32bits(to.turned[i]) ^ bits&sign))
	}
	factor := 0.0
	if magnitudes > 0 {
		factor = square / magnitudes
	}
	// key = (|q|² - |q-centre|² - |row-centre|²) / 2 + (q-centre)(row-centre), and under Dot
	// |row|²/2 more. The signs estimate q(row-centre), as factor times their product with q;
	// of what that is off by, the part in the direction of the centre is known.
	inner := float64(simd.Dot(to.centre, p.row))
	length, err := math.Sqrt(square), p.coding.err(slot)
	bias := -square/2 - inner
	if p.coding.metric == Dot {
		bias += p.coding.square(slot) / 2
	}
	dim := float64(len(turned))
	missing := math.Sqrt(max(0, factor*factor*dim-square))
	view.Biases[n], view.Factors[n] = roundUp(bias), float32(factor)
	view.Slacks[n] = roundUp(deviationsCell * missing / math.Sqrt(dim-1))
	view.Leans[n] = float32(inner - factor*product)
	to.reach, to.err = max(to.reach, length), max(to.err, err)
	to.rows++
	p.cells.rows++
	p.off += square
}

// room sees to it that the last tile of a cell has room, and nobody reads it.
func (p *placer) room(at int) {
	to, dim := &p.cells.list[at], p.cells.rotation.dim
	if to.rows == len(to.tiles)*simd.TileRows {
		to.tiles = append(slices.Clip(to.tiles), newTile(dim).at())
	} else if !p.own[at] {
		last := len(to.tiles) - 1
		t := make(tile, (simd.TileSize(dim)+7)/8)
		copy(t, unsafe.Slice((*uint64)(to.tiles[last]), len(t)))
		to.tiles = slices.Clone(to.tiles)
		to.tiles[last] = t.at()
	}
	p.own[at] = true
}
