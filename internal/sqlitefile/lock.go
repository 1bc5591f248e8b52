package sqlitefile

import (
	"io"
	"strings"
)

// A LockRange is a range of bytes of a file that programs lock, far behind all pages that are
// read or written: which range is held says what a program does.
type LockRange struct{ Start, Len int64 }

var (
	// Pending and Reserved, here one range, are held by a program that writes or is about to.
	Pending = LockRange{0x4000_0000, 2}
	// Shared is held by one that reads, and, where there is a write-ahead log, by each that has
	// the file open.
	Shared = LockRange{0x4000_0002, 510}
)

// LockHead is how much of the begin of a file Is looks at.
const LockHead = len(Magic)

// Is reports whether a file begins as a SQLite file does.
func Is(head []byte) bool { return strings.HasPrefix(string(head), Magic) }

// HasLog reports whether a file is one that is written by way of a log beside it.
func HasLog(main io.ReaderAt) bool {
	var b [headerSize]byte
	n, _ := main.ReadAt(b[:], 0)
	return n == headerSize && Is(b[:]) && b[19] == 2
}
