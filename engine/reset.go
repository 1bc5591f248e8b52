package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// Reset deletes everything: memories, vectors, history, entries, statistics, and
// the log up to here, in one commit, and returns how many memories there were.
// Open Views go on to see what they saw. What stays are the database's settings,
// its vector spaces, and the names of users, agents and runs, whose numbers are
// never reused; to be rid of those too, delete the folder.
func (db *DB) Reset(ctx context.Context) (n int, err error) {
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
	if err := db.chunks.busy.lockContext(wait); err != nil {
		return 0, db.lockError(ctx, "reset", "the database frees what is dead")
	}
	defer db.chunks.busy.Unlock()
	err = db.acknowledge(db.update(ctx, func(tx *Tx) error {
		n, err = tx.reset()
		return err
	}))
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (tx *Tx) reset() (int, error) {
	if err := tx.roomToFree("reset", len(tx.keys.Kinds())*layout.KeyHeader); err != nil {
		return 0, err
	}
	docs, n, err := tx.bornInScope(Scope{})
	if err != nil {
		return 0, err
	}
	ks := tx.keys
	for _, kind := range ks.Kinds() {
		lower, upper := ks.Span(kind)
		switch kind {
		case layout.KindName:
			continue
		case layout.KindLog:
			upper = ks.LSN(layout.KindLog, tx.lsn)
		}
		if err := tx.wrote(tx.batch.DeleteRange(lower, upper, nil)); err != nil {
			return 0, err
		}
	}
	tx.wiped = true
	tx.change()
	tx.log = append(tx.log, byte(layout.LogReset))
	it := docs.Iterator()
	for it.HasNext() {
		doc := it.Next()
		tx.db.docs.Kill(doc, tx.lsn)
		tx.undo = append(tx.undo, undo{doc: doc})
		tx.dying = append(tx.dying, dead{doc: doc, lsn: tx.lsn})
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
	slices.SortStableFunc(j.dead, func(a, b dead) int { return cmp.Compare(a.lsn, b.lsn) })
}

func appendDocs(dst []dead, docs *roaring.Bitmap, lsn uint64) []dead {
	it := docs.Iterator()
	for it.HasNext() {
		dst = append(dst, dead{doc: it.Next(), lsn: lsn})
	}
	return dst
}
