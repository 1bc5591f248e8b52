package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readOnlyMedium is ERROR_WRITE_PROTECT.
const readOnlyMedium = syscall.Errno(19)

// shareLock opens a file together with others who only read it, none where there is no such file.
// It fails with a sharing violation, bare as a vfs.FS does, where somebody holds the lock to write.
func shareLock(path string) (io.Closer, error) {
	f, err := openRegular(path, os.O_RDONLY)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist):
		return noLock{}, nil
	case errors.Is(err, sharingViolation):
		return nil, sharingViolation
	}
	return nil, err
}

// lockFile locks a file, which is made if there is none.
func lockFile(name string) (io.Closer, error) {
	if _, err := regular(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return vfs.Default.Lock(name)
}
