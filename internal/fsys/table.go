package fsys

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/turn"
)

// tableBuffer is how much of a table is gathered for a write. Pebble writes each block
// by itself, 4 KB or so: a quarter of what flushes and compactions take are calls of
// the system.
const tableBuffer = 256 << 10

// table is a table that is being written. Nobody reads it before it is synced, so that
// what a write would have met may be met by a later one, or by the sync.
type table struct {
	file
	buf  []byte
	turn turn.Turn
}

var _ vfs.File = (*table)(nil)

// Write implements io.Writer.
func (t *table) Write(p []byte) (int, error) {
	t.turn.Offer()
	if len(t.buf)+len(p) > tableBuffer {
		if err := t.flush(); err != nil {
			return 0, err
		}
		if len(p) >= tableBuffer {
			return t.file.Write(p)
		}
	}
	if t.buf == nil {
		t.buf = make([]byte, 0, tableBuffer)
	}
	t.buf = append(t.buf, p...)
	return len(p), nil
}

func (t *table) flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	n, err := t.file.Write(t.buf)
	t.buf = t.buf[:copy(t.buf, t.buf[n:])]
	return err
}

// Sync implements vfs.File.
func (t *table) Sync() error {
	if err := t.flush(); err != nil {
		return err
	}
	return t.file.Sync()
}

// SyncData implements vfs.File.
func (t *table) SyncData() error {
	if err := t.flush(); err != nil {
		return err
	}
	return t.file.SyncData()
}

// SyncTo implements vfs.File.
func (t *table) SyncTo(length int64) (fullSync bool, err error) {
	if length > t.end {
		if err := t.flush(); err != nil {
			return false, err
		}
	}
	return t.file.SyncTo(length)
}

// Close implements io.Closer.
func (t *table) Close() error {
	t.fs.tables.CompareAndDelete(t.path, t)
	return errors.Join(t.flush(), t.file.Close())
}

// giveUp closes a table that is being written and is to be removed: Pebble leaves one open whose
// last sync fails, which keeps its room on the full disk until the garbage collector comes to it.
func (f *FS) giveUp(name string) {
	if t, open := f.tables.LoadAndDelete(name); open {
		_ = t.(*table).base.Close() // nobody needs what is in it
	}
}
