package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/backup"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

const doingBackup = "back up the database"

// keptByBackup is how much of the disk of a backup is left free, in bytes: it may be that of the
// database.
const keptByBackup = 64 << 20

// BackupOptions say how a backup is made. The zero value is the default.
type BackupOptions struct {
	// Archive is the name of a file that gets the backup, too, or alone where no repository is
	// named. There must be no file of that name.
	Archive string
	// Full reads all tables again, those that the backup before has as well, and the files of the
	// repository that they are in: damaged ones are replaced.
	Full bool
}

// BackupReport tells what a backup has.
type BackupReport struct {
	// ID names the backup in its repository. LSN is that of the newest commit in it, and Timeline
	// the history of commits that the LSN counts in.
	ID       string
	LSN      uint64
	Timeline string
	// Files and Bytes are what it consists of, NewBytes how much was written: what the repository
	// did not have, or the size of the archive where there is no repository.
	Files    int
	Bytes    int64
	NewBytes int64
	// Verified: all that was written was read back and fits its hash.
	Verified bool
	Took     time.Duration
}

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
func (db *DB) Backup(ctx context.Context, repo string, o *BackupOptions) (r BackupReport, err error) {
	if o == nil {
		o = &BackupOptions{}
	}
	release, err := db.enter(doingBackup)
	if err != nil {
		return r, err
	}
	defer release()
	began := clock.System()
	if repo == "" && o.Archive == "" {
		return r, fault.Invalid(doingBackup, "it has no destination", "name a repository or an archive")
	}
	var w *backup.Writer
	if repo, err = db.outside(repo); err != nil {
		return r, err
	}
	archive, err := db.outside(o.Archive)
	if err != nil {
		return r, err
	}
	if repo != "" {
		if w, err = backup.Begin(repo, began); err != nil {
			return r, err
		}
		defer func() { err = cmp.Or(err, w.Close()) }()
	}
	written, err := db.backUp(ctx, w, archive, o)
	if err != nil {
		return r, err
	}
	return BackupReport{
		ID: written.ID, LSN: written.LSN, Timeline: written.Timeline, Files: len(written.Files), Bytes: written.Bytes,
		NewBytes: written.NewBytes, Verified: true, Took: clock.System().Sub(began),
	}, nil
}

// outside refuses a destination that the database lies in, or that lies in the database.
func (db *DB) outside(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	files, path := fsys.Named(name)
	path = files.PathJoin(path)
	overlap, err := fsys.Overlap(files, path, db.store.FS, db.dir)
	if err != nil {
		return "", fault.Within(doingBackup, err)
	}
	if overlap {
		return "", fault.Invalid(doingBackup, path+" and the database "+db.dir+" lie in one another", "name a place outside, on another disk if there is one")
	}
	return fsys.On(files, path), nil
}

// backUp writes a copy of the store to a repository, to an archive, or to both.
func (db *DB) backUp(ctx context.Context, w *backup.Writer, archive string, o *BackupOptions) (written backup.Written, err error) {
	if err := db.copying.LockContext(ctx); err != nil {
		return written, err
	}
	defer db.copying.Unlock()
	c, err := db.store.Copy()
	if err != nil {
		return written, db.copyError(err)
	}
	defer func() { err = cmp.Or(err, fault.Within(doingBackup, c.Close())) }()
	head, items, err := db.contents(c)
	if err != nil {
		return written, fault.Within(doingBackup, store.Error("read the copy of the store", err))
	}
	if w == nil {
		return backup.WriteArchive(ctx, archive, head, items)
	}
	written, err = w.Write(ctx, head, items, backup.WriteOptions{Full: o.Full, Reserve: keptByBackup})
	if err == nil && archive != "" {
		_, err = w.Archive(ctx, archive, &written.Backup)
	}
	return written, err
}

// copyError says why the store could not be copied.
func (db *DB) copyError(err error) error {
	if failed := db.Failed(); failed != nil {
		return failed
	}
	if fsys.IsFull(err) {
		return &fault.Error{
			Kind: fault.ErrDiskFull, What: doingBackup, Why: "the disk of the database has no room for the links to its files", Cause: place.FirstFailure(err),
			Do: "make room on the disk",
		}
	}
	return fault.Within(doingBackup+" "+db.dir, err)
}

// contents says what a copy of the store is, and what a backup of it consists of.
func (db *DB) contents(c *store.Copy) (head backup.Head, items []backup.Item, err error) {
	content, err := db.identityOf(c)
	if err != nil {
		return head, nil, err
	}
	id, err := place.Decode(content)
	if err != nil {
		return head, nil, err
	}
	lsn, err := db.lsnOf(c, id)
	if err != nil {
		return head, nil, err
	}
	head = backup.Head{Database: id.Settings.ID, Timeline: id.Timeline, LSN: lsn, Time: db.clock(), Layout: id.Layout}
	if head.Timeline == "" { // of a layout that had none, and is only read
		random, err := uuid.NewRandom()
		if err != nil {
			return head, nil, err
		}
		head.Timeline = random.String()
	}
	items = append(items, backup.Item{
		Name: place.Name, Size: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	})
	files, err := c.Files()
	if err != nil {
		return head, nil, err
	}
	for _, f := range files {
		items = append(items, backup.Item{
			Name: store.Dir + "/" + f.Name, Size: f.Size, Modified: f.Written,
			Open: func() (io.ReadCloser, error) { return c.OpenFile(f.Name) },
		})
	}
	return head, items, nil
}

// identityOf is memdb.json as a copy of the store has it; of an older database, which has no copy
// of it, the file.
func (db *DB) identityOf(c *store.Copy) ([]byte, error) {
	b, err := place.CopyIn(c.Store)
	if err == nil {
		return b, nil
	}
	if !errors.Is(err, fault.ErrCorrupt) {
		return nil, err
	}
	return place.ReadFile(db.store.FS, db.dir)
}

// lsnOf is the LSN of the newest commit that a copy of the store has.
func (db *DB) lsnOf(c *store.Copy, id *place.Identity) (uint64, error) {
	keys, err := layout.NewKeys(id.HashSeed, db.partKinds()...)
	if err != nil {
		return 0, err
	}
	table, closer, err := c.Get(layout.GenerationsKey)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(keys.DecodeGenerations(table), closer.Close()); err != nil {
		return 0, err
	}
	it, err := c.Iter(keys.Span(layout.KindLog))
	if err != nil {
		return 0, err
	}
	last, err := lastLogRecord(it)
	if err = errors.Join(err, it.Close()); err != nil || last == nil {
		return 0, err
	}
	return last.lsn, nil
}
