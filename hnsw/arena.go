package hnsw

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// arena holds records of one size in pages that never move, so that readers
// run beside the one goroutine that grows it. What lies in a record is
// published by the caller, through an atomic length or an atomic field.
type arena struct {
	table atomic.Pointer[simd.Rows]
	pages []*page // keeps the mappings of table alive
}

// page is one mapping. It is returned to the system once it is unreachable.
type page struct{ base unsafe.Pointer }

func (a *arena) init(stride uintptr) {
	// The largest power of two of records that a page has room for, at least 1.
	shift := uint(bits.Len64(uint64(pageBytes/stride))) - 1
	a.table.Store(&simd.Rows{Shift: shift, Stride: stride})
}

// grow makes room for records 0 to n-1.
func (a *arena) grow(n uint32) error {
	t := a.table.Load()
	need := int((uint64(n) + 1<<t.Shift - 1) >> t.Shift)
	for len(a.pages) < need {
		// A small index should not take a huge page for each of its arenas.
		p, err := newPage(t.Stride<<t.Shift, len(a.pages) > 0)
		if err != nil {
			return fmt.Errorf("vector index: no memory for %d more bytes: %w", t.Stride<<t.Shift, err)
		}
		a.pages = append(a.pages, p)
		t = &simd.Rows{
			Pages:  append(t.Pages[:len(t.Pages):len(t.Pages)], p.base),
			Shift:  t.Shift,
			Stride: t.Stride,
		}
		a.table.Store(t)
	}
	return nil
}

func (a *arena) bytes() int64 {
	t := a.table.Load()
	return int64(len(t.Pages)) * int64(t.Stride<<t.Shift)
}

// float32s returns the record as a vector. The caller keeps the arena alive.
func (a *arena) float32s(id uint32, n int) []float32 {
	return unsafe.Slice((*float32)(a.table.Load().At(id)), n)
}

func (a *arena) word(id uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(a.table.Load().At(id))
}

// ownPage returns a page whose mapping is released after the page's last use.
func ownPage(base unsafe.Pointer, mapping []byte, release func([]byte)) *page {
	p := &page{base: base}
	runtime.AddCleanup(p, release, mapping)
	return p
}
