package fsys

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lookEvery is how old the figure of the free space may be. Asking takes the system a
// microsecond, and a server of files more. What others write meanwhile is not seen.
const lookEvery = 50 * time.Millisecond

// room is how much the file system of the folder can still take.
type room struct {
	mu     sync.Mutex
	usage  func() (vfs.DiskUsage, error) // nil: nobody asks
	now    func() time.Time
	floor  int64
	looked time.Time
	free   int64 // when it was looked at, less what was written since
	known  bool
}

// errKept is the cause of a write that was refused for the floor of KeepFree.
var errKept = fmt.Errorf("the last free space is kept for logs and flushes: %w", syscall.ENOSPC)

// KeepFree refuses what fills the disk and can wait, as the output of compactions and
// files beside the store, while less than floor bytes are free in the file system of
// dir: the last space is that of logs and flushes, without which nothing can be
// committed any more. now is the machine's time. Where the free space cannot be
// learned, nothing is refused.
func (f *FS) KeepFree(dir string, floor int64, now func() time.Time) {
	r := &f.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usage = func() (vfs.DiskUsage, error) { return f.base.GetDiskUsage(dir) }
	r.floor, r.now, r.looked = floor, now, time.Time{}
}

// Free is how many bytes can still be written to the folder's file system, false where
// that cannot be learned. The figure may be as old as lookEvery, and counts what was
// written through f since; one that is below least is of now.
func (f *FS) Free(least int64) (free int64, known bool) {
	return f.room.look(least)
}

func (r *room) look(least int64) (free int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.usage == nil {
		return 0, false
	}
	now := r.now()
	age := now.Sub(r.looked)
	if r.looked.IsZero() || age < 0 || age >= lookEvery || r.known && r.free < least {
		usage, err := r.usage()
		r.looked, r.known, r.free = now, err == nil && usage.TotalBytes > 0, int64(usage.AvailBytes)
	}
	return r.free, r.known
}

// spend notes that bytes are about to be written. Some go over others and take no
// space: then the free space is only looked at sooner.
func (r *room) spend(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free -= int64(n)
}

// keep refuses n bytes to a file that can wait, if they would come out of the last
// space.
func (f *FS) keep(op, path string, c class, n int) error {
	if c != plain && (c != startup || f.strict.Load()) || f.failure.Load() != nil {
		return nil
	}
	f.room.mu.Lock()
	least := f.room.floor + int64(n)
	f.room.mu.Unlock()
	if free, known := f.room.look(least); !known || free >= least {
		return nil
	}
	return &Failure{Op: op, Path: path, Cause: errKept}
}

// IsKept reports whether an error is that of a write which KeepFree refused.
func IsKept(err error) bool { return errors.Is(err, errKept) }

// IsFull reports whether an error says that the disk, or what its owner may take of it,
// is full.
func IsFull(err error) bool {
	return vfs.IsNoSpaceError(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
