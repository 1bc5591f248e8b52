package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const doingDelete = "delete memories"

// DeleteScope deletes every memory in a scope, in one commit, whatever their
// number, and returns how many there were. It also removes those that have
// expired, and does not count them.
func (m Memories) DeleteScope(ctx context.Context, s memory.Scope) (int, error) {
	if err := memory.CheckScope(doingDelete, s, false); err != nil {
		return 0, err
	}
	return m.deleteAll(ctx, memory.DeleteQuery{Scope: s})
}

// DeleteAll is DeleteScope for every memory of every owner: for administration only.
// Entries stay: [DB.Reset] removes them, too.
func (m Memories) DeleteAll(ctx context.Context) (int, error) {
	return m.deleteAll(ctx, memory.DeleteQuery{AllScopes: true})
}

// DeleteMatching is DeleteScope for those memories of the scope for which a filter
// holds. A nil filter is ErrInvalid: what deletes everything is to be called by its name.
func (m Memories) DeleteMatching(ctx context.Context, q memory.DeleteQuery) (n int, err error) {
	if err := memory.CheckScope(doingDelete, q.Scope, q.AllScopes); err != nil {
		return 0, err
	}
	if q.Filter == nil {
		return 0, fault.Invalid(doingDelete, "there is no filter", "give one, or call DeleteScope to delete the whole scope, DeleteAll to delete every owner's memories")
	}
	if err := filter.Check(q.Filter); err != nil {
		return 0, err
	}
	return m.deleteAll(ctx, q)
}

// deleteAll deletes what a checked query selects: everything of its scope without a filter.
func (m Memories) deleteAll(ctx context.Context, q memory.DeleteQuery) (n int, err error) {
	err = m.update(ctx, doingDelete, func(tx *Tx) error {
		n, err = tx.deleteMatching(ctx, &q)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (tx *Tx) deleteMatching(ctx context.Context, q *memory.DeleteQuery) (int, error) {
	if err := tx.needToFree(doingDelete, 4*valid.MaxID); err != nil {
		return 0, err
	}
	if err := tx.materialise(); err != nil {
		return 0, tx.breaks(err)
	}
	docs, n, err := tx.doomed(ctx, q)
	if err != nil || docs.IsEmpty() {
		return 0, err
	}
	if q.Filter != nil { // the record lists them
		if err := tx.needToFree(doingDelete, 4*valid.MaxID+int(docs.GetSerializedSizeInBytes())); err != nil {
			return 0, err
		}
	}
	d := layout.DeathRange{LSN: tx.state.LSN, Change: tx.change(), Scope: q.Scope, At: tx.state.Now, Docs: docs, Listed: q.Filter != nil, Reason: layout.ReasonScope}
	value, err := d.Encode()
	if err != nil {
		return 0, tx.breaks(err)
	}
	if err := tx.set(tx.state.Keys.DeathRange(&d), value); err != nil {
		return 0, err
	}
	it := docs.Iterator()
	for it.HasNext() {
		doc := it.Next()
		tx.db.tables.Docs.Kill(doc, tx.state.LSN)
		tx.undo = append(tx.undo, undo{doc: doc})
	}
	tx.ranges = append(tx.ranges, d)
	tx.wentFor(layout.ReasonScope, n)
	tx.log = append(tx.log, byte(layout.LogRange))
	tx.log = binary.AppendUvarint(tx.log, uint64(d.Change))
	return n, tx.forgetInGraphs(graph.Forgotten{}, func(yield func(ageing.Dying) bool) {
		for it := docs.Iterator(); it.HasNext(); {
			if r := tx.db.tables.Docs.Row(it.Next()); !yield(ageing.Dying{Owner: r.Owner, Seq: r.Seq}) {
				return
			}
		}
	})
}

// doomed is the set of documents that a delete means, and the number of those
// that have not expired, which are all that a filter looks at.
func (tx *Tx) doomed(ctx context.Context, q *memory.DeleteQuery) (*roaring.Bitmap, int, error) {
	if q.Filter == nil {
		return selection.Born(&tx.state, q.Scope)
	}
	docs, err := selection.Selected(ctx, &tx.state, q.Scope, q.AllScopes, q.Filter)
	if err != nil {
		return nil, 0, err
	}
	return docs, int(docs.GetCardinality()), nil
}

const doingClean = "clean up what died"

// cleanBatch bounds the commits of the clean-up: small enough not to delay a
// writer's sync, large enough not to make thousands.
const cleanBatch = 1000

// clean removes what the memories of a death range left behind, and at last the
// range. Nobody can see them any more.
func (db *DB) clean(ctx context.Context, d *layout.DeathRange) error {
	docs := d.Docs.ToArray()
	pace := db.janitor.newPace()
	for part := range slices.Chunk(docs, cleanBatch) {
		err := db.applySwept(func(b *pebble.Batch, r kv.Reader) error {
			for _, doc := range part {
				if err := db.cleanDoc(b, r, d, doc); err != nil {
					return err
				}
			}
			return db.store.AdmitFreeing(doingClean, b.Len())
		})
		if err != nil {
			return err
		}
		if err := db.freeAll(ctx, part); err != nil {
			return err
		}
		db.janitor.dying.Add(-int64(len(part)))
		pace.pause(ctx, len(part))
	}
	return db.applyBare(func(b *pebble.Batch) error {
		return b.Delete(db.keys().DeathRange(d), nil)
	})
}

// cleanDoc writes the history entry of a memory's death and removes its vectors and its
// derived keys.
func (db *DB) cleanDoc(batch *pebble.Batch, r kv.Reader, d *layout.DeathRange, doc uint32) error {
	row := db.tables.Docs.Row(doc)
	var rec *layout.Record
	var err error
	if d.Trash { // it may come back
		tx := Tx{db: db, state: db.stateOf(r, 0)}
		rec, err = tx.state.Record(row.Version)
	} else {
		rec, err = db.dropVersion(batch, r, row.Version, d.LSN)
	}
	if errors.Is(err, fault.ErrCorrupt) { // its record and vectors stay, and all else is reclaimed
		db.logger.Warn("a memory that was deleted cannot be read", "error", err)
		rec, err = &layout.Record{Flags: layout.FlagEmbedded}, nil // of which the entry promises nothing
	}
	if err != nil || rec == nil {
		return err
	}
	h := layout.DeathOf(rec, row.Version, d.At, d.CauseOf(doc))
	if err := batch.Set(db.keys().History(row.Owner, row.Seq, d.LSN, d.Change), h.Encode(), nil); err != nil {
		return err
	}
	keys := [][]byte{db.keys().Stats(row.Owner, row.Seq)}
	if db.chunks.sealed[layout.ChunkOf(doc)] {
		db.chunks.graves++
		if err := batch.Set(db.keys().Doc(layout.KindTombstone, doc), (&layout.Tombstone{LSN: d.LSN, Cleared: true}).Encode(), nil); err != nil {
			return err
		}
	} else {
		keys = append(keys, db.keys().Doc(layout.KindForward, doc))
	}
	if err := db.mourn(batch, r, row.Version); err != nil {
		return err
	}
	if dk, ok := records.DedupKeyOf(db.keys(), rec, row.Owner, row.Run); ok {
		keys = append(keys, db.keys().Dedup(dk, row.Seq))
	}
	if rec.Flags&layout.FlagPending != 0 {
		keys = append(keys, db.keys().Pending(layout.PendingSpace, row.Owner, row.Seq))
	}
	for _, k := range keys {
		if err := batch.Delete(k, nil); err != nil {
			return err
		}
	}
	return nil
}

// applyBare applies a batch that changes nothing that a reader can see, and so
// has no LSN and needs no lock.
func (db *DB) applyBare(fill func(*pebble.Batch) error) error {
	b := db.store.NewBatch()
	err := fill(b)
	if err == nil {
		err = db.store.Apply(b, pebble.NoSync)
	}
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	if failed := db.Failed(); failed != nil {
		return failed
	}
	return err
}

// applySwept is applyBare where fill reads what lies side by side.
func (db *DB) applySwept(fill func(*pebble.Batch, kv.Reader) error) error {
	r := db.store.NewSweep()
	err := db.applyBare(func(b *pebble.Batch) error { return fill(b, r) })
	return errors.Join(err, r.Close())
}

// Reset deletes everything: memories, vectors, history, entries, statistics, and
// the log up to here, in one commit, and returns how many memories there were.
// Open Views go on to see what they saw. What stays are the database's settings,
// its vector spaces, the keys of its server, and the names of users, agents and runs, whose numbers are
// never reused; to be rid of those too, delete the folder.
func (db *DB) Reset(ctx context.Context) (n int, err error) {
	if ctx, err = db.apart(ctx, "reset"); err != nil {
		return 0, err
	}
	release, err := db.enter("reset")
	if err != nil {
		return 0, err
	}
	defer release()
	if err := db.writable("reset"); err != nil {
		return 0, err
	}
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	// No chunk is being sealed then: the writers do not wait for one.
	if err := db.janitor.rest(wait); err != nil {
		return 0, db.lockError(ctx, "reset", "the database frees what is dead")
	}
	defer db.chunks.busy.Unlock()
	var lsn uint64
	err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
		n, err = tx.reset()
		lsn = tx.state.LSN
		return err
	}))
	if err != nil {
		return 0, err
	}
	db.janitor.wiped.Store(lsn)
	db.janitor.wake()
	return n, nil
}

func (tx *Tx) reset() (int, error) {
	if err := tx.needToFree("reset", len(tx.state.Keys.Kinds())*layout.KeyHeader); err != nil {
		return 0, err
	}
	docs, n, err := selection.Born(&tx.state, memory.Scope{})
	if err != nil {
		return 0, err
	}
	ks := tx.state.Keys
	for _, kind := range ks.Kinds() {
		lower, upper := ks.Span(kind)
		switch {
		case kind == layout.KindName, tx.db.lasts(kind):
			continue
		case kind == layout.KindLog:
			upper = ks.LSN(layout.KindLog, tx.state.LSN)
		}
		if err := tx.wrote(tx.batch.DeleteRange(lower, upper, nil)); err != nil {
			return 0, err
		}
	}
	db := tx.db
	tx.onApplied(func(lsn uint64) error {
		db.resetParts(lsn)
		db.janitor.forget()
		db.dropSealed()
		return nil
	})
	tx.change()
	tx.log = append(tx.log, byte(layout.LogReset))
	it := docs.Iterator()
	for it.HasNext() {
		doc := it.Next()
		tx.db.tables.Docs.Kill(doc, tx.state.LSN)
		tx.undo = append(tx.undo, undo{doc: doc})
		tx.dying = append(tx.dying, records.Dead{Doc: doc, LSN: tx.state.LSN})
	}
	return n, nil
}

// forget drops the clean-up that is left to do: a reset does it all. What died
// before still has slots to free.
func (j *janitor) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range j.ranges {
		j.dead = appendDocs(j.dead, d.Docs, d.LSN)
	}
	j.ranges = nil
	j.dying.Store(0)
	j.sort()
}

// sort puts the dead in the order of their LSN.
func (j *janitor) sort() {
	slices.SortStableFunc(j.dead, func(a, b records.Dead) int { return cmp.Compare(a.LSN, b.LSN) })
}

func appendDocs(dst []records.Dead, docs *roaring.Bitmap, lsn uint64) []records.Dead {
	it := docs.Iterator()
	for it.HasNext() {
		dst = append(dst, records.Dead{Doc: it.Next(), LSN: lsn})
	}
	return dst
}
