package hnsw

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

const (
	// frameShare is the share of the memory, one in so many, that a cache grows by at
	// most, and frameMost the bytes: huge pages fit into that.
	frameShare = 16
	frameMost  = 16 << 20
	// frameLocks is how many locks the rows of a frame share. One is held while a row
	// is scored.
	frameLocks = 64
)

// RowBudget is what indexes whose rows lie elsewhere may take of memory, together, to
// keep rows that were read through [Truth].
type RowBudget struct {
	limit int64
	taken atomic.Int64 // by frames, whose memory is the system's until rows lie in it
	held  atomic.Int64 // by rows
}

// NewRowBudget returns room for so many bytes.
func NewRowBudget(bytes int64) *RowBudget { return &RowBudget{limit: bytes} }

// Bytes returns what the rows take that are kept.
func (b *RowBudget) Bytes() int64 { return b.held.Load() }

// take takes bytes, if there are as many.
func (b *RowBudget) take(bytes int64) bool {
	if b.taken.Add(bytes) <= b.limit {
		return true
	}
	b.taken.Add(-bytes)
	return false
}

// rowCache keeps float32 rows of an index as [Truth] returned them. A slot has one
// place: its own while there is room for all slots, one that it shares with others
// beyond. A row is scored where it lies, under a lock, and so is never torn. That it
// is the slot's is for the callers to see to, as for what Truth returns: Add forgets
// what was there before it hands a slot out again, and no slot is handed out while a
// search that may read its old row still runs.
type rowCache struct {
	dim    int
	shift  uint // a frame has 1 << shift rows
	frames atomic.Pointer[[]*frame]
	growth sync.Mutex
	of     *rowShare
}

// rowShare is what one index has taken of the memory. It goes back when the index is
// unreachable.
type rowShare struct {
	budget      *RowBudget
	taken, held atomic.Int64
}

func (s *rowShare) giveBack() {
	s.budget.taken.Add(-s.taken.Load())
	s.budget.held.Add(-s.held.Load())
}

type frame struct {
	page *page
	// Each row's slot plus one; 0: there is none. With onceRead the row was read, and is
	// not kept. Guarded by the row's lock.
	slots []uint32
	locks [frameLocks]sync.Mutex
}

func newRowCache(dim int, b *RowBudget) *rowCache {
	if b == nil {
		return nil
	}
	c := &rowCache{dim: dim, of: &rowShare{budget: b}}
	for most := min(b.limit/frameShare, frameMost); int64(dim)*4<<(c.shift+1) <= most; {
		c.shift++
	}
	c.frames.Store(&[]*frame{})
	runtime.AddCleanup(c, (*rowShare).giveBack, c.of)
	return c
}

func (c *rowCache) frameSize() int64 { return int64(c.dim) * 4 << c.shift }

// place returns where a slot's row is if it is kept; f is nil if there is no room at
// all.
func (c *rowCache) place(slot uint32) (f *frame, at uint32) {
	frames := *c.frames.Load()
	if len(frames) == 0 {
		return nil, 0
	}
	n := int(slot >> c.shift)
	if n >= len(frames) {
		n %= len(frames)
	}
	return frames[n], slot & (1<<c.shift - 1)
}

// lock locks the place where a slot's row is if it is kept; if there is one, the caller
// unlocks it.
func (c *rowCache) lock(slot uint32) (f *frame, at uint32, lock *sync.Mutex) {
	for {
		if f, at = c.place(slot); f == nil {
			return nil, 0, nil
		}
		lock = &f.locks[at%frameLocks]
		lock.Lock()
		if now, _ := c.place(slot); now == f {
			return f, at, lock
		}
		lock.Unlock() // frames were added in between
	}
}

// prefetch asks for the first lines of a slot's row, if it is kept. The processor sees
// to the others while those are read.
func (c *rowCache) prefetch(slot uint32) {
	f, at := c.place(slot)
	if f == nil {
		return
	}
	const lines, most = 128, 768
	row := unsafe.Pointer(unsafe.SliceData(c.row(f, at)))
	for n := 0; n < min(c.dim*4, most); n += lines {
		simd.Prefetch(unsafe.Add(row, n))
	}
}

// row is the row at a place, whose lock is held by whoever reads or writes it.
func (c *rowCache) row(f *frame, at uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(f.page.base, uintptr(at)*uintptr(c.dim)*4)), c.dim)
}

// score calls score with a slot's row, if it is kept.
func (c *rowCache) score(slot uint32, metric Metric, query []float32) (score float32, kept bool, err error) {
	f, at, lock := c.lock(slot)
	if f == nil {
		return 0, false, nil
	}
	defer lock.Unlock()
	if f.slots[at] != slot+1 {
		return 0, false, nil
	}
	score, err = rowScore(metric, query, c.row(f, at))
	return score, true, err
}

// onceRead marks the place of a row that was read once.
const onceRead = 1 << 31

// keep puts a slot's row in its place. One that does not fit is no row of the index.
// all tells that all rows are to be kept, scarce that there is no room for them: then a
// place that is empty takes only a row that is read for the second time, since most are
// not, and the system must find memory for each.
func (c *rowCache) keep(slot uint32, row []float32, all, scarce bool) {
	if len(row) != c.dim {
		return
	}
	if int(slot>>c.shift) >= len(*c.frames.Load()) {
		c.grow(int(slot>>c.shift)+1, all)
	}
	f, at, lock := c.lock(slot)
	if f == nil {
		return
	}
	defer lock.Unlock()
	if was := f.slots[at]; was == 0 || was&onceRead != 0 {
		if scarce && was != (slot+1)|onceRead {
			f.slots[at] = (slot + 1) | onceRead
			return
		}
		c.hold(1)
	}
	copy(c.row(f, at), row)
	f.slots[at] = slot + 1
}

// hold counts rows that are kept now, or no more.
func (c *rowCache) hold(rows int64) {
	c.of.held.Add(rows * int64(c.dim) * 4)
	c.of.budget.held.Add(rows * int64(c.dim) * 4)
}

// forget drops a slot's row.
func (c *rowCache) forget(slot uint32) {
	f, at, lock := c.lock(slot)
	if f == nil {
		return
	}
	defer lock.Unlock()
	if f.slots[at] == slot+1 {
		f.slots[at] = 0
		c.hold(-1)
	}
}

// grow makes n frames, or as many as there is memory for. Rows of slots beyond those
// that there were may have another place then, and are read once more. all tells that
// all rows are to be kept.
func (c *rowCache) grow(n int, all bool) {
	if !c.growth.TryLock() {
		return // the next row asks again
	}
	defer c.growth.Unlock()
	frames := *c.frames.Load()
	for len(frames) < n && c.of.budget.take(c.frameSize()) {
		hugeFrom := c.frameSize()
		if len(frames) > 0 && all {
			hugeFrom = 0 // else rows are met in no order, and each would take a huge page
		}
		page, err := newPage(uintptr(c.frameSize()), uintptr(hugeFrom))
		if err != nil {
			c.of.budget.taken.Add(-c.frameSize())
			break // it is only a cache
		}
		c.of.taken.Add(c.frameSize())
		frames = append(slices.Clip(frames), &frame{page: page, slots: make([]uint32, 1<<c.shift)})
	}
	before := *c.frames.Load()
	if len(frames) > len(before) {
		c.frames.Store(&frames)
		c.dropMoved(before)
	}
}

// dropMoved drops the rows of slots that have another place now. Left where they are,
// they would come back when the slot has that place again, after it was given to another
// row.
func (c *rowCache) dropMoved(frames []*frame) {
	for _, f := range frames {
		for at := range f.slots {
			lock := &f.locks[at%frameLocks]
			lock.Lock()
			if was := f.slots[at]; was != 0 {
				if now, _ := c.place(was&^onceRead - 1); now != f {
					f.slots[at] = 0
					if was&onceRead == 0 {
						c.hold(-1)
					}
				}
			}
			lock.Unlock()
		}
	}
}

// fits reports whether so many slots have, or can have, a place of their own.
func (c *rowCache) fits(slots uint32) bool {
	need := (int64(slots) + 1<<c.shift - 1) >> c.shift * c.frameSize()
	b := c.of.budget
	return need <= c.of.taken.Load()+b.limit-b.taken.Load()
}
