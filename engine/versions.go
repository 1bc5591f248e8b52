package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// The record of a version that died stays: it is the history, which tells its text.
// Its vectors are nobody's any more once no reader can see it, unless the version
// after it has kept them, and go.

// dropVersion deletes what no history tells of a version that no state from oldest on
// has: the vectors that the memory's version of then has not kept, and the record where
// the update was only that it was embedded. It returns the record, nil where that was
// done before.
func (db *DB) dropVersion(batch *pebble.Batch, v layout.Version, oldest uint64) (*layout.Record, error) {
	now := db.docs.At(v.Seq, oldest)
	tx := Tx{db: db, reader: db.store, keys: db.keys(), lsn: oldest}
	rec, err := tx.readRecord(v)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, store.Error(fmt.Sprintf("read memory number %d", v.Seq), err)
	}
	var kept []layout.VectorKey
	if now != doctable.None && len(rec.Vectors) > 0 {
		row := db.docs.Row(now)
		next, err := tx.record(row.Version)
		if err != nil {
			return nil, err
		}
		kept = row.Brought(next.Vectors)
	}
	for _, vec := range v.Brought(rec.Vectors) {
		if slices.Contains(kept, vec) {
			continue
		}
		if err := batch.Delete(vec.Key(db.keys(), v.Owner), nil); err != nil {
			return nil, err
		}
	}
	if rec.Flags&layout.FlagEmbedded != 0 {
		err = batch.Delete(db.keys().Record(v), nil)
	}
	return rec, err
}

// dropUnseen deletes the vectors that a version of this same batch has brought, which
// was replaced before anybody could see it, but for those that the next one refers to.
func (tx *Tx) dropUnseen(rec *layout.Record, old live, next []layout.VectorRef) error {
	if tx.pend[old.Seq] == nil {
		return nil
	}
	kept := old.Brought(next) // of the next one's own none has the key of an old one
	for _, vec := range old.Brought(rec.Vectors) {
		if vec.Born <= tx.db.writer.applied || slices.Contains(kept, vec) {
			continue
		}
		if err := tx.del(vec.Key(tx.keys, old.Owner)); err != nil {
			return err
		}
	}
	return nil
}
