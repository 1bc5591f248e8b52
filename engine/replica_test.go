package engine

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// feedOf follows the archive of a file system.
func feedOf(t *testing.T, fs vfs.FS, wait bool) wal.Feed {
	t.Helper()
	c, err := folder.Follow(fsys.On(fs, "/archive"), wal.Timeline{}, wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, c) })
	return c.Next
}

func testReplica(t *testing.T, fs vfs.FS, feed wal.Feed, o ReplicaOptions) *Replica {
	t.Helper()
	if o.MemoryBudget == 0 {
		o.MemoryBudget = testBudget
	}
	r, err := openReplica("replica", feed, &o, &tuning{fs: fs, uncached: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, r) })
	return r
}

// archivedNow waits until the archive has everything, also the batch that the store is told by of a
// beginning of the archive.
func archivedNow(t *testing.T, db *DB) {
	t.Helper()
	waitFor(t, func() bool {
		s, err := db.WaitArchived(t.Context())
		noError(t, err)
		return s.Number == db.store.Synced()
	})
}
