package engine

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// TestRealDisk fills a real file system: a small one in memory, which takes the rights
// of root to mount.
func TestRealDisk(t *testing.T) {
	if race.Enabled {
		t.Skip("fills a disk")
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("skipped: a file system could not be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error("unmount:", err)
		}
	})
	dir := filepath.Join(disk, "db")
	open := func(o Options) *DB {
		t.Helper()
		o.MemoryBudget = testBudget
		db, err := Open(dir, &o)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open(Options{})
	n := fillDisk(t, db, 0)
	holds(t, db, n)
	closeTest(t, db)
	// A log that was flushed just before is removed by the next Open, which makes room.
	db = open(Options{})
	closeTest(t, db)

	// Somebody else takes the rest.
	junk := filepath.Join(disk, "junk")
	fillFile(t, junk)
	_, err := Open(dir, &Options{MemoryBudget: testBudget})
	wantError(t, "open on the full disk", err, fault.ErrDiskFull)
	wantError(t, "open on the full disk", err, syscall.ENOSPC)
	db = open(Options{ReadOnly: true})
	holds(t, db, n)
	closeTest(t, db)

	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	db = open(Options{})
	if _, err := db.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = open(Options{})
	mustStore(t, db.Memories(), filler(0))
	holds(t, db, 1)
	closeTest(t, db)
}

// fillFile writes a file until the disk is full.
func fillFile(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 1<<20); len(chunk) > 0 && err == nil; {
		if _, err = f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk, err = chunk[:len(chunk)/2], nil
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
