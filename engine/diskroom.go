package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// What the database keeps free of its disk. A commit that has begun must end, and what
// it wrote must reach a table: for that the store needs as much as its memtables hold.
const (
	// reserveMost bounds the reserve that nobody asked for, but for what memtables need,
	// and so does one in reserveShare bytes of the file system.
	reserveMost  = 64 << 20
	reserveShare = 4
	// reserveTables is how many memtables the reserve has room for: there are two that
	// may have to be flushed, which is what the last half of the reserve is for.
	reserveTables = 4
	// memtableShare: a memtable takes at most one in so many bytes of the file system.
	memtableShare = 64
	// liftShare: the reserve and one in so many bytes of it must be free for the log to be
	// told that there is room.
	liftShare = 8
	// writtenTwice: what is written goes to the log, and to a table before the log goes.
	writtenTwice = 2
)

// diskRoom refuses writes before a full disk can hurt. What adds data is refused while
// less than the reserve is free; compactions and files beside the store, which can wait,
// while less than 5/8 of it is; deletes and clean-up, which a compaction shall not keep
// waiting, while less than half is; flushes and the log never are.
type diskRoom struct {
	fs      *fsys.FS
	log     *slog.Logger
	dir     string
	size    int64 // of the file system; 0: not known
	reserve int64
	// full is set while writes are refused, so that the log is told once.
	full   atomic.Bool
	resume func() // looks for the background work that was refused
}

// memtableLimit is the largest memtable that a reserve of this size and the file system
// go with.
func (d *diskRoom) memtableLimit() uint64 {
	most := int64(maxMemtable)
	if d.size > 0 {
		most = min(most, d.size/memtableShare)
	}
	if d.reserve > 0 {
		most = min(most, d.reserve/reserveTables)
	}
	return uint64(max(most, minMemtable))
}

// watch begins to look at the free space. memtable is the size of one.
func (d *diskRoom) watch(memtable uint64) {
	least := reserveTables * int64(memtable)
	if d.reserve == 0 {
		d.reserve = min(reserveMost, d.size/reserveShare)
	}
	d.reserve = max(d.reserve, least)
	d.fs.KeepFree(d.dir, d.forWaiting(), clock.System)
}

// forWaiting is the floor of what can wait, and forFreeing that of what frees space.
func (d *diskRoom) forWaiting() int64 { return d.reserve / 8 * 5 }
func (d *diskRoom) forFreeing() int64 { return d.reserve / 2 }

// measure learns how large the file system is.
func (d *diskRoom) measure(base vfs.FS) {
	if usage, err := base.GetDiskUsage(d.dir); err == nil {
		d.size = int64(min(usage.TotalBytes, 1<<62))
	}
}

// admit refuses a write of so many bytes that would take from the reserve.
func (d *diskRoom) admit(doing string, bytes int) error {
	return d.above(d.reserve, doing, bytes)
}

// admitFreeing is admit for what frees space, now or later, which may take half of the
// reserve.
func (d *diskRoom) admitFreeing(doing string, bytes int) error {
	return d.above(d.forFreeing(), doing, bytes)
}

// above refuses bytes that would leave less than a floor.
func (d *diskRoom) above(floor int64, doing string, bytes int) error {
	needs := writtenTwice * int64(bytes)
	free, known := d.fs.Free(floor + needs)
	if !known {
		return nil
	}
	d.note(free, free < floor)
	switch {
	case free >= floor+needs:
		return nil
	case free >= floor:
		return d.refusal(doing, fmt.Sprintf("it takes %s of a disk that has %s, of which the last %s are kept",
			mebibytes(needs), mebibytes(free), mebibytes(floor)))
	}
	return d.refusal(doing, fmt.Sprintf("the disk is nearly full: %s are free, and the last %s are kept", mebibytes(free), mebibytes(floor)))
}

func (d *diskRoom) refusal(doing, why string) error {
	return &fault.Error{Kind: fault.ErrDiskFull, What: doing, Why: why, Do: "make room on the disk, and try again"}
}

// note tells the log when writes begin to be refused, and when that is over by so much
// that it will not be told again at once.
func (d *diskRoom) note(free int64, refused bool) {
	switch {
	case refused && d.full.CompareAndSwap(false, true):
		d.log.Warn("the disk is nearly full: writes are refused until there is room", "dir", d.dir, "free", free, "reserve", d.reserve)
	case !refused && free >= d.reserve+d.reserve/liftShare && d.full.CompareAndSwap(true, false):
		d.log.Info("there is room on the disk again: writes are taken", "dir", d.dir)
		d.resume()
	}
}

// fits tells whether there is room for a file of so many bytes, which the database can
// do without.
func (d *diskRoom) fits(bytes int64) bool {
	least := d.forWaiting() + bytes
	free, known := d.fs.Free(least)
	return !known || free >= least
}

// figures are the free space and the reserve, 0 and 0 where nothing is refused.
func (d *diskRoom) figures() (free, reserve int64) {
	free, known := d.fs.Free(d.reserve)
	if !known {
		return 0, 0
	}
	return free, d.reserve
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// fullError says that a database could not be opened for want of space, where that is
// why.
func fullError(dir string, err error) error {
	if !fsys.IsFull(err) {
		return err
	}
	return &fault.Error{
		Kind: fault.ErrDiskFull, What: doingOpen(dir), Why: "the disk is full", Cause: firstFailure(err),
		Do: "make room on the disk; to read meanwhile, open it with ReadOnly",
	}
}

// firstFailure is what the file system's seam met first, or else the error itself.
func firstFailure(err error) error {
	if failure, ok := errors.AsType[*fsys.Failure](err); ok {
		return failure
	}
	return err
}
