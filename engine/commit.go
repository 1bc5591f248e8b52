package engine

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// syncer makes applied commits durable, as a group: one caller waits for the sync
// of all that were applied before it began, the others wait for it. What is durable
// it publishes as a read point before anyone is told.
//
// A durable commit asks for the sync when it is applied, so that the disk works
// while the tables and indexes are extended.
type syncer struct {
	mu      sync.Mutex
	turn    sync.Cond // broadcast when a sync has ended
	running bool
	applied uint64 // LSN of the newest applied commit
	durable uint64 // LSN up to which the log is synced
	waiters int    // callers that wait
	crowd   int    // callers that waited when the last sync ended
	// next is the read point of the newest applied commit, not yet published.
	next *point
	// syncing are the batches that were applied and whose sync nobody waits for.
	syncing []*pebble.Batch

	points *points
	// sync returns when everything applied before the call is on disk: the given
	// batches, whose sync was asked for, or without any whatever there is.
	sync func([]*pebble.Batch) error
}

func newSyncer(lsn uint64, ps *points, sync func([]*pebble.Batch) error) *syncer {
	s := &syncer{applied: lsn, durable: lsn, points: ps, sync: sync}
	s.turn.L = &s.mu
	return s
}

// committed notes commits up to a read point, whose sync was asked for with their
// batch. The writer calls it, in the order of LSNs.
func (s *syncer) committed(p *point, batch *pebble.Batch) error {
	s.mu.Lock()
	old := s.next
	s.applied, s.next = p.lsn, p
	s.syncing = append(s.syncing, batch)
	s.mu.Unlock()
	if old != nil {
		return old.snap.Close()
	}
	return nil
}

// buffered notes commits that are to be seen before they are durable.
func (s *syncer) buffered(p *point, batch *pebble.Batch) error {
	s.mu.Lock()
	s.applied = p.lsn
	s.mu.Unlock()
	return errors.Join(batch.Close(), s.points.publish(p))
}

// newest is the LSN of the newest applied commit.
func (s *syncer) newest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// crowded tells whether several callers waited for the last sync.
func (s *syncer) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crowd > 1
}

// wait returns when everything up to lsn is durable and published.
func (s *syncer) wait(lsn uint64) error {
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
func (s *syncer) lead() error {
	s.running = true
	p, upto, batches := s.next, s.applied, s.syncing
	s.next, s.syncing = nil, nil
	s.mu.Unlock()
	err := s.sync(batches)
	if p != nil {
		if err == nil {
			err = s.points.publish(p)
		} else {
			_ = p.snap.Close() // the database has failed; the snapshot was never shown
		}
	}
	s.mu.Lock()
	s.running, s.crowd = false, s.waiters
	if err == nil {
		s.durable = max(s.durable, upto)
	}
	s.turn.Broadcast()
	return err
}

// close drops the point that was never published. Batches that nobody waits for any
// more, of a database that has failed, are left to the garbage collector: the log
// may still refer to them.
func (s *syncer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.next
	s.next, s.syncing = nil, nil
	if p == nil {
		return nil
	}
	return p.snap.Close()
}

// applyBatch writes a batch to the log and the memtable. Of a durable one the sync
// is asked for, and syncLog waits for it before the batch is closed.
func (db *DB) applyBatch(b *pebble.Batch, durable bool) error {
	if durable {
		return db.store.ApplyNoSyncWait(b, pebble.Sync)
	}
	return db.store.Apply(b, pebble.NoSync)
}

// syncLog returns when batches whose sync was asked for are on disk; without any,
// when every batch applied before the call is. The error of the sync itself is seen
// only through the file system's poison: Pebble is never told of it (see
// internal/fsys).
func (db *DB) syncLog(batches []*pebble.Batch) error {
	if len(batches) == 0 {
		if err := db.store.LogData(nil, pebble.Sync); err != nil {
			db.fail(err)
		}
	}
	for _, b := range batches {
		if err := errors.Join(b.SyncWait(), b.Close()); err != nil {
			db.fail(err)
		}
	}
	return db.Failed()
}
