package engine

import (
	"context"
	"slices"
	"time"
)

const (
	// touchEvery is how long a recall's touch may stay in RAM: what a crash may
	// lose of the access counts and of moved expiries, and nothing else.
	touchEvery = 5 * time.Second
)

// Touch notes that memories were recalled, by their Seqs, as a recall does without NoTouch: for who has asked several
// databases, and gives some of what they have found. It passes over those that there are not.
func (m Memories) Touch(ctx context.Context, seqs []uint64) error {
	return m.view(ctx, "note what was recalled", func(tx *Tx) error {
		alive := slices.DeleteFunc(slices.Clone(seqs), func(seq uint64) bool {
			_, ok := tx.reader().At(seq)
			return !ok
		})
		if !tx.db.readOnly {
			tx.db.touched.Recalled(alive, tx.state.Now)
		}
		return nil
	})
}

// Extend moves the expiry of memories, given by their Seqs, to later times. It is for memories that
// expire some time after their last read. Readers see the new expiry at once. Extend makes no version, so that UpdatedAt and the
// history stay, and counts as an access without a recall. It is committed with the access counts: a
// crash may lose the extensions of the last five seconds, a close loses none. Extend passes over
// memories that are gone, have expired or never expire, and over times that are not later.
func (m Memories) Extend(ctx context.Context, until map[uint64]time.Time) error {
	return m.view(ctx, "extend memories", func(tx *Tx) error {
		if !tx.db.readOnly {
			tx.db.touched.Extend(until)
		}
		return nil
	})
}

// FlushTouches commits the access counts and times that recalls have gathered, and the expiries that
// Extend has moved. It happens automatically every few seconds and on Close.
func (db *DB) FlushTouches(ctx context.Context) error {
	return db.flush(func(fn func(*Tx) error) error { return db.Update(ctx, fn) })
}

// flush commits what is gathered, if there is anything.
func (db *DB) flush(update func(func(*Tx) error) error) error {
	if db.touched.Len() == 0 {
		return nil
	}
	return update((*Tx).flushTouches)
}

// flushTouches commits what is gathered. A transaction that fails gives it back.
func (tx *Tx) flushTouches() error {
	err := tx.rec.FlushTouches(func(bytes int) error { return tx.db.store.AdmitFreeing("keep access counts", bytes) })
	if err != nil {
		return err
	}
	return tx.keepTrust()
}
