//go:build unix

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/seed-7aedc3ff/memdb/internal/sqlitefile"
)

// lockShared looks whether another program has a SQLite file open in a way that would change it
// while it is read, and keeps those away that honour SQLite's locks until the file is closed.
func (i *moveInput) lockShared() error {
	f, ok := i.file.(*os.File)
	if !ok || i.Reader == nil {
		return nil
	}
	if head, _ := i.Reader.Peek(sqlitefile.LockHead); !sqlitefile.Is(head) {
		return nil
	}
	held := sqlitefile.Pending
	if sqlitefile.HasLog(f) {
		held = sqlitefile.Shared // by every program that has it open
	}
	for _, r := range []sqlitefile.LockRange{held, sqlitefile.Pending} {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: r.Start, Len: r.Len}
		if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err == nil && lock.Type != unix.F_UNLCK {
			return errors.New("another program has the SQLite file open; stop it, or make a copy with: sqlite3 FILE \".backup COPY\"")
		}
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: sqlitefile.Shared.Start, Len: sqlitefile.Shared.Len}
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errors.New("another program writes the SQLite file; try again when it is done")
	}
	return nil // a file system without locks has none that could be broken
}
