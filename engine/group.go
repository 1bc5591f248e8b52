package engine

import (
	"context"
	"runtime"
	"sync"

	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// groupQueue gathers small changes that wait for the writer lock: whoever gets it
// commits them all, in one batch of the store. Each is a commit with an LSN of its own,
// or was refused and left nothing.
type groupQueue struct {
	mu      sync.Mutex
	waiting []groupCall
}

const (
	// maxGroup and maxGroupBytes bound what one caller commits for others.
	maxGroup      = 128
	maxGroupBytes = 4 << 20
)

// groupCall is a change that may be committed together with those of other callers.
type groupCall interface {
	// run makes the change. It may be called again, after restore.
	run(tx *Tx) error
	// restore makes the call what it was before it was tried.
	restore()
	size() int   // about what it writes, in bytes
	alone() bool // it is committed by itself
	state() *callState
}

// callState is what becomes of a call.
type callState struct {
	seen uint64 // the newest LSN that it made or observed
	err  error
	over bool
	done chan struct{} // closed when it is over
}

func (c *callState) state() *callState { return c }

func (c *callState) finish(seen uint64, err error) {
	c.seen, c.err, c.over = seen, err, true
	close(c.done)
}

// storeCall is a call of Store or StoreBatch outside a transaction.
type storeCall struct {
	callState
	memories []*records.Prepared // at least one; of several those that were refused are nil
	options  *memory.StoreOptions
	results  []memory.Stored
	before   records.Prepared // the only memory as it was before it was tried
}

func (c *storeCall) run(tx *Tx) error {
	if len(c.memories) == 1 {
		c.before = *c.memories[0]
	}
	return tx.storeAll(c.memories, c.options, c.results)
}

func (c *storeCall) restore() { *c.memories[0] = c.before }

func (c *storeCall) alone() bool { return len(c.memories) > 1 }

func (c *storeCall) size() (n int) {
	for _, p := range c.memories {
		if p != nil {
			n += p.Size()
		}
	}
	return n
}

// partCall is a small change of a part.
type partCall struct {
	callState
	doing string
	bytes int
	fn    func(part.Tx) error
}

func (c *partCall) run(tx *Tx) error { return tx.changePart(c.doing, c.fn) }
func (c *partCall) restore()         {}
func (c *partCall) alone() bool      { return false }
func (c *partCall) size() int        { return c.bytes }

func (q *groupQueue) push(c groupCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
}

// withdraw takes a call back, false if somebody is committing it.
func (q *groupQueue) withdraw(c groupCall) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == c {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take appends the calls to be committed next, in the order of their coming: one
// of several memories by itself, or single memories within the limits.
func (q *groupQueue) take(dst []groupCall) []groupCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for _, c := range q.waiting[:min(len(q.waiting), maxGroup)] {
		if n > 0 && c.alone() {
			break
		}
		bytes += c.size()
		if n > 0 && bytes > maxGroupBytes {
			break
		}
		if n++; c.alone() {
			break
		}
	}
	dst = append(dst, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return dst
}

// storeCommitted commits a store, with others or by itself.
func (db *DB) storeCommitted(ctx context.Context, c *storeCall) error {
	a := attemptOf(ctx)
	if !a.opened() { // it would wait for an eviction, which waits for the transaction
		if err := db.waitForCaps(ctx, c.memories); err != nil {
			return err
		}
	}
	if err := db.commitInGroup(ctx, c); err != nil || a != nil { // an attempt needs the memories until it commits
		return err
	}
	for _, p := range c.memories {
		p.Release()
	}
	return nil
}

// commitInGroup commits a call, with others or by itself, and returns when all that it
// saw is durable.
func (db *DB) commitInGroup(ctx context.Context, c groupCall) error {
	if a := attemptOf(ctx); a != nil {
		return a.join(ctx, db, c.run)
	}
	release, err := db.admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	began := clock.System()
	s := c.state()
	s.done = make(chan struct{})
	db.writer.group.push(c)
	locked, err := db.lockUnless(ctx, s.done)
	switch {
	case locked:
		func() {
			defer db.unlock()
			db.lead(s)
		}()
	case err != nil && db.writer.group.withdraw(c):
		return err
	default:
		<-s.done
	}
	applied := clock.System()
	err = db.acknowledgeWithin(ctx, s.seen, s.err)
	db.wrote(began, applied)
	return err
}

// lead commits what waits until the caller's own call is over. The lock is held.
func (db *DB) lead(own *callState) {
	if db.syncer.Crowded() {
		// The others that were told of their commits together are likely to ask
		// for the lock again. On a busy processor they would find it free one
		// after the other, and commit each by itself.
		runtime.Gosched()
	}
	var room [maxGroup]groupCall
	for !own.over {
		db.commitGroup(db.writer.group.take(room[:0]))
	}
}

// commitGroup commits calls in one batch, or in several where they do not go together.
func (db *DB) commitGroup(group []groupCall) {
	defer func() {
		for _, c := range group { // after a panic: nobody else would tell them
			if !c.state().over {
				c.state().finish(0, &fault.Error{Kind: fault.ErrFailed, What: "write", Why: "another call of its group panicked", Do: "try again"})
			}
		}
	}()
	for rest := group; len(rest) > 0; {
		n := len(rest)
		for fits := db.tryGroup(rest); fits < n; fits = db.tryGroup(rest[:n]) {
			n = fits
		}
		rest = rest[n:]
	}
}

// tryGroup stores the memories of calls in one batch, or does nothing and returns how many
// of the first calls may go together, at least one. It does nothing in two cases. Where a
// call stopped half-way, that one alone is to fail. Where one changes what another has
// stored, both states are to be seen.
func (db *DB) tryGroup(group []groupCall) (fits int) {
	tx := db.begin()
	defer func() {
		tx.done = true
		if tx.batch != nil {
			tx.rollback()
		}
	}()
	var room [maxGroup]error
	errs := room[:len(group)]
	for i, c := range group {
		if errs[i] = c.run(tx); tx.broken == nil && tx.changes > 0 {
			_ = tx.seal() // an error breaks the transaction
		}
		if (tx.broken != nil || tx.versions.Overlaps) && len(group) > 1 {
			for _, c := range group[:i+1] {
				c.restore()
			}
			return max(i, 1)
		}
	}
	err := tx.broken
	if err == nil && tx.state.LSN-1 > db.writer.applied {
		err = tx.apply()
	}
	for i, c := range group {
		switch {
		case err == nil:
			c.state().finish(tx.state.LSN-1, errs[i])
		case tx.broken != nil:
			c.state().finish(db.writer.applied, err)
		default:
			c.state().finish(0, err)
		}
	}
	return len(group)
}

// waitForCaps keeps a store waiting, as long as LockWait, while an owner has twice the slack more
// than the cap, and is to be looked at.
func (db *DB) waitForCaps(ctx context.Context, memories []*records.Prepared) error {
	owners := &db.tables.Docs.Owners
	if owners.Most() == 0 {
		return nil
	}
	release, err := db.enter("write") // a Close lets what evicts go on so long
	if err != nil {
		return err
	}
	defer release()
	limit := db.tables.Ageing.At(state.MaxLSN).Cap
	var wait context.Context
	for i, p := range memories {
		if i > 0 && p.Rec.Scope.Owner() == memories[i-1].Rec.Scope.Owner() {
			continue
		}
		owner, known := db.tables.Names.Cached(layout.Name{Class: layout.NameOwner, Text: scope.Key(p.Rec.Scope.Owner())})
		for known {
			spared := owners.Crowded(owner, limit+2*ageing.CapSlack(limit))
			if spared == nil {
				break
			}
			if wait == nil {
				var cancel context.CancelFunc
				wait, cancel = db.lockLimit(ctx)
				defer cancel()
			}
			select {
			case <-spared:
			case <-wait.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}
