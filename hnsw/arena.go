package hnsw

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// hugePage is the size of a huge page on all systems that are asked for one.
const hugePage = 2 << 20

// arena holds records of one size in pages that never move, so that readers
// run beside the one goroutine that grows it. What lies in a record is
// published by the caller, through an atomic length or an atomic field.
type arena struct {
	table  atomic.Pointer[simd.Rows]
	pages  []*page      // keeps the mappings of table alive
	spill  *spill       // where what is beyond memory goes; nil: nothing does
	memory int64        // bytes
	filed  atomic.Int64 // pages in the file
}

// page is one mapping. It is returned to the system once it is unreachable.
type page struct{ base unsafe.Pointer }

func (a *arena) init(stride uintptr) {
	// The largest power of two of records that a page has room for, at least 1.
	shift := uint(bits.Len64(uint64(pageBytes/stride))) - 1
	a.table.Store(&simd.Rows{Shift: shift, Stride: stride})
}

// initSpilled is init for an arena of which a part may lie in a file.
func (a *arena) initSpilled(stride uintptr, s *spill, memory int64) {
	a.init(stride)
	a.spill, a.memory = s, memory
}

// grow makes room for records 0 to n-1.
func (a *arena) grow(n uint32) error {
	t := a.table.Load()
	need := int((uint64(n) + 1<<t.Shift - 1) >> t.Shift)
	for len(a.pages) < need {
		p, err := a.newPage(t.Stride << t.Shift)
		if err != nil {
			return err
		}
		a.pages = append(a.pages, p)
		t = &simd.Rows{
			Pages:  append(slices.Clip(t.Pages), p.base),
			Shift:  t.Shift,
			Stride: t.Stride,
		}
		a.table.Store(t)
	}
	return nil
}

func (a *arena) newPage(bytes uintptr) (*page, error) {
	if a.spill != nil && int64(len(a.pages)) >= a.memory/int64(bytes) {
		// Where the file cannot grow, memory is the lesser evil.
		if p, err := a.spill.newPage(bytes); err == nil {
			a.filed.Add(1)
			return p, nil
		}
	}
	hugeFrom := uintptr(0)
	if len(a.pages) == 0 {
		// A small index should not take a huge page for each of its arenas.
		hugeFrom = hugePage
	}
	p, err := newPage(bytes, hugeFrom)
	if err != nil {
		return nil, fmt.Errorf("vector index: no memory for %d more bytes: %w", bytes, err)
	}
	return p, nil
}

// bytes returns the size of n records, in memory and in the file, which is what an
// arena with as many has touched of its pages.
func (a *arena) bytes(n uint32) (memory, file int64) {
	t := a.table.Load()
	if len(t.Pages) == 0 {
		return 0, 0
	}
	all, page := int64(n)*int64(t.Stride), int64(t.Stride<<t.Shift)
	// The pages of the file come last, unless it could not grow at times.
	file = max(0, all-(int64(len(t.Pages))-a.filed.Load())*page)
	return all - file, file
}

// firstFiled returns the first record that may lie in the file, one beyond all if none
// does.
func (a *arena) firstFiled() uint32 {
	t := a.table.Load()
	return uint32(len(t.Pages)-int(a.filed.Load())) << t.Shift
}

// float32s returns the record as a vector. The caller keeps the arena alive.
func (a *arena) float32s(id uint32, n int) []float32 {
	return unsafe.Slice((*float32)(a.table.Load().At(id)), n)
}

// ownPage returns a page whose mapping is released after the page's last use.
func ownPage(base unsafe.Pointer, mapping []byte, release func([]byte)) *page {
	p := &page{base: base}
	runtime.AddCleanup(p, release, mapping)
	return p
}
