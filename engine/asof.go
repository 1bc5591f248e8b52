package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// retention knows which past states can still be read. It notes which LSN was the
// newest at what time, about a hundred times within the span that is retained.
type retention struct {
	span  time.Duration // 0: past states are kept only while a View holds them
	marks []retentionMark
}

// retentionMarks is how many marks a span is divided into.
const retentionMarks = 100

type retentionMark struct {
	at  int64 // milliseconds
	lsn uint64
}

// note remembers that lsn is the newest LSN now. points.mu is held.
func (r *retention) note(lsn uint64, clock func() int64) {
	if r.span <= 0 {
		return
	}
	now := clock()
	step := max(1, (r.span / retentionMarks).Milliseconds())
	r.setBack(now, step)
	if n := len(r.marks); n == 0 || now-r.marks[n-1].at >= step {
		r.marks = append(r.marks, retentionMark{now, lsn})
	}
	// Of the marks that are too old, the newest still counts: it was the state at
	// the beginning of the span.
	for len(r.marks) > 1 && now-r.marks[1].at > r.span.Milliseconds() {
		r.marks = r.marks[1:]
	}
}

// setBack takes what was noted by a clock that was ahead for what is so now: what is due
// by that clock would else be kept until the time has come. Marks that come to stand less
// than a step after another are dropped, so that a clock that goes to and fro gives no more
// of them; the earlier one keeps more.
func (r *retention) setBack(now, step int64) {
	for n := len(r.marks); n > 0 && r.marks[n-1].at > now; n = len(r.marks) {
		if n > 1 && now-r.marks[n-2].at < step {
			r.marks = r.marks[:n-1]
			continue
		}
		r.marks[n-1].at = now
	}
}

// oldest is the LSN of the oldest state to be kept, of those up to newest.
func (r *retention) oldest(newest uint64) uint64 {
	if r.span <= 0 || len(r.marks) == 0 {
		return newest
	}
	return min(newest, r.marks[0].lsn)
}

// acquireAt pins a past state under a lease: the newest read point, read as of an LSN.
func (ps *points) acquireAt(l *lease, lsn uint64) (*point, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	newest := ps.current
	switch {
	case lsn > newest.state.LSN:
		return nil, &fault.Error{
			Kind: fault.ErrNotRetained, What: doingAsOf, Why: fmt.Sprintf("there is no state as of LSN %d: the newest is %d", lsn, newest.state.LSN),
			Do: "give an LSN that has been reached",
		}
	case lsn < ps.floor:
		return nil, &fault.Error{
			Kind: fault.ErrNotRetained, What: doingAsOf, Why: fmt.Sprintf("the state as of LSN %d is gone: the oldest that is retained is %d", lsn, ps.floor),
			Do: "give a later LSN, or open the database with a longer Retain",
		}
	}
	newest.refs++
	p := &point{state: newest.state, snap: newest.snap, refs: 1, of: newest, number: newest.number}
	p.state.LSN, p.state.Past = lsn, true
	ps.open[p] = struct{}{}
	ps.holds(l, p)
	return p, nil
}

// forget raises the floor to an LSN before which nothing can be read any more.
func (ps *points) forget(lsn uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.floor = max(ps.floor, lsn)
}

// dropPast retains no state of before an LSN any more. Views that are open keep theirs.
func (ps *points) dropPast(lsn uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.floor = max(ps.floor, lsn)
	ps.retain.marks = nil
}

// ViewAt is View of a past state: that as of an LSN, of those that are retained (see
// Options.Retain). ErrNotRetained for any other, and for what keeps no past states: the
// key-value store. Access times, access counts and what has expired are those of now.
func (db *DB) ViewAt(ctx context.Context, lsn uint64, fn func(tx *Tx) error) error {
	return db.View(ctx, func(tx *Tx) error { return tx.asOf(lsn, fn) })
}

const doingAsOf = "read a past state"

// asOf calls fn with a transaction that reads the memories as they were at an LSN.
func (tx *Tx) asOf(lsn uint64, fn func(*Tx) error) error {
	switch {
	case tx.writes != nil:
		return fault.Invalid(doingAsOf, "it was asked for inside Update", "read a past state in a View")
	case lsn == tx.state.LSN: // pinned, whatever has been freed since
		return fn(tx)
	case lsn > tx.state.LSN:
		return &fault.Error{
			Kind: fault.ErrNotRetained, What: doingAsOf, Why: fmt.Sprintf("LSN %d is after the %d of this View", lsn, tx.state.LSN),
			Do: "use a new View",
		}
	}
	p, err := tx.db.points.acquireAt(tx.lease, lsn)
	if err != nil {
		return err
	}
	defer tx.db.unpin(tx.lease, p)
	past := &Tx{db: tx.db, state: p.state, lease: tx.lease, trust: tx.trust}
	past.state.Now = tx.state.Now
	defer func() { past.done = true }()
	return fn(past)
}
