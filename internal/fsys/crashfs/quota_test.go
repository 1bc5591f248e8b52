package crashfs_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

// TestQuota writes, writes over, uses again and removes files, and counts.
func TestQuota(t *testing.T) {
	q := crashfs.NewQuota(vfs.NewMem(), 10)
	used := func(want int64) {
		t.Helper()
		usage, err := q.GetDiskUsage("")
		if err != nil || q.Used() != want || int64(usage.UsedBytes) != want || int64(usage.AvailBytes) != max(10-want, 0) {
			t.Errorf("%d bytes used, want %d; %+v, %v", q.Used(), want, usage, err)
		}
	}
	f, err := q.Create("a", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	write := func(f vfs.File, s string, want int, full bool) {
		t.Helper()
		n, err := f.Write([]byte(s))
		if n != want || errors.Is(err, syscall.ENOSPC) != full || err != nil && !full {
			t.Errorf("write %q: %d, %v", s, n, err)
		}
	}
	write(f, "123456", 6, false)
	if n, err := f.WriteAt([]byte("xyz"), 2); n != 3 || err != nil {
		t.Errorf("write over: %d, %v", n, err)
	}
	used(6)
	if n, err := f.WriteAt([]byte("0000"), 6); n != 4 || err != nil {
		t.Errorf("write ahead: %d, %v", n, err)
	}
	write(f, "7890", 4, false) // over that
	used(10)
	write(f, "1", 0, true)
	if err := q.Rename("a", "b"); err != nil {
		t.Fatal(err)
	}
	if f, err = q.ReuseForWrite("b", "c", vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	}
	write(f, "over what is there", 10, true)
	used(10)
	if q.Refused() != 2 {
		t.Errorf("%d writes found no space", q.Refused())
	}
	if err := q.Remove("c"); err != nil {
		t.Fatal(err)
	}
	used(0)
	if f, err = q.Create("d", vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	}
	write(f, "1234", 4, false)
	if f, err = q.Create("d", vfs.WriteCategoryUnspecified); err != nil { // truncates
		t.Fatal(err)
	}
	used(0)
	write(f, "12", 2, false)
	q.Resize(1)
	if usage, _ := q.GetDiskUsage(""); usage.AvailBytes != 0 {
		t.Errorf("%d bytes are free", usage.AvailBytes)
	}
	write(f, "3", 0, true)
}
