package engine

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// syncer makes applied commits durable, as a group: one caller syncs the log for
// all that were applied before it began, the others wait for it. What it made
// durable it publishes as a read point before anyone is told.
type syncer struct {
	mu      sync.Mutex
	turn    sync.Cond // broadcast when a sync has ended
	running bool
	applied uint64 // LSN of the newest applied commit
	durable uint64 // LSN up to which the log is synced
	// next is the read point of the newest applied commit, not yet published.
	next *point

	points *points
	sync   func() error // returns when everything applied before the call is on disk
}

func newSyncer(lsn uint64, ps *points, sync func() error) *syncer {
	s := &syncer{applied: lsn, durable: lsn, points: ps, sync: sync}
	s.turn.L = &s.mu
	return s
}

// committed notes an applied commit. The writer calls it, in the order of LSNs.
func (s *syncer) committed(p *point, publish bool) error {
	s.mu.Lock()
	old := s.next
	s.applied, s.next = p.lsn, p
	if publish {
		s.next = nil
	}
	s.mu.Unlock()
	if publish {
		return s.points.publish(p)
	}
	if old != nil {
		return old.snap.Close()
	}
	return nil
}

// newest is the LSN of the newest applied commit.
func (s *syncer) newest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// wait returns when everything up to lsn is durable and published.
func (s *syncer) wait(lsn uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	p, upto := s.next, s.applied
	s.next = nil
	s.mu.Unlock()
	err := s.sync()
	if p != nil {
		if err == nil {
			err = s.points.publish(p)
		} else {
			_ = p.snap.Close() // the database has failed; the snapshot was never shown
		}
	}
	s.mu.Lock()
	s.running = false
	if err == nil {
		s.durable = max(s.durable, upto)
	}
	s.turn.Broadcast()
	return err
}

// close drops the point that was never published.
func (s *syncer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.next
	s.next = nil
	if p == nil {
		return nil
	}
	return p.snap.Close()
}

// syncLog returns when every batch applied before the call is on disk. The error
// of the sync itself is seen only through the file system's poison: Pebble is
// never told of it (see internal/fsys).
func (db *DB) syncLog() error {
	if err := db.store.LogData(nil, pebble.Sync); err != nil {
		db.fail(err)
	}
	return db.Failed()
}
