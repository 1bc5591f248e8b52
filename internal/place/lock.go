package place

import (
	"errors"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/host"
)

// Lock locks the folder of a database, for one that writes or, if shared, for one that only reads beside others.
func Lock(f vfs.FS, dir string, now time.Time, shared bool) (io.Closer, error) {
	if shared {
		return locked(dir, now, f, fsys.LockDirShared)
	}
	return locked(dir, now, f, fsys.LockDir)
}

// LockFile is Lock for a database in one file.
func LockFile(f vfs.FS, path string, now time.Time, shared bool) (io.Closer, error) {
	if shared {
		return locked(path, now, f, fsys.LockFileShared)
	}
	return locked(path, now, f, fsys.LockFile)
}

func locked(path string, now time.Time, f vfs.FS, lock func(vfs.FS, string, fsys.Holder) (io.Closer, error)) (io.Closer, error) {
	pid, program, machine := host.Process()
	held, err := lock(f, path, fsys.Holder{PID: pid, Program: program, Host: machine, Since: now})
	if err != nil {
		return nil, LockError(path, err)
	}
	return held, nil
}

// LockError says why a folder or a file could not be locked.
func LockError(dir string, err error) error {
	if locked, ok := errors.AsType[*fsys.LockedError](err); ok {
		return &fault.Error{
			Kind: fault.ErrLocked, What: Opening(dir), Why: locked.Error(),
			Do: "close it there, or wait; a program can let memdbctl in (docs/cli.md)", Cause: nil,
		}
	}
	if fsys.Unwritable(err) {
		return &fault.Error{
			Kind: fault.ErrReadOnly, What: Opening(dir), Why: "its folder cannot be written", Cause: err,
			Do: "to read, open it with ReadOnly; to write, see who may write there, or copy it to another place",
		}
	}
	return fault.Within(Opening(dir), err)
}
