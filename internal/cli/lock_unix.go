//go:build unix

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// A lockRange is a range of bytes of a SQLite file that programs lock: which one is held says what a
// program does (https://sqlite.org/fileformat2.html#the_lock_byte_page).
type lockRange struct{ start, len int64 }

var (
	// writersLock is held by a program that writes, or is about to.
	writersLock = lockRange{0x4000_0000, 2}
	// readersLock is held by a program that reads, and, if there is a write-ahead log, by each program
	// that has the file open.
	readersLock = lockRange{0x4000_0002, 510}
)

// lockShared looks whether another program has a SQLite file open in a way that would change it
// while it is read, and keeps those away that honour SQLite's locks until the file is closed.
func (i *moveInput) lockShared() error {
	f, ok := i.file.(*os.File)
	if !ok || i.Reader == nil {
		return nil
	}
	if !i.IsSQLite() {
		return nil
	}
	held := writersLock
	const readVersion, logged = 19, 2 // the byte of the header that says so
	if head, _ := i.Reader.Peek(readVersion + 1); len(head) > readVersion && head[readVersion] == logged {
		held = readersLock
	}
	for _, r := range []lockRange{held, writersLock} {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: r.start, Len: r.len}
		if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err == nil && lock.Type != unix.F_UNLCK {
			return errors.New("another program has the SQLite file open; stop it, or make a copy with: sqlite3 FILE \".backup COPY\"")
		}
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: readersLock.start, Len: readersLock.len}
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errors.New("another program writes the SQLite file; try again when it is done")
	}
	return nil // a file system without locks has none that could be broken
}
