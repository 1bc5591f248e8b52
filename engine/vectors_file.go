package engine

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/hnsw"
)

// codesFile is where the codes of a space's vectors go that are beyond its share of
// the memory budget. It is made when they are, and removed from the folder at once:
// the system keeps it for as long as it is open. Where it can't be made, memory is
// taken.
type codesFile struct {
	db   *DB
	name string

	mu     sync.Mutex
	tried  bool
	opened vfs.File
	full   sync.Once // warned that it cannot grow
}

var _ hnsw.File = (*codesFile)(nil)

// newCodesFile names the file as a snapshot that was not finished, which the next
// Open removes if a crash has left it.
func (db *DB) newCodesFile(space uint16) *codesFile {
	return &codesFile{db: db, name: snapshotName(space, 0) + snapshotTemp}
}

func (f *codesFile) file() vfs.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried {
		return f.opened
	}
	f.tried = true
	if f.db.readOnly {
		return nil
	}
	file, err := f.db.store.FS.Create(f.db.store.FS.PathJoin(f.db.dir, f.name), vfs.WriteCategoryUnspecified)
	if err != nil {
		f.db.log.Warn("no file for the codes of vectors: memory is taken beyond the budget", "file", f.name, "error", err)
		return nil
	}
	f.db.removeFile(f.name)
	f.opened = file
	return file
}

// Fd is the system's descriptor of the file.
func (f *codesFile) Fd() uintptr {
	if file := f.file(); file != nil {
		return file.Fd()
	}
	return vfs.InvalidFd
}

// WriteAt writes to the file, which is how it grows.
func (f *codesFile) WriteAt(p []byte, off int64) (int, error) {
	file := f.file()
	if file == nil {
		return 0, errors.ErrUnsupported
	}
	n, err := file.WriteAt(p, off)
	if err != nil {
		f.full.Do(func() {
			f.db.log.Warn("the file for the codes of vectors cannot grow: memory is taken beyond the budget", "file", f.name, "error", err)
		})
	}
	return n, err
}

// closeCodes closes the files of all spaces.
func (db *DB) closeCodes() error {
	var errs []error
	for _, s := range db.spaces.all() {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// Close closes the file if there is one. What is mapped of it stays.
func (f *codesFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = true
	if f.opened == nil {
		return nil
	}
	defer func() { f.opened = nil }()
	return f.opened.Close()
}
