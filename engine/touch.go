package engine

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

const (
	// touchEvery is how long a recall's touch may stay in RAM: what a crash may
	// lose of the access counts and of moved expiries, and nothing else.
	touchEvery = 5 * time.Second
	// touchMost is the number of memories that are gathered before a flush.
	touchMost = 4096
	// touchSize is what one takes in a commit, in bytes.
	touchSize = 64
)

// touches gathers which memories were recalled: one commit for many recalls.
type touches struct {
	mu      sync.Mutex
	pending map[uint64]layout.Access // by Seq
	full    chan struct{}
}

func newTouches() *touches {
	return &touches{pending: map[uint64]layout.Access{}, full: make(chan struct{}, 1)}
}

// touch notes that memories were recalled. Readers see it at once.
func (db *DB) touch(seqs []uint64, now int64) {
	if db.readOnly {
		return
	}
	db.touched.note(db, seqs, layout.Access{Count: 1, Last: now})
}

// Touch notes that memories were recalled, by their Seqs, as a recall does without NoTouch: for who has asked several
// databases, and gives some of what they have found. It passes over those that there are not.
func (m Memories) Touch(ctx context.Context, seqs []uint64) error {
	return m.view(ctx, "note what was recalled", func(tx *Tx) error {
		alive := slices.DeleteFunc(slices.Clone(seqs), func(seq uint64) bool {
			_, ok := tx.at(seq)
			return !ok
		})
		tx.db.touch(alive, tx.state.Now)
		return nil
	})
}

// renew notes that the text of a memory was said again: it is as young as if it had been
// accessed then, and was not recalled.
func (db *DB) renew(seq uint64, at int64) {
	s := db.tables.Docs.Seq(seq)
	if s == nil || s.Accessed.Load() >= at {
		return
	}
	db.touched.note(db, []uint64{seq}, layout.Access{Last: at})
}

// Extend moves the expiry of memories, given by their Seqs, to later times. It is for memories that
// expire some time after their last read. Readers see the new expiry at once. Extend makes no version, so that UpdatedAt and the
// history stay, and counts as an access without a recall. It is committed with the access counts: a
// crash may lose the extensions of the last five seconds, a close loses none. Extend passes over
// memories that are gone, have expired or never expire, and over times that are not later.
func (m Memories) Extend(ctx context.Context, until map[uint64]time.Time) error {
	return m.view(ctx, "extend memories", func(tx *Tx) error {
		if !tx.db.readOnly {
			tx.db.touched.extend(tx.db, until)
		}
		return nil
	})
}

func (t *touches) extend(db *DB, until map[uint64]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := db.now()
	for seq, at := range until {
		s := db.tables.Docs.Seq(seq)
		if s == nil {
			continue
		}
		// Of a version that a commit replaces now, the next one takes the expiry over: see DB.publish.
		row := db.tables.Docs.Of(s.Doc.Load()-1, seq) // 0 - 1 is None
		if end := clock.ToMillis(at); row != nil && db.tables.Docs.Extend(row, end, now) {
			t.lease(seq, layout.Lease{Of: row.Born, Until: end})
			t.gather(db, seq, layout.Access{Last: now})
		}
	}
	t.bound()
}

// lease gathers the lease of the newest version of a memory, in the place of one of a version whose
// commit failed. mu is held.
func (t *touches) lease(seq uint64, l layout.Lease) {
	a := t.pending[seq]
	if a.Lease.Of > l.Of {
		a.Lease = layout.Lease{}
	}
	t.pending[seq] = a.Fold(layout.Access{Lease: l})
}

// extendAgain puts a lease that was stored in force.
func (db *DB) extendAgain(s *doctable.Memory, l layout.Lease) {
	if row := db.tables.Docs.Row(s.Doc.Load() - 1); row != nil && row.Born == l.Of { // 0 - 1 is None
		db.tables.Docs.Extend(row, l.Until, 0)
	}
}

// note gathers one access of each of some memories.
func (t *touches) note(db *DB, seqs []uint64, one layout.Access) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, seq := range seqs {
		t.gather(db, seq, one)
	}
	t.bound()
}

// gather gathers one access of a memory. mu is held.
func (t *touches) gather(db *DB, seq uint64, one layout.Access) {
	a := one
	if s := db.tables.Docs.Seq(seq); s != nil {
		a = a.Fold(db.settle(s)) // before the time of the access is seen
		s.Count.Add(one.Count)
		for last := s.Accessed.Load(); last < a.Last && !s.Accessed.CompareAndSwap(last, a.Last); {
			last = s.Accessed.Load()
		}
	}
	t.pending[seq] = t.pending[seq].Fold(a)
}

// bound asks for a flush where much is gathered. mu is held.
func (t *touches) bound() {
	if len(t.pending) >= touchMost {
		select {
		case t.full <- struct{}{}:
		default:
		}
	}
}

// FlushTouches commits the access counts and times that recalls have gathered, and the expiries that
// Extend has moved. It happens automatically every few seconds and on Close.
func (db *DB) FlushTouches(ctx context.Context) error {
	return db.flush(func(fn func(*Tx) error) error { return db.Update(ctx, fn) })
}

// flush commits what is gathered, and gathers it again where that fails.
func (db *DB) flush(update func(func(*Tx) error) error) error {
	t := db.touched
	t.mu.Lock()
	n := len(t.pending)
	t.mu.Unlock()
	if n == 0 {
		return nil
	}
	return update((*Tx).flushTouches)
}

// flushTouches commits what is gathered. A transaction that fails gives it back.
func (tx *Tx) flushTouches() error {
	t := tx.db.touched
	t.mu.Lock()
	batch := t.pending
	t.pending = map[uint64]layout.Access{}
	t.mu.Unlock()
	for seq, a := range batch {
		tx.take(seq, a)
	}
	if err := tx.db.store.AdmitFreeing("keep access counts", len(batch)*touchSize); err != nil {
		tx.giveBack()
		return err // they stay in RAM, and are a part of no memory
	}
	var touched, folded []byte
	touches, folds := 0, 0
	for seq, a := range batch {
		l, ok := tx.at(seq)
		if !ok {
			continue // deleted since
		}
		if a.Lease.Of != l.Born {
			a.Lease = layout.Lease{}
		}
		if err := tx.mergeAccess(l.Owner, seq, a); err != nil {
			return err
		}
		if a.Debt == 0 && a.Folded == 0 {
			touched = appendTouch(touched, l.Owner, seq, a)
			touches++
		} else {
			folded = appendFold(folded, l.Owner, seq, a)
			folds++
		}
	}
	if err := tx.keepTrust(); err != nil {
		return err
	}
	tx.logAccesses(layout.LogTouch, touches, touched)
	tx.logAccesses(layout.LogFold, folds, folded)
	return nil
}

func (tx *Tx) logAccesses(op layout.LogOp, n int, body []byte) {
	if n == 0 {
		return
	}
	tx.change()
	tx.log = append(tx.log, byte(op))
	tx.log = binary.AppendUvarint(tx.log, uint64(n))
	tx.log = append(tx.log, body...)
}

// mergeAccess adds to the access statistics of a memory; setAccess says what they are.
func (tx *Tx) mergeAccess(owner uint32, seq uint64, a layout.Access) error {
	key := tx.state.Keys.Stats(owner, seq)
	return tx.merge(key, layout.Seal(key, a.Encode()))
}

func (tx *Tx) setAccess(owner uint32, seq uint64, a layout.Access) error {
	key := tx.state.Keys.Stats(owner, seq)
	return tx.set(key, layout.Seal(key, a.Encode()))
}

// decodeAccess reads what is stored under a key of access statistics.
func decodeAccess(key, stored []byte) (layout.Access, error) {
	value, err := layout.Unseal(key, stored)
	if err != nil {
		return layout.Access{}, err
	}
	return layout.DecodeAccess(value)
}
