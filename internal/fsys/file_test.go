package fsys

import (
	"bytes"
	"errors"
	"io"
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

// counting counts the writes to a file, and fails them on demand.
type counting struct {
	vfs.File
	writes int
	err    error
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes++
	if c.err != nil {
		return 0, c.err
	}
	return c.File.Write(p)
}

// TestTableIsGathered: the small writes of a table become few, all of them are there
// once it is synced or closed, and one that fails is told of no later.
func TestTableIsGathered(t *testing.T) {
	for _, end := range []string{"sync", "sync data", "sync to", "close"} {
		for _, size := range []int{1, 4096, tableBuffer, tableBuffer + 1} {
			for _, failing := range []error{nil, errors.New("no room")} {
				mem := vfs.NewMem()
				base, err := mem.Create("t.sst", vfs.WriteCategoryUnspecified)
				if err != nil {
					t.Fatal(err)
				}
				under := &counting{File: base}
				f := &table{file: file{fs: New(mem), base: under}}
				var want []byte
				for i := range 40 {
					block := bytes.Repeat([]byte{byte(i)}, size)
					want = append(want, block...) // before Write, which may mangle it
					if _, err := f.Write(block); err != nil {
						t.Fatal(err)
					}
				}
				if most := 40*size/tableBuffer + 1; size < tableBuffer && under.writes > most {
					t.Errorf("%d writes for 40 of %d bytes, more than %d", under.writes, size, most)
				}
				if _, err := f.Write([]byte("end")); err != nil {
					t.Fatal(err)
				}
				under.err = failing
				switch end {
				case "sync":
					err = f.Sync()
				case "sync data":
					err = f.SyncData()
				case "sync to":
					_, err = f.SyncTo(int64(len(want) + 3))
				case "close":
					err = f.Close()
				}
				if !errors.Is(err, failing) {
					t.Fatalf("%s: error %v, want %v", end, err, failing)
				}
				if failing != nil {
					continue
				}
				got, err := mem.Open("t.sst")
				if err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(got); err != nil || string(b) != string(want)+"end" {
					t.Errorf("%s after blocks of %d: %d bytes, error %v; want %d", end, size, len(b), err, len(want)+3)
				}
			}
		}
	}
}
