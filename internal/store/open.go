package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

const (
	// Dir is the folder of the store within that of the database.
	Dir = "store"
	// LockName is the file of Pebble's lock in the folder of the database.
	LockName = Dir + "/LOCK"
	// formatVersion is fixed, so that a newer Pebble does not make a database
	// that an older memdb cannot open.
	formatVersion = pebble.FormatValueSeparation
	// bloomBits per key give 1% false positives: a look-up of an ID that does not
	// exist reads no block.
	bloomBits = 10
	// blockSize is what a look-up reads at least: a recall makes some 25 of them, most
	// for a record or a vector of a kilobyte.
	blockSize = 4 << 10
	// syncBytes spreads the writing of tables, so that a log's sync is not
	// queued behind megabytes of them.
	syncBytes = 512 << 10
	// compactAt and baseBytes let writes gather before they are merged: owners, IDs
	// and hashes are spread over all keys, so that each merge writes much again. Pebble
	// merges level 0 when it has half as many layers as compactAt.
	compactAt = 8
	baseBytes = 256 << 20
	// tableBytes is the size of tables that are flushed, which those that are moved keep.
	tableBytes = 8 << 20
	// mergedBytes is that of tables that are merged below level 0. A merge takes along
	// what lies beside it, up to 25 times as much: tables that could as well be moved.
	mergedBytes = 2 << 20
	// leastSplit is how much must be flushed at once to be split by kinds, see endTable.
	leastSplit = 4 << 20
	// retryPause keeps what the store retries after a failure from taking a core.
	retryPause = 20 * time.Millisecond
	// mostPause bounds the pause before a compaction that found no room is tried again,
	// which doubles each time: it writes what room there is, and takes that back.
	mostPause    = 30 * time.Second
	maxDoublings = 16

	minMemtable = 4 << 20
	maxMemtable = 64 << 20
)

// Open opens Pebble through the file-system seam. With exists, a store must be there: a
// missing one is damage. timeline is that of the database.
func (s *Store) Open(exists bool, timeline Timeline) (err error) {
	s.timeline = timeline
	s.reserve.measure(s.config.Base)
	blockCache, memtable := s.Shares()
	s.reserve.watch(memtable)
	s.cache = pebble.NewCache(blockCache)
	opts := s.options(memtable, exists)
	s.FS.PaceRetries(s.pauseRetry)
	// The store asserts on what it does not expect; that must not take the
	// program along.
	defer func() {
		if p := recover(); p != nil {
			err = &fault.Error{Kind: fault.ErrCorrupt, What: s.opening(), Why: fmt.Sprint(p), Do: WayOn}
		}
		if err != nil {
			s.cache.Unref()
		}
	}()
	if exists && !s.config.ReadOnly {
		// Nothing in the folder changes while another program holds the store, whose memdb.lock was lost.
		held, err := s.FS.Lock(s.FS.PathJoin(s.config.Dir, LockName))
		if err == nil {
			err = held.Close()
		}
		if _, locked := errors.AsType[*fsys.LockedError](err); locked {
			return err
		}
	}
	if err := s.prepare(opts, exists); err != nil {
		return err
	}
	if exists && s.config.TailBytes > 0 && !s.config.ReadOnly {
		s.tail = s.readTail(s.config.TailBytes)
	}
	s.FS.Strict(true)
	defer s.FS.Strict(false)
	s.db, err = pebble.Open(s.FS.PathJoin(s.config.Dir, Dir), opts)
	if failed := s.FS.Err(); failed != nil {
		if err == nil {
			_ = s.db.Close()
		}
		return &fault.Error{Kind: fault.ErrFailed, What: s.opening(), Cause: failed, Do: "mend the cause and open it again"}
	}
	switch {
	case err == nil:
		s.pebbleReads, s.reads = s.db, s.db
		return s.opened()
	case pebble.IsCorruptionError(err), exists && !fromSystem(err):
		return s.damaged(err)
	case s.config.ReadOnly && !fromSystem(err): // it misses a store that is not there yet
		return &fault.Error{Kind: fault.ErrNotDatabase, What: s.opening(), Why: "its making was interrupted, and it holds nothing", Do: "open it without ReadOnly"}
	}
	return fault.Within(s.opening(), err)
}

// options are those of the store, with a memtable of so many bytes.
func (s *Store) options(memtable uint64, exists bool) *pebble.Options {
	opts := &pebble.Options{
		FS: s.FS, Cache: s.cache, Merger: s.config.Merger, FormatMajorVersion: formatVersion,
		MemTableSize: memtable, BytesPerSync: syncBytes, WALBytesPerSync: 0,
		MaxManifestFileSize: cmp.Or(s.config.ManifestBytes, manifestBytes), ReadOnly: s.config.ReadOnly,
		Logger:           pebbleLog{s},
		ErrorIfNotExists: exists,
		EventListener:    s.events(),
		// A stall for too many tables in level 0 is the one that a frozen folder
		// cannot end.
		L0StopWritesThreshold: 1000,
		L0CompactionThreshold: compactAt, LBaseMaxBytes: baseBytes,
	}
	opts.TargetFileSizes[0], opts.TargetFileSizes[1] = tableBytes, mergedBytes
	opts.Experimental.SpanPolicyFunc = s.endTable
	opts.EnsureDefaults()
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
		opts.Levels[i].BlockSize = blockSize
		if i < len(opts.Levels)-1 {
			// A store pays for each time that a table is written, and nine tenths of a
			// large database lie in the last level.
			opts.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		}
	}
	return opts
}

// prepare proves a store that exists before anything in its folder is changed, and begins to
// mark what is on disk.
func (s *Store) prepare(opts *pebble.Options, exists bool) (err error) {
	var found mark
	if exists {
		if found, err = s.readyToOpen(opts); err != nil {
			return err
		}
	}
	if s.config.ReadOnly {
		return nil
	}
	if exists {
		if err := s.keepCopy(); err != nil {
			s.config.Log.Warn("the MANIFEST could not be copied", "error", err)
		}
	}
	if err := s.beginMarks(found); err != nil {
		s.config.Log.Warn("what of the store is on disk could not be written down", "error", err)
	}
	return nil
}

// opened marks what Open has made.
func (s *Store) opened() error {
	err := s.MarkLogs()
	if err == nil && !s.config.ReadOnly {
		err = s.dropOldMark()
	}
	if err != nil { // the next try may succeed
		s.config.Log.Warn("what of the store is on disk could not be written down", "error", err)
	}
	if left := s.dropLeftCopy(); left != nil {
		s.config.Log.Warn("what an interrupted backup has left was not removed; the next Open removes it", "error", left)
	}
	return nil
}

// endTable ends a table where a kind of appended keys begins or ends. Tables of appended
// keys then move down the tree as they are, and no compaction rewrites them along with keys
// that are spread. Small flushes, of a short session, are left to be merged: otherwise tiny
// tables would stay for good.
func (s *Store) endTable(start []byte) (pebble.SpanPolicy, []byte, error) {
	if s.rotating.Load() {
		return pebble.SpanPolicy{}, endRotation(start), nil
	}
	if s.flushing.Load() < leastSplit {
		return pebble.SpanPolicy{}, nil, nil
	}
	for _, kind := range s.config.Appended {
		switch {
		case len(start) == 0 || start[0] < kind:
			return pebble.SpanPolicy{}, []byte{kind}, nil
		case start[0] == kind:
			return pebble.SpanPolicy{}, []byte{kind + 1}, nil
		}
	}
	return pebble.SpanPolicy{}, nil, nil
}

// fromSystem reports whether the operating system returned the error, so that it may pass.
// A missing file is not such an error: it says what the store lacks.
func fromSystem(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok && !errors.Is(err, fs.ErrNotExist)
}

// emptyFlush is what Pebble says of a flush that made no table, as of a log without content:
// nothing has failed. Pebble does not export that error.
const emptyFlush = "pebble: empty table"

// events are the events of the store that memdb listens to.
func (s *Store) events() *pebble.EventListener {
	return &pebble.EventListener{
		// Without a listener damage would end in Fatalf: one bad block would fail
		// the whole database, not what lies in it.
		DataCorruption: s.corrupted,
		BackgroundError: func(err error) {
			if !fsys.IsKept(err) { // of that the log has heard
				s.config.Log.Error("store", "error", fault.CauseText(err))
			}
		},
		FlushBegin: func(info pebble.FlushInfo) { s.flushing.Store(info.InputBytes) },
		FlushEnd: func(info pebble.FlushInfo) {
			s.flushing.Store(math.MaxUint64)
			if info.Err == nil || info.Err.Error() == emptyFlush {
				s.flushError.Store(nil)
				s.rewritten()
			} else {
				s.flushError.Store(&info.Err)
			}
		},
		CompactionBegin: func(info pebble.CompactionInfo) { s.compacting.Store(info.JobID, nil) },
		CompactionEnd: func(info pebble.CompactionInfo) {
			s.compacting.Delete(info.JobID)
			if info.Err == nil {
				s.retries.Store(0)
				s.rewritten()
			}
		},
	}
}

// rewritten tells that a flush or a compaction is done.
func (s *Store) rewritten() {
	if s.config.Rewritten != nil {
		s.config.Rewritten()
	}
}

// pauseRetry waits before the store tries again what has failed, on the machine's time,
// whatever the database's clock says.
func (s *Store) pauseRetry(kept bool) {
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	<-timer.C
	if !kept {
		return
	}
	timer.Reset(min(retryPause<<min(s.refused(), maxDoublings), mostPause))
	select {
	case <-timer.C:
	case <-s.retryNow:
	case <-s.ending: // Close waits for the store
	}
}

// pebbleLog passes on what the store says. Its Fatalf would end the process: it
// fails the database instead.
type pebbleLog struct{ s *Store }

func (l pebbleLog) Infof(string, ...any) {} // a line for each flush and compaction

func (l pebbleLog) Errorf(format string, args ...any) {
	l.s.config.Log.Error("store", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	l.s.Fail(fmt.Errorf("store: "+format, args...))
}
