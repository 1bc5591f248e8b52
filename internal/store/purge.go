package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// What is deleted stays in the files for long: in tables that no compaction has rewritten, beside
// or below the delete; in the delete itself, which names the key; in logs whose files Pebble keeps
// to write over them; and in the MANIFEST, which lists the first and the last key of every table
// that ever was. Purge rewrites all of that.

const (
	doingPurge = "rewrite the files of the store"
	// purgeTries bounds how often tables are looked at again: a table that a snapshot or a running
	// compaction has kept is gone at the second look.
	purgeTries = 8
	// purgeWait is how long tables that nothing lists may stay: a reader holds them.
	purgeWait = 10 * time.Second
	// purgeLook is how often it is looked whether they are gone.
	purgeLook = 2 * time.Millisecond
	// manifestBytes is the size from which on the MANIFEST rotates, once it has more changes than
	// there are tables.
	manifestBytes = 64 << 10
)

// Purged is what [Store.Purge] has done.
type Purged struct {
	// Rewritten are the bytes of tables that were written, Removed how many files are gone.
	Rewritten int64
	Removed   int
}

// Purge rewrites the files of the store, so that none has anything which was deleted, or written
// over, before the call: tables, logs, and the MANIFEST. No snapshot from before may be open. Calls
// may go on beside it. Where a reader holds a table for longer than 10 seconds, it is ErrBusy, and
// may be called again.
//
// write applies a batch under the writer lock: what Purge writes is what is there already.
func (s *Store) Purge(ctx context.Context, write func(fill func(*pebble.Batch) error) error) (p Purged, err error) {
	before, err := s.files()
	if err != nil {
		return p, err
	}
	written := s.tableBytes()
	s.FS.FreshLogs(true)
	defer s.FS.FreshLogs(false)
	err = s.purgeTables(ctx, write)
	if err == nil {
		err = s.renewManifest(ctx, write)
	}
	if err == nil {
		err = s.awaitRemoval(ctx)
	}
	if err == nil {
		err = s.dropOld()
	}
	if err == nil {
		err = s.WriteWhole()
	}
	if err != nil {
		return p, fault.Within(doingPurge, err)
	}
	after, err := s.files()
	p.Rewritten = s.tableBytes() - written
	p.Removed = len(slices.DeleteFunc(before, func(name string) bool { return slices.Contains(after, name) }))
	return p, err
}

func (s *Store) dir() string { return s.FS.PathJoin(s.config.Dir, Dir) }

func (s *Store) files() ([]string, error) { return s.FS.List(s.dir()) }

// tableBytes are the bytes of all tables that were written since the store was opened.
func (s *Store) tableBytes() (n int64) {
	m := s.Metrics()
	for i := range m.Levels {
		n += int64(m.Levels[i].TableBytesFlushed + m.Levels[i].TableBytesCompacted)
	}
	return n
}

// purgeTables rewrites tables until none holds what was deleted before the call.
func (s *Store) purgeTables(ctx context.Context, write func(fill func(*pebble.Batch) error) error) error {
	if err := s.Flush(); err != nil {
		return err
	}
	// One that has begun may keep what a snapshot of then has seen, in a table that is newer than all.
	if err := s.awaitCompactions(ctx); err != nil {
		return err
	}
	age, err := s.age()
	if err != nil {
		return err
	}
	for range purgeTries {
		if err := s.CompactAll(ctx, nil); err != nil {
			return err
		}
		left, err := s.unclean(age)
		if err != nil || len(left) == 0 {
			return err
		}
		// A compaction takes up a table in the last level only for what lies above it.
		err = write(func(b *pebble.Batch) error {
			for _, key := range left {
				if err := s.again(b, key); err != nil {
					return err
				}
			}
			return s.AdmitFreeing(doingPurge, b.Len())
		})
		if err != nil {
			return err
		}
	}
	return &fault.Error{Kind: fault.ErrBusy, What: doingPurge, Why: "tables hold what was deleted, for a reader or a compaction that goes on", Do: "try again"}
}

// awaitCompactions waits until those have ended that run.
func (s *Store) awaitCompactions(ctx context.Context) error {
	var begun []any
	s.compacting.Range(func(job, _ any) bool {
		begun = append(begun, job)
		return true
	})
	runs := func(job any) bool {
		_, ok := s.compacting.Load(job)
		return ok
	}
	tick := time.NewTicker(purgeLook)
	defer tick.Stop()
	for slices.ContainsFunc(begun, runs) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// again writes what a key is once more.
func (s *Store) again(b *pebble.Batch, key []byte) error {
	value, closer, err := s.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return b.Delete(key, nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(b.Set(key, value, nil), closer.Close())
}

// age says which tables may have something of before a moment: those with a lower number, and
// those with an older sequence number.
type age struct {
	table    uint64
	sequence uint64
}

func (s *Store) age() (a age, err error) {
	levels, err := s.SSTables()
	for _, t := range slices.Concat(levels...) {
		a.table, a.sequence = max(a.table, uint64(t.BackingSSTNum)), max(a.sequence, uint64(t.LargestSeqNum))
	}
	return a, err
}

// unclean are the first keys of the tables that may hold what was deleted before a moment: those
// that lie above or below others of then, and those that have deletes, or values that a snapshot
// has kept.
func (s *Store) unclean(a age) (keys [][]byte, err error) {
	levels, err := s.SSTables(pebble.WithProperties())
	if err != nil {
		return nil, err
	}
	old := slices.DeleteFunc(slices.Concat(levels...), func(t pebble.SSTableInfo) bool { return uint64(t.SmallestSeqNum) > a.sequence })
	slices.SortFunc(old, func(x, y pebble.SSTableInfo) int { return bytes.Compare(x.Smallest.UserKey, y.Smallest.UserKey) })
	var end []byte
	for i := range old {
		t := &old[i]
		kept := uint64(t.BackingSSTNum) <= a.table && t.Properties != nil && (t.Properties.NumDeletions > 0 || t.Properties.SnapshotPinnedKeys > 0)
		if kept || i > 0 && bytes.Compare(t.Smallest.UserKey, end) < 0 {
			keys = append(keys, bytes.Clone(t.Smallest.UserKey))
		}
		if bytes.Compare(t.Largest.UserKey, end) > 0 {
			end = t.Largest.UserKey
		}
	}
	return keys, nil
}

// awaitRemoval waits until no table is in the folder that the store does not list: Pebble removes
// them behind its calls, once nobody reads them.
func (s *Store) awaitRemoval(ctx context.Context) error {
	newest, err := s.age()
	if err != nil {
		return err
	}
	tick := time.NewTicker(purgeLook)
	defer tick.Stop()
	for deadline := clock.System().Add(purgeWait); ; {
		names, err := s.files()
		if err != nil {
			return err
		}
		levels, err := s.SSTables()
		if err != nil {
			return err
		}
		live := map[uint64]bool{}
		for _, t := range slices.Concat(levels...) {
			live[uint64(t.BackingSSTNum)] = true
		}
		left := slices.IndexFunc(names, func(name string) bool {
			num, ok := fileNumber(name, tableSuffix)
			return ok && num <= newest.table && !live[num]
		})
		switch {
		case left < 0:
			return nil
		case clock.System().After(deadline):
			return &fault.Error{Kind: fault.ErrBusy, What: doingPurge, Why: names[left] + " is still read", Do: "end Views that are open, and try again"}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// The keys that make the MANIFEST rotate lie behind all others of their kind, and go again at once.
var rotationPrefix = []byte("M~rotate")

func rotationKey(i uint32) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(rotationPrefix), i)
}

// renewManifest has Pebble begin a MANIFEST that lists what is there now, and nothing of before.
// Pebble does so when the MANIFEST is long and has more changes than there are tables. So one flush
// makes a table whose keys are long, and the next as many tables as it takes.
func (s *Store) renewManifest(ctx context.Context, write func(fill func(*pebble.Batch) error) error) error {
	from, err := s.manifestNow()
	if err != nil {
		return err
	}
	lower, upper := rotationPrefix, append(bytes.Clone(rotationPrefix), 0xff)
	for now := from; now == from; {
		if err := ctx.Err(); err != nil {
			return err
		}
		long := append(rotationKey(0), make([]byte, max(s.config.ManifestBytes, manifestBytes)/2)...)
		if err := write(func(b *pebble.Batch) error { return b.Set(long, nil, nil) }); err != nil {
			return err
		}
		if err := s.Flush(); err != nil {
			return err
		}
		levels, err := s.SSTables()
		if err != nil {
			return err
		}
		// Compactions that end meanwhile may leave a few tables more.
		tables := uint32(len(slices.Concat(levels...)))*5/4 + 8
		err = write(func(b *pebble.Batch) error {
			for i := range tables {
				if err := b.Set(rotationKey(i+1), nil, nil); err != nil {
					return err
				}
			}
			return s.AdmitFreeing(doingPurge, b.Len())
		})
		if err != nil {
			return err
		}
		s.rotating.Store(true)
		err = s.Flush()
		s.rotating.Store(false)
		if err != nil {
			return err
		}
		if now, err = s.manifestNow(); err != nil {
			return err
		}
		if err := write(func(b *pebble.Batch) error { return b.DeleteRange(lower, upper, nil) }); err != nil {
			return err
		}
		if err := s.Compact(ctx, lower, upper, false); err != nil {
			return err
		}
	}
	return nil
}

// endRotation ends a table at each of the keys that make the MANIFEST rotate.
func endRotation(start []byte) []byte {
	rest, is := bytes.CutPrefix(start, rotationPrefix)
	switch {
	case is && len(rest) >= 4:
		return rotationKey(binary.BigEndian.Uint32(rest) + 1)
	case bytes.Compare(start, rotationPrefix) < 0:
		return rotationPrefix
	}
	return nil
}

// manifestNow is the number of the MANIFEST that counts.
func (s *Store) manifestNow() (uint64, error) {
	names, err := s.files()
	if err != nil {
		return 0, err
	}
	num := manifestNumber(currentManifest(names))
	if num == 0 {
		return 0, errors.New("no marker names a MANIFEST")
	}
	return num, nil
}

// dropOld removes what Pebble keeps: the MANIFEST of before, and the files of logs that it would
// write over.
func (s *Store) dropOld() error {
	names, err := s.files()
	if err != nil {
		return err
	}
	current := manifestNumber(currentManifest(names))
	c, err := readManifest(s.FS, s.FS.PathJoin(s.dir(), manifestName(current)))
	if err != nil {
		return fmt.Errorf("read %s: %w", manifestName(current), err)
	}
	for _, name := range names {
		of := name
		if copied, ok := fsys.IsManifestCopy(name); ok {
			of = copied
		}
		if num := manifestNumber(of); num == 0 || num >= current {
			continue
		}
		if err := s.FS.Remove(s.FS.PathJoin(s.dir(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := s.FS.DropLogs(s.dir(), c.firstLog); err != nil {
		return err
	}
	return fsys.SyncDir(s.FS, s.dir())
}
