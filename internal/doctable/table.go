// Package doctable keeps in RAM what every read needs of each document: whose version
// it is, from which LSN to which it is seen, and what ranking looks at. One writer
// changes the tables while readers read: rows never move, and an LSN says which of them
// a reader sees.
package doctable

import (
	"math"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// None is no doc ID.
const None = math.MaxUint32

// Alive is the death of what has not died.
const Alive = math.MaxUint64

// PageSize is the number of rows that a table grows by. A page of doc rows is about
// 20 KiB: small for a database of ten memories, or a chunk of a few, and 4,000 are a million.
const PageSize = 1 << 8

// Paged is a table that one writer grows while readers read: rows never move.
// Pages are made where a row is needed, so that gaps cost next to nothing.
type Paged[T any] struct {
	dir   atomic.Pointer[[]atomic.Pointer[[PageSize]T]]
	Pages atomic.Int64
}

// At is the row i, or nil beyond what was grown.
func (p *Paged[T]) At(i uint64) *T {
	dir := p.dir.Load()
	if dir == nil || i/PageSize >= uint64(len(*dir)) {
		return nil
	}
	page := (*dir)[i/PageSize].Load()
	if page == nil {
		return nil
	}
	return &page[i%PageSize]
}

// Grow makes row i exist. Only the writer calls it.
func (p *Paged[T]) Grow(i uint64) *T {
	var dir []atomic.Pointer[[PageSize]T]
	if d := p.dir.Load(); d != nil {
		dir = *d
	}
	if need := int(i/PageSize) + 1; need > len(dir) {
		more := make([]atomic.Pointer[[PageSize]T], max(need, 2*len(dir)))
		for j := range dir {
			more[j].Store(dir[j].Load())
		}
		p.dir.Store(&more)
		dir = more // and not the other way round, which would put dir on the heap at each call
	}
	page := dir[i/PageSize].Load()
	if page == nil {
		page = new([PageSize]T)
		dir[i/PageSize].Store(page)
		p.Pages.Add(1)
	}
	return &page[i%PageSize]
}

// Release drops the pages of the rows from start to end, which are whole. Only the
// writer calls it.
func (p *Paged[T]) Release(start, end uint64) {
	dir := p.dir.Load()
	if dir == nil {
		return
	}
	for n := start / PageSize; n < min(end/PageSize, uint64(len(*dir))); n++ {
		if (*dir)[n].Swap(nil) != nil {
			p.Pages.Add(-1)
		}
	}
}

// Bytes is what the pages take in memory, for rows of so many bytes.
func (p *Paged[T]) Bytes(rowSize int64) int64 {
	return p.Pages.Load() * PageSize * rowSize
}

// Each calls visit for the rows below end that may have been written, page by page,
// until it returns false.
func (p *Paged[T]) Each(end uint64, visit func(i uint64, row *T) bool) { p.EachFrom(0, end, visit) }

// EachFrom is Each for the rows from start on.
func (p *Paged[T]) EachFrom(start, end uint64, visit func(i uint64, row *T) bool) {
	dir := p.dir.Load()
	if dir == nil {
		return
	}
	for n := start / PageSize; n < uint64(len(*dir)); n++ {
		page := (*dir)[n].Load()
		if page == nil {
			continue
		}
		for j := range page {
			i := n*PageSize + uint64(j)
			if i < start {
				continue
			}
			if i >= end || !visit(i, &page[j]) {
				return
			}
		}
	}
}

// Row is what ranking and visibility need of a version, by doc ID. Every field but Died and Expires
// is written before the document is published, and never again. Died publishes the document:
// readers look at Died first.
type Row struct {
	layout.Version
	Died       atomic.Uint64 // LSN of the version's death, or Alive; 0: there is no version
	From       uint64        // the LSN from which on the version is seen: its birth, or that of a move
	prev       uint32        // doc of the version before, or None
	Run        uint32
	Created    int64        // milliseconds
	Expires    atomic.Int64 // milliseconds, 0: never; it may become later, see Extend
	Importance float64
	Confidence float64
}

// Visible reports whether the version exists as of lsn.
func (r *Row) Visible(lsn uint64) bool {
	return r != nil && lsn < r.Died.Load() && r.From <= lsn && r.Seq != 0
}

// Memory is what is known of a memory whatever its version, by Seq.
type Memory struct {
	Doc      atomic.Uint32 // the newest doc + 1, 0: none
	Accessed atomic.Int64  // milliseconds, 0: never
	Count    atomic.Uint64
	// Fade is what consolidations have taken, nil for nothing. A writer stores it before the
	// access that it was folded for, so a reader loads Accessed first.
	Fade atomic.Pointer[Fade]
}

// Fade is what consolidations up to an LSN have taken of the confidence of a memory, as in
// layout.Access. It never changes.
type Fade struct {
	Debt   int64
	Folded uint64
}

// Table maps doc IDs to versions and memories to their newest doc.
type Table struct {
	Rows Paged[Row]
	seqs memories
	// Mark is one past the document that was added last.
	Mark  atomic.Uint32
	Plain plain
	Live  atomic.Int64
	Runs  runs
	// Moved is the LSN of the newest move, or the newest LSN when a move left a chunk: see
	// plain.
	Moved atomic.Uint64
	// NewestDeath is the highest LSN of a death, be it that of a transaction that is
	// still to commit, or failed to.
	NewestDeath atomic.Uint64
	// spans tell the Seqs of each page of rows.
	spans Paged[seqSpan]
	// hidden is the latest time for which a set lacks what had expired then, and Unhidden counts the
	// extensions of what such sets lack.
	hidden   atomic.Int64
	Unhidden atomic.Uint64
	bounds   bounds
	Glances  Glances
	Owners   Owners
}

// seqSpan is the lowest and the highest Seq in a page of document rows; both are 0 where the
// page has no documents. A span never narrows.
type seqSpan struct{ low, high atomic.Uint64 }

// SeqsOf are the lowest and the highest Seq of a page of document rows.
func (t *Table) SeqsOf(page uint32) (low, high uint64) {
	if s := t.spans.At(uint64(page)); s != nil {
		return s.low.Load(), s.high.Load()
	}
	return 0, 0
}

// Row is the row of a document, nil for None and for a document that was released.
func (t *Table) Row(doc uint32) *Row { return t.Rows.At(uint64(doc)) }

// Of is the row of a number that a memory had, nil where it was released since: the
// number may be that of another memory's document by now.
func (t *Table) Of(doc uint32, seq uint64) *Row {
	r := t.Row(doc)
	if r == nil || r.Died.Load() == 0 || r.Seq != seq { // in this order: what is not born is being written
		return nil
	}
	return r
}

// Over reports whether the version has expired at a time.
func (r *Row) Over(now int64) bool {
	at := r.Expires.Load()
	return at != 0 && at <= now
}

// Extend moves the expiry of a version to a later time, and reports whether it did. A version that
// has expired at now, or never expires, stays as it is.
func (t *Table) Extend(r *Row, until, now int64) bool {
	for {
		at := r.Expires.Load()
		if at <= now || at >= until {
			return false
		}
		if r.Expires.CompareAndSwap(at, until) {
			if at <= t.hidden.Load() { // a set of a reader whose clock was ahead lacks it
				t.Unhidden.Add(1)
			}
			return true
		}
	}
}

// Hide returns when a version expires that is to be left out of a set which later readers use, and notes
// the time of the reader.
func (t *Table) Hide(r *Row, now int64) int64 {
	for last := t.hidden.Load(); last < now && !t.hidden.CompareAndSwap(last, now); {
		last = t.hidden.Load()
	}
	return r.Expires.Load() // again: it may have been extended before the note
}

// ExpiryOf is when a version expires: expiry, or what it was extended to.
func (t *Table) ExpiryOf(v layout.Version, expiry int64) int64 {
	if expiry == 0 {
		return 0
	}
	doc := t.Last(v)
	if r := t.Of(doc, v.Seq); r != nil && r.Version == v {
		return r.Expires.Load()
	}
	return expiry
}

// Seq is what is known of a memory, nil for one that was never in the table.
func (t *Table) Seq(seq uint64) *Memory { return t.seqs.at(seq) }

// Add publishes a version under a doc ID. fill writes the row.
func (t *Table) Add(doc uint32, fill func(*Row)) {
	t.Put(doc, fill)
	t.Mark.Store(doc + 1)
	t.live(doc, 1)
}

// live counts a document that has come to live, or lives no longer.
func (t *Table) live(doc uint32, by int64) {
	t.Live.Add(by)
	t.Owners.add(doc, t.Row(doc).Owner, by)
}

// Put is Add for a version that has been counted.
func (t *Table) Put(doc uint32, fill func(*Row)) {
	r := t.Rows.Grow(uint64(doc))
	fill(r)
	r.From = max(r.From, r.Born)
	t.Glances.add(doc, r)
	span := t.spans.Grow(uint64(doc) / PageSize)
	if low := span.low.Load(); low == 0 || r.Seq < low {
		span.low.Store(r.Seq)
	}
	span.high.Store(max(span.high.Load(), r.Seq))
	t.bounds.add(doc, r)
	r.Died.Store(Alive)
	if r.Expires.Load() == 0 {
		t.Plain.set(doc)
	}
	s := t.seqs.grow(r.Seq)
	r.prev = s.Doc.Load() - 1 // 0 - 1 is None
	s.Doc.Store(doc + 1)
	t.enter(doc)
}

// Drop undoes Add: the doc ID stays a hole that is never visible.
func (t *Table) Drop(doc uint32) {
	r := t.Row(doc)
	r.Died.Store(0)
	t.Plain.clear(doc)
	t.Seq(r.Seq).Doc.Store(r.prev + 1) // None + 1 is 0
	t.live(doc, -1)
}

// Kill ends a version at an LSN: no reader at that LSN or a later one sees the document.
func (t *Table) Kill(doc uint32, lsn uint64) {
	t.End(doc, lsn)
	t.live(doc, -1)
}

// End is Kill for a doc ID whose version lives on under another doc ID.
func (t *Table) End(doc uint32, lsn uint64) {
	t.NewestDeath.Store(max(t.NewestDeath.Load(), lsn)) // before Died: a reader that finds no newer death looks at no row
	t.Row(doc).Died.Store(lsn)
	t.Plain.clear(doc)
}

// Revive undoes Kill.
func (t *Table) Revive(doc uint32) {
	r := t.Row(doc)
	r.Died.Store(Alive)
	if r.Expires.Load() == 0 {
		t.Plain.set(doc)
	}
	t.live(doc, 1)
}

// At is the doc ID of a memory as of lsn, None if the memory does not exist then.
func (t *Table) At(seq, lsn uint64) uint32 {
	doc, r := t.newest(seq)
	for r != nil && !r.Visible(lsn) {
		doc, r = t.before(r)
	}
	if r == nil {
		return None // released, and those before it died earlier
	}
	return doc
}

// Last is the newest doc ID of a version, None where none is known.
func (t *Table) Last(v layout.Version) uint32 {
	doc, r := t.newest(v.Seq)
	for r != nil && r.Version != v {
		doc, r = t.before(r)
	}
	return doc // of a row that was released, too: those before it died earlier
}

// newest is the newest doc ID of a memory, and its row: nil where it was released.
func (t *Table) newest(seq uint64) (uint32, *Row) {
	s := t.Seq(seq)
	if s == nil {
		return None, nil
	}
	doc := s.Doc.Load() - 1 // 0 - 1 is None
	return doc, t.Of(doc, seq)
}

// before is the doc ID that a memory had before that of a row, and its row: nil where it was
// released. The number may be that of a younger document of the same memory since.
func (t *Table) before(r *Row) (uint32, *Row) {
	older := t.Of(r.prev, r.Seq)
	if older != nil && (older.From > r.From || older.From == r.From && older.Change >= r.Change) {
		older = nil // within a commit, versions are told apart by their change
	}
	return r.prev, older
}

// Release drops the rows of a chunk whose documents no state that can be read has any more.
// The writer calls it.
func (t *Table) Release(first, end uint64) {
	t.Rows.Release(first, end)
	t.Glances.Docs.Release(first, end)
	t.Plain.Words.Release(first/64, end/64)
	for page := first / PageSize; page < end/PageSize; page++ {
		if s := t.spans.At(page); s != nil {
			s.low.Store(0)
			s.high.Store(0)
		}
		if b := t.bounds.pages.At(page); b != nil {
			b.clear()
		}
		if s := t.Glances.pages.At(page); s != nil {
			s.low.Store(0)
			s.high.Store(0)
		}
	}
}

// Bytes is what the tables take.
func (t *Table) Bytes() int64 {
	const docRowSize, seqSpanSize, ownerSize = 80, 16, 16
	return t.Rows.Bytes(docRowSize) + t.seqs.bytes() + t.spans.Bytes(seqSpanSize) + t.bounds.pages.Bytes(boundSize) + t.Owners.counts.Bytes(ownerSize) + t.Runs.bytes() + t.Glances.bytes()
}

// Access are the newest access statistics of a memory, by its Seq.
func (t *Table) Access(seq uint64) layout.Access {
	s := t.Seq(seq)
	if s == nil {
		return layout.Access{}
	}
	return layout.Access{Count: s.Count.Load(), Last: s.Accessed.Load()}
}

// See moves the time of the newest access forward.
func (s *Memory) See(at int64) {
	for last := s.Accessed.Load(); last < at && !s.Accessed.CompareAndSwap(last, at); {
		last = s.Accessed.Load()
	}
}
