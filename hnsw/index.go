// Package hnsw finds the vectors closest to a query.
//
// An [Index] holds vectors of one dimension under one [Metric] in slots, which
// are numbers that [Index.Add] hands out. It knows nothing of what a slot
// stands for: a search is told by its caller up to which slot to look, which
// slots it may see, and which it is limited to, and so takes part in any scheme
// of snapshots and filters.
//
// # Rows
//
// Each row is kept as int8 codes with a scale, which take a quarter of its
// memory and are what searches walk over. The best candidates are scored again
// with the float32 rows, kept beside the codes or read through [Config].Truth.
// A flat search bounds the error of the codes and scores again whatever could
// still enter the top k, so that it returns what float32 would. Codes for which there
// is no room in memory lie in [Config].File; of each of them there is a sketch of one
// bit a component in memory, by which searches find those that are worth a look. With
// [Config].Sketched rows in memory have one, too, for callers that compare many rows
// with a query through an [Estimator].
//
// # Cells
//
// Up to 131,072 rows lie in cells as well, by one bit a component about the
// nearest of some hundred centres, by which a search looks at all of them at about the cost
// of a walk that finds nearly all of the best: see [Cascade]. That is how a search is
// answered that asks for no number of candidates, and the second look of one that a walk
// left unsure.
//
// # The graph
//
// [Index.Link] connects rows into a hierarchical navigable small world (Malkov
// and Yashunin, 2016), whose search visits a few thousand rows of millions. A
// row is found by the next search whether it is linked or not: what is not is
// scored flat. Below [Crossover] rows no graph is built. As it grows, the graph is put
// to the proof: nodes that nothing leads to get a link, rows that walks do not come to
// become entries from which each starts, and where walks find too few of the closest rows
// they keep more candidates.
//
// Each node has a block: the signs of what its neighbours have beyond it, by which a walk
// estimates their distances from the query without reading them ([Config].BlockMemory). Of
// rows with the same codes one is a node; the others, its twins, are found with it. A row
// that is the query is looked up by its codes, and found whatever the graph is like.
//
// # Concurrency
//
// Three parties work beside each other: one goroutine at a time that adds and
// removes, one that links, and any number that search. Nobody waits for anybody
// else: rows and links lie in pages that never move, outside the Go heap where
// the system allows it; a link list is read while it is rewritten, and then
// holds links of both states, each of them valid; a slot is used again only
// after every search that could have met it has ended.
package hnsw

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

const (
	// MaxSlots is how many slots an index can hand out. Two bits of a slot
	// number are left for marks.
	MaxSlots = 1 << 30

	defaultM              = 16
	maxM                  = 64
	defaultEfConstruction = 200
	maxEfConstruction     = 4096
	maxBuilders           = 64
)

// Config says what an index holds. Its zero values choose defaults.
type Config struct {
	Dim    int // components of a vector, 1 to MaxDim
	Metric Metric
	// Quantized keeps rows as int8 codes with a scale and nothing else: the
	// codes are the rows, exactly as Row returns them. It takes a quarter of
	// the memory, and rounds each component to 1/127 of the vector's largest.
	Quantized bool
	// With Truth the index keeps codes alone in memory, and asks it, or
	// [Search].Truth, for the few rows whose exact score matters. It is called
	// from searches, by several goroutines at once. It excludes Quantized.
	Truth Truth
	// With Rows the rows that Truth returned are kept there, as long as there is
	// room, and are not asked for again. Where there is none for all rows, those that it
	// returned twice are.
	Rows *RowBudget
	// With File at most CodeMemory bytes of codes and RowMemory bytes of float32
	// rows are kept in memory, to within a page of each. What is beyond is mapped
	// from the file: the system keeps of it what it has room for. Rows whose codes
	// are there have sketches in memory, of an eighth of their size, if they have 128
	// components or more. Where the file can't grow, and on Windows, memory is taken.
	File                  File
	CodeMemory, RowMemory int64
	// From so many rows on those in memory have sketches, too, if they have 256 components
	// or more: an [Estimator] compares with those first. 0: they have none.
	Sketched int
	// Nodes of the graph have blocks of their neighbours' codes, by which walks go at about
	// twice the speed, as long as all blocks fit so many bytes: some 1.7 for each component
	// of a row. 0 is no limit, and with a negative one there are none. There are none either
	// of rows of less than 96 components, nor where rows lie in groups or in the file, nor
	// where walks find less by them.
	BlockMemory int64
	BlocksFrom  int // rows from which on there are blocks

	M              int    // links of a node in each upper layer; twice as many in the lowest. 2 to 64; 0 is 16
	EfConstruction int    // candidates kept while linking. 1 to 4096; 0 is 200
	Builders       int    // goroutines that Link uses, see SetBuilders. 1 to 64; 0 is 1, whose graph depends on Seed and the order of calls alone
	Seed           uint64 // of the choice of layers
	Crossover      int    // rows below which no graph is built; 0 is [Crossover]
	Celled         int    // rows from which on they lie in cells as well, see [Cascade]; 0 is [Crossover]
	BitRows        int    // rows of a search by cells that take as long as one of a flat search, see [MeasureBits]; 0 is 5
	Sure           int    // rows that a search that is to be sure looks at one by one at most, or what takes half as long by cells; 0 is 50,000
}

func (c *Config) complete() error {
	if c.Dim < 1 || c.Dim > MaxDim {
		return fmt.Errorf("%w: dimension %d; 1 to %d are possible", ErrConfig, c.Dim, MaxDim)
	}
	if int(c.Metric) >= len(metricNames) {
		return fmt.Errorf("%w: %s; there are %v", ErrConfig, c.Metric, metricNames)
	}
	if c.Quantized && c.Truth != nil {
		return fmt.Errorf("%w: Quantized rows are their own truth; give one of Quantized and Truth", ErrConfig)
	}
	if c.CodeMemory < 0 || c.RowMemory < 0 {
		return fmt.Errorf("%w: %d bytes of memory for codes and %d for rows; neither can be negative", ErrConfig, c.CodeMemory, c.RowMemory)
	}
	for _, p := range []struct {
		name             string
		value            *int
		least, most, def int
	}{
		{"M", &c.M, 2, maxM, defaultM},
		{"EfConstruction", &c.EfConstruction, 1, maxEfConstruction, defaultEfConstruction},
		{"Builders", &c.Builders, 1, maxBuilders, 1},
		{"Crossover", &c.Crossover, 1, MaxSlots, Crossover},
		{"Celled", &c.Celled, 1, MaxSlots, Crossover},
		{"BitRows", &c.BitRows, 1, MaxSlots, defaultBitRows},
		{"Sure", &c.Sure, 1, MaxSlots, defaultSure},
	} {
		if *p.value == 0 {
			*p.value = p.def
		}
		if *p.value < p.least || *p.value > p.most {
			return fmt.Errorf("%w: %s %d; %d to %d are possible", ErrConfig, p.name, *p.value, p.least, p.most)
		}
	}
	return nil
}

// Truth returns the vector that was added under a slot, in dst if it has room.
type Truth func(slot uint32, dst []float32) ([]float32, error)

// Index is a set of vectors. Its methods may be called from any goroutine, but
// Add and Remove from one at a time.
type Index struct {
	cfg    Config
	rows   arena // float32 rows, if the codes are not the rows and no Truth has them
	length atomic.Uint32
	// A search reads the length first: the coding has all rows below it.
	coding atomic.Pointer[coding]
	graph  graph
	spill  *spill    // nil: all is in memory
	kept   *rowCache // of what Truth returned; nil: nothing

	builders atomic.Int32 // of the next Link
	yields   atomic.Bool  // the next Link does, see SetYield

	free    []uint32  // slots to use again, for the writer
	vec     []float32 // the writer's normalised vector
	own     []float32 // the same as it is coded
	decoded []float32 // the writer's quantised vector
	fitting fitting
	pool    sync.Pool // of *searcher

	leastByBlocks float64 // see there; tests lower it
}

// New returns an empty index, or [ErrConfig].
func New(cfg Config) (*Index, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	x := &Index{
		cfg:     cfg,
		vec:     make([]float32, 0, cfg.Dim),
		decoded: make([]float32, 0, cfg.Dim),

		leastByBlocks: leastByBlocks,
	}
	x.builders.Store(int32(cfg.Builders))
	x.spill = newSpill(cfg.File)
	x.coding.Store(x.newCoding(nil, nil))
	x.rows.initSpilled(uintptr(cfg.Dim)*4, x.spill, cfg.RowMemory)
	if cfg.Truth != nil {
		x.kept = newRowCache(cfg.Dim, cfg.Rows)
	}
	x.graph.init(&x.cfg)
	x.pool.New = func() any { return newSearcher(x) }
	return x, nil
}

// Config returns what the index was made with, defaults filled in.
func (x *Index) Config() Config { return x.cfg }

// Len returns how many slots have been handed out: all slots are below it. A
// reader that pins it sees the rows added until then.
func (x *Index) Len() uint32 { return x.length.Load() }

// Bytes returns the memory that rows and links take, to within a huge page for
// each kind of them.
func (x *Index) Bytes() int64 {
	memory, _ := x.sizes()
	return memory
}

// sizes returns what the index takes of memory and of its file.
func (x *Index) sizes() (memory, file int64) {
	n := x.length.Load()
	c := x.coding.Load()
	codes, codesFile := c.codes.bytes(n)
	rows, rowsFile := x.rows.bytes(n)
	return codes + rows + c.sketches.Load().bytes(n) + c.cover.bytes() + x.graph.bytes(n), codesFile + rowsFile
}

// Stats says what an index holds.
type Stats struct {
	Slots   int   // handed out
	Linked  int   // in the graph, removed ones that searches step over included
	Removed int   // of the linked ones
	Pending int   // not linked yet, which searches score one by one
	Bytes   int64 // see [Index.Bytes]
	// BlockBytes is what blocks take of them, CellBytes what cells do.
	BlockBytes, CellBytes int64
	// FileBytes is what rows take in the file.
	FileBytes int64
}

// Stats returns what the index holds. Counts taken while others work may be
// from moments that differ.
func (x *Index) Stats() Stats {
	memory, file := x.sizes()
	return Stats{
		Slots:   int(x.length.Load()),
		Linked:  x.Linked(),
		Removed: int(x.graph.dead.Load()),
		Pending: len(*x.graph.pending.Load()),
		Bytes:   memory, BlockBytes: x.graph.blocks.Load().memory(x.length.Load()),
		CellBytes: x.coding.Load().cover.bytes(), FileBytes: file,
	}
}

// Pending returns how many rows are not linked yet.
func (x *Index) Pending() int { return len(*x.graph.pending.Load()) }

// Linked returns how many rows are in the graph, removed ones that searches step
// over included.
func (x *Index) Linked() int { return int(x.graph.linked.Load() + x.graph.twins.Load()) }

// Work counts what Link has done since the index was made or read: the slots that it
// linked, and those that it led around removed ones, which takes three quarters as long.
func (x *Index) Work() uint64 { return x.graph.work.Load() }

// Due reports whether Link has anything to do.
func (x *Index) Due() bool {
	g := &x.graph
	return x.Pending() > 0 && x.links() || g.repairDue() || x.blocksDue() || x.cellsDue()
}

// keepsRows says whether float32 rows are kept beside the codes.
func (x *Index) keepsRows() bool { return !x.cfg.Quantized && x.cfg.Truth == nil }

// Add stores a copy of a vector, normalised under Cosine, and returns its slot.
// It returns what [CheckVector] does for a vector that doesn't fit, [ErrFull]
// beyond [MaxSlots], and [ErrFile].
func (x *Index) Add(vec []float32) (slot uint32, err error) {
	defer x.spill.guard()(&err)
	if err := x.spill.err(); err != nil {
		return 0, err
	}
	norm, err := checkedNorm(vec, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return 0, err
	}
	slot, err = x.takeSlot()
	if err != nil {
		return 0, err
	}
	if x.kept != nil {
		x.kept.forget(slot) // the row of the slot's last holder
	}
	x.fitting.drop(slot, x.cfg.Dim)
	x.vec = x.prepare(vec, norm, x.vec[:0])
	off := x.store(slot, x.vec)
	x.graph.announce(slot)
	x.coding.Load().cover.note(&x.graph, slot)
	if slot == x.length.Load() {
		x.length.Store(slot + 1)
	}
	x.fit(slot, x.vec, off)
	return slot, nil
}

// takeSlot returns a slot that has room in every arena.
func (x *Index) takeSlot() (uint32, error) {
	x.free = x.graph.reclaim(x.free)
	if n := len(x.free); n > 0 {
		slot := x.free[n-1]
		x.free = x.free[:n-1]
		return slot, nil
	}
	slot := x.length.Load()
	if slot >= MaxSlots {
		return 0, fmt.Errorf("%w: all %d slots are in use", ErrFull, MaxSlots)
	}
	return slot, x.growTo(slot + 1)
}

func (x *Index) growTo(n uint32) error {
	if err := x.growRows(n); err != nil {
		return err
	}
	return x.growSketches(n)
}

// growRows makes room for all of a row but its sketch.
func (x *Index) growRows(n uint32) error {
	if err := x.coding.Load().codes.grow(n); err != nil {
		return err
	}
	if x.keepsRows() {
		if err := x.rows.grow(n); err != nil {
			return err
		}
	}
	return x.graph.growTo(n)
}

// prepare appends to dst a checked vector of that length as it is compared:
// normalised under Cosine.
func (x *Index) prepare(vec []float32, norm float64, dst []float32) []float32 {
	if x.cfg.Metric != Cosine {
		return append(dst, vec...)
	}
	before := len(dst)
	dst = slices.Grow(dst, len(vec))[:before+len(vec)]
	simd.Scale(dst[before:], vec, 1/norm)
	return dst
}

// store stores a row, and returns by how much its codes are off.
func (x *Index) store(slot uint32, vec []float32) (off float64) {
	if x.keepsRows() {
		copy(x.rows.float32s(slot, x.cfg.Dim), vec)
	}
	c := x.coding.Load()
	group := c.group(vec)
	x.own = c.into(vec, group, x.own[:0])
	row := coded{x.own, simd.SquaredNorm(vec), 0, group}
	if len(c.centres) > 0 || c.rotation != nil {
		row.off = c.frameErrorOf(math.Sqrt(simd.SquaredNorm(x.own)))
	}
	x.decoded, off = c.store(slot, row, x.decoded)
	return off
}

// Remove takes a slot's row out; a later Add may use the slot again. The caller
// sees to it that no search, running or to come, may see the slot's old row. A
// slot without a row is left as it is.
func (x *Index) Remove(slot uint32) {
	if slot < x.length.Load() {
		x.graph.retire(slot)
	}
}

// Live reports whether a slot holds a row.
func (x *Index) Live(slot uint32) bool { return slot < x.length.Load() && x.graph.live(slot) }

// Row appends the stored row to dst[:0] and returns it: normalised under
// Cosine; decoded where only codes are kept. It returns [ErrSlot] for a slot
// without a row, and [ErrFile].
func (x *Index) Row(slot uint32, dst []float32) (row []float32, err error) {
	if err := x.checkSlots([]uint32{slot}); err != nil {
		return nil, err
	}
	defer x.spill.guard()(&err)
	if err := x.spill.err(); err != nil {
		return nil, err
	}
	if x.keepsRows() {
		row = append(dst[:0], x.rows.float32s(slot, x.cfg.Dim)...)
	} else {
		c := x.coding.Load()
		row = c.row(slot).decode(dst[:0])
		c.back(row, c.label(slot))
	}
	runtime.KeepAlive(x)
	return row, nil
}

// Keep keeps a slot's vector as Truth would return it, if there is room: for a
// caller that has read many in their order. As with Truth, the slot must hold it,
// and not be handed out again until Keep returns.
func (x *Index) Keep(slot uint32, row []float32) {
	if x.kept != nil {
		x.kept.keep(slot, row, true, false)
	}
}

// KeepsAll reports whether there is room to keep all rows.
func (x *Index) KeepsAll() bool { return x.kept != nil && x.kept.fits(x.length.Load()) }
