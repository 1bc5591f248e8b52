package backups

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Host is the database that is archived and copied.
type Host interface {
	// ID is the UUID of the database, and Logged reports whether its log keeps what it writes.
	ID() string
	Logged() bool
	// Dir is its folder, Kinds are the kinds of keys of the structures beside memories.
	Dir() string
	Kinds() []byte
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

// Maker makes the parts of a database that is restored.
type Maker interface {
	// NewStore prepares the store of a folder.
	NewStore(f vfs.FS, dir string) *store.Store
	// Look opens the database in a folder to be read, counts what it has and what of it cannot be read, and closes
	// it.
	Look(ctx context.Context, f vfs.FS, dir string) (lsn uint64, unreadable int64, memories int, err error)
}
