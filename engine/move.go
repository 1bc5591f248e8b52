package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// A sealed chunk keeps what its dead documents had. Once a quarter of one is dead, its
// living documents move to a new chunk, in the order of their owners, together with
// those of other sparse chunks, and the old ones go. A document gets another number by
// that; its memory, and what is found, stay as they were.
//
// A chunk that was closed early is small, and keeps 65,536 numbers and the rest of a page
// of rows from others. So small chunks move, too: as soon as there are mergeAt of about one
// size, they become one. A document moves once for each factor of mergeAt between the chunk
// that it was stored in and a full one.

const (
	// chunkDocs is how many documents a chunk has room for.
	chunkDocs = 1 << 16
	// mergeAt is how many chunks of one size become one: there are fewer than that of each
	// size below half of chunkDocs.
	mergeAt = 8
	// mostSources bounds the chunks that move together: each takes some pages of memory.
	mostSources = 16
	// lookShare: after one in so many documents of the sealed chunks has died, the
	// chunks are looked through for sparse ones.
	lookShare = 16
	// lookLeast is the least number for it, so that a small database is not looked
	// through all the time.
	lookLeast = 1 << 14
)

const doingMove = "move documents of the text index"

// errLater: the documents cannot be moved now.
var errLater = errors.New("left for later")

// occupancy is how many documents of a sealed chunk live and are dead.
type occupancy struct {
	chunk        uint16
	living, dead int
}

// moveChunks moves the documents of sparse and of small chunks. The janitor is busy.
func (db *DB) moveChunks(ctx context.Context) error {
	j := db.janitor
	if db.retain > 0 || len(db.chunks.sealed) == 0 {
		return nil // past states are read by the chunks of the newest one
	}
	look := db.chunks.graves >= max(db.lookLeast, int(db.tables.Docs.Live.Load())/lookShare)
	if !look && len(db.crowded()) == 0 {
		return nil
	}
	if db.store.AdmitMaintenance(doingMove, sealBatch) != nil {
		return nil // for want of space; the log has heard of it
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := j.cleanRanges(ctx, db.points.oldest()); err != nil {
		return err
	}
	graves := 0
	if look {
		graves, db.chunks.graves = db.chunks.graves, 0
	}
	for ctx.Err() == nil {
		var from []uint16
		if look {
			from = db.sparse()
		}
		if len(from) == 0 {
			from = db.crowded()
		}
		if len(from) == 0 {
			return nil
		}
		if j.ranging(from) {
			db.chunks.graves += graves
			return nil // the commit would be left for later
		}
		switch moved, err := db.move(ctx, from); {
		case errors.Is(err, errLater), errors.Is(err, fault.ErrDiskFull):
			db.chunks.graves += graves
			return nil
		case err != nil || !moved:
			return err
		}
	}
	return ctx.Err()
}

// sparse are chunks to be moved together, of those that are a quarter dead.
func (db *DB) sparse() []uint16 {
	sparse := slices.DeleteFunc(db.occupied(), func(o occupancy) bool { return 4*o.dead < o.living+o.dead })
	return db.together(sparse)
}

// crowded are chunks to be merged: small ones of about one size, where there are many.
func (db *DB) crowded() []uint16 {
	const tierBits = 3 // mergeAt is a power of two
	tiers := [16 / tierBits][]occupancy{}
	for chunk, docs := range db.chunks.size {
		tier := (bits.Len(uint(docs)) - 1) / tierBits
		if docs > 0 && tier < len(tiers) && db.tables.NewestIndex.Load().Pages(chunk) < invindex.MaxMovedPages/2 {
			tiers[tier] = append(tiers[tier], occupancy{chunk: chunk, living: docs})
		}
	}
	for _, small := range tiers {
		if len(small) < mergeAt {
			continue
		}
		slices.SortFunc(small, func(a, b occupancy) int {
			return cmp.Or(cmp.Compare(a.living, b.living), cmp.Compare(a.chunk, b.chunk))
		})
		return db.together(small)
	}
	return nil
}

// together are the first of some chunks, as many as fit into one.
func (db *DB) together(of []occupancy) (chunks []uint16) {
	docs, pages := 0, 0
	for _, o := range of {
		docs += o.living
		pages += db.tables.NewestIndex.Load().Pages(o.chunk)
		if len(chunks) > 0 && (docs > chunkDocs || pages > invindex.MaxMovedPages || len(chunks) == mostSources) {
			break
		}
		chunks = append(chunks, o.chunk)
	}
	return chunks
}

// occupied counts the documents of the sealed chunks, in the order of their numbers.
func (db *DB) occupied() []occupancy {
	all := make([]occupancy, 0, len(db.chunks.sealed))
	for _, chunk := range slices.Sorted(maps.Keys(db.chunks.sealed)) {
		o := occupancy{chunk: chunk, dead: db.chunks.buried[chunk]}
		first := uint64(chunk) << 16
		db.tables.Docs.Rows.EachFrom(first, first+1<<16, func(_ uint64, r *doctable.Row) bool {
			switch died := r.Died.Load(); {
			case died == doctable.Alive:
				o.living++
			case died != 0:
				o.dead++
			}
			return true
		})
		all = append(all, o)
	}
	return all
}

// mover moves the living documents of chunks to one of their own.
type mover struct {
	db    *DB
	from  []uint16
	chunk uint16 // where to
	// docs are the old numbers; that of docs[i] becomes the chunk's i-th, and rows[i]
	// is what a page of rows holds of it.
	docs []uint32
	rows []layout.Row
}

// move moves the documents of chunks, false where no number is left for theirs. It is
// errLater where they have to wait.
func (db *DB) move(ctx context.Context, from []uint16) (moved bool, err error) {
	m := &mover{db: db, from: from, docs: db.living(from)}
	if len(m.docs) == 0 {
		err := m.settle(ctx)
		return err == nil, err
	}
	if ok, err := m.reserve(ctx); !ok || err != nil {
		return false, err
	}
	if err = m.build(ctx); err == nil {
		err = m.settle(ctx)
	}
	if err != nil && db.Failed() == nil {
		if failed := m.giveBack(ctx); failed != nil {
			return false, failed // also where it was for later
		}
	}
	return err == nil, err
}

// living are the documents of chunks that live. Without the lock it is a guess: a
// transaction may have killed some and take that back, which [mover.complete] sees.
func (db *DB) living(chunks []uint16) (docs []uint32) {
	for _, chunk := range chunks {
		first := uint64(chunk) << 16
		db.tables.Docs.Rows.EachFrom(first, first+1<<16, func(doc uint64, r *doctable.Row) bool {
			if r.Died.Load() == doctable.Alive {
				docs = append(docs, uint32(doc))
			}
			return true
		})
	}
	return docs
}

// reserve takes the number of a chunk: the lowest that is free. False where there is none.
func (m *mover) reserve(ctx context.Context) (bool, error) {
	db := m.db
	if err := db.lockBehind(ctx); err != nil {
		return false, err
	}
	defer db.unlock()
	chunk, ok := db.chunks.freeFrom(0, nil)
	if ok {
		m.chunk, db.chunks.used[chunk] = chunk, true
		db.chunks.top = max(db.chunks.top, int(chunk))
	}
	return ok, nil
}

// giveBack frees the number of a chunk that came to nothing.
func (m *mover) giveBack(ctx context.Context) error {
	db := m.db
	if err := db.applyBare(func(b *pebble.Batch) error { return b.DeleteRange(db.textSpan(m.chunk)) }); err != nil {
		return fault.Within("remove what a move has written", err)
	}
	if err := db.lockBehind(ctx); err != nil {
		return err // it stays taken until the database is opened again
	}
	defer db.unlock()
	db.chunks.used[m.chunk] = false
	return nil
}

// build writes the new chunk.
func (m *mover) build(ctx context.Context) (err error) {
	db := m.db
	slices.SortFunc(m.docs, func(a, b uint32) int {
		x, y := db.tables.Docs.Row(a), db.tables.Docs.Row(b)
		return cmp.Or(cmp.Compare(x.Owner, y.Owner), cmp.Compare(x.Run, y.Run), cmp.Compare(x.Seq, y.Seq))
	})
	snap := db.store.NewSnapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	if err := m.readRows(snap); err != nil {
		return err
	}
	w := &sealWriter{db: db, ctx: ctx, batch: db.store.NewBatch(), between: db.sealChunks}
	defer func() { err = errors.Join(err, w.batch.Close()) }()
	if err := w.batch.DeleteRange(db.textSpan(m.chunk)); err != nil {
		return err
	}
	index := db.tables.NewestIndex.Load()
	text := index.Snapshot()
	text.Reader = snap
	if err := index.Move(ctx, text, w, m.chunk, m.docs); err != nil {
		return state.TextError(doingMove, err)
	}
	return w.flush()
}

// readRows reads the rows of the documents.
func (m *mover) readRows(r kv.Reader) error {
	place := make(map[uint32]int, len(m.docs))
	for i, doc := range m.docs {
		place[doc] = i
	}
	m.rows = make([]layout.Row, len(m.docs))
	found := 0
	for _, chunk := range m.from {
		prefix := m.db.keys().Chunk(layout.KindRows, chunk)
		err := kv.Scan(r, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
			first, ok := layout.ParseRowsKey(key)
			if !ok {
				return layout.BadKey("rows", key)
			}
			p, err := layout.DecodeRows(first, value)
			if err != nil {
				return err
			}
			for i, doc := range p.Docs {
				if at, ok := place[doc]; ok {
					m.rows[at] = p.Rows[i]
					found++
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if found != len(m.docs) {
		return &fault.Error{Kind: fault.ErrCorrupt, What: doingMove, Why: fmt.Sprintf("%d of %d have a row", found, len(m.docs)), Do: "run check"}
	}
	return nil
}

// number is the new number of the i-th document.
func (m *mover) number(i int) uint32 { return uint32(m.chunk)<<16 | uint32(i) }

// settleWait is how long a move waits for readers that keep death ranges of its chunks from
// being cleaned up. What evicts behind the calls waits meanwhile.
const settleWait = 100 * time.Millisecond

// settle commits the move once what died of death ranges meanwhile is cleaned up. Work behind
// the calls makes no such range from here on.
func (m *mover) settle(ctx context.Context) error {
	db := m.db
	if err := db.moving.LockContext(ctx); err != nil {
		return err
	}
	defer db.moving.Unlock()
	db.janitor.awaited.Add(1)
	defer db.janitor.awaited.Add(-1)
	for deadline := clock.System().Add(settleWait); ; _ = retry.Sleep(ctx, time.Millisecond) {
		if err := db.janitor.cleanRanges(ctx, db.points.oldest()); err != nil {
			return err
		}
		if !db.janitor.ranging(m.from) || clock.System().After(deadline) {
			return m.commit(ctx)
		}
	}
}

// commit makes the new chunk that of its documents, in a commit of its own. What has
// died since it was built stays without a row, by which it was never there.
func (m *mover) commit(ctx context.Context) error {
	db := m.db
	return db.acknowledge(db.updateBehind(ctx, func(tx *Tx) error {
		if db.janitor.ranging(m.from) || !m.complete() {
			return errLater // what died of a death range is found by its old number
		}
		const rowBytes = 100 // more than a row takes in a page
		if err := db.store.AdmitMaintenance(doingMove, len(m.docs)*rowBytes); err != nil {
			return err
		}
		tx.change()
		tx.log = append(tx.log, byte(layout.LogMove))
		tx.log = binary.AppendUvarint(tx.log, uint64(len(m.from)))
		for _, chunk := range m.from {
			tx.log = binary.AppendUvarint(tx.log, uint64(chunk))
			for _, kind := range []byte{layout.KindText, layout.KindRows, layout.KindTombstone} {
				prefix := db.keys().Chunk(kind, chunk)
				if err := tx.wrote(tx.batch.DeleteRange(prefix, layout.PrefixEnd(prefix), nil)); err != nil {
					return err
				}
			}
		}
		if err := db.keepTombstones(m.from, tx.set); err != nil {
			return err
		}
		pages := m.pages()
		if len(m.docs) > 0 && len(pages) == 0 {
			if err := tx.wrote(tx.batch.DeleteRange(db.textSpan(m.chunk))); err != nil {
				return err
			}
		}
		for _, p := range pages {
			if err := tx.set(db.keys().Rows(p.Docs[0]), p.Encode()); err != nil {
				return err
			}
		}
		tx.onApplied(func(lsn uint64) error {
			if err := m.show(tx, lsn); err != nil {
				return err
			}
			db.points.forget(lsn)
			return nil
		})
		return nil
	}))
}

// keepTombstones writes the tombstones again of those documents of chunks that are not
// reclaimed, after a range that has deleted them with the rows: each with its version, which
// no row tells any more. An opening would forget what is left of them else.
func (db *DB) keepTombstones(chunks []uint16, set func(key, value []byte) error) error {
	for _, d := range db.janitor.deadOf(chunks) {
		t := layout.Tombstone{LSN: d.LSN, Of: d.Of}
		if row := db.tables.Docs.Row(d.Doc); row != nil && row.Seq != 0 {
			t.Of = row.Version
		}
		if t.Of.Seq == 0 {
			continue // a version that nothing names leaves nothing that could be found
		}
		if err := set(db.keys().Doc(layout.KindTombstone, d.Doc), t.Encode()); err != nil {
			return err
		}
	}
	return nil
}

// complete reports whether all documents that live are in the new chunk. The lock is
// held.
func (m *mover) complete() bool {
	have := roaring.BitmapOf(m.docs...)
	return !slices.ContainsFunc(m.db.living(m.from), func(doc uint32) bool { return !have.Contains(doc) })
}

// pages are the rows of the documents that live.
func (m *mover) pages() []*layout.RowPage {
	var pages []*layout.RowPage
	last := -1
	for i, old := range m.docs {
		if m.db.tables.Docs.Row(old).Died.Load() != doctable.Alive {
			continue
		}
		doc := m.number(i)
		if n := int(doc / layout.RowsOfPage); n != last {
			pages = append(pages, &layout.RowPage{})
			last = n
		}
		pages[len(pages)-1].Add(doc, &m.rows[i])
	}
	return pages
}

// show makes the move that of the tables and the index, for readers at an LSN or
// later. The lock is held.
func (m *mover) show(tx *Tx, lsn uint64) error {
	db := m.db
	spaces := db.spaces.All()
	kept := make([]uint16, len(spaces))
	for i, s := range spaces {
		kept[i] = s.Num
	}
	db.leave(m.from...)
	shown := 0
	for i, old := range m.docs {
		r := db.tables.Docs.Row(old)
		if r.Died.Load() != doctable.Alive {
			continue
		}
		shown++
		doc := m.number(i)
		for _, s := range spaces {
			if slot, ok := s.Slot(old); ok {
				s.SetSlot(doc, slot)
			}
		}
		row, expires := &m.rows[i], &r.Expires
		db.touched.Hold(func() { // no row is extended meanwhile
			db.tables.Docs.Put(doc, func(r *doctable.Row) {
				r.Version, r.Run, r.From = row.Version, row.Run, lsn
				r.Created = row.Created
				r.Expires.Store(expires.Load())
				r.Importance, r.Confidence = row.Importance, row.Confidence
			})
		})
		db.tables.Docs.End(old, lsn)
		tx.dying = append(tx.dying, records.Dead{Doc: old, LSN: lsn, Kept: kept})
	}
	for _, chunk := range m.from {
		delete(db.chunks.sealed, chunk)
		delete(db.chunks.size, chunk)
		delete(db.chunks.buried, chunk)
		db.chunks.emptied[chunk] = true
	}
	index := db.tables.NewestIndex.Load()
	if shown == 0 {
		index.Drop(m.from...)
		if len(m.docs) > 0 { // the chunk that was reserved came to nothing
			db.chunks.used[m.chunk] = false
		}
		return nil
	}
	if err := index.Moved(db.store, m.chunk, m.from...); err != nil {
		return fault.Within(fmt.Sprintf("open chunk %d of the text index", m.chunk), err)
	}
	db.chunks.sealed[m.chunk], db.chunks.size[m.chunk] = true, shown
	return nil
}

// leftChunk is a chunk of which the state of an LSN, and every later one, has no document.
type leftChunk struct {
	chunk uint16
	lsn   uint64
	point uint64 // the first read point from after its documents were cleaned up; 0: they are not
}

// leave notes that the newest state has no document of chunks. Sets of documents that
// are remembered from before are not gone on with. The lock is held, and the janitor is
// busy or rests.
func (db *DB) leave(chunks ...uint16) {
	for _, chunk := range chunks {
		db.chunks.left = append(db.chunks.left, leftChunk{chunk: chunk, lsn: db.writer.applied})
	}
	if len(chunks) > 0 {
		db.tables.Docs.Moved.Store(db.writer.applied)
		db.janitor.wake() // if nobody is there to read them, nothing else does
	}
}

// releaseChunks drops what RAM holds of the documents of chunks that were left, once all
// of them are cleaned up, as what died up to an LSN is, and nobody reads what there was
// before: death ranges are told apart by the rows of what they killed. The janitor is
// busy.
func (db *DB) releaseChunks(ctx context.Context, cleaned uint64) error {
	j := db.janitor
	oldest, _ := db.points.numbers()
	clean := func(l leftChunk) bool { return l.point == 0 && l.lsn <= cleaned }
	unread := func(l leftChunk) bool { return l.point != 0 && l.point <= oldest }
	if !slices.ContainsFunc(j.db.chunks.left, func(l leftChunk) bool { return clean(l) || unread(l) }) {
		return nil
	}
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if slices.ContainsFunc(j.db.chunks.left, clean) {
		if err := db.republish(); err != nil {
			return err
		}
		var newest uint64
		oldest, newest = db.points.numbers()
		for i, l := range j.db.chunks.left {
			if clean(l) {
				j.db.chunks.left[i].point = newest
			}
		}
	}
	if err := db.wipeChunks(slices.DeleteFunc(slices.Clone(db.chunks.left), func(l leftChunk) bool { return !unread(l) })); err != nil {
		return err
	}
	j.db.chunks.left = slices.DeleteFunc(j.db.chunks.left, func(l leftChunk) bool {
		if !unread(l) {
			return false
		}
		db.releaseChunk(l.chunk)
		return true
	})
	return nil
}

// wipeChunks removes whatever keys there may be under the numbers of chunks: a tombstone
// that was left would kill a document that has the number later.
func (db *DB) wipeChunks(left []leftChunk) error {
	if len(left) == 0 {
		return nil
	}
	return db.applyBare(func(b *pebble.Batch) error {
		for _, l := range left {
			for _, kind := range []byte{layout.KindText, layout.KindRows, layout.KindForward, layout.KindTombstone} {
				prefix := db.keys().Chunk(kind, l.chunk)
				if err := b.DeleteRange(prefix, layout.PrefixEnd(prefix), nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (db *DB) releaseChunk(chunk uint16) {
	first := uint64(chunk) << 16
	end := first + 1<<16
	db.tables.Docs.Release(first, end)
	for _, s := range db.spaces.All() {
		s.Slots.Release(first, end)
	}
	db.spaces.Lexical.Release(first, end)
	delete(db.chunks.emptied, chunk)
	db.chunks.used[chunk] = false
}

// dropStrayPages removes the pages of chunks that have no rows: a move that was
// interrupted has left them, or a sealing, which would delete them first.
func (db *DB) dropStrayPages() (err error) {
	lower, upper := db.keys().Span(layout.KindText)
	it, err := db.store.Iter(lower, upper)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Error(), it.Close()) }()
	for ok := it.First(); ok; {
		chunk, known := db.tables.NewestIndex.Load().ChunkOf(it.Key())
		if !known {
			return layout.BadKey("text", it.Key())
		}
		start, end, _ := db.textSpan(chunk)
		if !db.chunks.sealed[chunk] && !db.readOnly {
			if err := db.applyBare(func(b *pebble.Batch) error { return b.DeleteRange(start, end, nil) }); err != nil {
				return err
			}
		}
		ok = it.SeekGE(end)
	}
	return nil
}
