package fsys

import (
	"errors"
	"syscall"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// logBlock is what a log is written by: what the system's cache holds, and a
	// multiple of what disks take.
	logBlock = 4 << 10
	// logBuffer is how much of a log is gathered for a write.
	logBuffer = 256 << 10

	// A log is filled with zeros ahead of what is written: to sync what goes over blocks
	// that the file has takes two thirds of the time of a sync for which its size
	// changes, too. Pebble reads zeros as the end of a log.
	leastAhead = 16 << 10
	mostAhead  = 256 << 10 // reached by doubling the file
)

// log is a log that is being written. What Pebble writes is gathered until the next
// sync, since nothing else makes it durable, and goes past the system's cache where the
// file system allows it: nobody reads a log that is written, and through the cache a
// short write and its sync take a third longer, and twice the processor time.
//
// The block in which the log ends is written again with what is added to it. What it
// held before stays the same, byte for byte.
type log struct {
	file
	buf    []byte // the last bytes of the log, from the start of a block on
	start  int64  // where buf begins in the file
	there  int    // so much of buf is written
	filled int64  // where the file ends
	full   bool   // there is no room to fill it ahead
	direct bool   // writes go past the system's cache
	made   *madeLog
}

var _ vfs.File = (*log)(nil)

func newLog(f file) *log {
	l := &log{file: f, direct: setDirect(f.base.Fd(), true), made: f.fs.noteLog(f.path)}
	if info, err := f.base.Stat(); err == nil {
		l.filled = info.Size() // of one that is used again
	}
	return l
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	if l.buf == nil {
		l.buf = blocks(logBuffer + mostAhead)[:0]
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), logBuffer-len(l.buf))
		l.buf = append(l.buf, rest[:n]...)
		rest = rest[n:]
		if len(l.buf) == logBuffer {
			if err := l.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// flush writes what was gathered, to the end of its last block.
func (l *log) flush() error {
	if l.there == len(l.buf) {
		return nil
	}
	n := len(l.buf)
	from, to := l.there&^(logBlock-1), (n+logBlock-1)&^(logBlock-1)
	ahead := 0
	if end := l.start + int64(to); end > l.filled && !l.full {
		ahead = int(min(max(end&^(logBlock-1), leastAhead), mostAhead))
	}
	clear(l.buf[n : to+ahead])
	l.fs.room.spend(to - from + ahead)
	err := l.fs.guard("write", l.path, l.class, func() error {
		err := l.writeAt(l.buf[from:to+ahead], l.start+int64(from))
		if ahead > 0 && (IsFull(err) || errors.Is(err, syscall.EFBIG)) {
			l.full, ahead = true, 0 // there may be room for what is to be written
			err = l.writeAt(l.buf[from:to], l.start+int64(from))
		}
		return err
	})
	if err != nil {
		return err
	}
	l.filled = max(l.filled, l.start+int64(to+ahead))
	done := n &^ (logBlock - 1)
	l.start += int64(done)
	l.there = copy(l.buf, l.buf[done:n])
	l.buf = l.buf[:l.there]
	return nil
}

func (l *log) writeAt(p []byte, off int64) error {
	_, err := l.base.WriteAt(p, off)
	if l.direct && errors.Is(err, syscall.EINVAL) { // its blocks are larger, say
		l.direct = false
		if setDirect(l.base.Fd(), false) {
			_, err = l.base.WriteAt(p, off)
		}
	}
	return err
}

// Sync implements vfs.File.
func (l *log) Sync() error { return l.syncBy(l.file.Sync) }

// SyncData implements vfs.File.
func (l *log) SyncData() error { return l.syncBy(l.file.SyncData) }

func (l *log) syncBy(sync func() error) error {
	if err := l.flush(); err != nil {
		return err
	}
	end := l.start + int64(len(l.buf))
	err := sync()
	if err == nil && l.fs.Err() == nil { // a failure is reported as a success
		l.made.synced.Store(end)
	}
	return err
}

// SyncTo implements vfs.File.
func (l *log) SyncTo(length int64) (fullSync bool, err error) {
	if err := l.flush(); err != nil {
		return false, err
	}
	return l.file.SyncTo(length)
}

// Close implements io.Closer.
func (l *log) Close() error { return errors.Join(l.flush(), l.file.Close()) }

// blocks returns memory that begins where a block may, as past the cache it must.
func blocks(n int) []byte {
	b := make([]byte, n+logBlock)
	off := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (logBlock - 1)
	return b[off : off+n : off+n]
}
