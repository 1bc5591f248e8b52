package engine

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// TestErasedInReplica: what is erased in a database goes from the files of its replica, once nobody reads
// a state of before; from a replica that was closed before that, when it is opened again; and it is not in
// the files of a database that is restored from the archive to behind the erasure.
func TestErasedInReplica(t *testing.T) {
	fs, clk := vfs.NewMem(), newTestClock()
	db, of := eraseWorld(t, fs, clk, Options{Archive: folder.New(fsys.On(fs, "/archive"))})
	var needles, others []string
	for o, words := range of {
		if o.User == "ulrike-user" {
			needles = append(needles, words...)
		} else {
			others = append(others, words...)
		}
	}
	archivedNow(t, db)
	r := testReplica(t, fs, feedOf(t, fs, false), ReplicaOptions{Clock: clk.now})
	noError(t, r.Wait(t.Context()))
	if found := tracesIn(t, fs, "replica", needles...); len(found) == 0 {
		t.Fatal("the replica has nothing of what is to be erased")
	}
	closes(t, r)
	if _, err := db.Erase(t.Context(), EraseQuery{User: "ulrike-user"}); err != nil {
		t.Fatal(err)
	}
	archivedNow(t, db)
	r = testReplica(t, fs, feedOf(t, fs, false), ReplicaOptions{Clock: clk.now})
	noError(t, r.Wait(t.Context()))
	if found := tracesIn(t, fs, "replica", needles...); len(found) > 0 {
		t.Errorf("the replica still has %q", found)
	}
	if found := tracesIn(t, fs, "replica", others...); len(found) == 0 {
		t.Error("the replica has lost what others have")
	}
	err := r.Use(t.Context(), func(got *DB) error {
		report, err := got.CheckDeep(t.Context())
		n, cerr := got.Memories().Count(t.Context(), memory.ListQuery{AllScopes: true})
		want, werr := db.Memories().Count(t.Context(), memory.ListQuery{AllScopes: true})
		if !report.OK || n != want {
			t.Errorf("%+v; %d memories of %d", report, n, want)
		}
		return errors.Join(err, cerr, werr)
	})
	noError(t, err)

	archive := filepath.Join(t.TempDir(), "archive") // a name of another file system can be used once
	_, err = vfs.Clone(fs, vfs.Default, "/archive", archive)
	noError(t, err)
	_, err = Restore(t.Context(), archive, fsys.On(fs, "restored"), nil)
	noError(t, err)
	if found := tracesIn(t, fs, "restored", needles...); len(found) > 0 {
		t.Errorf("the restored database has %q", found)
	}
}
