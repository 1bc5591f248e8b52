package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestFailedManifest: a failed create, write or sync of the MANIFEST, or create of
// the marker that names it, while it rotates at every flush or two. The database
// fails, the process lives, Close returns, and reopening recovers all that was
// acknowledged. (The log's failures, at its rotation too, are in fuzz.)
func TestFailedManifest(t *testing.T) {
	errDisk := errors.New("no such luck")
	for _, f := range []*crashfs.Fault{
		{Class: crashfs.Manifest, Kind: crashfs.Create},
		{Class: crashfs.Manifest, Kind: crashfs.Create, Skip: 2},
		{Class: crashfs.Manifest, Kind: crashfs.Write},
		{Class: crashfs.Manifest, Kind: crashfs.Write, Skip: 3, Torn: true},
		{Class: crashfs.Manifest, Kind: crashfs.Sync},
		{Class: crashfs.Manifest, Kind: crashfs.Sync, Skip: 3},
		{Class: crashfs.Marker, Kind: crashfs.Create},
	} {
		f.Err = errDisk
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			base := vfs.NewMem()
			disk := crashfs.Wrap(base, nil)
			db, err := openOn(disk, "db", setup{Options: Options{MemoryBudget: testBudget}, tuning: tuning{manifestBytes: 1}})
			if err != nil {
				t.Fatal(err)
			}
			acknowledged := storeAndFlush(t, db, disk, f)
			ctx := context.Background()
			if _, err := db.Memories().Get(ctx, memory.Scope{}, "m0"); !errors.Is(err, fault.ErrFailed) || !errors.Is(err, errDisk) {
				t.Errorf("a read after it: %v", err)
			}
			if _, err := db.Memories().Store(ctx, memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "late"}, nil); !errors.Is(err, fault.ErrFailed) {
				t.Errorf("a write after it: %v", err)
			}
			within(t, "Close of a failed database", func() { closeTest(t, db) })
			again := openTest(t, base, Options{})
			for i := range acknowledged {
				if _, err := again.Memories().Get(ctx, memory.Scope{}, fmt.Sprint("m", i)); err != nil {
					t.Errorf("memory %d was acknowledged: %v", i, err)
				}
			}
			if r, err := again.Check(ctx); err != nil || !r.OK {
				t.Error(r, err)
			}
		})
	}
}

// storeAndFlush stores and flushes until the fault has failed the database, and
// returns how many stores were acknowledged.
func storeAndFlush(t *testing.T, db *DB, disk *crashfs.FS, f *crashfs.Fault) (acknowledged int) {
	t.Helper()
	const before, most = 20, 500
	for i := range most {
		if i == before { // the MANIFEST has rotated by then
			disk.SetHook(f.Hook)
		}
		m := memory.Memory{ID: fmt.Sprint("m", i), Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("text ", i)}
		if _, err := db.Memories().Store(context.Background(), m, nil); err != nil {
			if !errors.Is(err, fault.ErrFailed) || f.Hits() == 0 {
				t.Fatalf("store %d: %v, %d failures injected", i, err, f.Hits())
			}
			return acknowledged
		}
		acknowledged++
		if err := db.store.Flush(); err != nil {
			t.Logf("flush %d: %v", i, err)
		}
	}
	t.Fatalf("the database never failed; %d failures injected", f.Hits())
	return 0
}
