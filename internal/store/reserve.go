package store

import (
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
	// spareShare: new data needs the reserve and one in so many bytes of it. So either all writes of up to
	// half of that are refused, or none is, and whether writes are taken is one word.
	spareShare = 64
	// liftShare: the reserve and one in so many bytes of it must be free for the log to be
	// told that there is room.
	liftShare = 8
	// writtenTwice: what is written goes to the log, and to a table before the log goes.
	writtenTwice = 2
)

// MinReserve is the least that is kept free of the disk, in bytes: a lower Config.Reserve is
// taken for it.
const MinReserve = reserveTables * minMemtable

// reserve refuses writes before a full disk can hurt. By the share of the reserve that is
// free it refuses
//
//   - below the whole, and a little: writes that add data;
//   - below 5/8: compactions, and files beside the store, which can wait;
//   - below half: deletes and clean-up, which no compaction shall keep waiting.
//
// It never refuses flushes and the log.
type reserve struct {
	fs   *fsys.FS
	log  *slog.Logger
	dir  string
	size int64 // of the file system; 0: not known
	kept int64 // bytes, the reserve itself
	// full is set while writes are refused, so that the log is told once.
	full   atomic.Bool
	resume func() // looks for the background work that was refused
}

// memtableLimit is the largest memtable that suits the reserve and the file system.
func (r *reserve) memtableLimit() uint64 {
	most := int64(maxMemtable)
	if r.size > 0 {
		most = min(most, r.size/memtableShare)
	}
	if r.kept > 0 {
		most = min(most, r.kept/reserveTables)
	}
	return uint64(max(most, minMemtable))
}

// watch begins to look at the free space. memtable is the size of one.
func (r *reserve) watch(memtable uint64) {
	least := reserveTables * int64(memtable)
	if r.kept == 0 {
		r.kept = min(reserveMost, r.size/reserveShare)
	}
	r.kept = max(r.kept, least)
	r.fs.KeepFree(r.dir, r.forWaiting(), clock.System)
}

// forWaiting is the floor of what can wait, and forFreeing that of what frees space.
func (r *reserve) forWaiting() int64 { return r.kept / 8 * 5 }
func (r *reserve) forFreeing() int64 { return r.kept / 2 }

// measure learns how large the file system is.
func (r *reserve) measure(base vfs.FS) {
	if usage, err := base.GetDiskUsage(r.dir); err == nil {
		r.size = int64(min(usage.TotalBytes, 1<<62))
	}
}

// admit refuses a write of so many bytes that would take from the reserve.
func (r *reserve) admit(doing string, bytes int) error {
	spare := r.kept / spareShare
	return r.above(r.kept+spare, doing, max(0, bytes-int(spare/writtenTwice)))
}

// admitFreeing is admit for a write that frees space, now or later. Such a write may take
// half of the reserve.
func (r *reserve) admitFreeing(doing string, bytes int) error {
	return r.above(r.forFreeing(), doing, bytes)
}

// above refuses bytes that would leave less than a floor.
func (r *reserve) above(floor int64, doing string, bytes int) error {
	needs := writtenTwice * int64(bytes)
	free, known := r.fs.Free(floor + needs)
	if !known {
		return nil
	}
	r.note(free, free < floor)
	switch {
	case free >= floor+needs:
		return nil
	case free >= floor:
		return r.refusal(doing, fmt.Sprintf("it takes %s of a disk that has %s, of which the last %s are kept",
			mebibytes(needs), mebibytes(free), mebibytes(floor)))
	}
	return r.refusal(doing, fmt.Sprintf("the disk is nearly full: %s are free, and the last %s are kept", mebibytes(free), mebibytes(floor)))
}

func (r *reserve) refusal(doing, why string) error {
	return &fault.Error{Kind: fault.ErrDiskFull, What: doing, Why: why, Do: "make room on the disk, and try again"}
}

// note logs when refusals begin, and when they have ended by such a margin that they will
// not begin again at once.
func (r *reserve) note(free int64, refused bool) {
	switch {
	case refused && r.full.CompareAndSwap(false, true):
		r.log.Warn("the disk is nearly full: writes are refused until there is room", "dir", r.dir, "free", free, "reserve", r.kept)
	case !refused && free >= r.kept+r.kept/liftShare && r.full.CompareAndSwap(true, false):
		r.log.Info("there is room on the disk again: writes are taken", "dir", r.dir)
		r.resume()
	}
}

// fits reports whether there is room for a file of so many bytes, which the database can
// do without.
func (r *reserve) fits(bytes int64) bool {
	least := r.forWaiting() + bytes
	free, known := r.fs.Free(least)
	return !known || free >= least
}

// figures are the free space and the reserve, 0 and 0 where nothing is refused.
func (r *reserve) figures() (free, reserve int64) {
	free, known := r.fs.Free(r.kept)
	if !known {
		return 0, 0
	}
	return free, r.kept
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
