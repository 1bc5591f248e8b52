//go:build unix

package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const readOnlyMedium = syscall.EROFS

// shareLock takes the lock of a file together with others who only read it, none where there is no
// such file. It fails as a vfs.FS does where somebody holds the lock to write.
func shareLock(path string) (io.Closer, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return noLock{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &all); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}
