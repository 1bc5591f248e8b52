package engine

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// point is a read point: the store, the indexes and the tables as of one LSN.
// Everything that it names is kept while it is referenced.
type point struct {
	state state.State // but for the time, which each reader has its own of
	snap  store.Snapshot
	// number is higher than that of every point that was published before: points of
	// one LSN may differ in what was cleaned up when their snapshots were taken.
	number uint64

	refs int    // guarded by points.mu
	of   *point // the point whose snapshot it reads an older state of
}

// LSN is that of the state.
func (p *point) LSN() uint64 { return p.state.LSN }

// Close gives up a point that was never published.
func (p *point) Close() error { return p.snap.Close() }

// points keeps the read points in use. The newest published one is what a View
// pins; older ones live while a View holds them.
type points struct {
	mu        sync.Mutex
	current   *point
	open      map[*point]struct{}
	published uint64 // the number of the newest point
	// floor is the LSN of the oldest state of which nothing has been freed.
	floor uint64
	// news is closed when another point is published, nil where nobody waits for that.
	news   chan struct{}
	retain retention
	now    func() int64
	// maxAge is Options.MaxViewAge, 0 for none; leases are those of the Views that run.
	maxAge time.Duration
	leases map[*lease]struct{}
}

// lease is what the View of a caller holds, for as long as it may. Between two calls of a
// View that is too old, the janitor takes back what it holds; while a call runs, it does
// not. points.mu guards it.
type lease struct {
	began   int64 // milliseconds
	points  []*point
	calls   int  // that run, one within another
	expired bool // nothing is held any more, and no call begins
}

// newPoint is the state as of an LSN, the newest one. The lock is held.
func (db *DB) newPoint(lsn uint64) *point {
	snap := db.store.NewSnapshot()
	p := &point{state: db.stateOf(snap, lsn), snap: snap}
	p.state.Index = db.tables.NewestIndex.Load()
	p.state.Postings = p.state.Index.Snapshot()
	p.state.Postings.Docs, p.state.Postings.Reader = db.tables.Docs.Mark.Load(), snap
	return p
}

func newPoints(retain, maxAge time.Duration, now func() int64) *points {
	return &points{
		open: map[*point]struct{}{}, retain: retention{span: retain}, now: now,
		maxAge: maxAge, leases: map[*lease]struct{}{},
	}
}

// publish makes p the point that Views pin from now on.
func (ps *points) publish(p *point) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.current != nil && p.state.LSN < ps.current.state.LSN {
		return p.snap.Close()
	}
	old := ps.current
	if old == nil {
		ps.floor = p.state.LSN // what died before is not in the tables
	}
	ps.retain.note(p.state.LSN, ps.now)
	ps.published++
	p.number = ps.published
	p.refs++
	ps.open[p] = struct{}{}
	ps.current = p
	if ps.news != nil {
		close(ps.news)
		ps.news = nil
	}
	if old == nil {
		return nil
	}
	return ps.release(old)
}

// lease begins one, nil where a View may be of any age.
func (ps *points) lease() *lease {
	if ps.maxAge <= 0 {
		return nil
	}
	return &lease{began: ps.now()}
}

// acquire pins the newest point, under a lease unless that is nil.
func (ps *points) acquire(l *lease) *point {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.current.refs++
	ps.holds(l, ps.current)
	return ps.current
}

// holds notes that a lease holds a point; mu is held.
func (ps *points) holds(l *lease, p *point) {
	if l == nil {
		return
	}
	l.points = append(l.points, p)
	ps.leases[l] = struct{}{}
}

// done gives up a point, unless it was taken back from the lease before.
func (ps *points) done(l *lease, p *point) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if l == nil {
		return ps.release(p)
	}
	i := slices.Index(l.points, p)
	if i < 0 {
		return nil
	}
	if l.points = slices.Delete(l.points, i, i+1); len(l.points) == 0 {
		delete(ps.leases, l)
	}
	return ps.release(p)
}

// hold begins a call under a lease, and reports whether it may begin. A call within
// another one always may.
func (ps *points) hold(l *lease) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if l.calls == 0 && (l.expired || ps.tooOld(l)) {
		return false
	}
	l.calls++
	return true
}

// letGo ends a call under a lease.
func (ps *points) letGo(l *lease) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	l.calls--
}

// tooOld reports whether a lease has run out; mu is held.
func (ps *points) tooOld(l *lease) bool { return ps.now()-l.began > ps.maxAge.Milliseconds() }

// aged reports whether there is a View for expire.
func (ps *points) aged() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for l := range ps.leases {
		if l.calls == 0 && ps.tooOld(l) {
			return true
		}
	}
	return false
}

// expire takes back what Views hold that are too old, but for those in the midst of a call.
func (ps *points) expire() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var errs []error
	for l := range ps.leases {
		if l.calls > 0 || !ps.tooOld(l) {
			continue
		}
		for _, p := range l.points {
			errs = append(errs, ps.release(p))
		}
		l.points, l.expired = nil, true
		delete(ps.leases, l)
	}
	return errors.Join(errs...)
}

// release drops a reference; mu is held.
func (ps *points) release(p *point) error {
	p.refs--
	if p.refs > 0 {
		return nil
	}
	delete(ps.open, p)
	if p.of != nil {
		return ps.release(p.of)
	}
	return p.snap.Close()
}

// lsn is that of the newest published point.
func (ps *points) lsn() uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.current.state.LSN
}

// oldest is the LSN of the oldest state that is in use or retained. What died at or
// before it can be seen by nobody, and is freed: no older state can be read from
// now on.
func (ps *points) oldest() uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.retain.note(ps.current.state.LSN, ps.now)
	oldest := ps.retain.oldest(ps.current.state.LSN)
	for p := range ps.open {
		oldest = min(oldest, p.state.LSN)
	}
	ps.floor = max(ps.floor, oldest)
	return oldest
}

// after reports whether a state of an LSN is published, and else returns what is closed when another
// state is.
func (ps *points) after(lsn uint64) (news <-chan struct{}, there bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.current.state.LSN >= lsn {
		return nil, true
	}
	if ps.news == nil {
		ps.news = make(chan struct{})
	}
	return ps.news, false
}

// oldestOpen is oldest without what is retained.
func (ps *points) oldestOpen() uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	oldest := ps.current.state.LSN
	for p := range ps.open {
		oldest = min(oldest, p.state.LSN)
	}
	return oldest
}

// numbers are those of the oldest point in use and of the newest.
func (ps *points) numbers() (oldest, newest uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	oldest = ps.published
	for p := range ps.open {
		oldest = min(oldest, p.number)
	}
	return oldest, ps.published
}

// close drops the reference of the current point. Views must be over.
func (ps *points) close() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.current
	if p == nil || p.refs == 0 {
		return nil
	}
	return ps.release(p) // it stays the current one, to tell its LSN
}

// newestState is what the newest commit shows. The lock is held.
func (db *DB) newestState() state.State {
	s := db.stateOf(db.store, db.writer.applied)
	s.Index, s.Postings = db.tables.NewestIndex.Load(), db.newestText()
	return s
}

// newestText is the state of the text index that an Update reads. The lock is
// held.
func (db *DB) newestText() invindex.Snapshot {
	s := db.tables.NewestIndex.Load().Snapshot()
	s.Docs, s.Reader = db.tables.Docs.Mark.Load(), db.store
	return s
}
