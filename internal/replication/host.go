package replication

import (
	"context"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Host makes what a folder that follows consists of.
type Host interface {
	// Store prepares the store of a folder, to be opened and written.
	Store(base vfs.FS, dir string) *store.Store
	// Show opens a database that reads a frozen state of that store, which has an identity, and closes the state.
	// stats are those of the replica.
	Show(dir string, st *store.Store, id *place.Identity, stats func() Stats) (View, error)
}

// View is a database that reads one state of a replica.
type View interface {
	LSN() uint64
	// EndLinking ends the linking of vectors, and keeps what was linked for the next view. Searches go on.
	EndLinking()
	// Renew writes the files of vectors again without those that are gone.
	Renew(ctx context.Context) error
	Close() error
}
