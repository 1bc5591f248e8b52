package fsys

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Place is where something was opened: a folder and files by their paths, each with the identity
// that it had then. It notices when a path leads elsewhere, since the folder was removed, renamed
// or replaced, or a lock file was removed. A nil Place notices nothing.
type Place struct {
	parts  []anchored
	folder *os.File // keeps the number of the folder from being given to another
}

// anchored is a path and what it led to.
type anchored struct {
	path string
	info fs.FileInfo
}

// MovedError says that a path leads to something else than it did when it was opened.
type MovedError struct{ Path string }

// Error names the path.
func (e *MovedError) Error() string {
	return e.Path + " was removed or replaced while it was open"
}

// PlaceOf holds a folder and the files in it that are there. On a file system that is not the
// operating system's it is nil.
func PlaceOf(files vfs.FS, dir string, names ...string) (*Place, error) {
	if vfs.Root(files) != vfs.Default {
		return nil, nil
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	p := &Place{folder: folder}
	paths := []string{dir}
	for _, name := range names {
		paths = append(paths, files.PathJoin(dir, name))
	}
	for _, path := range paths {
		info, err := identify(files, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, errors.Join(err, p.Close())
		default:
			p.parts = append(p.parts, anchored{path, info})
		}
	}
	return p, nil
}

// Check returns a *MovedError if a path leads elsewhere. That a path cannot be looked at is no
// proof that it does.
func (p *Place) Check() error {
	if p == nil {
		return nil
	}
	for _, a := range p.parts {
		if a.moved() {
			return &MovedError{Path: a.path}
		}
	}
	return nil
}

// Close gives the folder up. It may be called again.
func (p *Place) Close() error {
	if p == nil || p.folder == nil {
		return nil
	}
	err := p.folder.Close()
	p.folder = nil
	return err
}

func (a *anchored) moved() bool {
	now, err := os.Stat(a.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	return !os.SameFile(a.info, now)
}

// identify is what a path leads to, nil on a file system that is not the operating system's.
func identify(files vfs.FS, path string) (fs.FileInfo, error) {
	if vfs.Root(files) != vfs.Default {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err == nil {
		os.SameFile(info, info) // Windows reads the identity at the first comparison, by the path
	}
	return info, err
}

// Hold freezes the folder, as Poison does, as soon as its place has moved: at the next file that is
// to be made, renamed or removed by its path, or when InPlace looks.
func (f *FS) Hold(p *Place) { f.place.Store(p) }

// InPlace looks whether the folder is still where it was, and freezes it where it is not.
func (f *FS) InPlace() error {
	if err := f.place.Load().Check(); err != nil {
		f.Poison(err)
	}
	return f.Err()
}
