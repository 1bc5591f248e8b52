package engine

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// archived opens a database of a file system with an archive in another folder of it.
func archived(t *testing.T, fs vfs.FS, o Options) *DB {
	t.Helper()
	o.Archive = folder.New(fsys.On(fs, "/archive"))
	return openTest(t, fs, o)
}

// copyOf makes a store of the batches of an archive alone, and returns its keys.
func copyOf(t *testing.T, fs vfs.FS) (keys map[string]string, at wal.Position, lsn uint64) {
	t.Helper()
	c, err := folder.Follow(fsys.On(fs, "/archive"), wal.Timeline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, c)
	merger := (&DB{}).merger()
	db, err := pebble.Open("copy", &pebble.Options{FS: vfs.NewMem(), Merger: merger, FormatMajorVersion: pebble.FormatValueSeparation})
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, db)
	for {
		f, err := c.Next(t.Context(), at)
		if errors.Is(err, io.EOF) {
			return pebbleKeys(t, db), at, lsn
		}
		if err != nil {
			t.Fatalf("behind %+v: %v", at, err)
		}
		if !f.Follows(at) {
			t.Fatalf("%+v after %+v", f, at)
		}
		for _, repr := range f.Batches {
			b := db.NewBatch()
			if err := errors.Join(b.SetRepr(repr), b.Commit(pebble.NoSync)); err != nil {
				t.Fatal(err)
			}
		}
		at, lsn = f.After(), max(lsn, f.LSN)
	}
}

func pebbleKeys(t *testing.T, r pebble.Reader) map[string]string {
	t.Helper()
	it, err := r.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, it)
	keys := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		keys[string(it.Key())] = string(it.Value())
	}
	return keys
}

func closes(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// sameKeys compares a copy with the store of a database.
func sameKeys(t *testing.T, db *DB, got map[string]string) {
	t.Helper()
	snap := db.store.NewSnapshot()
	defer closes(t, snap)
	want := pebbleKeys(t, snap.Snapshot)
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			t.Errorf("key %q: %q, the copy has %q, %v", k, v, g, ok)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("the copy has key %q, which is not there", k)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func storeSome(t *testing.T, db *DB, from, n int) {
	t.Helper()
	for i := range n {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprintf("m%d", from+i), Text: fmt.Sprintf("text number %d", from+i), Scope: memory.Scope{User: "u"}})
	}
}

// TestArchiveIsTheStore: a copy that is made of the archive alone has each key of the store, from the
// first batch on, behind a reopening, and behind writes that the archive did not see.
func TestArchiveIsTheStore(t *testing.T) {
	fs := vfs.NewMem()
	db := archived(t, fs, Options{})
	storeSome(t, db, 0, 20)
	s, err := db.WaitArchived(t.Context())
	if err != nil || s.LSN != db.LSN() || s.Restarts != 0 {
		t.Fatalf("%+v, %v; LSN %d", s, err, db.LSN())
	}
	got, at, lsn := copyOf(t, fs)
	if at.Number != s.Number || lsn != s.LSN {
		t.Fatalf("copied to %+v, LSN %d: %+v", at, lsn, s)
	}
	sameKeys(t, db, got)
	closes(t, db)

	db = archived(t, fs, Options{})
	storeSome(t, db, 20, 5)
	if s, err = db.WaitArchived(t.Context()); err != nil || s.Restarts != 0 || s.LSN != db.LSN() {
		t.Fatalf("after a reopening: %+v, %v", s, err)
	}
	got, _, _ = copyOf(t, fs)
	sameKeys(t, db, got)
	closes(t, db)

	db = openTest(t, fs, Options{})
	storeSome(t, db, 30, 5)
	closes(t, db)
	db = archived(t, fs, Options{})
	if s, err = db.WaitArchived(t.Context()); err != nil || s.Restarts != 1 || s.LSN != db.LSN() {
		t.Fatalf("after writes without it: %+v, %v", s, err)
	}
	storeSome(t, db, 40, 5)
	if _, err = db.WaitArchived(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _, _ = copyOf(t, fs)
	if _, ok := got[string(layout.NumberKey)]; !ok {
		t.Error("the copy does not know its number")
	}
	sameKeys(t, db, got)
	closes(t, db)
}
