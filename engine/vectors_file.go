package engine

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/hnsw"
)

// scratchFile is a file of what can be made again. It is made when it is first
// needed, and removed from the folder at once: the system keeps it for as long as it
// is open.
type scratchFile struct {
	db   *DB
	name string
	what string // is in it

	mu     sync.Mutex
	tried  bool
	opened vfs.File
}

var _ hnsw.File = (*scratchFile)(nil)

// Numbers of the scratch files of a space, in place of LSNs that no snapshot has.
const (
	codesNumber = 0
	rowsNumber  = maxLSN
)

// newScratchFile names the file as a snapshot that was not finished, which the next
// Open removes if a crash has left it.
func (db *DB) newScratchFile(space uint16, number uint64, what string) *scratchFile {
	return &scratchFile{db: db, name: snapshotName(space, number) + snapshotTemp, what: what}
}

func (f *scratchFile) file() vfs.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried {
		return f.opened
	}
	f.tried = true
	file, err := f.db.fs.Create(f.db.fs.PathJoin(f.db.dir, f.name), vfs.WriteCategoryUnspecified)
	if err != nil {
		f.db.log.Warn("no file for "+f.what, "file", f.name, "error", err)
		return nil
	}
	f.db.removeFile(f.name)
	f.opened = file
	return file
}

// Fd is the system's descriptor of the file.
func (f *scratchFile) Fd() uintptr {
	if file := f.file(); file != nil {
		return file.Fd()
	}
	return vfs.InvalidFd
}

// WriteAt writes to the file.
func (f *scratchFile) WriteAt(p []byte, off int64) (int, error) {
	file := f.file()
	if file == nil {
		return 0, errors.ErrUnsupported
	}
	return file.WriteAt(p, off)
}

// ReadAt reads what was written to the file.
func (f *scratchFile) ReadAt(p []byte, off int64) (int, error) {
	file := f.file()
	if file == nil {
		return 0, errors.ErrUnsupported
	}
	return file.ReadAt(p, off)
}

// Close closes the file if there is one. What is mapped of it stays.
func (f *scratchFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = true
	if f.opened == nil {
		return nil
	}
	defer func() { f.opened = nil }()
	return f.opened.Close()
}
