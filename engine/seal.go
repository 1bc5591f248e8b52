package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/turn"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

const (
	// sealBatch bounds the batches in which a sealed chunk is written.
	sealBatch = 4 << 20
	// maxUnsealed is how many full chunks may wait in memory to be sealed; then
	// writers wait for one. Where sealing fails nobody waits, and from maxStuck on
	// writes are refused.
	maxUnsealed = 3
	maxStuck    = 2 * maxUnsealed
	// minHotBytes and maxHotBytes bound the share of the memory budget that a chunk in
	// memory may grow to. The least is what a budget of 16 MiB gives, as those of the block
	// cache and the memtables are: below, chunks would be of a few memories.
	minHotBytes = 1 << 20
	maxHotBytes = 256 << 20
	// rollShare: a chunk is closed where it has so many times the documents that live.
	rollShare = 4
)

const doingSeal = "seal a chunk of the text index"

// newText is an empty text index whose pages' keys begin with a prefix.
func (db *DB) newText(prefix []byte) *invindex.Index {
	return invindex.New(invindex.Config{
		// A weight is a multiple of 1/textUnit: term frequencies are stored as
		// whole numbers of that unit, which k1 must be measured in, too.
		K1:     invindex.DefaultK1 * float64(db.tables.Words.Unit),
		Prefix: prefix, ScopeFields: []uint16{layout.FieldUser, layout.FieldAgent, layout.FieldRun}, CacheBytes: db.textShare(),
	})
}

// rollChunk begins a new chunk where the newest one has grown to its share of the
// memory before it is full, or most of its documents are dead. The lock is held.
func (db *DB) rollChunk() {
	number, size, ok := db.tables.NewestIndex.Load().Growing()
	docs := int64(db.writer.next.Doc & 0xffff)
	dead := docs >= max(int64(db.lookLeast), rollShare*db.tables.Docs.Live.Load())
	if ok && (size > db.hotBytes || dead) && db.grows(number) {
		db.writer.next.Doc = (uint32(number) + 1) << 16
	}
}

// waitForSealing keeps a writer waiting while too many full chunks are in memory.
func (db *DB) waitForSealing(ctx context.Context) error {
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	for {
		j := db.janitor
		j.mu.Lock()
		sealed := j.sealed
		full, stuck, failure := len(db.tables.NewestIndex.Load().Sealable()), j.stuck, j.failure
		behind := full > maxUnsealed && !stuck
		j.mu.Unlock()
		if full > maxStuck && stuck && failure != nil {
			j.wake()
			return fault.Within(fmt.Sprintf("write: %d chunks of the text index wait in memory, and cannot be sealed", full), failure)
		}
		if !behind {
			return nil
		}
		j.wake()
		j.awaited.Add(1)
		select {
		case <-sealed:
			j.awaited.Add(-1)
		case <-wait.Done():
			j.awaited.Add(-1)
			return db.lockError(ctx, "write", "the text index has too much to seal")
		}
	}
}

// sealChunks seals the chunks that take no more documents.
func (db *DB) sealChunks(ctx context.Context) error {
	if len(db.tables.NewestIndex.Load().Sealable()) == 0 {
		return nil
	}
	if err := db.store.AdmitMaintenance(doingSeal, sealBatch); err != nil {
		return err // before it is read
	}
	// To a chunk that was begun and does not grow any more no transaction adds a document,
	// and the forward records of those that were committed are in the store.
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	complete := slices.DeleteFunc(db.tables.NewestIndex.Load().Sealable(), func(chunk uint16) bool {
		return !db.chunks.used[chunk] || db.grows(chunk)
	})
	db.unlock()
	for _, chunk := range complete {
		if err := db.sealChunk(ctx, chunk); err != nil {
			return fault.Within(fmt.Sprintf("seal chunk %d of the text index", chunk), err)
		}
		db.janitor.progress(false, nil)
	}
	return nil
}

// sealChunk moves a chunk from memory and forward records into pages. Only its
// last batch makes it a sealed one, and only that needs the lock: whatever is
// interrupted before is begun again.
func (db *DB) sealChunk(ctx context.Context, chunk uint16) (err error) {
	w := &sealWriter{db: db, ctx: ctx, batch: db.store.NewBatch()}
	defer func() { err = errors.Join(err, w.batch.Close()) }()
	if err := w.batch.DeleteRange(db.textSpan(chunk)); err != nil {
		return err
	}
	pages, err := db.rowPages(ctx, chunk)
	if err != nil {
		return err
	}
	if len(pages) > 0 {
		if err := db.tables.NewestIndex.Load().Seal(w, chunk); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	for _, p := range pages {
		if err := w.batch.Set(db.keys().Rows(p.Docs[0]), p.Encode(), nil); err != nil {
			return err
		}
	}
	lower, upper := db.keys().Doc(layout.KindForward, uint32(chunk)<<16), layout.PrefixEnd(db.keys().Chunk(layout.KindForward, chunk))
	if err := w.batch.DeleteRange(lower, upper, nil); err != nil {
		return err
	}
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if err := w.apply(); err != nil {
		return err
	}
	if len(pages) == 0 { // all of it has died: there is no sealed chunk, as there will be none for Open
		db.tables.NewestIndex.Load().Drop(chunk)
		db.leave(chunk)
		return db.republish()
	}
	if err := db.tables.NewestIndex.Load().Sealed(db.store, chunk); err != nil {
		db.store.Fail(err) // its forward records are gone
		return db.Failed()
	}
	db.chunks.sealed[chunk] = true
	for _, p := range pages {
		db.chunks.size[chunk] += len(p.Docs)
	}
	db.chunks.graves += db.holes(chunk, pages)
	return db.republish()
}

// holes is how many documents of a chunk were reclaimed before it was sealed: those
// that its pages of rows do not have.
func (db *DB) holes(chunk uint16, pages []*layout.RowPage) int {
	n, first := 0, uint64(chunk)<<16
	db.tables.Docs.Rows.EachFrom(first, first+1<<16, func(_ uint64, r *doctable.Row) bool {
		if r.Died.Load() != 0 {
			n++
		}
		return true
	})
	for _, p := range pages {
		n -= len(p.Docs)
	}
	return n
}

// textSpan is the range of the pages of a chunk, as arguments of DeleteRange.
func (db *DB) textSpan(chunk uint16) (lower, upper []byte, _ *pebble.WriteOptions) {
	lower, upper = db.tables.NewestIndex.Load().Span(chunk)
	return lower, upper, nil
}

// republish makes what a background change did to the indexes that of the newest
// read point, so that what it replaced can be freed. The lock is held.
func (db *DB) republish() error {
	if err := db.syncer.Wait(db.syncer.Newest()); err != nil {
		return err
	}
	return db.points.publish(db.newPoint(db.writer.applied))
}

// republishNow is republish under the writer lock.
func (db *DB) republishNow(ctx context.Context) error {
	if err := db.lockBehind(ctx); err != nil {
		return err
	}
	defer db.unlock()
	return db.republish()
}

// rowPages reads the forward records of a chunk into pages.
func (db *DB) rowPages(ctx context.Context, chunk uint16) ([]*layout.RowPage, error) {
	prefix := db.keys().Chunk(layout.KindForward, chunk)
	var pages []*layout.RowPage
	last := -1
	var turn turn.Turn
	err := kv.Scan(db.store, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		doc, ok := layout.ParseDocKey(key)
		if !ok {
			return layout.BadKey("forward", key)
		}
		f, _, err := layout.DecodeRow(value)
		if err != nil {
			return err
		}
		if n := int(doc / layout.RowsOfPage); n != last {
			pages = append(pages, &layout.RowPage{})
			last = n
		}
		pages[len(pages)-1].Add(doc, f)
		turn.Offer()
		return ctx.Err()
	})
	return pages, err
}

// sealWriter writes pages in batches of bounded size.
type sealWriter struct {
	db    *DB
	ctx   context.Context
	batch *pebble.Batch
	turn  turn.Turn
	// between, if not nil, is called between batches.
	between func(ctx context.Context) error
}

func (w *sealWriter) Set(key, value []byte) error {
	w.turn.Offer()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.batch.Len() > 0 && w.batch.Len()+len(value) > sealBatch {
		if err := w.flush(); err != nil {
			return err
		}
		if w.between != nil {
			if err := w.between(w.ctx); err != nil {
				return err
			}
		}
	}
	return w.batch.Set(key, value, nil)
}

func (w *sealWriter) flush() error {
	err := w.apply()
	w.batch.Reset()
	return err
}

func (w *sealWriter) apply() error {
	err := w.db.store.AdmitMaintenance(doingSeal, w.batch.Len())
	if err == nil {
		err = w.db.store.Apply(w.batch, pebble.NoSync)
	}
	return errors.Join(w.db.Failed(), err)
}

// loadSealed reads the chunks that are sealed.
func (db *DB) loadSealed(gone func(doc uint32, v layout.Version) bool) error {
	var p layout.RowPage
	return db.opening.losses.ScanDocs(db.store, recovery.RowKeys(db.keys()), "pages of rows", func(n uint64, value []byte) error {
		first := uint32(n * layout.RowsOfPage)
		if first >= MaxMemories {
			return noNumber(first)
		}
		if chunk := layout.ChunkOf(first); !db.chunks.sealed[chunk] {
			db.chunks.sealed[chunk], db.chunks.used[chunk] = true, true
			if err := db.loadChunk(chunk); err != nil {
				return err
			}
		}
		if err := p.Decode(first, value); err != nil {
			return err
		}
		db.chunks.size[layout.ChunkOf(first)] += len(p.Docs)
		for i, doc := range p.Docs {
			if gone(doc, p.Rows[i].Version) {
				continue
			}
			if err := db.loadRow(doc, &p.Rows[i]); err != nil {
				return err
			}
		}
		return nil
	}, db.chunks.use)
}

// loadChunk opens a sealed chunk of the text index. One that is damaged makes Open
// build the index anew, as its documents have no forward records.
func (db *DB) loadChunk(chunk uint16) error {
	if db.opening.damaged != nil {
		return nil
	}
	err := state.TextError("load a chunk of the text index", db.tables.NewestIndex.Load().Load(db.store, chunk))
	if errors.Is(err, fault.ErrCorrupt) {
		db.opening.damaged, err = err, nil
	}
	return err
}

// dropSealed forgets every sealed chunk: their pages are gone. The lock is held,
// and the janitor does not work.
func (db *DB) dropSealed() {
	chunks := slices.Collect(maps.Keys(db.chunks.sealed))
	db.tables.NewestIndex.Load().Drop(chunks...)
	db.leave(chunks...)
	clear(db.chunks.sealed)
	clear(db.chunks.size)
	clear(db.chunks.buried)
	db.points.forget(db.writer.applied)
}
