package fsys

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// counting counts the writes to a file, and fails them on demand.
type counting struct {
	vfs.File
	writes int
	closed int
	err    error
}

func (c *counting) Close() error {
	c.closed++
	return c.File.Close()
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
	race.Sequential(t)
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

// countingFS counts what happens to the files that it creates.
type countingFS struct {
	vfs.FS
	files []*counting
	err   error // of writes
}

func (c *countingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, category)
	c.files = append(c.files, &counting{File: f, err: c.err})
	return c.files[len(c.files)-1], err
}

// TestTablesAreClosed: a table is closed once, also one of which Pebble's syncing file does not
// say so since its last sync fails, and which is removed then.
func TestTablesAreClosed(t *testing.T) {
	for _, failing := range []error{nil, errors.New("no room")} {
		base := &countingFS{FS: vfs.NewMem(), err: failing}
		f := New(base)
		table, err := f.Create("t.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		syncing := vfs.NewSyncingFile(table, vfs.SyncingFileOptions{})
		if _, err := syncing.Write([]byte("some")); err != nil {
			t.Fatal(err)
		}
		if err := syncing.Close(); !errors.Is(err, failing) {
			t.Errorf("close: %v, want %v", err, failing)
		}
		if err := f.Remove("t.sst"); err != nil {
			t.Errorf("remove: %v", err)
		}
		if got := base.files[0].closed; got != 1 {
			t.Errorf("closed %d times where writes give %v", got, failing)
		}
	}
}
