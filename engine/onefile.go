package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// FileSuffix ends the name of a database that is one file, and that is still to be made: see [Open].
const FileSuffix = ".memdb"

// DefaultMaxFileBytes is Options.MaxFileBytes unless said otherwise.
const DefaultMaxFileBytes = store.DefaultFileLimit

// Form is what holds a database.
type Form string

// The forms.
const (
	FormFolder Form = "folder"
	FormFile   Form = "file"
	FormMemory Form = "memory"
)

// Form is what holds the database.
func (db *DB) Form() Form {
	switch {
	case db.store.File() != nil:
		return FormFile
	case vfs.Root(db.store.FS) == vfs.Default:
		return FormFolder
	case db.inMemory:
		return FormMemory
	}
	return FormFolder // of another file system
}

// File is the path of a database that is one file, empty for any other.
func (db *DB) File() string {
	if db.store.File() == nil {
		return ""
	}
	return db.dir
}

// isFile reports whether a path is that of a database in one file, by the rule that [Open] tells.
func isFile(f vfs.FS, path string) (bool, error) {
	named := strings.HasSuffix(path, FileSuffix)
	kind, what, err := fsys.KindOf(f, path)
	if err != nil {
		return false, fault.Within(doingOpen(path), err)
	}
	switch kind {
	case fsys.Missing:
		return named, nil
	case fsys.IsFolder:
		if named {
			return false, holdsFolder(f, path)
		}
		return false, nil
	case fsys.IsOther:
		if !named && strings.Contains(what, "link") {
			return false, nil // of which the form in a folder tells
		}
		return false, &fault.Error{Kind: fault.ErrNotDatabase, What: doingOpen(path), Why: "it is " + what + ", and no file", Do: "name the file itself"}
	}
	if named {
		return true, nil // where it is none of memdb's, reading says so
	}
	own, err := hasMagic(f, path)
	return own, fault.Within(doingOpen(path), err)
}

// holdsFolder refuses a folder whose name ends with FileSuffix, unless it already holds a database, which older
// versions could create there.
func holdsFolder(f vfs.FS, dir string) error {
	names, err := f.List(dir)
	if err != nil {
		return fault.Within(doingOpen(dir), err)
	}
	if slices.Contains(names, identityName) || slices.Contains(names, store.Dir) || slices.ContainsFunc(names, isReplicaPart) {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrNotDatabase, What: doingOpen(dir), Why: "it is a folder without a database, and names that end with " + FileSuffix + " are for databases in one file",
		Do: "remove the folder to make one file of this name, or choose a name without " + FileSuffix + " for a database in a folder",
	}
}

// hasMagic reports whether a file begins or ends as a database in one file does.
func hasMagic(f vfs.FS, path string) (own bool, err error) {
	file, err := f.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	part := func(at int64) []byte {
		b := make([]byte, len(onefile.Magic))
		n, err := file.ReadAt(b, max(at, 0))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil
		}
		return b[:n]
	}
	return onefile.Is(part(0), part(info.Size()-onefile.HeadSize)), nil
}

// openFile opens a database in one file: a store in RAM that is kept in the file.
func openFile(base vfs.FS, path string, o *Options, t *tuning) (*DB, error) {
	clk := newConfig(o, &tuning{}).clock
	if err := mayBeThere(base, path, o); err != nil {
		return nil, err
	}
	lock := fsys.LockFile
	if o.ReadOnly {
		if !t.alone && fsys.ReplacesOpen {
			return openHeld(base, path, o, t)
		}
		lock = fsys.LockFileShared
	}
	held, err := lock(base, path, holder(clk()))
	if err != nil {
		return nil, fileLockError(path, err)
	}
	db, err := openHeld(base, path, o, t)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	db.held = closers{db.held, held}
	if err := db.stayInPlace(base, base.PathDir(path), base.PathBase(path)+fsys.FileLock); err != nil {
		return nil, errors.Join(fault.Within(doingOpen(path), err), db.Close())
	}
	return db, nil
}

// fileLockError is lockError for a file, whose last commit can be read without the lock.
func fileLockError(path string, err error) error {
	err = lockError(path, err)
	if locked, ok := errors.AsType[*fault.Error](err); ok && errors.Is(err, fault.ErrLocked) && fsys.ReplacesOpen {
		locked.Do = "close it there, or wait; to read what was committed, open it with ReadOnly, as the commands of memdbctl that read do; a program can let memdbctl in (docs/cli.md)"
	}
	return err
}

// closers are closed one after the other.
type closers []io.Closer

func (all closers) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// mayBeThere refuses a file in a folder that does not exist, and one that is to be read and does not.
func mayBeThere(base vfs.FS, path string, o *Options) error {
	dir := base.PathDir(path)
	if kind, _, err := fsys.KindOf(base, dir); err != nil || kind != fsys.IsFolder {
		return &fault.Error{Kind: fault.ErrNotDatabase, What: doingOpen(path), Why: "there is no folder " + dir, Cause: err, Do: "make it, or name another"}
	}
	if !o.ReadOnly {
		return nil
	}
	kind, _, err := fsys.KindOf(base, path)
	if err == nil && kind == fsys.Missing {
		err = &fault.Error{Kind: fault.ErrNotDatabase, What: doingOpen(path), Why: "there is no such file", Do: "open it without ReadOnly; the first commit makes it"}
	}
	return err
}

// openHeld opens a file whose lock is held, or that is only read: it was replaced, or a commit was appended, since.
func openHeld(base vfs.FS, path string, o *Options, t *tuning) (*DB, error) {
	if o.MaxFileBytes < 0 {
		return nil, fault.Invalid(doingOpen(path), fmt.Sprintf("the limit of its size is %d bytes", o.MaxFileBytes), "give a number of bytes, or 0 for 1 GiB")
	}
	c := newConfig(o, &tuning{})
	f, lost, err := store.OpenFile(store.FileConfig{
		Files: base, Path: path, Limit: o.MaxFileBytes, Reserve: o.DiskReserve, ReadOnly: o.ReadOnly, Log: c.logger, Salvage: o.Salvage && !o.ReadOnly,
		Appends: t.fileAppends,
	})
	if err != nil {
		return nil, err
	}
	if !o.ReadOnly {
		if err := setAsideDamaged(base, path, lost); err != nil {
			return nil, err
		}
		f.DropTemp()
		if err := f.Settle(); err != nil {
			return nil, fault.Within(doingOpen(path), err)
		}
	}
	mem := vfs.NewMem()
	if f.There() {
		if err := unpack(mem, path, f, o); err != nil {
			return nil, err
		}
		f.Loaded()
	}
	f.Identity = func() ([]byte, error) { return readFile(mem, mem.PathJoin(path, identityName)) }
	own := *t
	own.fs, own.file = mem, f
	db, err := open(path, o, &own)
	if err != nil {
		return nil, err
	}
	for _, d := range lost {
		db.opening.mended = append(db.opening.mended, d.Error())
	}
	return db, nil
}

// setAsideDamaged keeps a damaged file, over which the next commit would write.
func setAsideDamaged(base vfs.FS, path string, lost []*onefile.Damage) error {
	if len(lost) == 0 {
		return nil
	}
	if err := vfs.LinkOrCopy(base, path, path+fsys.FileDamaged); err != nil {
		return &fault.Error{Kind: fault.ErrFailed, What: "keep the damaged " + path, Cause: err, Do: "move " + path + fsys.FileDamaged + " away if it is there"}
	}
	return fsys.SyncDir(base, base.PathDir(path))
}

// unpack makes the folder of a database of what a file holds.
func unpack(to vfs.FS, dir string, f *store.File, o *Options) error {
	if err := to.MkdirAll(dir, 0o700); err != nil {
		return fault.Within(doingOpen(dir), err)
	}
	db, _ := newDB(dir, &Options{MemoryBudget: o.MemoryBudget}, &tuning{fs: to})
	if err := f.Unpack(db.store); err != nil {
		return err
	}
	identity := f.Head().Identity
	if identity == nil { // Salvage has met a file without one, and takes the copy in its store
		return nil
	}
	return fault.Within(doingOpen(dir), writeIdentity(to, dir, identity))
}

// inFolder refuses to make anything but a database in one file under a name that ends as one does.
func inFolder(doing, dir string) error {
	if !strings.HasSuffix(dir, FileSuffix) {
		return nil
	}
	return fault.Invalid(doing, fmt.Sprintf("a name that ends with %s is that of a database in one file, and this makes a folder", FileSuffix),
		"name another folder; one file is made of it by: memdbctl convert SRC DEST")
}
