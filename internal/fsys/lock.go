package fsys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The lock file must not be read or written: on Unix closing any handle of it
// releases the lock. So who holds it is told by a second file.
const (
	// LockName is the file whose lock protects a folder.
	LockName   = "memdb.lock"
	HolderName = "memdb.holder"
	// maxHolderBytes bounds what is read of a holder file.
	maxHolderBytes = 4096
)

// Holder is who holds a database folder open.
type Holder struct {
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
}

// String has the form "program (pid 1 on host, since time)".
func (h Holder) String() string {
	return fmt.Sprintf("%s (pid %d on %s, since %s)", h.Program, h.PID, h.Host, h.Since.UTC().Format(time.RFC3339))
}

// LockedError is returned for a folder that is held open.
type LockedError struct {
	Dir string
	// Holder is nil if it could not be learned. It is a courtesy and may be
	// out of date where a holder is only just starting.
	Holder *Holder
}

// Error names the folder and the holder.
func (e *LockedError) Error() string {
	if e.Holder == nil {
		return e.Dir + " is held open by another program"
	}
	return e.Dir + " is held open by " + e.Holder.String()
}

// LockDir takes the folder for this process until the closer is closed. It
// returns a *LockedError if it is held already, by another process or by this
// one. The folder must exist.
//
// Pass the file system below the seam, so that the lock can be given back when
// the folder is frozen. A holder file that a killed process left behind is
// harmless: the lock itself went with the process.
func LockDir(fsys vfs.FS, dir string, h Holder) (io.Closer, error) {
	return lockDir(fsys, dir, h, func(string, error) (io.Closer, error) { return nil, errors.ErrUnsupported })
}

// LockDirShared is LockDir for who only reads. In a folder in which it may not write it makes no
// file: it shares the lock that it finds with others who do so, and a lock that was never made
// nobody holds.
func LockDirShared(fsys vfs.FS, dir string, h Holder) (io.Closer, error) {
	return lockDir(fsys, dir, h, sharing(fsys))
}

// sharing shares the lock of a file that cannot be had to write, where it may not be written.
func sharing(fsys vfs.FS) func(path string, err error) (io.Closer, error) {
	return func(path string, err error) (io.Closer, error) {
		switch {
		case !Unwritable(err):
			return nil, errors.ErrUnsupported
		case vfs.Root(fsys) != vfs.Default:
			return noLock{}, nil // the file system is this process's own
		}
		return shareLock(path)
	}
}

// HoldDir is LockDir for a folder in which nothing may be written: it takes the lock file that is
// there, and says nowhere who holds it. Where there is none, nobody holds the folder.
func HoldDir(fsys vfs.FS, dir string) (io.Closer, error) {
	canonical, err := canonicalDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	path := fsys.PathJoin(canonical, LockName)
	if _, err := fsys.Stat(path); err != nil {
		return noLock{}, nil
	}
	lock, err := fsys.Lock(path)
	switch {
	case err == nil:
		return lock, nil
	case lockConflict(err):
		return nil, &LockedError{Dir: dir, Holder: readHolder(fsys, fsys.PathJoin(canonical, HolderName))}
	case Unwritable(err) && vfs.Root(fsys) == vfs.Default:
		return shareLock(path)
	}
	return nil, fmt.Errorf("lock %s: %w", dir, err)
}

// Unwritable reports whether an error says that a file may not be made or changed: by its
// permissions, or since its medium can only be read.
func Unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, readOnlyMedium)
}

// noLock is the lock of what needs none.
type noLock struct{}

func (noLock) Close() error { return nil }

// lockDir is LockDir. share is asked for the lock of a path where it cannot be had to write, with
// why; errors.ErrUnsupported of it leaves it at that.
func lockDir(fsys vfs.FS, dir string, h Holder, share func(path string, err error) (io.Closer, error)) (io.Closer, error) {
	canonical, err := canonicalDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	l := &dirLock{fsys: fsys, holderPath: fsys.PathJoin(canonical, HolderName)}
	return l.take(dir, fsys.PathJoin(canonical, LockName), h, share)
}

// take locks the file of a path, and says who holds what has the name of: a folder, or a file.
func (l *dirLock) take(of, path string, h Holder, share func(path string, err error) (io.Closer, error)) (_ io.Closer, err error) {
	l.lock, err = l.fsys.Lock(path)
	if err != nil && !lockConflict(err) {
		shared, serr := share(path, err)
		if serr == nil {
			return shared, nil
		}
		if !errors.Is(serr, errors.ErrUnsupported) {
			err = serr
		}
	}
	if err != nil {
		if lockConflict(err) {
			return nil, &LockedError{Dir: of, Holder: readHolder(l.fsys, l.holderPath)}
		}
		return nil, fmt.Errorf("lock %s: %w", of, err)
	}
	l.file.path = path
	l.file.info, _ = identify(l.fsys, path) // nil: the file has no identity
	if err := writeHolder(l.fsys, l.holderPath, h); err != nil {
		// A full disk must not keep a database from being opened, which may be
		// what it takes to free space. But another's name must not stay there.
		_ = l.fsys.Remove(l.holderPath)
	}
	return l, nil
}

// canonicalDir resolves links and relative paths, for one process must not
// lock a folder twice under two names: on Unix both would succeed, and the
// first to close would release the other.
func canonicalDir(fsys vfs.FS, dir string) (string, error) {
	if vfs.Root(fsys) != vfs.Default {
		return dir, nil
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// lockConflict tells a lock that is held from one that can't be had. Opening
// the lock file fails with a *fs.PathError; a held lock is reported bare, with
// a number that depends on the platform, or with a text alone if the holder is
// this process.
func lockConflict(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	return !ok || errno == syscall.EAGAIN || errno == syscall.EACCES || errno == sharingViolation
}

// sharingViolation is Windows' ERROR_SHARING_VIOLATION. On the Unix systems
// the number is EPIPE, which locking a file never returns.
const sharingViolation = syscall.Errno(32)

type dirLock struct {
	fsys       vfs.FS
	lock       io.Closer
	file       anchored // the lock file
	holderPath string
	goes       string // the lock file, where it goes with the lock
	once       sync.Once
}

// Close removes the holder file while the lock still protects it, then
// releases the lock. One that can't be removed is no failure: it only outlives
// its holder. Where the lock file was removed or replaced, the files of that name
// are another's and stay. Close may be called again.
func (l *dirLock) Close() (err error) {
	l.once.Do(func() {
		if l.file.info == nil || !l.file.moved() {
			_ = l.fsys.Remove(l.holderPath)
			if l.goes != "" {
				_ = l.fsys.Remove(l.goes) // who waits for it finds that it is gone, and makes another
			}
		}
		err = l.lock.Close()
	})
	return err
}

func writeHolder(fsys vfs.FS, path string, h Holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}

// readHolder returns nil if the file is missing, half written or damaged.
func readHolder(fsys vfs.FS, path string) *Holder {
	f, err := fsys.Open(path)
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxHolderBytes))
	var h Holder
	if errors.Join(err, f.Close()) != nil || json.Unmarshal(data, &h) != nil {
		return nil
	}
	return &h
}
