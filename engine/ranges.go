package engine

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// DeleteQuery selects the memories that DeleteMatching deletes.
type DeleteQuery struct {
	Scope
	// AllScopes deletes in every owner: for administration only.
	AllScopes bool
	Filter    Filter
}

const doingDelete = "delete memories"

// DeleteScope deletes every memory in a scope, in one commit, whatever their
// number, and returns how many there were. It also removes those that have
// expired, and does not count them.
func (m Memories) DeleteScope(ctx context.Context, s Scope) (int, error) {
	return m.DeleteMatching(ctx, DeleteQuery{Scope: s})
}

// DeleteMatching is DeleteScope for those memories of the scope for which a filter
// holds.
func (m Memories) DeleteMatching(ctx context.Context, q DeleteQuery) (n int, err error) {
	if !q.AllScopes || q.Scope != (Scope{}) {
		if err := scope.Check(doingDelete, q.Scope); err != nil {
			return 0, err
		}
	}
	if err := checkFilter(q.Filter); err != nil {
		return 0, err
	}
	err = m.update(ctx, doingDelete, func(tx *Tx) error {
		n, err = tx.deleteMatching(ctx, &q)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (tx *Tx) deleteMatching(ctx context.Context, q *DeleteQuery) (int, error) {
	if err := tx.roomToFree(doingDelete, 4*valid.MaxID); err != nil {
		return 0, err
	}
	if err := tx.materialise(); err != nil {
		return 0, tx.breaks(err)
	}
	docs, n, err := tx.doomed(ctx, q)
	if err != nil || docs.IsEmpty() {
		return 0, err
	}
	d := layout.DeathRange{LSN: tx.lsn, Change: tx.change(), Scope: q.Scope, At: tx.now, Docs: docs, Listed: q.Filter != nil}
	value, err := d.Encode()
	if err != nil {
		return 0, tx.breaks(err)
	}
	if err := tx.set(tx.keys.DeathRange(&d), value); err != nil {
		return 0, err
	}
	it := docs.Iterator()
	for it.HasNext() {
		doc := it.Next()
		tx.db.docs.Kill(doc, tx.lsn)
		tx.undo = append(tx.undo, undo{doc: doc})
	}
	tx.ranges = append(tx.ranges, d)
	tx.log = append(tx.log, byte(layout.LogRange))
	tx.log = binary.AppendUvarint(tx.log, uint64(d.Change))
	return n, nil
}

// doomed is the set of documents that a delete means, and the number of those
// that have not expired, which are all that a filter looks at.
func (tx *Tx) doomed(ctx context.Context, q *DeleteQuery) (*roaring.Bitmap, int, error) {
	if q.Filter == nil {
		return tx.bornInScope(q.Scope)
	}
	docs, err := tx.selected(ctx, q.Scope, q.AllScopes, q.Filter)
	if err != nil {
		return nil, 0, err
	}
	return docs, int(docs.GetCardinality()), nil
}

// bornInScope is the set of documents in a scope that have not died, expired or
// not, and the number of those that have not expired.
func (tx *Tx) bornInScope(s Scope) (docs *roaring.Bitmap, n int, err error) {
	set, err := tx.scopeSet(s)
	if err != nil {
		return nil, 0, err
	}
	docs = roaring.New()
	born := func(doc uint32, r *doctable.Row) {
		if !r.Visible(tx.lsn) {
			return
		}
		docs.Add(doc)
		if r.Expires == 0 || r.Expires > tx.now {
			n++
		}
	}
	if set == nil { // every owner's
		for chunk, slots := range tx.index.Extents(tx.text) {
			first := uint64(chunk) << 16
			tx.db.docs.Rows.EachFrom(first, first+uint64(slots), func(doc uint64, r *doctable.Row) bool {
				born(uint32(doc), r)
				return true
			})
		}
		return docs, n, nil
	}
	for it := set.Iterator(); it.HasNext(); {
		doc := it.Next()
		born(doc, tx.db.docs.Row(doc))
	}
	return docs, n, nil
}

// rangeDeath finds the death range that a memory without an entry died of.
func (tx *Tx) rangeDeath(seq uint64) (*layout.Death, uint64, uint32, error) {
	lower, upper := tx.keys.Span(layout.KindRange)
	s := tx.db.docs.Seq(seq)
	if s == nil {
		return nil, 0, 0, nil
	}
	doc := s.Doc.Load() - 1
	if doc == doctable.None {
		return nil, 0, 0, nil
	}
	row := tx.db.docs.Of(doc, seq)
	if row == nil { // released: the snapshot is from after the clean-up, which wrote an entry
		return nil, 0, 0, nil
	}
	var found *layout.Death
	var lsn uint64
	var change uint32
	err := kv.Scan(tx.reader, lower, upper, func(key, value []byte) error {
		d, err := layout.DecodeRange(tx.keys, key, value)
		if err != nil || d.LSN != row.Died.Load() {
			return err
		}
		if found != nil { // the first one that covers it killed it
			return nil
		}
		rec, err := tx.record(row.Version)
		if err != nil || !d.Covers(doc, row.Version, rec.Scope) {
			return err
		}
		found = &layout.Death{At: d.At, Born: row.Born, Change: row.Change}
		lsn, change = d.LSN, d.Change
		return nil
	})
	return found, lsn, change, err
}

const doingClean = "clean up what died"

// cleanBatch bounds the commits of the clean-up: small enough not to delay a
// writer's sync, large enough not to make thousands.
const cleanBatch = 1000

// clean removes what the memories of a death range left behind, and at last the
// range. Nobody can see them any more.
func (db *DB) clean(ctx context.Context, d *layout.DeathRange) error {
	docs := d.Docs.ToArray()
	for part := range slices.Chunk(docs, cleanBatch) {
		err := db.applyBare(func(b *pebble.Batch) error {
			for _, doc := range part {
				if err := db.cleanDoc(b, d, doc); err != nil {
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
	}
	return db.applyBare(func(b *pebble.Batch) error {
		return b.Delete(db.keys().DeathRange(d), nil)
	})
}

// cleanDoc writes the history entry of a memory's death and removes its vectors and its
// derived keys.
func (db *DB) cleanDoc(batch *pebble.Batch, d *layout.DeathRange, doc uint32) error {
	row := db.docs.Row(doc)
	rec, err := db.dropVersion(batch, row.Version, d.LSN)
	if err != nil || rec == nil {
		return err
	}
	h := layout.Death{At: d.At, Born: row.Born, Change: row.Change}
	if err := batch.Set(db.keys().History(row.Owner, row.Seq, d.LSN, d.Change), h.Encode(), nil); err != nil {
		return err
	}
	keys := [][]byte{db.keys().Stats(row.Owner, row.Seq)}
	if db.chunks.sealed[layout.ChunkOf(doc)] {
		db.chunks.graves++
		if err := batch.Set(db.keys().Doc(layout.KindTombstone, doc), layout.EncodeTombstone(d.LSN, true), nil); err != nil {
			return err
		}
	} else {
		keys = append(keys, db.keys().Doc(layout.KindForward, doc))
	}
	if err := db.mourn(batch, row.Version); err != nil {
		return err
	}
	if dk, ok := dedupKeyOf(rec, row.Owner, row.Run); ok {
		keys = append(keys, db.keys().Dedup(dk, row.Seq))
	}
	if rec.Flags&layout.FlagPending != 0 {
		keys = append(keys, db.keys().Pending(pendingSpace, row.Owner, row.Seq))
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
