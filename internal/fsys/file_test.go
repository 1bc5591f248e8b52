package fsys

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// filling is a file that notes how it grows.
type filling struct {
	vfs.File
	size, written int64
	calls         int // of WriteAt
	err           error
}

func (f *filling) Write(p []byte) (int, error) {
	f.written += int64(len(p))
	f.size = max(f.size, f.written)
	return len(p), nil
}

func (f *filling) WriteAt(p []byte, off int64) (int, error) {
	f.calls++
	if f.err != nil {
		return 0, f.err
	}
	if off < f.written {
		return 0, errors.New("over what was written")
	}
	f.size = max(f.size, off+int64(len(p)))
	return len(p), nil
}

func (f *filling) SyncData() error { return nil }

// TestLogGrowsAhead: a log that is synced often seldom grows, never by much, and never
// over what was written.
func TestLogGrowsAhead(t *testing.T) {
	base := &filling{}
	f := &file{fs: New(vfs.NewMem()), base: base}
	write := func(n, times int) (grown int) {
		t.Helper()
		for range times {
			before := base.size
			if _, err := f.Write(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			if base.size > before {
				grown++
			}
			if err := f.SyncData(); err != nil {
				t.Fatal(err)
			}
		}
		return grown
	}
	if write(100, 10) != 10 || base.calls > 0 {
		t.Fatal("a file that is no log was filled")
	}
	f.ahead = true
	if err := f.Preallocate(0, 70<<20); err != nil || base.size != base.written {
		t.Fatalf("%d bytes are filled before anything is written, %v", base.size, err)
	}
	const small = 5000
	if write(10, 1); base.size > base.written+leastAhead {
		t.Errorf("%d bytes are written, %d filled", base.written, base.size)
	}
	if grown := write(small, 1000); grown > 1000*small/mostAhead+5 {
		t.Errorf("it has grown %d times", grown)
	}
	if base.size < base.written || base.size > base.written+mostAhead {
		t.Errorf("%d bytes are written, %d filled", base.written, base.size)
	}
	write(2*mostAhead, 1)
	if calls := base.calls; write(2*mostSynced, 100) != 100 || base.calls > calls {
		t.Error("large writes are not worth it, but were filled for")
	}
	base.err = errors.New("not supported")
	calls := base.calls
	if write(small, 20) != 20 || base.calls > calls+1 {
		t.Errorf("%d calls of what is not supported", base.calls-calls)
	}
	if err := f.fs.Err(); err != nil {
		t.Errorf("what was not needed has failed the database: %v", err)
	}
}

// TestReusedLog: a log that is used again is not filled as far as it goes.
func TestReusedLog(t *testing.T) {
	mem := vfs.NewMem()
	fs := New(mem)
	old, err := fs.Create("000001.log", "wal")
	if err != nil {
		t.Fatal(err)
	}
	const size = 3 * mostAhead
	if _, err := old.Write(bytes.Repeat([]byte("old "), size/4)); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := fs.ReuseForWrite("000001.log", "000002.log", "wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ write, size int }{{1000, size}, {size - 1000, size}, {1000, size + 1000 + mostAhead}} {
		if _, err := log.Write(make([]byte, step.write)); err != nil {
			t.Fatal(err)
		}
		if err := log.SyncData(); err != nil {
			t.Fatal(err)
		}
		if info, err := log.Stat(); err != nil || info.Size() != int64(step.size) {
			t.Errorf("%d bytes, want %d; %v", info.Size(), step.size, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}
