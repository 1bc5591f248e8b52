package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

// TestReserveSizes is a table of what is kept free of a disk.
func TestReserveSizes(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ disk, asked, budget, reserve, memtable int64 }{
		{1 << 40, 0, 2 << 30, 256 * mib, 64 * mib},
		{1 << 40, 0, 64 * mib, 64 * mib, 4 * mib},
		{200 * mib, 0, 2 << 30, 50 * mib, 4 * mib},
		{32 * mib, 0, 2 << 30, 16 * mib, 4 * mib},
		{1 << 40, 32 * mib, 2 << 30, 32 * mib, 8 * mib},
		{1 << 40, 1, 2 << 30, MinReserve, 4 * mib},
		{1 << 40, 10 << 30, 2 << 30, 10 << 30, 64 * mib},
		{0, 0, 2 << 30, 256 * mib, 64 * mib}, // not known
	} {
		disk := crashfs.NewQuota(vfs.NewMem(), c.disk)
		s := New(Config{Dir: "db", Base: disk, Budget: c.budget, Reserve: c.asked})
		s.reserve.measure(disk)
		_, memtable := s.Shares()
		s.reserve.watch(memtable)
		if _, again := s.Shares(); int64(memtable) != c.memtable || s.reserve.kept != c.reserve || again != memtable {
			t.Errorf("of a disk of %d bytes, %d asked for: reserve %d, memtables of %d, then %d; want %d and %d",
				c.disk, c.asked, s.reserve.kept, memtable, again, c.reserve, c.memtable)
		}
	}
}
