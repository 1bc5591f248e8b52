package engine

import (
	"context"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/policy"
)

// A memory that has expired is hidden from every reader whose clock says so, and still
// there: its record, vectors, keys and rows. So it is deleted, as eviction deletes, by
// commits of their own now and then. Views from before them see their state to its end.

// expireEvery is how often what has expired is looked for: a minute after it expired, a
// memory is gone.
const expireEvery = 30 * time.Second

// startExpiring begins to delete what expires, and what has while nobody had the
// database open.
func (db *DB) startExpiring(ctx context.Context) {
	atOnce := make(chan struct{}, 1)
	atOnce <- struct{}{}
	db.every(ctx, "deletes what has expired", expireEvery, atOnce, db.expire)
}

// expire deletes the memories that have expired: one commit for each page of rows names
// those that die, and reads none of them. The clean-up frees them.
func (db *DB) expire(ctx context.Context) error {
	var due []uint64
	for page := uint64(0); ; {
		due, page = db.docs.Expired(due[:0], page, db.now())
		if page == 0 {
			return nil
		}
		slices.Sort(due)
		if len(due) > 0 {
			if _, err := db.evictBehind(ctx, 0, func(tx *Tx) ([]victim, error) { return tx.expire(due) }); err != nil {
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
func (tx *Tx) expire(seqs []uint64) ([]victim, error) {
	var over []victim
	for _, seq := range seqs {
		if l, alive := tx.at(seq); alive && l.expired(tx.now) {
			r := tx.db.docs.Row(l.doc)
			f, a := tx.facts(r)
			over = append(over, newVictim(r, policy.Expired, &f, a))
		}
	}
	if len(over) == 0 {
		return nil, nil
	}
	return tx.evict(over, &policy.Policy{}, Scope{})
}

// evictBehind commits an eviction behind the calls, and tells the observer of it.
func (db *DB) evictBehind(ctx context.Context, version uint32, evict func(tx *Tx) ([]victim, error)) (victims []victim, err error) {
	if err := db.moving.lockContext(ctx); err != nil {
		return nil, err
	}
	defer db.moving.Unlock()
	var lsn uint64
	var at int64
	err = db.acknowledge(db.updateBehind(ctx, func(tx *Tx) error {
		lsn, at = tx.lsn, tx.now
		victims, err = evict(tx)
		return err
	}))
	if err == nil {
		db.observe(lsn, at, version, victims)
	}
	return victims, err
}
