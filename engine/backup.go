package engine

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/backups"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// BackupOptions say how a backup is made. The zero value is the default.
type BackupOptions = backups.CopyOptions

// BackupReport tells what a backup has.
type BackupReport = backups.CopyReport

// RestoreOptions say what is restored. The zero value is the newest backup.
type RestoreOptions = backups.RestoreOptions

// RestoreReport tells what was restored.
type RestoreReport = backups.RestoreReport

// Backup writes a backup of the database to a repository, the folder repo, which is made where it
// is missing or empty: see package backup. The database goes on meanwhile; the backup is its state
// as of one LSN, with all that was acknowledged before the call. Tables that the backup before has
// are neither read nor written again. What is new is read back and proven before Backup returns.
// An empty repo makes an archive alone.
//
// Files of vector indexes are left out: they follow from the store, are large, and would be new in
// each backup. A restored database finds all vectors at once, and links them anew in its pauses.
//
// A second call waits for the first. While it runs, the database keeps the tables that it would
// remove. Backup returns ErrInvalid where the repository and the database lie in one another,
// ErrNotDatabase for a folder with other files, ErrLocked while another program writes to the
// repository, ErrReadOnly where it cannot be written, ErrDiskFull where there is no room for it,
// ErrCorrupt where a table of the database is damaged, and ErrExists for an archive that is there.
// After an error there is no new backup; what was written is taken up by the next one.
func (db *DB) Backup(ctx context.Context, repo string, o *BackupOptions) (BackupReport, error) {
	return db.copier.Copy(ctx, repo, o)
}

// Restore makes a database in the folder dir, which must not exist, of a backup in repo: a
// repository or an archive (see package backup). Each file is proven by its hash while it is
// copied, and the database is opened once before it gets its name. It is built in a folder beside
// dir with ".restoring" at the end of its name, so that an interrupted Restore leaves nothing that
// opens as a database; the next one begins again.
//
// The database is as it was at the LSN of the backup, and keeps its ID. It begins a new timeline:
// its next commits have LSNs that other commits may have had before.
//
// Restore returns ErrExists where dir exists, ErrNotFound for a backup that is not there,
// ErrInvalid where there are backups of several databases and none is named, where dir is named as one file, or where
// ToTime is behind the newest commit of the archive, ErrNotDatabase where
// repo holds no backups, ErrNewerLayout for a backup of a newer memdb, ErrCorrupt where what it
// needs is damaged, and ErrDiskFull where there is no room.
func Restore(ctx context.Context, repo, dir string, o *RestoreOptions) (RestoreReport, error) {
	files, dir := fsys.Named(dir)
	return backups.Restore(ctx, restored{}, repo, files, dir, o)
}

// restored makes the parts of a database that is restored.
type restored struct{}

// NewStore implements [backups.Maker].
func (restored) NewStore(f vfs.FS, dir string) *store.Store {
	db, _ := newDB(dir, &Options{}, &tuning{fs: f})
	return db.store
}

// Look implements [backups.Maker].
func (restored) Look(ctx context.Context, f vfs.FS, dir string) (lsn uint64, unreadable int64, memories int, err error) {
	db, err := open(dir, &Options{ReadOnly: true}, &tuning{fs: f})
	if err != nil {
		return 0, 0, 0, err
	}
	if lsn, unreadable = db.LSN(), db.opening.losses.Count(); unreadable == 0 {
		memories, err = db.Memories().Count(ctx, memory.ListQuery{AllScopes: true})
	}
	return lsn, unreadable, memories, errors.Join(err, db.Close())
}
