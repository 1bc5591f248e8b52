package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableOf is the content of a table with n keys, and its file system and path.
func tableOf(t *testing.T, n int) (fs *vfs.MemFS, path string, content []byte) {
	t.Helper()
	fs = vfs.NewMem()
	db, err := pebble.Open("db/"+Dir, &pebble.Options{FS: fs, FormatMajorVersion: formatVersion})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		key, value := fmt.Appendf(nil, "key %06d", i), []byte(strings.Repeat(fmt.Sprint("value ", i*i, " "), 1+i%40))
		if i == n/2 { // a block of its own
			value = []byte(strings.Repeat(fmt.Sprint("large ", i), 20_000))
		}
		if err := db.Set(key, value, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("db/" + Dir)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, tableSuffix) })
	path = fs.PathJoin("db/"+Dir, names[at])
	if content, err = readWhole(fs, path); err != nil {
		t.Fatal(err)
	}
	return fs, path, content
}

// TestShiftedTable verifies that one byte which is inserted into a table, or removed from it, costs the
// entries of the block that the byte is in, and no others.
func TestShiftedTable(t *testing.T) {
	fs, path, whole := tableOf(t, 700)
	var lost []Loss
	r := &Remains{FS: fs, Dir: "db", Lost: func(l Loss) { lost = append(lost, l) }}
	blocks, err := r.TableBlocks(path)
	if err != nil || len(blocks) < 10 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	all := 0
	for _, b := range blocks {
		all += b.Entries
	}
	for i := 0; i < len(blocks); i += 4 {
		at := (blocks[i].From + blocks[i].To) / 2
		for what, content := range map[string][]byte{
			"inserted": slices.Insert(slices.Clone(whole), at, 'x'),
			"removed":  slices.Delete(slices.Clone(whole), at, at+1),
			"zeros":    slices.Concat(whole[:at], make([]byte, 3), whole[at+3:]),
		} {
			f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(content); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			lost = nil
			of, found := r.openTable(path, 0, listed{}), 0
			for e := of.next(); e != nil; e = of.next() {
				found++
			}
			if found != all-blocks[i].Entries || len(lost) == 0 {
				t.Errorf("a byte of block %d %s: %d of %d entries are found, want all but %d; %d losses are reported", i, what, found, all, blocks[i].Entries, len(lost))
			}
		}
	}
}
