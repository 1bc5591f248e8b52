package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// A memory that has expired is hidden from every reader whose clock says so, and still
// there: its record, vectors, keys and rows. So it is deleted, as a caller would delete it,
// by commits of their own now and then. Views from before them see their state to its end.

const (
	// expireEvery is how often what has expired is looked for: a minute after it
	// expired, a memory is gone.
	expireEvery = 30 * time.Second
	// expireBatch bounds how many are deleted in one commit, since the record of each is
	// read under the writer lock: some milliseconds.
	expireBatch = 256
)

// startExpiring begins to delete what expires, and what has while nobody had the
// database open.
func (db *DB) startExpiring(ctx context.Context) {
	atOnce := make(chan struct{}, 1)
	atOnce <- struct{}{}
	db.every(ctx, expireEvery, atOnce, db.expire)
}

// expire deletes the memories that have expired.
func (db *DB) expire(ctx context.Context) error {
	var due []uint64
	for page := uint64(0); ; {
		due, page = db.docs.Expired(due[:0], page, db.now())
		if page == 0 {
			return nil
		}
		for part := range slices.Chunk(due, expireBatch) {
			err := db.acknowledge(db.updateBehind(ctx, func(tx *Tx) error { return tx.expire(part) }))
			if err != nil {
				return err
			}
		}
		if err := db.lockBehind(ctx); err != nil {
			return err
		}
		db.docs.Narrow(page - 1)
		db.unlock()
	}
}

// expire deletes those of some memories that have expired, whatever has become of them
// since they were found.
func (tx *Tx) expire(seqs []uint64) error {
	for _, seq := range seqs {
		l, alive := tx.at(seq)
		if !alive || !l.expired(tx.now) {
			continue
		}
		rec, err := tx.record(l.Version)
		if errors.Is(err, fault.ErrCorrupt) { // it stays, and the others go
			tx.db.log.Warn("a memory that has expired cannot be read", "error", err)
			continue
		}
		if err == nil {
			err = tx.remove(l, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
