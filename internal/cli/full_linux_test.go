package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk fills the disk of a database to the last byte: what reads works and says
// how, what writes fails with what to do about it, and all goes on when there is room.
func TestFullDisk(t *testing.T) {
	c := newCLI(t)
	disk := filepath.Dir(c.dir)
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("skipped: a file system could not be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error("unmount:", err)
		}
	})
	c.ok("store", "--user", "ada", "--id", "m", "prefers tea to coffee")
	c.ok("kv", "put", "k", "1", "--user", "ada")
	junk := filepath.Join(disk, "junk")
	if err := os.WriteFile(junk, make([]byte, 44<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const left = "the last 8.0 MiB are kept" // half of the reserve
	c.fails(exitFailed, "the last 16.2 MiB are kept; make room on the disk", "store", "--user", "ada", strings.Repeat("long ", 1<<20))
	c.ok("delete", "m", "--user", "ada")
	c.ok("store", "--user", "ada", "--id", "m", "prefers tea to coffee")
	if err := os.WriteFile(junk, make([]byte, 57<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitFailed, left, "delete", "m", "--user", "ada")
	c.fails(exitFailed, left, "reset", "--yes")
	if err := os.WriteFile(junk, make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for _, args := range [][]string{
		{"list", "--user", "ada"},
		{"get", "m", "--user", "ada"},
		{"recall", "tea", "--user", "ada"},
		{"history", "m", "--user", "ada"},
		{"kv", "get", "k", "--user", "ada"},
		{"kv", "list", "--user", "ada"},
		{"export", filepath.Join(t.TempDir(), "out.jsonl")},
		{"check"},
		{"stats"},
	} {
		r := c.run(args...)
		if r.code != exitDone || !strings.Contains(r.err, "the disk is full, so the database is opened to be read only") {
			t.Errorf("%v: exit %d: %s", args, r.code, r.err)
		}
	}
	if out := one(t, c.objects("recall", "tea", "--user", "ada")); out["id"] != "m" {
		t.Errorf("recall: %v", out)
	}
	for _, args := range [][]string{
		{"store", "--user", "ada", "more"},
		{"delete", "m", "--user", "ada"},
		{"reset", "--yes"},
	} {
		c.fails(exitFailed, "make room on the disk; verbs that only read work meanwhile", args...)
	}
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	c.ok("store", "--user", "ada", "more")
	if got := one(t, c.objects("check")); got["memories"] != 2.0 {
		t.Errorf("check: %v", got)
	}
}
