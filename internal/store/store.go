// Package store keeps the keys and values of a database on disk: it opens Pebble, makes
// commits durable in groups, refuses writes before a full disk can hurt, and turns what
// would end the process into a failure that every later call returns. No other package
// knows Pebble's options.
package store

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// Config is what a store is opened with.
type Config struct {
	Dir      string // of the database; the store lies in a folder within it
	Base     vfs.FS
	Log      *slog.Logger
	ReadOnly bool
	Budget   int64 // bytes of RAM, of which the store takes its share
	Reserve  int64 // bytes of the disk to keep free; 0 for the default
	Merger   *pebble.Merger
	// Appended are the first bytes of keys, in their order, of large kinds of which new
	// keys come last.
	Appended []byte
	// Resume looks for background work that a full disk has put off.
	Resume func()
	// Rewritten, if not nil, is told of each flush and compaction. It must not wait for the store.
	Rewritten func()
	// Salvage opens a store that is damaged with what is whole.
	Salvage bool
	// ManifestBytes is the size at which the MANIFEST rotates, 0 for the default.
	ManifestBytes int64
	// NumberKey is the key of the number of the newest batch, see [Outlet].
	NumberKey []byte
	// File is the file that the store is kept in, nil where that is its folder.
	File *File
	// TailBytes bounds what Open reads of the logs for an outlet, 0 where there will be none.
	TailBytes int64
	// Sent, if not nil, is where what is applied becomes durable, see [Store.Sent]; MarkKey is the key of
	// its mark. LogWait is how long it may take to answer before it counts as not available.
	Sent    Log
	MarkKey []byte
	LogWait time.Duration
}

// pebbleReads are what of Pebble is open to all: it reads, measures and rewrites, and makes batches, but
// applies none. See ship.go for the ways in.
type pebbleReads interface {
	AsyncFlush() (<-chan struct{}, error)
	Checkpoint(dir string, opts ...pebble.CheckpointOption) error
	CheckLevels(stats *pebble.CheckLevelsStats) error
	Compact(ctx context.Context, start, end []byte, parallelize bool) error
	EstimateDiskUsage(start, end []byte) (uint64, error)
	Flush() error
	Metrics() *pebble.Metrics
	NewBatch(opts ...pebble.BatchOption) *pebble.Batch
	NewBatchWithSize(size int, opts ...pebble.BatchOption) *pebble.Batch
	NewIndexedBatch() *pebble.Batch
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
	SSTables(opts ...pebble.SSTablesOption) ([][]pebble.SSTableInfo, error)
}

// Store is the store of one database. Only [Store.Open] makes its methods that read usable.
type Store struct {
	pebbleReads
	db        *pebble.DB    // nil of one that is frozen
	reads     pebble.Reader // what is read: db, or what is frozen
	frozen    Snapshot      // see [Store.Frozen]
	snapshots snapshots
	FS        *fsys.FS // watches over the folder
	// Salvaged is the damage that Open has passed over, see Config.Salvage.
	Salvaged string
	config   Config

	cache   *pebble.Cache
	reserve *reserve

	failure    atomic.Pointer[fault.Error]
	flushError atomic.Pointer[error] // of the last flush, nil if it succeeded
	flushing   atomic.Uint64         // bytes that are being flushed; the largest number while none are
	retries    atomic.Int64          // of compactions that found no room, since one succeeded
	shadowed   atomic.Int64          // bytes that are dead, as callers say, since all was compacted
	ending     chan struct{}         // closed when Close begins
	compacting sync.Map              // the numbers of the compactions that run
	asked      sync.Map              // what ends the compactions that somebody waits for
	retryNow   chan struct{}         // ends the pause of a compaction that found no room
	rotating   atomic.Bool           // a flush ends tables so that the MANIFEST rotates
	timeline   Timeline
	marker     marker
	marked     uint64 // see MarkedLSN
	gaps       gaps
	damages    *Damages
	ship       shipping
	tail       []Written // see readTail
}

// New prepares a store, which [Store.Open] opens.
func New(c Config) *Store {
	s := &Store{FS: fsys.New(c.Base), config: c, ending: make(chan struct{}), retryNow: make(chan struct{}, 1), snapshots: snapshots{open: map[uint64]struct{}{}}, damages: &Damages{}}
	s.reserve = &reserve{fs: s.FS, log: c.Log, dir: c.Dir, kept: c.Reserve, resume: c.Resume}
	s.flushing.Store(math.MaxUint64)
	s.FS.SetApart(s.FS.PathJoin(c.Dir, CopyDir))
	return s
}

// Again is a store of the same folder that was not opened yet.
func (s *Store) Again() *Store { return New(s.config) }

// Base is the file system below FS.
func (s *Store) Base() vfs.FS { return s.config.Base }

// Reserve is how much of the disk is to be kept free, as it was configured.
func (s *Store) Reserve() int64 { return s.config.Reserve }

func (s *Store) opening() string { return "open " + s.config.Dir }

// Shares are what the block cache and a memtable get of the memory budget, in bytes.
func (s *Store) Shares() (blockCache int64, memtable uint64) {
	memtable = min(uint64(max(s.config.Budget/16, minMemtable)), s.reserve.memtableLimit())
	return max(s.config.Budget/8, 8<<20), memtable
}

// Failed is nil while the store works. Once the log or the manifest could not be written
// it is an error of the kind ErrFailed with the cause, for good.
func (s *Store) Failed() error {
	if err := s.failure.Load(); err != nil {
		return err
	}
	if err := s.FS.Err(); err != nil {
		s.Fail(err)
		return s.failure.Load()
	}
	return nil
}

// Fail makes every later call return ErrFailed.
func (s *Store) Fail(cause error) {
	do := "close it, mend the cause, and open it again: everything that was acknowledged is there"
	if fsys.IsFull(cause) {
		do = "close it, make room on the disk, and open it again: everything that was acknowledged is there"
	} else if _, ok := errors.AsType[*fsys.MovedError](cause); ok {
		do = "close it and open it again, where its folder is now: everything that was acknowledged is in the folder that was opened, which may have another name"
	}
	first := s.failure.CompareAndSwap(nil, &fault.Error{
		Kind: fault.ErrFailed, What: "use the database " + s.config.Dir, Why: "it has failed", Cause: cause,
		Do: do,
	})
	if first {
		s.config.Log.Error("the database has failed", "dir", s.config.Dir, "cause", cause)
		s.FS.Poison(cause)
	}
	if first && s.config.Sent != nil {
		s.ship.sending.end()
	}
}

// Writable says why no new data is taken now, however little: the error of Failed, ErrUnavailable while the log of the
// database does not answer, ErrDiskFull or ErrFull. nil: it is.
func (s *Store) Writable(doing string) error {
	if err := s.Failed(); err != nil {
		return err
	}
	if _, _, late := s.Unsent(); late {
		return s.unavailable(doing, "nothing was changed")
	}
	if f := s.config.File; f != nil {
		return f.writable(doing)
	}
	return s.reserve.admit(doing, 0)
}

// Admit returns ErrDiskFull for a write of so many bytes that would take from the disk's
// reserve, and ErrFull where the one file of the database has no room for it.
func (s *Store) Admit(doing string, bytes int) error {
	if f := s.config.File; f != nil {
		return f.admit(doing, bytes, adds)
	}
	return s.reserve.admit(doing, bytes)
}

// AdmitMaintenance is Admit for a write that stores in another form what is stored already. It is not refused for
// the limit of the one file.
func (s *Store) AdmitMaintenance(doing string, bytes int) error {
	if f := s.config.File; f != nil {
		return f.admit(doing, bytes, maintains)
	}
	return s.reserve.admit(doing, bytes)
}

// AdmitFreeing is Admit for a write that frees space, now or later. Such a write may take
// half of the reserve.
func (s *Store) AdmitFreeing(doing string, bytes int) error {
	if f := s.config.File; f != nil {
		return f.admit(doing, bytes, frees)
	}
	return s.reserve.admitFreeing(doing, bytes)
}

// Fits reports whether there is room for a file of so many bytes, which the database can
// do without. A database in one file has no other files.
func (s *Store) Fits(bytes int64) bool { return s.config.File == nil && s.reserve.fits(bytes) }

// DiskFigures are the free space and the reserve, 0 and 0 where nothing is refused.
func (s *Store) DiskFigures() (free, reserve int64) {
	if f := s.config.File; f != nil {
		free, reserve, _ = f.disk()
		return free, reserve
	}
	return s.reserve.figures()
}

// File is the file that the store is kept in, nil where that is its folder.
func (s *Store) File() *File { return s.config.File }

// Error gives an error of the store its kind.
func Error(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		return &fault.Error{Kind: fault.ErrCorrupt, What: doing, Cause: err, Do: WayOn}
	case errors.Is(err, kv.ErrNotFound):
		return &fault.Error{Kind: fault.ErrCorrupt, What: doing, Why: "it is missing", Do: "run check"}
	}
	return err
}

// Unreadable reports whether an error is one of a thing that is missing or damaged, and not of
// the disk or of the call.
func Unreadable(err error) bool {
	return errors.Is(err, fault.ErrCorrupt) || errors.Is(err, kv.ErrNotFound) || Corrupted(err)
}

// Corrupted reports whether Pebble has found an error to be one of damaged bytes.
func Corrupted(err error) bool { return pebble.IsCorruptionError(err) }
