package fsys

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is a log as a disk sees it, and notes how it grows.
type disk struct {
	vfs.File
	data   []byte
	writes int
	grown  int
	err    func(off, n int) error
}

func (d *disk) Fd() uintptr                 { return vfs.InvalidFd }
func (d *disk) Stat() (vfs.FileInfo, error) { return nil, errors.New("not known") }
func (d *disk) SyncData() error             { return nil }
func (d *disk) Close() error                { return nil }
func (d *disk) SyncTo(int64) (bool, error)  { return false, nil }
func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	if d.writes++; d.err != nil {
		if err := d.err(int(off), len(p)); err != nil {
			return 0, err
		}
	}
	if off%logBlock != 0 || len(p)%logBlock != 0 || uintptr(unsafe.Pointer(&p[0]))%logBlock != 0 {
		return 0, fmt.Errorf("%d bytes at %d, or the memory that they are in, are no whole blocks", len(p), off)
	}
	if end := int(off) + len(p); end > len(d.data) {
		d.grown++
		d.data = append(d.data, make([]byte, end-len(d.data))...)
	}
	copy(d.data[off:], p)
	return len(p), nil
}

// TestLogBlocks writes lengths of all kinds: after each sync all that was written is
// there, followed by zeros, in few writes of whole blocks.
func TestLogBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	base := &disk{}
	l := newLog(file{fs: New(vfs.NewMem()), base: base, path: "1.log", class: vital})
	var want []byte
	sizes := []int{1, 10, 3500, logBlock - 1, logBlock, logBlock + 1, 32 << 10, logBuffer - 1, logBuffer, logBuffer + 1, 3*logBuffer + 5}
	syncs := []func() error{l.SyncData, func() error { _, err := l.SyncTo(int64(len(want))); return err }, func() error { return nil }}
	for i := range 300 {
		size := sizes[rng.IntN(len(sizes)-5*min(i%4, 1))]
		p := make([]byte, size)
		for j := range p {
			p[j] = byte(rng.Uint32())
		}
		want = append(want, p...)
		before := base.writes
		if n, err := l.Write(p); err != nil || n != size {
			t.Fatal(n, err)
		}
		clear(p)
		how := rng.IntN(len(syncs))
		if err := syncs[how](); err != nil {
			t.Fatal(err)
		}
		if most := size/logBuffer + 2; base.writes-before > most {
			t.Fatalf("%d writes for %d bytes, more than %d", base.writes-before, size, most)
		}
		if how == 2 {
			continue
		}
		if !bytes.HasPrefix(base.data, want) {
			t.Fatalf("after a sync of %d bytes the disk has others", len(want))
		}
		if rest := base.data[len(want):]; len(rest) > logBlock+mostAhead || len(bytes.Trim(rest, "\x00")) > 0 {
			t.Fatalf("%d bytes after the end, or not zero", len(rest))
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(base.data, want) {
		t.Error("after Close bytes are missing")
	}
}

// TestLogGrowsAhead: a log that is synced often seldom grows, never by much, and not at
// all before something is written.
func TestLogGrowsAhead(t *testing.T) {
	base := &disk{}
	l := newLog(file{fs: New(vfs.NewMem()), base: base, path: "1.log", class: vital})
	written := 0
	write := func(n, times int) (grown int) {
		t.Helper()
		before := base.grown
		for range times {
			written += n
			if _, err := l.Write(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			if err := l.SyncData(); err != nil {
				t.Fatal(err)
			}
		}
		return base.grown - before
	}
	if err := l.Preallocate(0, 70<<20); err != nil || len(base.data) > 0 {
		t.Fatalf("%d bytes are filled before anything is written, %v", len(base.data), err)
	}
	const small = 5000
	if write(10, 1); len(base.data) > logBlock+leastAhead {
		t.Errorf("10 bytes are written, %d filled", len(base.data))
	}
	if grown := write(small, 1000); grown > 1000*small/mostAhead+5 {
		t.Errorf("it has grown %d times", grown)
	}
	if len(base.data) > written+logBlock+mostAhead {
		t.Errorf("%d bytes are written, %d filled", written, len(base.data))
	}

	// A full disk may have room for what is to be written, if not for more.
	limit := len(base.data) + 2*small
	base.err = func(off, n int) error {
		if off+n > limit {
			return syscall.ENOSPC
		}
		return nil
	}
	for written < limit-2*logBlock {
		write(small, 1)
	}
	if err := l.fs.Err(); err != nil {
		t.Fatalf("what was not needed has failed the database: %v", err)
	}
	for written <= limit {
		write(small, 1)
	}
	if err := l.fs.Err(); !IsFull(err) {
		t.Errorf("a log that found no room: %v", err)
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
	for range size / logBuffer {
		if _, err := old.Write(bytes.Repeat([]byte("old "), logBuffer/4)); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := mem.Stat("000001.log")
	if err != nil {
		t.Fatal(err)
	}
	had := int(info.Size())
	log, err := fs.ReuseForWrite("000001.log", "000002.log", "wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ write, size int }{
		{1000, had}, {size - 1000, had}, {had - size, had}, {1000, had + logBlock + mostAhead},
	} {
		for n := step.write; n > 0; n -= 1000 {
			if _, err := log.Write(make([]byte, min(n, 1000))); err != nil {
				t.Fatal(err)
			}
			if err := log.SyncData(); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := log.Stat(); err != nil || info.Size() != int64(step.size) {
			t.Errorf("%d bytes, want %d; %v", info.Size(), step.size, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLogOnDisk writes a log to a real file system, past its cache if it can be, and
// reads it through the cache.
func TestLogOnDisk(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "1.log")
		created, err := New(vfs.Default).Create(path, "wal")
		if err != nil {
			t.Fatal(err)
		}
		l := created.(*log)
		t.Logf("past the cache: %v", l.direct)
		if refuse { // as a file system does that wants larger blocks
			l.base = &refusing{File: l.base, times: 1}
		}
		was := l.direct
		var want []byte
		for i := range 300 {
			p := bytes.Repeat([]byte{byte(i + 1)}, 3000)
			want = append(want, p...)
			if _, err := l.Write(p); err != nil {
				t.Fatal(err)
			}
			if i%3 > 0 {
				continue
			}
			if err := l.SyncData(); err != nil {
				t.Fatal(err)
			}
			if got := readFile(t, path); !bytes.HasPrefix(got, want) {
				t.Fatalf("after %d bytes the file has others", len(want))
			}
		}
		if err := errors.Join(l.Close(), l.fs.Err()); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, path); !bytes.HasPrefix(got, want) {
			t.Error("after Close the file has other bytes")
		}
		if refuse && l.direct || !refuse && l.direct != was {
			t.Errorf("writes go past the cache: %v", l.direct)
		}
	}
}

// refusing says of its first writes that they are not as it wants them.
type refusing struct {
	vfs.File
	times int
}

func (r *refusing) WriteAt(p []byte, off int64) (int, error) {
	if r.times--; r.times >= 0 {
		return 0, syscall.EINVAL
	}
	return r.File.WriteAt(p, off)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	f, err := vfs.Default.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}
