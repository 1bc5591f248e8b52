//go:build unix

package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
)

const readOnlyMedium = syscall.EROFS

// shareLock takes the lock of a file together with others who only read it, none where there is no
// such file. It fails as a vfs.FS does where somebody holds the lock to write.
func shareLock(path string) (io.Closer, error) {
	f, err := openRegular(path, os.O_RDONLY)
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

// held are the files that this process holds locked: it would get the lock of one again, and lose
// both by closing a handle of it, any handle.
var held struct {
	mu    sync.Mutex
	files []fs.FileInfo
}

var (
	errHeld = errors.New("the lock is held by this process")
	errGone = errors.New("the lock file was removed")
)

// mostTries bounds how often a lock is tried whose file goes meanwhile.
const mostTries = 100

// lockFile locks a file, which is made if there is none. It fails as a vfs.FS does.
func lockFile(name string) (l io.Closer, err error) {
	for range mostTries {
		if l, err = tryLock(name); !errors.Is(err, errGone) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return l, err
}

func tryLock(name string) (io.Closer, error) {
	held.mu.Lock()
	defer held.mu.Unlock()
	info, err := regular(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeFile(name); err == nil || errors.Is(err, fs.ErrExist) {
			info, err = regular(name)
		}
	}
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(held.files, func(one fs.FileInfo) bool { return os.SameFile(one, info) }) {
		return nil, errHeld
	}
	f, err := openRegular(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	all := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &all); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	if info, err = f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if now, err := regular(name); err != nil || !os.SameFile(now, info) { // who held it has removed it since
		return nil, errors.Join(errGone, f.Close())
	}
	held.files = append(held.files, info)
	return &lockedFile{f, info}, nil
}

// lockedFile is a file that is locked until it is closed.
type lockedFile struct {
	file *os.File
	info fs.FileInfo
}

// Close releases the lock.
func (l *lockedFile) Close() error {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.files = slices.DeleteFunc(held.files, func(one fs.FileInfo) bool { return one == l.info })
	return l.file.Close()
}
