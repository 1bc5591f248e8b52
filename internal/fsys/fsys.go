// Package fsys is the file-system seam between the database and Pebble: it
// catches the first failure that Pebble can't survive and freezes the folder.
//
// Pebble answers a failed write of its log (*.log) or of its MANIFEST with
// Logger.Fatalf or a panic: it exits the process, or, where Fatalf returns or
// never returns, it loses the error or deadlocks Close. So the failure must
// not reach Pebble. FS reports it as success, remembers it, and from then on
// nothing in the folder changes any more. The owner asks [FS.Err] after every
// sync it waited for, before it acknowledges anything, then closes; opening
// again recovers all that was synced before the failure.
//
// Three classes of files are told apart by name and by what is done to them:
//
//	class  files                            a failure while healthy  once frozen
//	vital  *.log, MANIFEST-*, marker.*, and poisons; the caller is  success without
//	       the sync of any directory        told of success          effect
//	flush  a table created to flush a       goes to the caller,      lands in memory
//	       memtable                         which retries
//	other  all the rest, and every link,    goes to the caller       fails without
//	       rename and removal                                        effect
//
// Frozen flushes land in memory, since a writer that waits for one holds
// Pebble's commit lock, and neither it nor Close would ever come back if the
// flush failed for good. What they take is bounded by the memtables that
// existed: the owner admits no more writes. Compactions fail and are retried,
// see [FS.PaceRetries].
//
// FS also adds two syncs of the directory where Pebble replaces a marker,
// without which the crash of a file system that reorders could lose it, and keeps
// what can wait from taking the last free space, see [FS.KeepFree].
//
// A folder that was removed or replaced while it was open is a failure, too: see [FS.Hold].
//
// Reads go on throughout. Pebble handles a failed removal, flush or compaction
// by itself, so none of these poison, but for the time of its Open: see
// [FS.Strict].
package fsys

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Failure is the first failure of a database folder.
type Failure struct {
	Op    string // what was being done: "write", "sync", "create", …; empty if the cause came from elsewhere
	Path  string // to which file; empty with Op
	Cause error
}

// Error has the form "op path: cause".
func (e *Failure) Error() string {
	if at, ok := errors.AsType[*iofs.PathError](e.Cause); e.Op == "" || ok && at.Path == e.Path {
		return e.Cause.Error()
	}
	return e.Op + " " + e.Path + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Failure) Unwrap() error { return e.Cause }

// FS wraps a file system as the package comment says. It implements [vfs.FS].
type FS struct {
	base    vfs.FS
	failure atomic.Pointer[Failure]
	strict  atomic.Bool
	// ram holds the tables flushed after poisoning, by their flattened paths.
	ram  *vfs.MemFS
	room room
	// apart begins the paths of files that are none of the database, see SetApart.
	apart atomic.Pointer[string]
	place atomic.Pointer[Place]
	// tables are those that are being written, by their paths: *table.
	tables sync.Map

	mu       sync.Mutex
	onPoison []func(error)
	pace     func(kept bool)
	locks    map[*heldLock]struct{}
	durable  durable
	logFiles logFiles
}

// New wraps base, healthy.
func New(base vfs.FS) *FS {
	return &FS{base: base, ram: vfs.NewMem(), locks: make(map[*heldLock]struct{})}
}

// Err returns nil while the folder is healthy, else a *Failure that says what
// failed first.
//
// A caller that finds nil after Pebble reported a sync knows that the sync
// took place: poison is set before the report.
func (f *FS) Err() error {
	if failure := f.failure.Load(); failure != nil {
		return failure
	}
	return nil
}

// Poison freezes the folder. The first cause wins; later ones are dropped. A
// change that was under way meanwhile may still take place.
//
// It is also the way out for an owner whose Close does not come back, since
// Pebble waits for a flush that a full disk keeps failing.
func (f *FS) Poison(cause error) {
	f.poison(&Failure{Cause: cause})
}

func (f *FS) poison(failure *Failure) {
	if !f.failure.CompareAndSwap(nil, failure) {
		return
	}
	f.mu.Lock()
	hooks := f.onPoison
	f.onPoison = nil
	f.mu.Unlock()
	for _, hook := range hooks {
		hook(failure)
	}
}

// OnPoison has fn called once with what Err returns, as soon as the folder is
// poisoned, or now if it is. It runs on the goroutine that met the failure,
// deep inside Pebble: it must neither block nor call the database.
func (f *FS) OnPoison(fn func(error)) {
	f.mu.Lock()
	failure := f.failure.Load()
	if failure == nil {
		f.onPoison = append(f.onPoison, fn)
	}
	f.mu.Unlock()
	if failure != nil {
		fn(failure)
	}
}

// Strict is for the time of Pebble's Open: while it is on, the failure of a
// flush poisons as well, and that of any file but a table is treated like a
// vital one.
//
// Open flushes what it replays, and retries without end where that fails, as on
// a full disk: poisoned, it comes back. And where Open returns an error it pulls
// down what its own background goroutines are using, one of which then panics:
// reported as a success, the failure is left to Err, and Close ends the
// goroutines first. Once the database is open, Pebble handles both better by
// itself.
func (f *FS) Strict(on bool) { f.strict.Store(on) }

// PaceRetries has wait called whenever a file could not be created or written
// and the caller hears of it: Pebble retries a failed flush or compaction at
// once and for ever. Some tens of milliseconds keep that from taking a core,
// and delay Close by no more. kept tells that it is a compaction which was refused
// its space, see [FS.KeepFree]: it may wait for longer, since each try writes what
// there is above the floor. Waiting needs a timer, which is the owner's.
func (f *FS) PaceRetries(wait func(kept bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pace = wait
}

func (f *FS) pauseRetry(c class, err error) {
	f.mu.Lock()
	wait := f.pace
	f.mu.Unlock()
	if wait != nil {
		wait(c == plain && IsKept(err))
	}
}

// ReleaseLocks releases every file lock that was taken through f and is still
// held, for an owner that has given up waiting for Pebble's Close.
func (f *FS) ReleaseLocks() error {
	f.mu.Lock()
	held := make([]*heldLock, 0, len(f.locks))
	for l := range f.locks {
		held = append(held, l)
	}
	f.mu.Unlock()
	var first error
	for _, l := range held {
		if err := l.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// heldLock is a file lock that both Pebble and ReleaseLocks may close.
type heldLock struct {
	fs   *FS
	base io.Closer
	once sync.Once
}

func (l *heldLock) Close() (err error) {
	l.once.Do(func() {
		l.fs.mu.Lock()
		delete(l.fs.locks, l)
		l.fs.mu.Unlock()
		err = l.base.Close()
	})
	return err
}

// markerPrefix begins the names of the files that say which MANIFEST counts.
const markerPrefix = "marker."

// class says what becomes of a failed change, see the package comment.
type class uint8

const (
	plain   class = iota
	flushed       // a table that holds what a memtable held
	startup       // vital while Open runs, see Strict
	vital
)

func (f *FS) classOf(path string, category vfs.DiskWriteCategory) class {
	name := f.base.PathBase(path)
	switch {
	case f.isApart(path):
		return plain
	case strings.HasSuffix(name, ".log"),
		isManifest(name),
		strings.HasPrefix(name, markerPrefix):
		return vital
	case category == flushCategory:
		return flushed
	case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
		return plain
	}
	return startup
}

// hidden reports whether the failure of a change is reported as a success.
func (f *FS) hidden(c class) bool {
	return c == vital || c == startup && f.strict.Load()
}

// guard makes one change to the folder, or withholds it once frozen, and
// decides what the caller hears of it.
func (f *FS) guard(op, path string, c class, change func() error) error {
	if op != "write" && op != "sync" { // by the path: it may lead to the folder of another database
		_ = f.InPlace()
	}
	if failure := f.failure.Load(); failure != nil {
		if f.hidden(c) {
			return nil
		}
		return fmt.Errorf("%s %s: the folder is frozen since a failure: %w", op, path, failure)
	}
	err := change()
	if err == nil {
		return nil
	}
	hidden := f.hidden(c)
	if hidden || c == flushed && f.strict.Load() {
		f.poison(&Failure{Op: op, Path: path, Cause: err})
	}
	if hidden {
		return nil
	}
	return err
}
