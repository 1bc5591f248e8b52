package hnsw

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// codeMax is the largest magnitude of a code less its offset.
const codeMax = 127

// codeZero is the offset of row codes: the code of 0.
const codeZero = 128

// coding is a way to make codes of rows, and the codes of an index's rows. A row is
// coded as its difference to a centre, which may be turned first, lest one large
// component take the steps of all others. Where rows come that do not fit, another
// coding takes its place (see [fitting]): a search keeps the one that it began with.
//
// Under each metric codes are compared by their own distances. A row's key for a query
// is
//
//	query*codes - |codes|²/2, and under Dot |row|²/2 more,
//
// which is half of a constant less the squared distance of the query and the codes, so
// that the errors of keys shrink with the distance, and rows that are near each other
// are told apart by what their codes differ in, and not by how rounding made them longer.
type coding struct {
	dim      int
	metric   Metric
	rounds   bool        // codes stand for rows that they are not
	centres  [][]float32 // none: the origin; several: see groups.go
	rotation *rotation   // nil: components are coded as they are
	codes    arena
	bounds   bounds
	// The mean of the squared errors of the rows that it was chosen by, as float64
	// bits; NaN before it was.
	usual atomic.Uint64
	// Of the rows whose codes lie in the file, or of all; nil before there are any.
	sketches atomic.Pointer[sketches]
	cover    cover // which of them are in cells
}

// newCoding makes a coding about centres, for an index that has no rows in it yet.
func (x *Index) newCoding(centres [][]float32, r *rotation) *coding {
	c := &coding{dim: x.cfg.Dim, metric: x.cfg.Metric, rounds: !x.cfg.Quantized, centres: centres, rotation: r}
	c.usual.Store(math.Float64bits(math.NaN()))
	c.codes.initSpilled(codeStride(x.cfg.Dim), x.spill, x.cfg.CodeMemory)
	return c
}

// frameError is how much of its length a vector may be off, as it is coded, for the
// roundings of what into does.
const frameError = 128.0 / (1 << 24)

// into appends to dst a vector as it is coded in a group.
func (c *coding) into(vec []float32, group int, dst []float32) []float32 {
	before := len(dst)
	dst = append(dst, vec...)
	own := dst[before:]
	if len(c.centres) > 0 {
		for i, v := range c.centres[group] {
			own[i] -= v
		}
	}
	if c.rotation != nil {
		c.rotation.turn(own)
	}
	return dst
}

// back makes of a vector as it is coded in a group the vector.
func (c *coding) back(vec []float32, group int) {
	if c.rotation != nil {
		c.rotation.turnBack(vec)
	}
	if len(c.centres) > 0 {
		for i, v := range c.centres[group] {
			vec[i] += v
		}
	}
}

// frameErrorOf returns how much a vector of some length may be off as it is coded.
func (c *coding) frameErrorOf(length float64) float64 {
	if len(c.centres) == 0 && c.rotation == nil {
		return 0
	}
	return frameError * length
}

// codeRow is a view of a quantised row in its arena.
type codeRow struct {
	head  *[2]float32 // scale, bias
	codes []uint8
	// err is at least the length of what the codes leave out. Its last bits say which
	// group the row is of (see label).
	err *float32
}

func (c *coding) row(slot uint32) codeRow {
	row := c.codes.table.Load().At(slot)
	return codeRow{
		head:  (*[2]float32)(row),
		codes: unsafe.Slice((*uint8)(unsafe.Add(row, simd.CodeHeader)), c.dim),
		err:   (*float32)(unsafe.Add(row, errOffset(c.dim))),
	}
}

// vanishes reports whether rows are all so short that keys, which are as large as their
// squares, have no digits to tell them apart: only the rows themselves have.
func (c *coding) vanishes() bool {
	const digits = 1e6
	coded := load(&c.bounds.coded)
	return coded*coded < digits*float64(c.dim)*codeMax*codeMax*math.SmallestNonzeroFloat32
}

// err returns at least the length of what the codes of a slot's row leave out.
func (c *coding) err(slot uint32) float64 {
	return float64(*(*float32)(unsafe.Add(c.codes.table.Load().At(slot), errOffset(c.dim))))
}

// errOffset is where a row has the length of its error: behind its codes.
func errOffset(dim int) uintptr { return (simd.CodeHeader + uintptr(dim) + 3) &^ 3 }

func codeStride(dim int) uintptr { return (errOffset(dim) + 4 + 7) &^ 7 }

// coded is a row that is to be stored.
type coded struct {
	vec    []float32 // as it is coded
	square float64   // of the row's length
	off    float64   // by which vec may be off
	group  int
}

// store makes codes of a row, and returns the error that they have. decoded is room
// for what they stand for, which it returns.
func (c *coding) store(slot uint32, row coded, decoded []float32) (_ []float32, err float64) {
	to := c.row(slot)
	scale := quantize(row.vec, to.codes)
	if !c.rounds && c.metric == Cosine {
		scale = unitScale(to.codes)
	}
	to.head[0] = float32(scale)
	decoded = to.decode(decoded[:0])
	square := simd.SquaredNorm(decoded)
	if c.rounds {
		err = distance(row.vec, decoded) + row.off
	} else {
		row.square = square
	}
	bias := -square / 2
	if c.metric == Dot {
		bias += row.square / 2
	}
	to.head[1], *to.err = float32(bias), c.labelled(roundUp(err), row.group)
	if s := c.sketches.Load(); s.has(slot) {
		s.store(slot, decoded, to.head[1], s.turned)
	}
	c.bounds.widen(math.Sqrt(row.square), math.Sqrt(square), float64(*to.err))
	return decoded, err
}

// roundUp returns a float32 that is not less.
func roundUp(v float64) float32 {
	f := float32(v)
	if float64(f) < v {
		f = math.Nextafter32(f, math.MaxFloat32)
	}
	return f
}

// bounds are maxima over all rows ever stored, from which the error of a score
// of codes follows. They only grow.
type bounds struct {
	norm  atomic.Uint64 // of |row|, as float64 bits
	coded atomic.Uint64 // of |codes|, as float64 bits
	err   atomic.Uint64 // of a row's error, as float64 bits
}

func (b *bounds) widen(norm, coded, err float64) {
	raise(&b.norm, norm)
	raise(&b.coded, coded)
	raise(&b.err, err)
}

func raise(a *atomic.Uint64, v float64) {
	for old := a.Load(); v > math.Float64frombits(old); old = a.Load() {
		if a.CompareAndSwap(old, math.Float64bits(v)) {
			return
		}
	}
}

func load(a *atomic.Uint64) float64 { return math.Float64frombits(a.Load()) }
