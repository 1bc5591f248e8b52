package engine

import (
	"math"
	"sync/atomic"
)

// noDoc is no doc ID.
const noDoc = math.MaxUint32

// alive is the death of what has not died.
const alive = math.MaxUint64

// pageSize is the number of rows that a table grows by. A page of doc rows is
// about 80 KiB: small for a database of ten memories, few for one of millions.
const pageSize = 1 << 10

// paged is a table that one writer grows while readers read: rows never move.
// Pages are made where a row is needed, so that gaps cost next to nothing.
type paged[T any] struct {
	dir   atomic.Pointer[[]atomic.Pointer[[pageSize]T]]
	pages atomic.Int64
}

// at is the row i, or nil beyond what was grown.
func (p *paged[T]) at(i uint64) *T {
	dir := p.dir.Load()
	if dir == nil || i/pageSize >= uint64(len(*dir)) {
		return nil
	}
	page := (*dir)[i/pageSize].Load()
	if page == nil {
		return nil
	}
	return &page[i%pageSize]
}

// grow makes row i exist. Only the writer calls it.
func (p *paged[T]) grow(i uint64) *T {
	var dir []atomic.Pointer[[pageSize]T]
	if d := p.dir.Load(); d != nil {
		dir = *d
	}
	if need := int(i/pageSize) + 1; need > len(dir) {
		more := make([]atomic.Pointer[[pageSize]T], max(need, 2*len(dir)))
		for j := range dir {
			more[j].Store(dir[j].Load())
		}
		p.dir.Store(&more)
		dir = more // and not the other way round, which would put dir on the heap at each call
	}
	page := dir[i/pageSize].Load()
	if page == nil {
		page = new([pageSize]T)
		dir[i/pageSize].Store(page)
		p.pages.Add(1)
	}
	return &page[i%pageSize]
}

// release drops the pages of the rows from start to end, which are whole. Only the
// writer calls it.
func (p *paged[T]) release(start, end uint64) {
	dir := p.dir.Load()
	if dir == nil {
		return
	}
	for n := start / pageSize; n < min(end/pageSize, uint64(len(*dir))); n++ {
		if (*dir)[n].Swap(nil) != nil {
			p.pages.Add(-1)
		}
	}
}

func (p *paged[T]) bytes(rowSize int64) int64 {
	return p.pages.Load() * pageSize * rowSize
}

// each calls visit for the rows below end that may have been written, page by page,
// until it returns false.
func (p *paged[T]) each(end uint64, visit func(i uint64, row *T) bool) { p.eachFrom(0, end, visit) }

// eachFrom is each for the rows from start on.
func (p *paged[T]) eachFrom(start, end uint64, visit func(i uint64, row *T) bool) {
	dir := p.dir.Load()
	if dir == nil {
		return
	}
	for n := start / pageSize; n < uint64(len(*dir)); n++ {
		page := (*dir)[n].Load()
		if page == nil {
			continue
		}
		for j := range page {
			i := n*pageSize + uint64(j)
			if i < start {
				continue
			}
			if i >= end || !visit(i, &page[j]) {
				return
			}
		}
	}
}

// docRow is what ranking and visibility need of a version, by doc ID. All but
// died is written before the doc is published, and never again: died publishes it,
// and is looked at first.
type docRow struct {
	version
	died       atomic.Uint64 // LSN of its death; alive; 0: it never was
	from       uint64        // the LSN from which on it is seen: born, or that of a move
	prev       uint32        // doc of the version before, or noDoc
	run        uint32
	created    int64 // milliseconds
	expires    int64 // milliseconds, 0: never
	importance float64
	confidence float64
}

// visible tells whether the version exists as of lsn.
func (r *docRow) visible(lsn uint64) bool {
	return r != nil && lsn < r.died.Load() && r.from <= lsn && r.seq != 0
}

// seqRow is what is known of a memory whatever its version, by Seq.
type seqRow struct {
	doc      atomic.Uint32 // the newest doc + 1, 0: none
	accessed atomic.Int64  // milliseconds, 0: never
	count    atomic.Uint64
}

// docTable maps doc IDs to versions and memories to their newest doc.
type docTable struct {
	rows paged[docRow]
	seqs paged[seqRow]
	// mark is one past the newest doc ID.
	mark  atomic.Uint32
	plain plain
	live  atomic.Int64
	runs  runs
	// moved is the LSN of the newest move, or of when a chunk was left: see plain.
	moved atomic.Uint64
	// newestDeath is the highest LSN of a death, be it that of a transaction that is
	// still to commit, or failed to.
	newestDeath atomic.Uint64
	// spans tell the Seqs of each page of rows.
	spans   paged[seqSpan]
	glances glances
}

// seqSpan are the lowest and the highest Seq of a page of document rows; both are 0
// where it has none. It never narrows.
type seqSpan struct{ low, high atomic.Uint64 }

// seqsOf are the lowest and the highest Seq of a page of document rows.
func (t *docTable) seqsOf(page uint32) (low, high uint64) {
	if s := t.spans.at(uint64(page)); s != nil {
		return s.low.Load(), s.high.Load()
	}
	return 0, 0
}

// row is that of a document, nil for none and for one that was released.
func (t *docTable) row(doc uint32) *docRow { return t.rows.at(uint64(doc)) }

func (t *docTable) seq(seq uint64) *seqRow { return t.seqs.at(seq) }

// add publishes a version under a doc ID. fill writes the row.
func (t *docTable) add(doc uint32, fill func(*docRow)) {
	t.put(doc, fill)
	t.live.Add(1)
}

// put is add of a version that has been counted.
func (t *docTable) put(doc uint32, fill func(*docRow)) {
	r := t.rows.grow(uint64(doc))
	fill(r)
	r.from = max(r.from, r.born)
	t.glances.add(doc, r)
	span := t.spans.grow(uint64(doc) / pageSize)
	if low := span.low.Load(); low == 0 || r.seq < low {
		span.low.Store(r.seq)
	}
	span.high.Store(max(span.high.Load(), r.seq))
	r.died.Store(alive)
	if r.expires == 0 {
		t.plain.set(doc)
	}
	s := t.seqs.grow(r.seq)
	r.prev = s.doc.Load() - 1 // 0 - 1 is noDoc
	s.doc.Store(doc + 1)
	if doc >= t.mark.Load() {
		t.mark.Store(doc + 1)
	}
	t.enter(doc)
}

// drop undoes add: the doc ID stays a hole that is never visible.
func (t *docTable) drop(doc uint32) {
	r := t.row(doc)
	r.died.Store(0)
	t.plain.clear(doc)
	t.seq(r.seq).doc.Store(r.prev + 1) // noDoc + 1 is 0
	t.live.Add(-1)
}

func (t *docTable) kill(doc uint32, lsn uint64) {
	t.end(doc, lsn)
	t.live.Add(-1)
}

// end is kill of a doc ID whose version lives on under another one.
func (t *docTable) end(doc uint32, lsn uint64) {
	t.newestDeath.Store(max(t.newestDeath.Load(), lsn)) // first: who finds no later one looks at no row
	t.row(doc).died.Store(lsn)
	t.plain.clear(doc)
}

func (t *docTable) revive(doc uint32) {
	r := t.row(doc)
	r.died.Store(alive)
	if r.expires == 0 {
		t.plain.set(doc)
	}
	t.live.Add(1)
}

// at is the doc of a memory as of lsn, noDoc if it does not exist then.
func (t *docTable) at(seq, lsn uint64) uint32 {
	s := t.seq(seq)
	if s == nil {
		return noDoc
	}
	for doc := s.doc.Load() - 1; doc != noDoc; {
		r := t.row(doc)
		if r == nil { // released, and those before it died earlier
			return noDoc
		}
		if r.visible(lsn) {
			return doc
		}
		doc = r.prev
	}
	return noDoc
}

// last is the newest document number of a version, noDoc where none is known.
func (t *docTable) last(v version) uint32 {
	s := t.seq(v.seq)
	if s == nil {
		return noDoc
	}
	for doc := s.doc.Load() - 1; doc != noDoc; {
		r := t.row(doc)
		if r == nil || r.version == v { // nil: released, and those before it died earlier
			return doc
		}
		doc = r.prev
	}
	return noDoc
}

// release drops what is kept of the documents of a chunk, of which no state that can be
// read has one. The writer calls it.
func (t *docTable) release(first, end uint64) {
	t.rows.release(first, end)
	t.glances.docs.release(first, end)
	t.plain.words.release(first/64, end/64)
}

func (t *docTable) bytes() int64 {
	const docRowSize, seqRowSize, seqSpanSize = 80, 24, 16
	return t.rows.bytes(docRowSize) + t.seqs.bytes(seqRowSize) + t.spans.bytes(seqSpanSize) + t.runs.bytes() + t.glances.bytes()
}
