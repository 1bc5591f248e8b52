// Package hnsw finds the vectors closest to a query.
//
// An [Index] holds vectors of one dimension under one [Metric] in slots, which
// are numbers that [Index.Add] hands out. It knows nothing of what a slot
// stands for: a search is told by its caller up to which slot to look, which
// slots it may see, and which it is limited to, and so takes part in any scheme
// of snapshots and filters.
//
// One goroutine at a time may Add and Remove; any number may search beside it.
// Rows lie in pages that never move, outside the Go heap where the system
// allows it. The search is exact: it scores every row that it may return.
package hnsw

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// MaxSlots is how many slots an index can hand out.
const MaxSlots = 1<<31 - 1

// Config says what an index holds.
type Config struct {
	Dim    int // components of a vector, 1 to MaxDim
	Metric Metric
	// Quantized keeps rows as int8 codes with a scale and nothing else: the
	// codes are the rows, exactly as Row returns them. It takes a quarter of
	// the memory, and rounds each component to 1/127 of the vector's largest.
	Quantized bool
}

// Index is a set of vectors. Its methods may be called from any goroutine, but
// Add and Remove from one at a time.
type Index struct {
	cfg    Config
	rows   arena // float32 rows, unless Quantized
	codes  arena // quantised rows, if Quantized
	states arena // one atomic word for each slot
	length atomic.Uint32

	free    []uint32  // removed slots, for the writer
	scratch []float32 // the writer's normalised vector
	pool    sync.Pool // of *searcher
}

// stateLive marks a slot that holds a row: added and not removed.
const stateLive = 1

// New returns an empty index, or [ErrConfig].
func New(cfg Config) (*Index, error) {
	if cfg.Dim < 1 || cfg.Dim > MaxDim {
		return nil, fmt.Errorf("%w: dimension %d; 1 to %d are possible", ErrConfig, cfg.Dim, MaxDim)
	}
	if int(cfg.Metric) >= len(metricNames) {
		return nil, fmt.Errorf("%w: %s; there are %v", ErrConfig, cfg.Metric, metricNames)
	}
	x := &Index{cfg: cfg, scratch: make([]float32, cfg.Dim)}
	x.rows.init(uintptr(cfg.Dim) * 4)
	x.codes.init(codeStride(cfg.Dim))
	x.states.init(4)
	x.pool.New = func() any { return x.newSearcher() }
	return x, nil
}

// Config returns what the index was made with.
func (x *Index) Config() Config { return x.cfg }

// Len returns how many slots have been handed out: all slots are below it. A
// reader that pins it sees the rows added until then.
func (x *Index) Len() uint32 { return x.length.Load() }

// Bytes returns the size of the index's mappings. Their untouched end, up to a
// page in each arena, takes no memory on most systems.
func (x *Index) Bytes() int64 { return x.rows.bytes() + x.codes.bytes() + x.states.bytes() }

// Add stores a copy of a vector, normalised under Cosine, and returns its slot.
// It returns what [CheckVector] does for a vector that doesn't fit, and
// [ErrFull] beyond [MaxSlots].
func (x *Index) Add(vec []float32) (slot uint32, err error) {
	norm, err := checkedNorm(vec, x.cfg.Dim, x.cfg.Metric)
	if err != nil {
		return 0, err
	}
	slot, err = x.takeSlot()
	if err != nil {
		return 0, err
	}
	x.store(slot, x.prepare(vec, norm, x.scratch[:0]))
	x.states.word(slot).Store(stateLive)
	if slot == x.length.Load() {
		x.length.Store(slot + 1)
	}
	return slot, nil
}

// takeSlot returns a slot that has room in every arena.
func (x *Index) takeSlot() (uint32, error) {
	if n := len(x.free); n > 0 {
		slot := x.free[n-1]
		x.free = x.free[:n-1]
		return slot, nil
	}
	slot := x.length.Load()
	if slot >= MaxSlots {
		return 0, fmt.Errorf("%w: all %d slots are in use", ErrFull, MaxSlots)
	}
	rows := &x.rows
	if x.cfg.Quantized {
		rows = &x.codes
	}
	if err := rows.grow(slot + 1); err != nil {
		return 0, err
	}
	return slot, x.states.grow(slot + 1)
}

// prepare appends to dst a checked vector of that length as it is compared:
// normalised under Cosine.
func (x *Index) prepare(vec []float32, norm float64, dst []float32) []float32 {
	if x.cfg.Metric != Cosine {
		return append(dst, vec...)
	}
	inv := 1 / norm
	for _, v := range vec {
		dst = append(dst, float32(float64(v)*inv))
	}
	return dst
}

func (x *Index) store(slot uint32, vec []float32) {
	if !x.cfg.Quantized {
		copy(x.rows.float32s(slot, x.cfg.Dim), vec)
		return
	}
	row := x.codeRow(slot)
	scale := quantize(vec, row.codes)
	if x.cfg.Metric == Cosine {
		scale = unitScale(row.codes)
	}
	row.head[0], row.head[1] = float32(scale), 0
}

// Remove takes a slot's row out; a later Add may use the slot again. The caller
// sees to it that no search, running or to come, may see the slot's old row. A
// slot without a row is left as it is.
func (x *Index) Remove(slot uint32) {
	if slot >= x.length.Load() || !x.live(slot) {
		return
	}
	x.states.word(slot).Store(0)
	x.free = append(x.free, slot)
}

func (x *Index) live(slot uint32) bool { return x.states.word(slot).Load()&stateLive != 0 }

// Row appends the stored row to dst[:0] and returns it: normalised under
// Cosine, decoded if Quantized. For a slot without a row it returns nil.
func (x *Index) Row(slot uint32, dst []float32) []float32 {
	if slot >= x.length.Load() || !x.live(slot) {
		return nil
	}
	if x.cfg.Quantized {
		dst = x.codeRow(slot).decode(dst[:0])
	} else {
		dst = append(dst[:0], x.rows.float32s(slot, x.cfg.Dim)...)
	}
	runtime.KeepAlive(x)
	return dst
}
