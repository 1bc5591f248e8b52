package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCatalog: a MANIFEST is read as Pebble reads it, after flushes, compactions, deletions and
// moves, also what is written again from what was read.
func TestCatalog(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewMem()
	opts := &pebble.Options{FS: fs, FormatMajorVersion: formatVersion, Logger: pebbleLog{}, DisableAutomaticCompactions: true, L0StopWritesThreshold: 1000}
	db, err := pebble.Open("store", opts)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := func() []byte { return fmt.Appendf(nil, "%04d", chance.IntN(10_000)) }
	for range 40 {
		for range chance.IntN(30) {
			must(db.Set(key(), make([]byte, chance.IntN(100)), nil))
		}
		from, to := key(), key()
		if bytes.Compare(from, to) < 0 && chance.IntN(4) == 0 {
			must(db.DeleteRange(from, to, nil))
		}
		must(db.Flush())
		if chance.IntN(4) == 0 {
			must(db.Compact(t.Context(), []byte("0000"), append(key(), 0), false))
		}
	}
	want, err := db.SSTables()
	must(err)
	var tables []uint64
	for _, level := range want {
		for _, table := range level {
			tables = append(tables, uint64(table.BackingSSTNum))
		}
	}
	slices.Sort(tables)
	must(db.Close())
	names, err := fs.List("store")
	must(err)
	c, err := readManifest(fs, "store/"+currentManifest(names))
	must(err)
	if got := c.numbers(); len(tables) == 0 || !slices.Equal(got, tables) {
		t.Errorf("tables %v, want %v", got, tables)
	}
	for num := range c.obsolete {
		if slices.Contains(names, tableName(num)) {
			t.Errorf("%d was replaced, and is there", num)
		}
	}
	again := catalog{live: map[uint64]listed{}, obsolete: map[uint64]bool{}}
	must(again.add(c.encode()))
	if !slices.Equal(again.numbers(), tables) || again.firstLog != c.firstLog || again.nextFile != c.nextFile || again.lastSequence != c.lastSequence {
		t.Errorf("%+v, want %+v", again, c)
	}
	for at := range 100 { // what is cut off is an error, never a panic or less than there is
		whole := c.encode()
		if cut := whole[:len(whole)*at/100]; len(cut) > 0 {
			some := catalog{live: map[uint64]listed{}, obsolete: map[uint64]bool{}}
			if err := some.add(cut); err == nil && len(some.live) == len(tables) {
				t.Errorf("%d of %d bytes say all", len(cut), len(whole))
			}
		}
	}
}
