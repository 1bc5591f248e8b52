package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/backups"
	"github.com/seed-7aedc3ff/memdb/internal/changefeed"
	"github.com/seed-7aedc3ff/memdb/internal/ctxlock"
	"github.com/seed-7aedc3ff/memdb/internal/erasure"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/lifecycle"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// DB is an open database. It is safe for concurrent use.
//
// # Locks
//
// Who takes several takes them in this order:
//
//  0. DB.turn: a consolidation or an eviction. Beside it, and never two of them at once:
//     due.emptying, of the trash; backlog.running, a pass that embeds; backlog.renewing, a
//     change of a model; spaces.Linker.Rebuilding, the rebuild of vector indexes; backups.Copier.copying, a backup
//  1. chunks.busy: the janitor's work, a rebuild or a reset; then DB.moving
//  2. Attempt.turn, of the attempt that a call is a part of; then writer.lock: one transaction that
//     writes; then ageing.callout.mu, a function of the program,
//     which may open a View
//  3. janitor.mu, the lists of the dead
//  4. points.mu, the read points in use
//  5. those of one structure each: spaces.Set.mu, spaces.Lexical.mu, spaces.codesFile.mu,
//     state.Names.mu, state.Fields.mu, state.Spoken.mu, selection.Cache.mu,
//     selection.Members.mu, records.Touches.mu, records.Seen.mu, groupQueue.mu, attempts.mu, backlog.mu, ageing.observing.mu,
//     steady.mu, trust.mu, changefeed.Running.mu, backups.Archives.mu, backups.archiver.mu, ageing.mattering.mu
//
// A replica, which has a DB for each state that it shows, takes replication.Replica.loading before all of these,
// within it replication.followed.mu for a frame or a snapshot, and replication.Replica.mu alone.
//
// A View takes none of 0 to 3, and 4 for a moment. lifecycle.Life.mu and the syncer's are taken alone.
type DB struct {
	dir   string
	id    uuid.UUID
	held  io.Closer // the lock of the folder, or of the file
	store *store.Store
	// inMemory: it is of OpenMemory.
	inMemory bool
	config
	identity *place.Identity // changed under the writer lock
	settings atomic.Pointer[Settings]

	// Readers look at these beside the writer. The parts are all structures beside memories.
	tables state.Tables
	spaces *spaces.Set
	parts  []part.Part
	ageing *ageing.Ageing
	turn   ctxlock.Mutex // held by what consolidates or evicts
	// moving is held while documents that were moved get their new numbers, which death
	// ranges must not name. Work behind the calls makes no range meanwhile.
	moving  ctxlock.Mutex
	program program
	points  *points
	scopes  selection.Cache
	touched *records.Touches

	writer  writer
	syncer  *store.Syncer[*point]
	chunks  chunks
	janitor *janitor
	backlog backlog
	erasing atomic.Pointer[erasure.Erasure] // one that has begun; changed under turn, or the writer lock

	due      due
	apiKeys  apiKeys
	archives *backups.Archives
	opening  opening
	life     *lifecycle.Life
	meters   meters
	copier   *backups.Copier
}

// config is what a database was opened with. It does not change.
type config struct {
	logger     *slog.Logger
	clock      func() time.Time
	steady     *steady
	durability Durability
	dedup      Dedup
	readOnly   bool
	salvage    bool
	// strictAgents: see Options.StrictAgents.
	strictAgents bool
	owns         func(scope.Owner) error // see Options.Admit
	lockWait     time.Duration
	changesLag   time.Duration
	slowAfter    time.Duration
	budget       int64
	retain       time.Duration
	embedder     embed.Embedder
	uncached     bool // its vectors are not kept
	extractor    *extractor
	english      bool // it was opened to know no other language

	logged    *overLog            // the log of the database, nil if it has none
	follows   func() ReplicaStats // of the replica that shows this state, nil for any other database
	mends     bool                // what is opened is what is left of a database, see OpenRemains
	expiring  bool                // what has expired is looked for now and then
	firstDoc  uint32
	hotBytes  int64 // what a chunk of the text index in memory may grow to
	lookLeast int   // see moveChunks
}

// writer is the writer lock and what it guards. The queue of the group has a lock of its
// own: callers wait in it without the lock.
type writer struct {
	lock    chan struct{} // holds one element while it is taken
	group   groupQueue
	seen    records.Seen // which keys of IDs and duplicates were ever written
	applied uint64       // LSN of the newest applied commit
	next    layout.Counters
	scratch []byte // for values to be encoded in
	orderer store.Orderer
	// attempts has a lock of its own.
	attempts attempts
}

// chunks say what has become of the chunks of the text index. busy guards the rest.
type chunks struct {
	// busy is held while the janitor works, so that a reset or a rebuild does not come
	// between its steps. It may wait for the writer lock meanwhile.
	busy    ctxlock.Mutex
	sealed  map[uint16]bool
	size    map[uint16]int  // of those, the documents that they were sealed with
	buried  map[uint16]int  // of those, the dead documents that were not loaded
	emptied map[uint16]bool // that a move has dropped, and that are still in RAM
	// graves are the documents of sealed chunks that were reclaimed, or had been when
	// they were sealed, since the chunks were looked at.
	graves int
	left   []leftChunk // without documents, and still in RAM

	// The writer lock guards these.
	used [maxChunks]bool // the numbers that are not free
	top  int             // the highest that was
}

// program is what the program takes part in: see [Hooks].
type program struct {
	feeds changefeed.Running
}

// due is what tells the work behind the calls that there is something to do.
type due struct {
	trash     dueTime
	emptying  sync.Mutex    // held while the trash is emptied
	newest    atomic.Uint64 // LSN of the newest list of the trash
	look      chan struct{} // has the trash looked at
	uncleaned atomic.Bool   // a list of the trash waits for the janitor
	rewritten chan struct{} // has the store looked at for what is dead
}

// opening is what Open has met.
type opening struct {
	lsn     uint64 // the newest commit of then
	losses  *recovery.Losses
	damaged error    // what it found of the text index
	mended  []string // what Salvage has mended beside the store
}

// Dir is the folder of the database, empty for one in memory and for one in a file, see [DB.File].
func (db *DB) Dir() string {
	if vfs.Root(db.store.FS) != vfs.Default {
		return ""
	}
	return db.dir
}

// enter keeps Close waiting until release is called.
func (db *DB) enter(doing string) (release func(), err error) {
	if err := db.usable(doing); err != nil {
		return nil, err
	}
	if !db.life.Enter() {
		return nil, closedError(doing)
	}
	return db.life.Leave, nil
}

// usable reports whether the database is open and has not failed.
func (db *DB) usable(doing string) error {
	if db == nil { // the zero Memories or KV
		return closedError(doing)
	}
	if db.life.Closed() {
		return closedError(doing)
	}
	return db.Failed()
}

func closedError(doing string) error {
	return &fault.Error{Kind: fault.ErrClosed, What: doing, Why: "the database is closed", Do: "open it"}
}

// Failed is nil while the database works. Once the log or the manifest could not
// be written it is an error of the kind ErrFailed with the cause, for good: close,
// mend the cause, and reopen.
func (db *DB) Failed() error { return db.store.Failed() }

// Writable says why no new data is taken now, however little it is; nil where it is. It is what a store would
// return: ErrClosed, ErrReadOnly, ErrFailed, ErrDiskFull, ErrFull, for a database over a log ErrUnavailable while that
// does not answer. A large store may be ErrDiskFull beside it.
func (db *DB) Writable() error { return db.takesWrites("write") }

// takesWrites refuses what would store something, before it is looked at.
func (db *DB) takesWrites(doing string) error {
	if err := db.usable(doing); err != nil {
		return err
	}
	if err := db.writable(doing); err != nil {
		return err
	}
	return db.store.Writable(doing)
}

// Disk is the free space of the disk, and what is kept of it, in bytes: see Options.DiskReserve. Both are 0 where the
// system does not tell.
func (db *DB) Disk() (free, reserve int64) { return db.store.DiskFigures() }

// lock takes the writer lock.
func (db *DB) lock(ctx context.Context) error {
	_, err := db.lockUnless(ctx, nil)
	return err
}

// lockUnless takes the writer lock, unless done is closed before.
func (db *DB) lockUnless(ctx context.Context, done <-chan struct{}) (locked bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := notWithin(ctx, db, "write"); err != nil {
		return false, err
	}
	select {
	case db.writer.lock <- struct{}{}:
		return true, nil
	default:
	}
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	select {
	case db.writer.lock <- struct{}{}:
		return true, nil
	case <-done:
		return false, nil
	case <-wait.Done():
		return false, db.lockError(ctx, "write", "another write holds the lock")
	}
}

// lockLimit bounds the waits of a call by LockWait.
func (db *DB) lockLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if db.lockWait > 0 {
		return context.WithTimeout(ctx, db.lockWait)
	}
	return ctx, func() {}
}

// lockError says why such a wait has ended: the call's context, or LockWait.
func (db *DB) lockError(ctx context.Context, what, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return &fault.Error{Kind: fault.ErrBusy, What: what, Why: fmt.Sprintf("%s, and has for %v", why, db.lockWait), Do: "try again, or give a longer LockWait"}
}

// lockBehind takes the writer lock for work behind the calls, which has time: LockWait
// bounds calls alone.
func (db *DB) lockBehind(ctx context.Context) error {
	select {
	case db.writer.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (db *DB) unlock() { <-db.writer.lock }

// keys are those of the newest state. A transaction has its own, of the state that it
// reads.
// stateOf is what a reader of the store, or of one state of it, sees as of an LSN.
func (db *DB) stateOf(r kv.Reader, lsn uint64) state.State {
	return state.State{Tables: &db.tables, Reader: r, Keys: db.keys(), LSN: lsn, Now: db.now()}
}

func (db *DB) keys() *layout.Keys { return db.tables.NewestKeys.Load() }

// LSN is that of the newest commit that is durable and can be read.
func (db *DB) LSN() uint64 { return db.points.lsn() }

// Salvaged says which damage Open has passed over, and what is lost with it, since
// Options.Salvage allowed that; it is empty where there was none.
func (db *DB) Salvaged() string {
	all := db.opening.mended
	if db.store.Salvaged != "" {
		all = append(slices.Clone(all), db.store.Salvaged)
	}
	return strings.Join(all, "; ")
}

// Settings tells what the database was created with.
func (db *DB) Settings() Settings { return *db.settings.Load() }

// Close waits for running calls, commits what is gathered, and gives the folder
// back. It does not link vectors that still wait for it, see [DB.WaitIndexed]: that
// goes on when the database is opened again, in the pauses between writes. A database
// that has failed is closed too; what failed it was told by every call since. Closing
// again does nothing. Within a View or an Update, or what a call of the database calls
// back, it would wait for itself: that is ErrInvalid at once, and the database stays open.
func (db *DB) Close() error {
	if db.life.Busy() && lifecycle.CalledBack() {
		return fault.Invalid("close the database", "Close is called within a call of a database, and this one has calls that run", "return from the call first")
	}
	return db.closeOnce()
}

// closeOnce is Close also within a call of another database.
func (db *DB) closeOnce() error {
	return db.life.Close(func() error {
		db.finishErasing()
		return db.close()
	})
}

func (db *DB) close() error {
	defer db.store.WatchStall()()
	stop := db.archives.Close()
	defer stop()
	db.store.Ending()
	db.life.EndWork()
	db.janitor.stop()
	db.life.EndCalls()
	var errs []error
	if db.Failed() == nil {
		errs = append(errs, db.flushAtClose())
	}
	if db.Failed() == nil {
		if err := db.syncer.Wait(db.syncer.Newest()); !errors.Is(err, backups.ErrUnarchived) { // of which the log hears
			errs = append(errs, err)
		}
	}
	if db.Failed() == nil && !db.readOnly {
		for _, s := range db.spaces.All() {
			db.spaces.Save(context.Background(), s, db.spaces.Limits.CloseTail, db.spaces.Limits.CloseTail)
		}
	}
	errs = append(errs, db.archives.End(), db.endLog())
	db.reached()
	errs = append(errs, db.spaces.CloseFiles(), db.syncer.Close(), db.points.close(), db.store.Close(), db.held.Close())
	if db.Failed() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// flushAtClose commits what recalls have gathered, unless the disk has no room for it.
func (db *DB) flushAtClose() error {
	err := db.flush(func(fn func(*Tx) error) error {
		_, err := db.update(context.Background(), fn) // no call begins any more
		return err
	})
	if errors.Is(err, backups.ErrUnarchived) {
		return nil
	}
	if errors.Is(err, fault.ErrDiskFull) || errors.Is(err, fault.ErrFull) {
		db.logger.Warn("access counts are lost: there is no room for them", "dir", db.dir)
		return nil
	}
	return err
}

// report logs an error of work in the background.
func (db *DB) report(err error) {
	if !fault.Told(err) {
		db.logger.Error("background work", "error", err)
	}
}

// reached tells the store up to which LSN all commits are on its disk. Of a database over a log that is not
// known, and the log has them.
func (db *DB) reached() {
	if db.logged == nil {
		db.store.Reached(db.syncer.Durable())
	}
}
