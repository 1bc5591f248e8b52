package fsys_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

// TestKeepFree writes each kind of file below the floor: what a commit needs goes on,
// what can wait is refused, and goes on when there is space again.
func TestKeepFree(t *testing.T) {
	const size, floor = 1000, 400
	quota := crashfs.NewQuota(vfs.NewMem(), size)
	seam := fsys.New(quota)
	if _, known := seam.Free(0); known {
		t.Error("the free space is known before anybody asked for it")
	}
	now := time.Unix(1, 0)
	seam.KeepFree("", floor, func() time.Time { return now })
	var kept []bool
	seam.PaceRetries(func(k bool) { kept = append(kept, k) })
	open := func(name string, category vfs.DiskWriteCategory) vfs.File {
		t.Helper()
		f, err := seam.Create(name, category)
		if err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
		return f
	}
	compacted := open("1.sst", "pebble-compaction")
	beside := open("vectors.snap", vfs.WriteCategoryUnspecified)
	flushed := open("2.sst", "pebble-memtable-flush")
	vital := open("marker.1", vfs.WriteCategoryUnspecified)
	some := make([]byte, 100)
	write := func(f vfs.File, refused bool) {
		t.Helper()
		n, err := f.Write(some)
		if err == nil {
			err = f.SyncData() // a table gathers what is written
		}
		if refused != fsys.IsFull(err) || !refused && (err != nil || n != len(some)) {
			t.Errorf("a write is refused: %v, want %v; %v", err != nil, refused, err)
		}
	}
	for range 5 { // 500 of 1000 bytes
		write(vital, false)
	}
	write(compacted, false)
	write(compacted, true)
	write(beside, true)
	if _, err := beside.WriteAt(some, 0); !fsys.IsFull(err) {
		t.Errorf("a write into the middle: %v", err)
	}
	write(flushed, false)
	write(vital, false)
	if _, err := seam.Create("3.sst", "pebble-compaction"); !fsys.IsFull(err) {
		t.Errorf("the creation of a compaction's table: %v", err)
	}
	if want := []bool{true, false, true}; fmt.Sprint(kept) != fmt.Sprint(want) {
		t.Errorf("retries are paced as kept: %v, want %v", kept, want)
	}
	if quota.Refused() != 0 || seam.Err() != nil {
		t.Errorf("%d writes met a full disk; %v", quota.Refused(), seam.Err())
	}
	quota.Resize(2 * size)
	write(compacted, false) // what was refused is looked at anew
	write(beside, false)
}

// TestFree looks at the free space as seldom as it may.
func TestFree(t *testing.T) {
	disk := &usageFS{FS: vfs.NewMem(), usage: vfs.DiskUsage{AvailBytes: 1000, TotalBytes: 2000}}
	seam := fsys.New(disk)
	now := time.Unix(1, 0)
	seam.KeepFree("", 0, func() time.Time { return now })
	look := func(least, want int64, asked int) {
		t.Helper()
		free, known := seam.Free(least)
		if !known || free != want || disk.asked != asked {
			t.Errorf("%d bytes free, known %v, asked %d times; want %d and %d times", free, known, disk.asked, want, asked)
		}
	}
	look(500, 1000, 1)
	disk.usage.AvailBytes = 700
	look(500, 1000, 1)
	f, err := seam.Create("marker.1", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	look(500, 900, 1) // what was written counts
	look(901, 700, 2) // too little: it is looked at
	look(500, 700, 2) // and remembered
	look(701, 700, 3) // always, where it is too little
	disk.usage.AvailBytes = 600
	now = now.Add(time.Second)
	look(0, 600, 4) // and now and then
	now = now.Add(-time.Hour)
	look(0, 600, 5) // also if the time was set back
	disk.err = vfs.ErrUnsupported
	if _, known := seam.Free(601); known {
		t.Error("the free space is known where the system does not tell")
	}
	disk.err, disk.usage.TotalBytes = nil, 0
	if _, known := seam.Free(601); known {
		t.Error("a file system without a size has a free space")
	}
}

// usageFS tells a free space that the test sets, and counts who asks.
type usageFS struct {
	vfs.FS
	usage vfs.DiskUsage
	err   error
	asked int
}

func (f *usageFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	f.asked++
	return f.usage, f.err
}

func TestIsFull(t *testing.T) {
	for _, c := range []struct {
		err  error
		full bool
	}{
		{nil, false},
		{errors.New("something else"), false},
		{fs.ErrPermission, false},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, true},
		{fmt.Errorf("it failed: %w", &fsys.Failure{Op: "write", Cause: syscall.EDQUOT}), true},
	} {
		if fsys.IsFull(c.err) != c.full {
			t.Errorf("IsFull(%v) = %v", c.err, !c.full)
		}
	}
}
