package engine

import (
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
	"github.com/seed-7aedc3ff/memdb/internal/host"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

const (
	storeDir = "store"
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

	defaultBudgetMost = 2 << 30
	minMemtable       = 4 << 20
	maxMemtable       = 64 << 20
)

// defaultBudget is a quarter of the machine's memory, at most 2 GiB.
func defaultBudget() int64 {
	m := host.Memory() / 4
	if m == 0 {
		m = defaultBudgetMost
	}
	return min(m, defaultBudgetMost)
}

// shares are what the parts of the database get of the memory budget.
func (db *DB) shares() (blockCache int64, memtable uint64) {
	memtable = min(uint64(max(db.budget/16, minMemtable)), db.room.memtableLimit())
	return max(db.budget/8, 8<<20), memtable
}

// rowsShare is what float32 vectors that searches have read get of the memory budget.
func (db *DB) rowsShare() int64 {
	if db.limits.rows != 0 {
		return max(db.limits.rows, 0)
	}
	return db.budget / 8
}

// embeddingShare is what the vectors of texts that were embedded last get.
func (db *DB) embeddingShare() int64 { return db.budget / 16 }

// codesShare is what the codes of a space's vectors get of the memory budget; what
// is beyond lies in a file. A small database shall do without one.
func (db *DB) codesShare() int64 {
	if db.limits.codes != 0 {
		return db.limits.codes
	}
	return max(db.budget/4, minCodes)
}

const minCodes = 64 << 20

// scopesShare is what remembered scopes get.
func (db *DB) scopesShare() int64 { return db.budget / 32 }

// textShare is what the pages of the text index get of the memory budget.
func (db *DB) textShare() int64 { return db.budget / 4 }

func holder(now time.Time) fsys.Holder {
	pid, program, machine := host.Process()
	return fsys.Holder{PID: pid, Program: program, Host: machine, Since: now}
}

// openStore opens Pebble through the file-system seam.
func (db *DB) openStore(exists bool, manifestBytes int64) (err error) {
	db.room.measure(db.base)
	blockCache, memtable := db.shares()
	db.room.watch(memtable)
	db.cache = pebble.NewCache(blockCache)
	opts := &pebble.Options{
		FS: db.fs, Cache: db.cache, Merger: layout.StatsMerger, FormatMajorVersion: formatVersion,
		MemTableSize: memtable, BytesPerSync: syncBytes, WALBytesPerSync: 0,
		MaxManifestFileSize: manifestBytes, ReadOnly: db.readOnly,
		Logger:           storeLog{db},
		ErrorIfNotExists: exists,
		EventListener:    db.storeEvents(),
		// A stall for too many tables in level 0 is the one that a frozen folder
		// cannot end.
		L0StopWritesThreshold: 1000,
		L0CompactionThreshold: compactAt, LBaseMaxBytes: baseBytes,
	}
	opts.TargetFileSizes[0], opts.TargetFileSizes[1] = tableBytes, mergedBytes
	opts.Experimental.SpanPolicyFunc = db.endTable
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
	db.fs.PaceRetries(db.pauseRetry)
	db.fs.Strict(true)
	defer db.fs.Strict(false)
	// The store asserts on what it does not expect; that must not take the
	// program along.
	defer func() {
		if p := recover(); p != nil {
			err = &fault.Error{Kind: fault.ErrCorrupt, What: doingOpen(db.dir), Why: fmt.Sprint(p), Do: "restore a backup"}
		}
		if err != nil {
			db.cache.Unref()
		}
	}()
	dir := db.fs.PathJoin(db.dir, storeDir)
	if err := checkManifest(db.fs, dir); err != nil {
		return &fault.Error{Kind: fault.ErrCorrupt, What: doingOpen(db.dir), Cause: err, Do: "restore a backup"}
	}
	db.store, err = pebble.Open(dir, opts)
	if failed := db.fs.Err(); failed != nil {
		if err == nil {
			_ = db.store.Close()
		}
		return &fault.Error{Kind: fault.ErrFailed, What: doingOpen(db.dir), Cause: failed, Do: "mend the cause and open it again"}
	}
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err), exists && !fromSystem(err):
		return &fault.Error{Kind: fault.ErrCorrupt, What: doingOpen(db.dir), Cause: err, Do: "restore a backup"}
	case db.readOnly && !fromSystem(err): // it misses a store that is not there yet
		return &fault.Error{Kind: fault.ErrNotDatabase, What: doingOpen(db.dir), Why: "its making was interrupted, and it holds nothing", Do: "open it without ReadOnly"}
	}
	return fmt.Errorf("%s: %w", doingOpen(db.dir), err)
}

// appended are the large kinds of which new keys come last, in the order of keys.
var appended = []byte{layout.KindForward, layout.KindRecord, layout.KindText, layout.KindVector}

// endTable has a table end where a kind that is appended begins or ends: then it moves
// down the tree as it is, and is not merged for the sake of keys that are spread. What
// is flushed of a short session is to be merged, or there would be tiny tables for good.
func (db *DB) endTable(start []byte) (pebble.SpanPolicy, []byte, error) {
	if db.flushing.Load() < leastSplit {
		return pebble.SpanPolicy{}, nil, nil
	}
	for _, kind := range appended {
		switch {
		case len(start) == 0 || start[0] < kind:
			return pebble.SpanPolicy{}, []byte{kind}, nil
		case start[0] == kind:
			return pebble.SpanPolicy{}, []byte{kind + 1}, nil
		}
	}
	return pebble.SpanPolicy{}, nil, nil
}

// fromSystem tells an error that the operating system returned, which may pass,
// from one that says what a store lacks: a missing file is the latter.
func fromSystem(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok && !errors.Is(err, fs.ErrNotExist)
}

// storeEvents is what is listened to of the store.
func (db *DB) storeEvents() *pebble.EventListener {
	return &pebble.EventListener{
		// Without a listener damage would end in Fatalf: one bad block would fail
		// the whole database, not what lies in it.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			db.log.Error("a file of the store is damaged", "file", info.Path, "error", info.Details)
		},
		BackgroundError: func(err error) {
			if !fsys.IsKept(err) { // of that the log has heard
				db.log.Error("store", "error", fault.CauseText(err))
			}
		},
		FlushBegin: func(info pebble.FlushInfo) { db.flushing.Store(info.InputBytes) },
		FlushEnd: func(info pebble.FlushInfo) {
			db.flushing.Store(math.MaxUint64)
			if info.Err == nil {
				db.flushError.Store(nil)
			} else {
				db.flushError.Store(&info.Err)
			}
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err == nil {
				db.retries.Store(0)
			}
		},
	}
}

// pauseRetry waits before the store tries again what has failed, on the machine's time,
// whatever the database's clock says.
func (db *DB) pauseRetry(kept bool) {
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	<-timer.C
	if !kept {
		return
	}
	timer.Reset(min(retryPause<<min(db.retries.Add(1), maxDoublings), mostPause))
	select {
	case <-timer.C:
	case <-db.ending: // Close waits for the store
	}
}

// storeLog passes on what the store says. Its Fatalf would end the process: it
// fails the database instead.
type storeLog struct{ db *DB }

func (l storeLog) Infof(string, ...any) {} // a line for each flush and compaction

func (l storeLog) Errorf(format string, args ...any) {
	l.db.log.Error("store", "message", fmt.Sprintf(format, args...))
}

func (l storeLog) Fatalf(format string, args ...any) {
	l.db.fail(fmt.Errorf("store: "+format, args...))
}
