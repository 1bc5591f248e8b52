package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// The record of a version that died stays: it is the history, which tells its text.
// Its vectors are nobody's any more once no reader can see it, unless the version
// after it has kept them, and go.

// A tombstone is the LSN of a document's death. In a sealed chunk it stays, and one
// byte more says that the version's vectors are gone.
const (
	tombstoneSize    = 8
	tombstoneCleared = 1
)

func encodeTombstone(lsn uint64, cleared bool) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tombstoneSize+1), lsn)
	if cleared {
		b = append(b, tombstoneCleared)
	}
	return b
}

func decodeTombstone(b []byte) (lsn uint64, cleared bool, err error) {
	cleared = len(b) == tombstoneSize+1 && b[tombstoneSize] == tombstoneCleared
	if len(b) != tombstoneSize && !cleared {
		return 0, false, &Error{Kind: ErrCorrupt, What: "read a tombstone", Why: "it is malformed", Do: "run check"}
	}
	return binary.BigEndian.Uint64(b), cleared, nil
}

// brought are the vectors that a version refers to.
func (v version) brought(refs []vectorRef) []borrowed {
	all := make([]borrowed, len(refs))
	for i, ref := range refs {
		all[i] = borrowedOf(v, ref)
	}
	return all
}

// key is where a vector of an owner lies.
func (b borrowed) key(ks *keyspace, owner uint32) []byte {
	return ks.vector(b.space, version{owner: owner, seq: b.seq, born: b.born, change: b.change})
}

// dropVersion deletes what no history tells of a version that no state from oldest on
// has: the vectors that the memory's version of then has not kept, and the record where
// the update was only that it was embedded. It returns the record, nil where that was
// done before.
func (db *DB) dropVersion(batch *pebble.Batch, v version, oldest uint64) (*record, error) {
	now := db.docs.at(v.seq, oldest)
	tx := Tx{db: db, reader: db.store, lsn: oldest}
	rec, err := tx.readRecord(v)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, storeError(fmt.Sprintf("read memory number %d", v.seq), err)
	}
	var kept []borrowed
	if now != noDoc && len(rec.vectors) > 0 {
		row := db.docs.row(now)
		next, err := tx.record(row.version)
		if err != nil {
			return nil, err
		}
		kept = row.brought(next.vectors)
	}
	for _, vec := range v.brought(rec.vectors) {
		if slices.Contains(kept, vec) {
			continue
		}
		if err := batch.Delete(vec.key(&db.keys, v.owner), nil); err != nil {
			return nil, err
		}
	}
	if rec.flags&flagEmbedded != 0 {
		err = batch.Delete(db.keys.record(v), nil)
	}
	return rec, err
}

// dropUnseen deletes the vectors that a version of this same batch has brought, which
// was replaced before anybody could see it, but for those that the next one refers to.
func (tx *Tx) dropUnseen(rec *record, old live, next []vectorRef) error {
	if tx.pend[old.seq] == nil {
		return nil
	}
	kept := old.brought(next) // of the next one's own none has the key of an old one
	for _, vec := range old.brought(rec.vectors) {
		if vec.born <= tx.db.applied || slices.Contains(kept, vec) {
			continue
		}
		if err := tx.del(vec.key(&tx.db.keys, old.owner)); err != nil {
			return err
		}
	}
	return nil
}
