package engine

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// FileSuffix ends the name of a database that is one file, and that is still to be made: see [Open].
const FileSuffix = place.Suffix

// DefaultMaxFileBytes is Options.MaxFileBytes unless said otherwise.
const DefaultMaxFileBytes = store.DefaultFileLimit

// Form is what holds a database.
type Form = place.Form

// The forms.
const (
	FormFolder = place.FormFolder
	FormFile   = place.FormFile
	FormMemory = place.FormMemory
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

// openFile opens a database in one file: a store in RAM that is kept in the file.
func openFile(base vfs.FS, path string, o *Options, t *tuning) (*DB, error) {
	clk := newConfig(o, &tuning{}).clock
	if err := place.MayBeThere(base, path, o.ReadOnly); err != nil {
		return nil, err
	}
	if o.ReadOnly && !t.alone && fsys.ReplacesOpen {
		return openHeld(base, path, o, t)
	}
	held, err := place.LockFile(base, path, clk(), o.ReadOnly)
	if err != nil {
		return nil, fileLockError(err)
	}
	db, err := openHeld(base, path, o, t)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	db.held = closers{db.held, held}
	if err := db.stayInPlace(base, base.PathDir(path), base.PathBase(path)+fsys.FileLock); err != nil {
		return nil, errors.Join(fault.Within(place.Opening(path), err), db.Close())
	}
	return db, nil
}

// fileLockError adds to the error of a lock that the last commit of a file can be read without it.
func fileLockError(err error) error {
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

// openHeld opens a file whose lock is held, or that is only read: it was replaced, or a commit was appended, since.
func openHeld(base vfs.FS, path string, o *Options, t *tuning) (*DB, error) {
	if o.MaxFileBytes < 0 {
		return nil, fault.Invalid(place.Opening(path), fmt.Sprintf("the limit of its size is %d bytes", o.MaxFileBytes), "give a number of bytes, or 0 for 1 GiB")
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
		if err := place.SetAside(base, path, lost); err != nil {
			return nil, err
		}
		f.DropTemp()
		if err := f.Settle(); err != nil {
			return nil, fault.Within(place.Opening(path), err)
		}
	}
	mem := vfs.NewMem()
	if f.There() {
		if err := unpack(mem, path, f, o); err != nil {
			return nil, err
		}
		f.Loaded()
	}
	f.Identity = func() ([]byte, error) { return place.ReadFile(mem, path) }
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

// unpack makes the folder of a database of what a file holds.
func unpack(to vfs.FS, dir string, f *store.File, o *Options) error {
	if err := to.MkdirAll(dir, 0o700); err != nil {
		return fault.Within(place.Opening(dir), err)
	}
	db, _ := newDB(dir, &Options{MemoryBudget: o.MemoryBudget}, &tuning{fs: to})
	if err := f.Unpack(db.store); err != nil {
		return err
	}
	identity := f.Head().Identity
	if identity == nil { // Salvage has met a file without one, and takes the copy in its store
		return nil
	}
	return fault.Within(place.Opening(dir), place.WriteFile(to, dir, identity))
}
