package doctable

import (
	"sync/atomic"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// plain is the set of documents that are alive and do not expire, as bits: every
// reader of a state in which such a document exists sees it. Nearly all documents are in the
// set, and a look at a bit takes a fraction of a look at a row. The writer clears a bit after
// it has written the death to the row, so that a reader who finds the bit cleared learns the
// death from the row.
type plain struct{ Words Paged[atomic.Uint64] }

func (p *plain) set(doc uint32) { p.Words.Grow(uint64(doc) / 64).Or(1 << (doc % 64)) }

func (p *plain) clear(doc uint32) { p.Words.Grow(uint64(doc) / 64).And(^(1 << (doc % 64))) }

// Word has the bits of the documents from 64·i on.
func (p *plain) Word(i int) uint64 {
	if w := p.Words.At(uint64(i)); w != nil {
		return w.Load()
	}
	return 0
}

// Prefetch asks for a row before it is needed.
func (t *Table) Prefetch(doc uint32) {
	if r := t.Row(doc); r != nil {
		simd.Prefetch(unsafe.Pointer(r))
	}
}
