package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/backups"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// ArchiveStats say how an archive keeps up.
type ArchiveStats = backups.ArchiveStats

// beginArchive numbers the batches of the store, for the archive of the options.
func (db *DB) beginArchive(o *Options, fresh bool) error {
	if db.readOnly && o.Archive != nil {
		return fault.Invalid(place.Opening(db.dir), "an archive of a database that is only read", "leave Archive or ReadOnly out")
	}
	return db.archives.Begin(o.Archive, o.ArchiveDelay, fresh)
}

// tailBytes is what of the log of the store is read for an archive.
func tailBytes(o *Options, t *tuning) int64 {
	if o.Archive == nil {
		return 0
	}
	return cmp.Or(t.unsent, backups.MaxUnsent)
}

// syncLog makes batches durable: in the store, and in the archive where that comes first.
func (db *DB) syncLog(batches []*pebble.Batch) error {
	began := clock.System()
	err := db.store.SyncLog(batches)
	db.synced(began)
	if err == nil {
		err = db.inPlace()
	}
	if err != nil {
		return err
	}
	return db.archives.AwaitSynced()
}

// Archives say how the archives of the database keep up, first that of its options.
func (db *DB) Archives() []ArchiveStats { return db.archives.Stats() }

// ArchiveTo archives the database into another archive beside those that it has, beginning with a base:
// up to the newest commit of now, and until ctx ends if follow is set, which is no error then. A failure
// of the archive before it has come up to now ends the call; later ones are tried again. It closes the
// archive. What it returns says how far it came.
func (db *DB) ArchiveTo(ctx context.Context, to wal.Archive, follow bool) (ArchiveStats, error) {
	return db.archives.To(ctx, to, follow)
}

// WaitArchived returns when the archive of the options has all that is durable now, or has refused to
// take anything, and says how far it came. Without an archive it is ErrInvalid.
func (db *DB) WaitArchived(ctx context.Context) (ArchiveStats, error) { return db.archives.Wait(ctx) }

// backupHost is a database as its archives need it.
type backupHost DB

func (h *backupHost) ID() string                  { return h.settings.Load().ID }
func (h *backupHost) Logged() bool                { return h.logged != nil }
func (h *backupHost) Store() *store.Store         { return h.store }
func (h *backupHost) Keys() *layout.Keys          { return (*DB)(h).keys() }
func (h *backupHost) Now() time.Time              { return h.clock() }
func (h *backupHost) Writable(doing string) error { return (*DB)(h).writable(doing) }

func (h *backupHost) Enter(doing string) (release func(), err error) { return (*DB)(h).enter(doing) }

func (h *backupHost) Lock(ctx context.Context) (unlock func(), err error) {
	return (*DB)(h).unlock, (*DB)(h).lock(ctx)
}

func (h *backupHost) LockLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return (*DB)(h).lockLimit(ctx)
}
