package backups

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
	"github.com/seed-7aedc3ff/memdb/internal/ctxlock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

const doingBackup = "back up the database"

// keptByBackup is how much of the disk of a backup is left free, in bytes: it may be that of the
// database.
const keptByBackup = 64 << 20

// CopyOptions say how a backup is made. The zero value is the default.
type CopyOptions struct {
	// Archive is the name of a file that gets the backup, too, or alone where no repository is
	// named. There must be no file of that name.
	Archive string
	// Full reads all tables again, those that the backup before has as well, and the files of the
	// repository that they are in: damaged ones are replaced.
	Full bool
}

// CopyReport tells what a backup has.
type CopyReport struct {
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

// Copier makes backups of a database, one at a time.
type Copier struct {
	host    Host
	copying ctxlock.Mutex // held while a backup reads a copy of the store
}

// NewCopier returns what makes backups of a database.
func NewCopier(h Host) *Copier { return &Copier{h, ctxlock.New()} }

// Copy writes a backup of the database to a repository, an archive, or both: see DB.Backup.
func (co *Copier) Copy(ctx context.Context, repo string, o *CopyOptions) (r CopyReport, err error) {
	if o == nil {
		o = &CopyOptions{}
	}
	release, err := co.host.Enter(doingBackup)
	if err != nil {
		return r, err
	}
	defer release()
	began := clock.System()
	if repo == "" && o.Archive == "" {
		return r, fault.Invalid(doingBackup, "it has no destination", "name a repository or an archive")
	}
	var w *backup.Writer
	if repo, err = co.outside(repo); err != nil {
		return r, err
	}
	archive, err := co.outside(o.Archive)
	if err != nil {
		return r, err
	}
	if repo != "" {
		if w, err = backup.Begin(repo, began); err != nil {
			return r, err
		}
		defer func() { err = cmp.Or(err, w.Close()) }()
	}
	written, err := co.copy(ctx, w, archive, o)
	if err != nil {
		return r, err
	}
	return CopyReport{
		ID: written.ID, LSN: written.LSN, Timeline: written.Timeline, Files: len(written.Files), Bytes: written.Bytes,
		NewBytes: written.NewBytes, Verified: true, Took: clock.System().Sub(began),
	}, nil
}

// outside refuses a destination that the database lies in, or that lies in the database.
func (co *Copier) outside(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	files, path := fsys.Named(name)
	path = files.PathJoin(path)
	overlap, err := fsys.Overlap(files, path, co.host.Store().FS, co.host.Dir())
	if err != nil {
		return "", fault.Within(doingBackup, err)
	}
	if overlap {
		return "", fault.Invalid(doingBackup, path+" and the database "+co.host.Dir()+" lie in one another", "name a place outside, on another disk if there is one")
	}
	return fsys.On(files, path), nil
}

// copy writes a copy of the store to a repository, to an archive, or to both.
func (co *Copier) copy(ctx context.Context, w *backup.Writer, archive string, o *CopyOptions) (written backup.Written, err error) {
	if err := co.copying.LockContext(ctx); err != nil {
		return written, err
	}
	defer co.copying.Unlock()
	c, err := co.host.Store().Copy()
	if err != nil {
		return written, co.Error(err)
	}
	defer func() { err = cmp.Or(err, fault.Within(doingBackup, c.Close())) }()
	head, items, err := co.contents(c)
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

// Error says why the store could not be copied.
func (co *Copier) Error(err error) error {
	if failed := co.host.Store().Failed(); failed != nil {
		return failed
	}
	if fsys.IsFull(err) {
		return &fault.Error{
			Kind: fault.ErrDiskFull, What: doingBackup, Why: "the disk of the database has no room for the links to its files", Cause: place.FirstFailure(err),
			Do: "make room on the disk",
		}
	}
	return fault.Within(doingBackup+" "+co.host.Dir(), err)
}

// contents says what a copy of the store is, and what a backup of it consists of.
func (co *Copier) contents(c *store.Copy) (head backup.Head, items []backup.Item, err error) {
	content, err := co.identityOf(c)
	if err != nil {
		return head, nil, err
	}
	id, err := place.Decode(content)
	if err != nil {
		return head, nil, err
	}
	keys, err := shipping.Keys(c, id.HashSeed, co.host.Kinds()...)
	if err != nil {
		return head, nil, err
	}
	newest, err := shipping.Newest(keys, c)
	if err != nil {
		return head, nil, err
	}
	head = backup.Head{Database: id.Settings.ID, Timeline: id.Timeline, LSN: newest.LSN, Time: co.host.Now(), Layout: id.Layout}
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
func (co *Copier) identityOf(c *store.Copy) ([]byte, error) {
	b, err := place.CopyIn(c.Store)
	if err == nil {
		return b, nil
	}
	if !errors.Is(err, fault.ErrCorrupt) {
		return nil, err
	}
	return place.ReadFile(co.host.Store().FS, co.host.Dir())
}
