// Package ctxlock is a lock for which one waits no longer than a context says.
package ctxlock

import "context"

// Mutex is such a lock. It is made by [New].
type Mutex chan struct{}

// New is one that is free.
func New() Mutex { return make(Mutex, 1) }

// Lock waits for the lock.
func (m Mutex) Lock() { m <- struct{}{} }

// Unlock gives it back.
func (m Mutex) Unlock() { <-m }

// LockContext waits for the lock until the context is done.
func (m Mutex) LockContext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
