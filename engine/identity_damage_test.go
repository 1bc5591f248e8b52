package engine

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestIdentityDamaged verifies that a damaged or missing memdb.json refuses an opening without a change of the folder,
// and that Salvage puts the copy in the store in its place.
func TestIdentityDamaged(t *testing.T) {
	fs := closedDatabase(t, 3)
	whole := readTestFile(t, fs, "db/memdb.json")
	writeTestFile(t, fs, "db/memdb.json", whole[:len(whole)-1])
	before := folderOf(t, fs, "db")
	for _, o := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Salvage: true}} {
		if _, err := openOn(fs, "db", o); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("open %+v: %v", o, err)
		}
		sameFolder(t, before, folderOf(t, fs, "db"))
	}
	for _, was := range []string{"damaged", "missing"} {
		if was == "missing" {
			if err := fs.Remove("db/memdb.json"); err != nil {
				t.Fatal(err)
			}
		}
		db := openTest(t, fs, Options{Salvage: true})
		if !strings.Contains(db.Salvaged(), "memdb.json was "+was) {
			t.Errorf("Salvage says %q", db.Salvaged())
		}
		mustCheck(t, db, 13)
		closeTest(t, db)
		if !bytes.Equal(readTestFile(t, fs, "db/memdb.json"), whole) {
			t.Errorf("%s: it is not what it was", was)
		}
		closeTest(t, openTest(t, fs, Options{}))
	}
	if !bytes.Equal(readTestFile(t, fs, "db/memdb.json.damaged"), whole[:len(whole)-1]) {
		t.Error("what was left of it is not kept")
	}
}

// TestIdentityOfLayout6: a database without checksum, timeline and copy opens as before, and has
// them from then on.
func TestIdentityOfLayout6(t *testing.T) {
	fs := closedDatabase(t, 3)
	older := readTestFile(t, fs, "db/memdb.json")
	older = older[:bytes.Index(older, []byte(",\n  \"timeline\""))]
	older = append(bytes.ReplaceAll(older, []byte(`"layout": 8`), []byte(`"layout": 6`)), "\n}\n"...)
	writeTestFile(t, fs, "db/memdb.json", older)
	if err := fs.Remove("db/memdb.mark"); err != nil {
		t.Fatal(err)
	}
	db := openTest(t, fs, Options{})
	mustCheck(t, db, 13)
	closeTest(t, db)
	id, err := place.Read(fs, "db")
	if err != nil || id.Layout != place.Layout || id.Timeline == "" || id.Checksum == "" {
		t.Errorf("%+v, %v", id, err)
	}
	if err := fs.Remove("db/memdb.json"); err != nil {
		t.Fatal(err)
	}
	closeTest(t, openTest(t, fs, Options{Salvage: true}))
	if again, err := place.Read(fs, "db"); err != nil || again.Timeline != id.Timeline || again.HashSeed != id.HashSeed {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestIdentityWithoutCopy: a store of an earlier version has no copy, and Salvage says so.
func TestIdentityWithoutCopy(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "memory"})
	if err := db.store.Delete(layout.IdentityKey, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	if err := fs.Remove("db/memdb.json"); err != nil {
		t.Fatal(err)
	}
	_, err := openOn(fs, "db", Options{Salvage: true})
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "without a copy") || !strings.Contains(err.Error(), "memdbctl rescue SRC DEST") {
		t.Errorf("open: %v", err)
	}
}
