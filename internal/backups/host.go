package backups

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Host is the database that is archived.
type Host interface {
	// ID is the UUID of the database, and Logged reports whether its log keeps what it writes.
	ID() string
	Logged() bool
	Store() *store.Store
	Keys() *layout.Keys
	Now() time.Time
	// Enter keeps Close waiting until release is called.
	Enter(doing string) (release func(), err error)
	// Writable returns ErrReadOnly if the database is only read.
	Writable(doing string) error
	// Lock takes the writer lock. LockLimit bounds a wait as long as one for that lock.
	Lock(ctx context.Context) (unlock func(), err error)
	LockLimit(ctx context.Context) (context.Context, context.CancelFunc)
}
