package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dir   string
	id    uuid.UUID
	base  vfs.FS    // the file system
	fs    *fsys.FS  // what watches over it
	held  io.Closer // the lock of the folder
	store *pebble.DB
	cache *pebble.Cache
	keys  layout.Keys

	log        *slog.Logger
	clock      func() time.Time
	durability Durability
	dedup      Dedup
	readOnly   bool
	room       *diskRoom
	lockWait   time.Duration
	budget     int64
	columns    bool  // see Options
	hotBytes   int64 // what a chunk of the text index in memory may grow to

	embedder    embed.Embedder
	analyzer    *analysis.Analyzer
	identity    *identity // changed under the writer lock
	settings    atomic.Pointer[Settings]
	indexedText []textField
	textUnit    uint32 // the weight of a word of the text

	// Readers look at these beside the writer.
	docs    doctable.Table
	text    atomic.Pointer[invindex.Index]
	spaces  *spaces
	lexical *lexical
	rows    *hnsw.RowBudget // of vectors that searches have read
	names   *names
	fields  *fields
	points  *points
	scopes  scopes
	syncer  *syncer
	touched *touches

	// The writer lock, and what it guards.
	writer  chan struct{}
	stores  storeQueue
	written written
	applied uint64 // LSN of the newest applied commit
	next    layout.Counters
	scratch []byte      // for values to be encoded in; the writer's
	ops     []operation // for inOrder; likewise

	janitor *janitor
	sealed  map[uint16]bool // the chunks of the text index that are; guarded by janitor.busy
	buried  map[uint16]int  // of those, the dead documents that were not loaded; likewise
	emptied map[uint16]bool // chunks that a move has dropped since Open; likewise
	spare   uint16          // a chunk reserved for a move that came to nothing, 0: none; likewise
	retain  time.Duration

	lookLeast int // see Options
	linker    *linker
	limits    vectorLimits
	loading   *vectorLoader      // while Open loads
	damaged   error              // what Open found of the text index
	stopped   context.CancelFunc // ends the background work
	work      sync.WaitGroup

	flushError atomic.Pointer[error] // of the store's last flush, nil if it succeeded
	flushing   atomic.Uint64         // bytes that the store flushes; the largest number while it does not
	retries    atomic.Int64          // of compactions that found no room, since one succeeded
	failure    atomic.Pointer[fault.Error]
	gate       gate
	closing    sync.Once
	ending     chan struct{} // closed when Close begins
}

// gate counts the calls that run, so that Close can wait for them. A call within
// another one (a read in a View) passes or is refused, but never waits.
type gate struct {
	mu     sync.Mutex
	idle   sync.Cond
	calls  int
	closed bool
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls--; g.calls == 0 {
		g.idle.Broadcast()
	}
}

// close refuses new calls and waits for those that run.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for g.calls > 0 {
		g.idle.Wait()
	}
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// fields are the numbers of the metadata paths that filters find by postings.
type fields struct {
	mu  sync.RWMutex
	num map[string]uint32
}

func (f *fields) number(path string) (uint32, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	num, ok := f.num[path]
	return num, ok
}

func (f *fields) count() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.num)
}

func (f *fields) add(path string, num uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.num[path] = num
}

// enter keeps Close waiting until release is called.
func (db *DB) enter(doing string) (release func(), err error) {
	if err := db.usable(doing); err != nil {
		return nil, err
	}
	if !db.gate.enter() {
		return nil, closedError(doing)
	}
	return db.gate.leave, nil
}

// usable tells whether the database is open and has not failed.
func (db *DB) usable(doing string) error {
	if db == nil { // the zero Memories or KV
		return closedError(doing)
	}
	if db.gate.isClosed() {
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
func (db *DB) Failed() error {
	if err := db.failure.Load(); err != nil {
		return err
	}
	if err := db.fs.Err(); err != nil {
		db.fail(err)
		return db.failure.Load()
	}
	return nil
}

// fail makes every later call return ErrFailed.
func (db *DB) fail(cause error) {
	mend := "mend the cause"
	if fsys.IsFull(cause) {
		mend = "make room on the disk"
	}
	first := db.failure.CompareAndSwap(nil, &fault.Error{
		Kind: fault.ErrFailed, What: "use the database " + db.dir, Why: "it has failed", Cause: cause,
		Do: "close it, " + mend + ", and open it again: everything that was acknowledged is there",
	})
	if first {
		db.log.Error("the database has failed", "dir", db.dir, "cause", cause)
		db.fs.Poison(cause)
	}
}

// lock takes the writer lock.
func (db *DB) lock(ctx context.Context) error {
	_, err := db.lockUnless(ctx, nil)
	return err
}

// lockUnless takes the writer lock, unless done is closed before.
func (db *DB) lockUnless(ctx context.Context, done <-chan struct{}) (locked bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("wait for the writer lock: %w", err)
	}
	select {
	case db.writer <- struct{}{}:
		return true, nil
	default:
	}
	wait, cancel := db.lockLimit(ctx)
	defer cancel()
	select {
	case db.writer <- struct{}{}:
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
		return fmt.Errorf("%s, while %s: %w", what, why, err)
	}
	return &fault.Error{Kind: fault.ErrBusy, What: what, Why: fmt.Sprintf("%s, and has for %v", why, db.lockWait), Do: "try again, or give a longer LockWait"}
}

// lockBehind takes the writer lock for work behind the calls, which has time: LockWait
// bounds calls alone.
func (db *DB) lockBehind(ctx context.Context) error {
	select {
	case db.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the writer lock: %w", ctx.Err())
	}
}

func (db *DB) unlock() { <-db.writer }

// LSN is that of the newest commit that is durable and can be read.
func (db *DB) LSN() uint64 { return db.points.lsn() }

// Settings are what a database was created with.
type Settings struct {
	ID           string         `json:"id"`
	Layout       int            `json:"layout"`
	Language     string         `json:"language"`
	Analyzer     string         `json:"analyzer"`
	IndexedText  []IndexedField `json:"indexed_text"`
	CreatedAt    time.Time      `json:"created_at"`
	LexicalModel string         `json:"lexical_model"`
}

// Settings tells what the database was created with.
func (db *DB) Settings() Settings { return *db.settings.Load() }

// closeWait bounds two waits of Close: for what only the log holds to be written to
// tables, which the next Open replays otherwise; and for the store of a database that has
// failed, of which nothing is needed any more.
const closeWait = 10 * time.Second

// Close waits for running calls, commits what is gathered, and gives the folder
// back. It does not link vectors that still wait for it, see [DB.WaitIndexed]: that
// goes on when the database is opened again, in the pauses between writes. A database
// that has failed is closed too; what failed it was told by every call since. Closing
// again does nothing.
func (db *DB) Close() (err error) {
	db.closing.Do(func() { err = db.close() })
	return err
}

func (db *DB) close() error {
	defer db.endStall()()
	close(db.ending)
	db.stopped() // no new background work
	db.work.Wait()
	db.janitor.stop()
	db.gate.close()
	var errs []error
	if db.Failed() == nil {
		errs = append(errs, db.flushAtClose())
	}
	if db.Failed() == nil {
		errs = append(errs, db.syncer.wait(db.syncer.newest()))
	}
	if db.Failed() == nil && !db.readOnly {
		for _, s := range db.spaces.all() {
			db.saveSpace(context.Background(), s, db.limits.closeTail, db.limits.closeTail)
		}
	}
	errs = append(errs, db.closeCodes(), db.syncer.close(), db.points.close(), db.closeStore(), db.held.Close())
	if db.Failed() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// flushAtClose commits what recalls have gathered, unless the disk has no room for it.
func (db *DB) flushAtClose() error {
	err := db.flush(func(fn func(*Tx) error) error {
		_, err := db.update(context.Background(), fn) // the gate lets no call in any more
		return err
	})
	if errors.Is(err, fault.ErrDiskFull) {
		db.log.Warn("access counts are lost: the disk has no room for them", "dir", db.dir)
		return nil
	}
	return err
}

// endStall watches over Close: a write that waits for a flush which cannot
// succeed, as on a full disk, would keep it waiting for ever. Such a database
// fails; what was acknowledged is in the log. The watch ends with the function
// that is returned.
func (db *DB) endStall() (done func()) {
	stop := make(chan struct{})
	go func() {
		tick := time.NewTicker(closeWait)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if err := db.flushError.Load(); err != nil {
				db.fail(fmt.Errorf("close while the store cannot be written: %w", *err))
				return
			}
		}
	}()
	return func() { close(stop) }
}

// told tells of an error of background work that the log has heard of already.
func told(err error) bool {
	return errors.Is(err, fault.ErrFailed) || errors.Is(err, fault.ErrDiskFull)
}

// background runs fn every interval, and when signal fires, until Close.
func (db *DB) background(ctx context.Context, every time.Duration, signal <-chan struct{}, fn func(context.Context) error) {
	db.work.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-signal:
			}
			if err := fn(ctx); err != nil && ctx.Err() == nil && !told(err) {
				db.log.Error("background work", "error", err)
			}
		}
	})
}
