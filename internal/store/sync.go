package store

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Point is a state that readers can pin once it is published.
type Point interface {
	LSN() uint64
	// Close gives up a point that was never published.
	Close() error
}

// Syncer makes applied commits durable, as a group: one caller waits for the sync
// of all that were applied before it began, and the others wait for that caller. The
// Syncer publishes the durable state as a read point before any caller returns.
//
// A durable commit asks for the sync when it is applied, so that the disk works
// while the tables and indexes are extended.
type Syncer[P Point] struct {
	mu      sync.Mutex
	turn    sync.Cond // broadcast when a sync has ended
	running bool
	applied uint64 // LSN of the newest applied commit
	durable uint64 // LSN up to which the log is synced
	waiters int    // callers that wait
	crowd   int    // callers that waited when the last sync ended
	// next is the read point of the newest applied commit, not yet published.
	next P
	held bool // next is one that was not published yet
	// syncing are the batches that were applied and whose sync nobody waits for.
	syncing []*pebble.Batch

	publish func(P) error
	// sync returns when everything applied before the call is on disk: the given
	// batches, whose sync was asked for, or without any whatever there is.
	sync func([]*pebble.Batch) error
}

// NewSyncer begins at the LSN of a state that is durable and published. sync makes what
// was applied durable (see [Store.SyncLog]); publish shows a state to readers.
func NewSyncer[P Point](lsn uint64, publish func(P) error, sync func([]*pebble.Batch) error) *Syncer[P] {
	s := &Syncer[P]{applied: lsn, durable: lsn, publish: publish, sync: sync}
	s.turn.L = &s.mu
	return s
}

// Committed notes the commits of a batch, up to a read point. The batch has asked for its
// sync. The writer calls Committed in the order of LSNs.
func (s *Syncer[P]) Committed(p P, batch *pebble.Batch) error {
	s.mu.Lock()
	old, held := s.next, s.held
	s.applied, s.next, s.held = p.LSN(), p, true
	s.syncing = append(s.syncing, batch)
	s.mu.Unlock()
	if held {
		return old.Close()
	}
	return nil
}

// Buffered notes commits that are to be seen before they are durable.
func (s *Syncer[P]) Buffered(p P, batch *pebble.Batch) error {
	s.mu.Lock()
	s.applied = p.LSN()
	s.mu.Unlock()
	return errors.Join(batch.Close(), s.publish(p))
}

// Newest is the LSN of the newest applied commit.
func (s *Syncer[P]) Newest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// Durable is the LSN up to which all commits are on disk.
func (s *Syncer[P]) Durable() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable
}

// Crowded reports whether several callers waited for the last sync.
func (s *Syncer[P]) Crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crowd > 1
}

// Wait returns when everything up to lsn is durable and published.
func (s *Syncer[P]) Wait(lsn uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters++
	defer func() { s.waiters-- }()
	for s.durable < lsn {
		if s.running {
			s.turn.Wait()
			continue
		}
		if err := s.lead(); err != nil {
			return err
		}
	}
	return nil
}

// lead syncs for everyone. mu is held, and released while the sync runs.
func (s *Syncer[P]) lead() error {
	s.running = true
	p, held, upto, batches := s.take()
	s.mu.Unlock()
	err := s.sync(batches)
	late := errors.Is(err, fault.ErrUnavailable) // it will be durable, or the database fails
	if held && !late {
		if err == nil {
			err = s.publish(p)
		} else {
			_ = p.Close() // the database has failed; the snapshot was never shown
		}
	}
	s.mu.Lock()
	if held && late {
		if s.held { // a newer one was made
			_ = p.Close()
		} else {
			s.next, s.held = p, true
		}
	}
	s.running, s.crowd = false, s.waiters
	if err == nil {
		s.durable = max(s.durable, upto)
	}
	s.turn.Broadcast()
	return err
}

// Close drops the point that was never published. Batches that nobody waits for any
// more, of a database that has failed, are left to the garbage collector: the log
// may still refer to them.
func (s *Syncer[P]) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, held, _, _ := s.take()
	if !held {
		return nil
	}
	return p.Close()
}

// take returns what is not durable yet, for the caller to sync. mu is held.
func (s *Syncer[P]) take() (p P, held bool, upto uint64, batches []*pebble.Batch) {
	p, held, upto, batches = s.next, s.held, s.applied, s.syncing
	var none P
	s.next, s.held, s.syncing = none, false, nil
	return p, held, upto, batches
}

// ApplyBatch writes a batch of commits to the log and the memtable. For a durable batch it also
// asks for the sync; SyncLog waits for that sync and closes the batch.
func (s *Store) ApplyBatch(b *pebble.Batch, durable bool, c Commit) error {
	apply := func() error { return s.into(b, c.LSN, func() error { return s.db.Apply(b, pebble.NoSync) }) }
	if durable = durable && s.config.Sent == nil; durable {
		apply = func() error { return s.into(b, c.LSN, func() error { return s.db.ApplyNoSyncWait(b, pebble.Sync) }) }
	}
	if !s.Shipping() {
		if err := s.unnumbered(b); err != nil {
			return err
		}
		return apply()
	}
	err := s.shipped(b, c, func() error {
		if durable {
			s.ship.asked[b] = s.ship.number + 1
		}
		return apply()
	})
	if err == nil && s.config.Sent != nil {
		s.ship.sending.want() // the log works while the tables grow
	}
	return err
}

// into applies a batch. A store that is kept in one file notes what it changes.
func (s *Store) into(b *pebble.Batch, lsn uint64, apply func() error) error {
	if s.config.File == nil {
		return apply()
	}
	return s.config.File.into(b, lsn, apply)
}

// Apply applies a batch that has no LSN.
func (s *Store) Apply(b *pebble.Batch, o *pebble.WriteOptions) error {
	if s.config.Sent != nil {
		if err := s.AdmitSending("work behind the calls"); err != nil {
			return err
		}
		o = pebble.NoSync
	}
	apply := func() error { return s.into(b, 0, func() error { return s.db.Apply(b, o) }) }
	if !s.Shipping() || b.Empty() {
		if err := s.unnumbered(b); err != nil {
			return err
		}
		if err := apply(); err != nil {
			return err
		}
	} else if err := s.shipped(b, Commit{}, apply); err != nil {
		return err
	}
	if o == pebble.Sync {
		return s.writeFile()
	}
	return nil
}

// writeFile makes what was applied durable where the store is kept in one file. Where that fails,
// the store has failed.
func (s *Store) writeFile() error {
	if s.config.File == nil || s.config.ReadOnly {
		return nil
	}
	if err := s.Failed(); err != nil {
		return err
	}
	if err := s.config.File.write(s); err != nil {
		s.Fail(err)
	}
	return s.Failed()
}

// Set writes one key, without an LSN.
func (s *Store) Set(key, value []byte, o *pebble.WriteOptions) error {
	b := s.NewBatch()
	err := b.Set(key, value, nil)
	if err == nil {
		err = s.Apply(b, o)
	}
	return errors.Join(err, b.Close())
}

// Delete deletes one key, without an LSN.
func (s *Store) Delete(key []byte, o *pebble.WriteOptions) error {
	b := s.NewBatch()
	err := b.Delete(key, nil)
	if err == nil {
		err = s.Apply(b, o)
	}
	return errors.Join(err, b.Close())
}

// SyncLog returns when the batches are on disk, and closes them; each has asked for its
// sync. Without batches it returns when every batch that was applied before the call is on
// disk. Pebble never hears of a failed sync: SyncLog sees the error in the file system's
// seam (see internal/fsys).
//
// Of a store whose batches are sent to a log that is when the log has them. There it may return ErrUnavailable,
// and what it was to sync is sent later, behind which a later call returns.
func (s *Store) SyncLog(batches []*pebble.Batch) error {
	if s.config.Sent != nil {
		return s.sendAll(batches)
	}
	upto := uint64(0)
	if s.Shipping() {
		upto = s.ship.upto(batches)
	}
	if len(batches) == 0 {
		if err := s.db.LogData(nil, pebble.Sync); err != nil {
			s.Fail(err)
		}
	}
	for _, b := range batches {
		if err := errors.Join(b.SyncWait(), b.Close()); err != nil {
			s.Fail(err)
		}
	}
	err := s.Failed()
	if err == nil {
		err = s.writeFile()
	}
	if err == nil && upto > 0 {
		s.ship.reached(upto)
	}
	return err
}
