package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// The store merges tables as seldom as reads allow, so what was deleted or written over may
// stay in them for long. Their dead bytes are estimated, by the store for deletes that were
// flushed, and by callers for what they know.

// compactBytes is about how many bytes of tables are rewritten at once: more would need as
// much room on the disk, and could not be cancelled.
const compactBytes = 64 << 20

// refusals is how often in a row compactions find no room before those that somebody waits for are given up.
const refusals = 2

// Shadowed notes that so many bytes which are stored were written over or deleted, and
// returns how many were since all was compacted.
func (s *Store) Shadowed(bytes int) int64 { return s.shadowed.Add(int64(bytes)) }

// Garbage is about how many bytes of the store are dead, and how many its tables have.
func (s *Store) Garbage() (dead, tables int64) {
	m := s.Metrics()
	garbage := &m.Table.Garbage
	total := m.Total()
	return max(int64(garbage.PointDeletionsBytesEstimate+garbage.RangeDeletionsBytesEstimate), s.shadowed.Load()), total.TablesSize
}

// CompactAll rewrites the tables without what is dead in them, one range of keys after the
// other. pause, if it is not nil, is called after each with the time that it took.
func (s *Store) CompactAll(ctx context.Context, pause func(took time.Duration)) error {
	s.shadowed.Store(0)
	// One that has begun may keep what a snapshot of then has seen, in the last level.
	if err := s.awaitCompactions(ctx); err != nil {
		return err
	}
	ends, err := s.ranges()
	if err != nil {
		return err
	}
	lower := []byte{0}
	for _, upper := range ends {
		began := clock.System()
		if err := s.compactRange(ctx, lower, upper); err != nil {
			return err
		}
		if pause != nil {
			pause(clock.System().Sub(began))
		}
		lower = upper
	}
	return ctx.Err()
}

// compactRange rewrites the tables of a range of keys. ErrDiskFull where compactions find no room: the store tries one
// again until it does, and those behind it would wait for as long.
func (s *Store) compactRange(ctx context.Context, lower, upper []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.asked.Store(&cancel, cancel)
	defer s.asked.Delete(&cancel)
	select {
	case s.retryNow <- struct{}{}: // one that pauses between its tries is not waited for
	default:
	}
	err := s.Compact(ctx, lower, upper, false)
	if full := context.Cause(ctx); err != nil && errors.Is(full, fault.ErrDiskFull) {
		return full
	}
	if fsys.IsKept(err) {
		return s.noRoom()
	}
	return err
}

// refused notes that a compaction has found no room, and ends those that somebody waits for once it has happened
// refusals times in a row.
func (s *Store) refused() (times int64) {
	if times = s.retries.Add(1); times >= refusals {
		s.asked.Range(func(_, cancel any) bool {
			cancel.(context.CancelCauseFunc)(s.noRoom())
			return true
		})
	}
	return times
}

func (s *Store) noRoom() error {
	free, _ := s.reserve.figures()
	return s.reserve.refusal("compact", fmt.Sprintf("the disk has no room for the tables that a compaction writes: %s are free, and the last %s are kept", mebibytes(free), mebibytes(s.reserve.forWaiting())))
}

// ranges are the ends of ranges of keys that have about compactBytes each, the last of all.
func (s *Store) ranges() (ends [][]byte, err error) {
	levels, err := s.SSTables()
	if err != nil {
		return nil, err
	}
	tables := slices.Concat(levels...)
	slices.SortFunc(tables, func(a, b pebble.SSTableInfo) int { return bytes.Compare(a.Largest.UserKey, b.Largest.UserKey) })
	size, last := uint64(0), []byte{0}
	for _, t := range tables {
		size += t.Size
		if end := t.Largest.UserKey; size >= compactBytes && bytes.Compare(last, end) < 0 && bytes.Compare(end, lastKey) < 0 {
			ends, size, last = append(ends, bytes.Clone(end)), 0, end
		}
	}
	return append(ends, lastKey), nil
}

// lastKey is above all keys.
var lastKey = []byte{0xff}
