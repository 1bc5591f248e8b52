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
