package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// rangeVersion is the first byte of a death range.
const rangeVersion = 1

// deathRange is the death of every memory in a scope that was born before it: one
// small key, in force at once, however many memories it means. What they leave
// behind is cleaned up later, in commits of bounded size, and then the range goes
// too. A crash in between is harmless: opening puts the range in force again.
type deathRange struct {
	lsn    uint64
	change uint32
	scope  Scope
	at     int64
	docs   *roaring.Bitmap // those it killed
	listed bool            // the range means just these documents: a filter chose them
}

func (d *deathRange) encode() ([]byte, error) {
	b := []byte{rangeVersion}
	b = binary.AppendVarint(b, d.at)
	b = codec.AppendBytes(b, d.scope.User)
	b = codec.AppendBytes(b, d.scope.Agent)
	b = codec.AppendBytes(b, d.scope.Run)
	if !d.listed {
		return append(b, 0), nil
	}
	set, err := d.docs.ToBytes()
	return append(append(b, 1), set...), err
}

func (ks *keyspace) deathRange(d *deathRange) []byte {
	return binary.BigEndian.AppendUint32(ks.lsn(kindRange, d.lsn), d.change)
}

func decodeRange(ks *keyspace, key, value []byte) (deathRange, error) {
	if len(key) != keyHeader+12 {
		return deathRange{}, corruptKey("death range", key)
	}
	r := codec.NewReader(value)
	v := r.Byte()
	d := deathRange{
		lsn:    binary.BigEndian.Uint64(key[keyHeader:]),
		change: binary.BigEndian.Uint32(key[keyHeader+8:]),
		at:     r.Varint(),
		scope:  Scope{User: r.String(), Agent: r.String(), Run: r.String()},
	}
	d.listed = r.Byte() == 1
	err := r.Err()
	if err == nil && d.listed {
		d.docs = roaring.New()
		err = d.docs.UnmarshalBinary(bytes.Clone(r.Rest()))
	}
	if err != nil || v != rangeVersion {
		return deathRange{}, &Error{Kind: ErrCorrupt, What: "read a death range", Cause: err}
	}
	return d, nil
}

// before tells whether a version was born before the range, and so is in it.
func (d *deathRange) before(v version) bool {
	return v.born < d.lsn || v.born == d.lsn && v.change < d.change
}

// covers tells whether the range killed a document that died at its LSN.
func (d *deathRange) covers(doc uint32, v version, in Scope) bool {
	if d.listed {
		return d.docs.Contains(doc)
	}
	return d.before(v) && d.scope.contains(in)
}

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
		if err := q.check(doingDelete); err != nil {
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
	if err := tx.roomToFree(doingDelete, 4*MaxID); err != nil {
		return 0, err
	}
	if err := tx.materialise(); err != nil {
		return 0, tx.breaks(err)
	}
	docs, n, err := tx.doomed(ctx, q)
	if err != nil || docs.IsEmpty() {
		return 0, err
	}
	d := deathRange{lsn: tx.lsn, change: tx.change(), scope: q.Scope, at: tx.now, docs: docs, listed: q.Filter != nil}
	value, err := d.encode()
	if err != nil {
		return 0, tx.breaks(err)
	}
	if err := tx.set(tx.db.keys.deathRange(&d), value); err != nil {
		return 0, err
	}
	it := docs.Iterator()
	for it.HasNext() {
		doc := it.Next()
		tx.db.docs.kill(doc, tx.lsn)
		tx.undo = append(tx.undo, undo{doc: doc})
	}
	tx.ranges = append(tx.ranges, d)
	tx.log = append(tx.log, byte(logRange))
	tx.log = binary.AppendUvarint(tx.log, uint64(d.change))
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
	born := func(doc uint32, r *docRow) {
		if !r.visible(tx.lsn) {
			return
		}
		docs.Add(doc)
		if r.expires == 0 || r.expires > tx.now {
			n++
		}
	}
	if set == nil { // every owner's
		tx.db.docs.rows.each(uint64(tx.text.Docs), func(doc uint64, r *docRow) bool {
			born(uint32(doc), r)
			return true
		})
		return docs, n, nil
	}
	for it := set.Iterator(); it.HasNext(); {
		doc := it.Next()
		born(doc, tx.db.docs.row(doc))
	}
	return docs, n, nil
}

// rangeDeath finds the death range that a memory without an entry died of.
func (tx *Tx) rangeDeath(seq uint64) (*death, uint64, uint32, error) {
	lower, upper := tx.db.keys.span(kindRange)
	s := tx.db.docs.seq(seq)
	if s == nil {
		return nil, 0, 0, nil
	}
	doc := s.doc.Load() - 1
	if doc == noDoc {
		return nil, 0, 0, nil
	}
	row := tx.db.docs.row(doc)
	if row == nil { // released: the snapshot is from after the clean-up, which wrote an entry
		return nil, 0, 0, nil
	}
	var found *death
	var lsn uint64
	var change uint32
	err := kv.Scan(tx.reader, lower, upper, func(key, value []byte) error {
		d, err := decodeRange(&tx.db.keys, key, value)
		if err != nil || d.lsn != row.died.Load() {
			return err
		}
		if found != nil { // the first one that covers it killed it
			return nil
		}
		rec, err := tx.record(row.version)
		if err != nil || !d.covers(doc, row.version, rec.scope) {
			return err
		}
		found = &death{d.at, row.born, row.change}
		lsn, change = d.lsn, d.change
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
func (db *DB) clean(ctx context.Context, d *deathRange) error {
	docs := d.docs.ToArray()
	for part := range slices.Chunk(docs, cleanBatch) {
		err := db.applyBare(func(b *pebble.Batch) error {
			for _, doc := range part {
				if err := db.cleanDoc(b, d, doc); err != nil {
					return err
				}
			}
			return db.room.admitFreeing(doingClean, b.Len())
		})
		if err != nil {
			return err
		}
		if err := db.freeAll(ctx, part); err != nil {
			return err
		}
	}
	return db.applyBare(func(b *pebble.Batch) error {
		return b.Delete(db.keys.deathRange(d), nil)
	})
}

// cleanDoc writes the history entry of a memory's death and removes its vectors and its
// derived keys.
func (db *DB) cleanDoc(batch *pebble.Batch, d *deathRange, doc uint32) error {
	row := db.docs.row(doc)
	rec, err := db.dropVersion(batch, row.version, d.lsn)
	if err != nil || rec == nil {
		return err
	}
	h := death{d.at, row.born, row.change}
	if err := batch.Set(db.keys.history(row.owner, row.seq, d.lsn, d.change), h.encode(), nil); err != nil {
		return err
	}
	keys := [][]byte{db.keys.stats(row.owner, row.seq)}
	if db.sealed[chunkOf(doc)] {
		db.janitor.graves++
		if err := batch.Set(db.keys.doc(kindTombstone, doc), encodeTombstone(d.lsn, true), nil); err != nil {
			return err
		}
	} else {
		keys = append(keys, db.keys.doc(kindForward, doc))
	}
	if dk, ok := rec.dedupKey(row.owner, row.run); ok {
		keys = append(keys, db.keys.dedup(dk, row.seq))
	}
	if rec.flags&flagPending != 0 {
		keys = append(keys, db.keys.pending(pendingSpace, row.owner, row.seq))
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
