package spaces

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
	set  *Set
	name string

	mu     sync.Mutex
	tried  bool
	opened vfs.File
	full   sync.Once // warned that it cannot grow
}

var _ hnsw.File = (*codesFile)(nil)

// newCodesFile names the file as a snapshot that was not finished, which the next
// Open removes if a crash has left it.
func (ss *Set) newCodesFile(space uint16) *codesFile {
	return &codesFile{set: ss, name: SnapshotName(space, 0) + SnapshotTemp}
}

func (f *codesFile) file() vfs.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried {
		return f.opened
	}
	f.tried = true
	if f.set.ReadOnly {
		return nil
	}
	file, err := f.set.Store.FS.Create(f.set.Store.FS.PathJoin(f.set.Dir, f.name), vfs.WriteCategoryUnspecified)
	if err != nil {
		f.set.Logger.Warn("no file for the codes of vectors: memory is taken beyond the budget", "file", f.name, "error", err)
		return nil
	}
	f.set.removeFile(f.name)
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
			f.set.Logger.Warn("the file for the codes of vectors cannot grow: memory is taken beyond the budget", "file", f.name, "error", err)
		})
	}
	return n, err
}

// CloseFiles closes the files of all spaces.
func (ss *Set) CloseFiles() error {
	var errs []error
	for _, s := range ss.All() {
		errs = append(errs, s.File.Close())
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
