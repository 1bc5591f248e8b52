package backups

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/backup"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

const (
	// restoringSuffix is at the end of the name of the folder in which a database is restored, and
	// restoredName is what it has there until it is complete. The folder itself is no database.
	restoringSuffix = ".restoring"
	restoredName    = "restored"
)

// RestoreOptions say what is restored. The zero value is the newest backup.
type RestoreOptions struct {
	// ID is that of the backup; empty: the newest.
	ID string
	// Database is the ID of the database, for a repository with backups of several.
	Database string
	// ToLSN, if it is not 0, is the LSN, and ToTime, if it is not zero, the time up to which commits are
	// restored. Up to a time means: all that were made until then.
	ToLSN  uint64
	ToTime time.Time
	// Archive is the folder of an archive of the database (see Options.Archive), which has what followed the
	// backup: up to the LSN or the time, or else to its end. Without it they only choose the backup.
	Archive string
}

// RestoreReport tells what was restored.
type RestoreReport struct {
	// Backup is the ID of the backup, empty where the archive alone was used; LSN is the newest commit that
	// was restored, Memories how many are alive, and Timeline the new history of commits that the database
	// begins.
	Backup   string
	LSN      uint64
	Memories int
	Timeline string
	Took     time.Duration
	// Short says what the archive lacks of what it had, where the restore ended before its target; nil
	// otherwise. The database has everything up to LSN.
	Short *wal.ShortError
}

// Restore makes a database in a folder, which must not exist, of a backup or an archive: see engine.Restore.
func Restore(ctx context.Context, m Maker, repo string, files vfs.FS, dir string, o *RestoreOptions) (r RestoreReport, err error) {
	if o == nil {
		o = &RestoreOptions{}
	}
	began := clock.System()
	if err := place.InFolder("restore to "+dir, dir); err != nil {
		return r, err
	}
	re := &restoring{maker: m, fs: files, dir: files.PathJoin(dir)}
	re.place = re.dir + restoringSuffix
	if err := re.free(); err != nil {
		return r, err
	}
	if err := re.choose(ctx, repo, o); err != nil {
		return r, err
	}
	if err := re.run(ctx, began); err != nil {
		return r, err
	}
	return RestoreReport{
		Backup: re.named(), LSN: re.lsn, Memories: re.memories, Timeline: re.timeline.String(), Took: clock.System().Sub(began), Short: re.short,
	}, nil
}

// restoring is one restore.
type restoring struct {
	maker  Maker
	fs     vfs.FS
	dir    string // of the database that is made
	place  string // where it is made
	from   backup.Source
	backup *backup.Backup // nil: it begins with the archive

	to       target
	log      *folder.Cursor // of the archive, nil if none is used
	of       wal.Timeline   // that it is of
	base     uint64         // where there is no backup: the base, 0 for the first batch
	end      int64          // when the newest commit was made that the archive has or had, 0: not known
	short    *wal.ShortError
	identity []byte // memdb.json as of the target

	timeline uuid.UUID
	lsn      uint64
	memories int
}

// named is the ID of the backup.
func (re *restoring) named() string {
	if re.backup == nil {
		return ""
	}
	return re.backup.ID
}

// what is restored, for messages.
func (re *restoring) what() string {
	if re.backup == nil {
		return "the archive"
	}
	return "the backup " + re.backup.ID
}

func (re *restoring) doing() string { return "restore to " + re.dir }

// free refuses a folder that exists.
func (re *restoring) free() error {
	_, err := re.fs.Stat(re.dir)
	if err == nil {
		return &fault.Error{Kind: fault.ErrExists, What: re.doing(), Why: "the folder is there", Do: "name one that does not exist; nothing is ever restored over a database"}
	}
	if !errors.Is(err, iofs.ErrNotExist) {
		return fault.Within(re.doing(), err)
	}
	return nil
}

// run makes the database beside its name, and gives it the name.
func (re *restoring) run(ctx context.Context, now time.Time) (err error) {
	if err := place.MakeDir(re.fs, re.place); err != nil {
		return re.full(err)
	}
	held, err := place.Lock(re.fs, re.place, now, false)
	if err != nil {
		return err
	}
	made, mine := re.fs.PathJoin(re.place, restoredName), false
	defer func() {
		if err != nil { // what is left there is removed by the next try, if not now
			err = errors.Join(re.full(err), re.fs.RemoveAll(made), held.Close())
			if mine {
				err = errors.Join(err, re.fs.RemoveAll(re.place))
			}
		}
	}()
	if err := re.own(); err != nil {
		return err
	}
	mine = true
	if err := re.fs.RemoveAll(made); err != nil { // of a restore that was interrupted
		return err
	}
	if err := re.extract(ctx, made); err != nil {
		return err
	}
	if err := re.forward(ctx, made); err != nil {
		return err
	}
	if err := re.begin(made); err != nil {
		return err
	}
	if err := re.prove(ctx, made); err != nil {
		return err
	}
	if err := errors.Join(re.free(), ctx.Err()); err != nil {
		return err
	}
	if err := re.fs.Rename(made, re.dir); err != nil {
		return err
	}
	above := re.fs.PathDir(re.dir)
	// The database is there. That its name is on disk, too, is all that may still fail.
	return errors.Join(fsys.SyncDir(re.fs, above), held.Close(), re.fs.RemoveAll(re.place))
}

// extract copies what the backup has, if there is one.
func (re *restoring) extract(ctx context.Context, made string) error {
	if re.backup == nil {
		return place.MakeDir(re.fs, made)
	}
	re.lsn, re.of = re.backup.LSN, wal.Timeline{}
	t, err := wal.ParseTimeline(re.backup.Timeline)
	if err != nil {
		return &fault.Error{Kind: fault.ErrCorrupt, What: "read " + re.what(), Why: "it names no timeline", Cause: err, Do: "use another backup"}
	}
	re.of = t
	if re.log == nil {
		if re.identity, err = re.from.Identity(ctx, re.backup); err != nil {
			return err
		}
	}
	return re.from.Extract(ctx, re.backup, re.fs, made)
}

// full says what to do where there is no room.
func (re *restoring) full(err error) error {
	if !fsys.IsFull(err) || errors.Is(err, fault.ErrDiskFull) {
		return fault.Within(re.doing(), err)
	}
	return &fault.Error{Kind: fault.ErrDiskFull, What: re.doing(), Why: "the disk is full", Cause: place.FirstFailure(err), Do: "make room there, or restore to another disk"}
}

// own refuses a folder beside the database that is somebody else's.
func (re *restoring) own() error {
	names, err := re.fs.List(re.place)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != restoredName && !place.IsLitter(name) {
			return &fault.Error{
				Kind: fault.ErrNotDatabase, What: re.doing(), Why: "the database would be made in " + re.place + ", which holds other files",
				Do: "move that folder away, or name another one to restore to",
			}
		}
	}
	return nil
}

// begin begins the new timeline: in the store, in its mark and, at last, in memdb.json.
func (re *restoring) begin(made string) error {
	id, err := place.Decode(re.identity)
	if err != nil {
		return &fault.Error{Kind: fault.ErrCorrupt, What: "read " + place.Name + " of " + re.what(), Cause: err, Do: "use another backup"}
	}
	if id.Layout > place.Layout {
		return &fault.Error{
			Kind: fault.ErrNewerLayout, What: "read " + re.what(),
			Why: fmt.Sprintf("its layout is %d, this memdb knows %d", id.Layout, place.Layout), Do: "use a newer memdb",
		}
	}
	if re.timeline, err = uuid.NewRandom(); err != nil {
		return err
	}
	id.Parent = &place.Origin{Timeline: re.of.String(), LSN: re.lsn, Backup: re.named()}
	id.Timeline, id.Created, id.Replica, id.Logged = re.timeline.String(), true, false, false
	content, err := id.Encode()
	if err != nil {
		return err
	}
	if err := re.mark(made, content); err != nil {
		return err
	}
	return place.WriteFile(re.fs, made, content)
}

// mark opens the store of the backup, puts the copy of memdb.json in it, and closes it, which
// leaves a mark of the new timeline.
func (re *restoring) mark(made string, identity []byte) error {
	st := re.maker.NewStore(re.fs, made)
	if err := st.Open(true, store.Timeline(re.timeline)); err != nil {
		return err
	}
	err := st.Set(layout.IdentityKey, identity, pebble.Sync)
	if failed := st.Failed(); failed != nil {
		err = failed
	}
	if err == nil {
		st.Reached(re.lsn)
	}
	return errors.Join(err, st.Close())
}

// prove opens the database that was made, without changing it.
func (re *restoring) prove(ctx context.Context, made string) error {
	lsn, lost, memories, err := re.maker.Look(ctx, re.fs, made)
	if err != nil {
		return err
	}
	if lost > 0 || lsn != re.lsn {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: "open what was restored of " + re.what(),
			Why: fmt.Sprintf("it is at LSN %d, not %d, and %d things in it cannot be read", lsn, re.lsn, lost), Do: "use another backup",
		}
	}
	re.memories = memories
	return nil
}
