package engine

import (
	"context"
	"runtime"
	"sync"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// storeQueue gathers stores of single memories that wait for the writer lock:
// whoever gets it commits them all, in one batch of the store. Each is a commit
// with an LSN of its own, or was refused and left nothing.
type storeQueue struct {
	mu      sync.Mutex
	waiting []*storeCall
}

const (
	// maxGroup and maxGroupBytes bound what one caller commits for others.
	maxGroup      = 128
	maxGroupBytes = 4 << 20
)

// storeCall is a call of Store or StoreBatch outside a transaction.
type storeCall struct {
	memories []*prepared // at least one; of several those that were refused are nil
	options  *StoreOptions
	results  []Stored
	before   prepared // the only memory as it was before it was tried

	seen uint64 // the newest LSN that it made or observed
	err  error
	over bool
	done chan struct{} // closed when it is over
}

func (c *storeCall) finish(seen uint64, err error) {
	c.seen, c.err, c.over = seen, err, true
	close(c.done)
}

func (q *storeQueue) push(c *storeCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
}

// withdraw takes a call back, false if somebody is committing it.
func (q *storeQueue) withdraw(c *storeCall) bool {
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
func (q *storeQueue) take(dst []*storeCall) []*storeCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for _, c := range q.waiting[:min(len(q.waiting), maxGroup)] {
		if n > 0 && len(c.memories) > 1 {
			break
		}
		for _, p := range c.memories {
			if p != nil {
				bytes += p.size()
			}
		}
		if n > 0 && bytes > maxGroupBytes {
			break
		}
		if n++; len(c.memories) > 1 {
			break
		}
	}
	dst = append(dst, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return dst
}

// storeCommitted commits a call, with others or by itself, and returns when all
// that it saw is durable.
func (db *DB) storeCommitted(ctx context.Context, c *storeCall) error {
	release, err := db.admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	c.done = make(chan struct{})
	db.stores.push(c)
	locked, err := db.lockUnless(ctx, c.done)
	switch {
	case locked:
		func() {
			defer db.unlock()
			db.lead(c)
		}()
	case err != nil && db.stores.withdraw(c):
		return err
	default:
		<-c.done
	}
	if err := db.acknowledge(c.seen, c.err); err != nil {
		return err
	}
	for _, p := range c.memories {
		p.release()
	}
	return nil
}

// lead commits what waits until the caller's own call is over. The lock is held.
func (db *DB) lead(own *storeCall) {
	if db.syncer.Crowded() {
		// The others that were told of their commits together are likely to ask
		// for the lock again. On a busy processor they would find it free one
		// after the other, and commit each by itself.
		runtime.Gosched()
	}
	var room [maxGroup]*storeCall
	for !own.over {
		db.commitGroup(db.stores.take(room[:0]))
	}
}

// commitGroup commits calls in one batch, or in several where they do not go together.
func (db *DB) commitGroup(group []*storeCall) {
	defer func() {
		for _, c := range group { // after a panic: nobody else would tell them
			if !c.over {
				c.finish(0, &fault.Error{Kind: fault.ErrFailed, What: doingStore, Why: "the store panicked in another call", Do: "try again"})
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

// tryGroup stores the memories of calls in one batch. Where that can't be it has done
// nothing, and returns how many of the first calls may go together, at least one. It
// can't where a call stopped half-way, so that only that one fails, and where one
// changes what another has stored: each state that a commit leaves is to be seen.
func (db *DB) tryGroup(group []*storeCall) (fits int) {
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
		if errs[i] = c.store(tx); tx.broken == nil && tx.changes > 0 {
			_ = tx.seal() // an error breaks the transaction
		}
		if (tx.broken != nil || tx.overlaps) && len(group) > 1 {
			for _, c := range group[:i+1] {
				*c.memories[0] = c.before // as if it had not been tried
			}
			return max(i, 1)
		}
	}
	err := tx.broken
	if err == nil && tx.lsn-1 > db.applied {
		err = tx.apply()
	}
	for i, c := range group {
		switch {
		case err == nil:
			c.finish(tx.lsn-1, errs[i])
		case tx.broken != nil:
			c.finish(db.applied, err)
		default:
			c.finish(0, err)
		}
	}
	return len(group)
}

// store writes the memories of the call.
func (c *storeCall) store(tx *Tx) error {
	if len(c.memories) == 1 {
		c.before = *c.memories[0]
	}
	return tx.storeAll(c.memories, c.options, c.results)
}
