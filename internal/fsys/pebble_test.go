package fsys_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

// These tests run real databases into every failure. Keys are written in
// order, so what recovery finds must be a prefix of them, and no shorter than
// what was acknowledged.

const (
	dbDir = "db"
	// settle is far beyond what a change in memory takes, so that changes that
	// were under way at the moment of poisoning are over.
	settle = 20 * time.Millisecond
	// closeLimit is what Close may take at most; it takes milliseconds.
	closeLimit = 2 * time.Minute
)

var errDisk = errors.New("the disk is broken")

// fatalLog is a pebble.Logger that fails the test on what would end a process.
type fatalLog struct{ t *testing.T }

func (fatalLog) Infof(string, ...any)  {}
func (fatalLog) Errorf(string, ...any) {}
func (l fatalLog) Fatalf(format string, args ...any) {
	l.t.Errorf("Fatalf: "+format, args...)
	panic("a fatal error reached Pebble")
}

// rig is a database over a seam over a disk that can fail.
type rig struct {
	t     *testing.T
	mem   *vfs.MemFS
	disk  *crashfs.FS
	seam  *fsys.FS
	db    *pebble.DB
	next  uint64 // the next key
	acked uint64 // all keys below are acknowledged
}

func options(t *testing.T, fs vfs.FS) *pebble.Options {
	o := &pebble.Options{
		FS:                 fs,
		Logger:             fatalLog{t},
		FormatMajorVersion: pebble.FormatNewest,
		MemTableSize:       32 << 10,
		// A log rotation every thirty keys or so, a MANIFEST one every flush or two.
		MaxManifestFileSize:   1,
		L0CompactionThreshold: 2,
	}
	return o
}

func newRig(t *testing.T, mem *vfs.MemFS) *rig {
	r := &rig{t: t, mem: mem, disk: crashfs.Wrap(mem, nil)}
	r.seam = fsys.New(r.disk)
	r.seam.PaceRetries(func(bool) { time.Sleep(10 * time.Millisecond) })
	return r
}

// open returns an error, or r.db is set.
func (r *rig) open() error {
	r.seam.Strict(true)
	defer r.seam.Strict(false)
	done := make(chan error, 1)
	go func() {
		db, err := pebble.Open(dbDir, options(r.t, r.seam))
		r.db = db
		done <- err
	}()
	return within(r.t, "Open", done)
}

// within is what comes out of done, which must come in time.
func within[T any](t *testing.T, what string, done <-chan T) T {
	t.Helper()
	select {
	case result := <-done:
		return result
	case <-time.After(closeLimit):
		t.Fatalf("%s hangs", what)
		panic("not reached")
	}
}

func (r *rig) close() {
	done := make(chan error, 1)
	go func() { done <- r.db.Close() }()
	if err := within(r.t, "Close", done); err != nil && r.seam.Err() == nil {
		r.t.Errorf("Close of a healthy database: %v", err)
	}
}

// put writes the next key the way the database does, and acknowledges it if
// the seam is healthy after the sync.
func (r *rig) put() {
	b := r.db.NewBatch()
	defer b.Close()
	err := b.Set(key(r.next), value(r.next), nil)
	if err == nil {
		err = r.db.Apply(b, pebble.NoSync)
	}
	r.next++
	if err == nil {
		err = r.db.LogData(nil, pebble.Sync)
	}
	if err != nil {
		r.t.Errorf("Pebble heard of a failure at key %d: %v", r.next-1, err)
	}
	if err == nil && r.seam.Err() == nil {
		r.acked = r.next
	}
}

// putUntilPoison writes until the seam is poisoned, at most n keys.
func (r *rig) putUntilPoison(n int) {
	for range n {
		if r.seam.Err() != nil {
			return
		}
		r.put()
	}
}

func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// value is about 1 KB that doesn't compress, different for each n.
func value(n uint64) []byte {
	rng := rand.New(rand.NewPCG(n, 1))
	v := make([]byte, 0, 1024)
	for len(v) < 1024 {
		v = binary.BigEndian.AppendUint64(v, rng.Uint64())
	}
	return v
}

// keysIn opens what a file system holds, without a seam, and returns how many
// keys it has. They must be the first ones.
func keysIn(t *testing.T, fs vfs.FS) uint64 {
	t.Helper()
	db, err := pebble.Open(dbDir, options(t, fs))
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("close after reopening: %v", err)
		}
	}()
	if err := db.CheckLevels(nil); err != nil {
		t.Errorf("check after reopening: %v", err)
	}
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var n uint64
	for it.First(); it.Valid(); it.Next() {
		if got := binary.BigEndian.Uint64(it.Key()); got != n {
			t.Fatalf("key %d where %d was expected", got, n)
		}
		if !slices.Equal(it.Value(), value(n)) {
			t.Fatalf("key %d has another value", n)
		}
		n++
	}
	if err := it.Error(); err != nil {
		t.Fatal(err)
	}
	return n
}

// recovers opens what the process and what a power loss would leave behind.
func (r *rig) recovers() {
	r.t.Helper()
	seed := rand.Uint64()
	for _, percent := range []int{0, 50, 100} {
		crashed := r.mem.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, uint64(percent))),
		})
		if n := keysIn(r.t, crashed); n < r.acked || n > r.next {
			r.t.Errorf("after power loss (%d%% of the unsynced kept, seed %d): %d keys of %d acknowledged, %d written",
				percent, seed, n, r.acked, r.next)
		}
	}
	if n := keysIn(r.t, r.mem); n < r.acked || n > r.next {
		r.t.Errorf("%d keys of %d acknowledged, %d written", n, r.acked, r.next)
	}
}

// contents reads every file of the folder but the locks.
func contents(t *testing.T, fs vfs.FS) map[string]string {
	t.Helper()
	names, err := fs.List(dbDir)
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]string)
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dbDir, name))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		m[name] = string(data)
	}
	return m
}

// TestFailures lets one change of each vital kind fail, alone and for good,
// early and late, with logs and MANIFESTs rotating all the time.
func TestFailures(t *testing.T) {
	var faults []*crashfs.Fault
	add := func(kind crashfs.Kind, class crashfs.Class, torn bool) {
		for _, skip := range []int{0, 5} {
			for _, sticky := range []bool{false, true} {
				faults = append(faults, &crashfs.Fault{
					Kind: kind, Class: class, Torn: torn, Skip: skip, Sticky: sticky, Err: errDisk,
				})
			}
		}
	}
	for _, class := range []crashfs.Class{crashfs.Log, crashfs.Manifest} {
		add(crashfs.Create, class, false)
		add(crashfs.Write, class, false)
		add(crashfs.Write, class, true)
		add(crashfs.Sync, class, false)
		add(crashfs.Close, class, false)
	}
	add(crashfs.Create, crashfs.Marker, false)
	add(crashfs.Close, crashfs.Marker, false)
	add(crashfs.DirSync, crashfs.Other, false)

	for _, fault := range faults {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, vfs.NewCrashableMem())
			if err := r.open(); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				r.put()
			}
			told := make(chan error, 2)
			r.seam.OnPoison(func(err error) { told <- err })
			r.disk.SetHook(fault.Hook)
			r.putUntilPoison(1000)

			err := r.seam.Err()
			if err == nil || fault.Hits() == 0 {
				t.Fatalf("no failure in 1000 writes: %v, %d hits", err, fault.Hits())
			}
			if failure, ok := errors.AsType[*fsys.Failure](err); !ok || failure.Op == "" || failure.Path == "" {
				t.Errorf("the failure does not say what failed where: %v", err)
			}
			if !errors.Is(err, errDisk) {
				t.Errorf("the cause is lost: %v", err)
			}
			if got := <-told; !errors.Is(got, err) {
				t.Errorf("OnPoison heard %v, Err is %v", got, err)
			}

			// From here on nothing on disk changes, whatever Pebble still does,
			// and it lives: it writes through log rotations, flushes and reads.
			time.Sleep(settle)
			before := contents(t, r.mem)
			acked := r.acked
			for range 200 {
				r.put()
			}
			if r.acked != acked {
				t.Error("a write was acknowledged after the failure")
			}
			if acked > 0 {
				v, closer, err := r.db.Get(key(acked - 1))
				if err != nil || !slices.Equal(v, value(acked-1)) {
					t.Errorf("read after the failure: %v", err)
				}
				if err == nil {
					closer.Close()
				}
			}
			r.close()
			if after := contents(t, r.mem); !maps.Equal(before, after) {
				t.Errorf("the folder changed after the failure: %v, then %v",
					slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
			if len(told) != 0 {
				t.Error("OnPoison was called twice")
			}
			r.recovers()
		})
	}
}

// TestEveryChange lets each single change of a scripted run fail, and then
// each and all that follow: opening, writing with rotations, flushes and
// compactions, closing, opening again. Failures that Pebble handles itself
// must not lose anything either. Every seventh change is taken, all of them if
// MEMDB_SOAK is set.
func TestEveryChange(t *testing.T) {
	const keys, stall = 120, 200 * time.Millisecond
	script := func(r *rig) bool {
		if r.open() != nil {
			return false
		}
		defer r.close()
		done := make(chan struct{}, 1)
		go func() {
			r.putUntilPoison(keys)
			done <- struct{}{}
		}()
		select {
		case <-done:
		case <-time.After(stall):
			// A writer waits for a flush that fails for ever, which is no
			// failure of the log yet.
			r.seam.Poison(errDisk)
			within(r.t, "a stalled writer", done)
		}
		return true
	}
	count := newRig(t, vfs.NewCrashableMem())
	script(count)
	total := count.disk.Ops()
	step := 7
	if os.Getenv("MEMDB_SOAK") != "" {
		step = 1
	}
	seed := rand.Uint64()
	t.Logf("%d changes, step %d, seed %d", total, step, seed)
	offset := rand.New(rand.NewPCG(seed, 0)).IntN(step)
	for _, sticky := range []bool{false, true} {
		t.Run(fmt.Sprintf("sticky=%v", sticky), func(t *testing.T) {
			t.Parallel()
			for n := 1 + offset; n <= total; n += step {
				r := newRig(t, vfs.NewCrashableMem())
				r.disk.SetHook(func(op crashfs.Op) error {
					if op.N == n || (sticky && op.N > n) {
						return errDisk
					}
					return nil
				})
				script(r)
				if t.Failed() {
					t.Fatalf("with change %d failing", n)
				}
				r.disk.SetHook(nil)
				r.recovers()
				if t.Failed() {
					t.Fatalf("after change %d had failed", n)
				}
			}
		})
	}
}

// TestOpenFails lets each change fail that opening a database with a log to
// replay makes: Open returns, healthy or not, and the next one recovers.
func TestOpenFails(t *testing.T) {
	first := newRig(t, vfs.NewCrashableMem())
	if err := first.open(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		first.put()
	}
	crashed := func() *vfs.MemFS { return first.mem.CrashClone(vfs.CrashCloneCfg{}) }

	count := newRig(t, crashed())
	if err := count.open(); err != nil {
		t.Fatal(err)
	}
	total := count.disk.Ops()
	count.close()
	poisoned := 0
	for n := 1; n <= total; n++ {
		for _, sticky := range []bool{false, true} {
			r := newRig(t, crashed())
			r.next, r.acked = first.next, first.acked
			r.disk.SetHook(func(op crashfs.Op) error {
				if op.N == n || (sticky && op.N > n) {
					return errDisk
				}
				return nil
			})
			err := r.open()
			if err == nil {
				r.close()
			}
			if r.seam.Err() != nil {
				poisoned++
			}
			r.disk.SetHook(nil)
			if n := keysIn(t, r.mem); n != first.acked {
				t.Fatalf("change %d: %d keys of %d", n, n, first.acked)
			}
		}
	}
	if poisoned == 0 {
		t.Error("no failure of Open ever poisoned")
	}
	first.close()
}

// TestStalledWriter holds the disk back until a writer waits for a flush, then
// fails the log. Without a place for the flush to go, that writer would never
// come back, nor would Close.
func TestStalledWriter(t *testing.T) {
	r := newRig(t, vfs.NewCrashableMem())
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	full := &crashfs.Fault{Kind: crashfs.Write, Class: crashfs.Table, Sticky: true, Err: errDisk}
	r.disk.SetHook(full.Hook)
	done := make(chan struct{}, 1)
	wrote := make(chan struct{}, 10_000)
	go func() {
		for r.seam.Err() == nil {
			r.put()
			wrote <- struct{}{}
		}
		done <- struct{}{}
	}()
	for stalled := false; !stalled; {
		select {
		case <-wrote:
		case <-time.After(300 * time.Millisecond):
			stalled = true
		}
	}
	if err := r.seam.Err(); err != nil {
		t.Fatalf("a failed flush poisoned: %v", err)
	}
	r.seam.Poison(errDisk)
	within(r.t, "a stalled writer", done)
	r.close()
	r.recovers()
}

// TestFlushFailureHeals shows that a disk that is full for a while is no
// failure: the flush is retried and nothing is poisoned.
func TestFlushFailureHeals(t *testing.T) {
	r := newRig(t, vfs.NewCrashableMem())
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	full := &crashfs.Fault{Kind: crashfs.Create, Class: crashfs.Table, Sticky: true, Err: errDisk}
	r.disk.SetHook(full.Hook)
	// Not by the writer, who may be waiting for the flush by then.
	healed := make(chan struct{})
	go func() {
		defer close(healed)
		for full.Hits() == 0 {
			time.Sleep(time.Millisecond)
		}
		r.disk.SetHook(nil)
	}()
	for writing := true; writing; {
		select {
		case <-healed:
			writing = false
		default:
			r.put()
		}
	}
	for range 200 {
		r.put()
	}
	if err := r.seam.Err(); err != nil {
		t.Fatalf("poisoned: %v", err)
	}
	if r.acked != r.next {
		t.Errorf("%d acknowledged of %d", r.acked, r.next)
	}
	r.close()
	r.recovers()
}

// TestPoison covers what needs no database.
func TestPoison(t *testing.T) {
	mem := vfs.NewMem()
	seam := fsys.New(mem)
	if err := seam.Err(); err != nil {
		t.Fatalf("a new seam is poisoned: %v", err)
	}
	f, err := seam.Create("snapshot", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var heard []error
	hear := func(err error) { heard = append(heard, err) }
	seam.OnPoison(hear)
	seam.Poison(errDisk)
	seam.Poison(errors.New("later"))
	seam.OnPoison(hear)
	if err := seam.Err(); !errors.Is(err, errDisk) {
		t.Errorf("Err is %v", err)
	}
	if len(heard) != 2 || !errors.Is(heard[0], errDisk) || !errors.Is(heard[1], errDisk) {
		t.Errorf("heard %v", heard)
	}

	withheld := map[string]error{
		"remove":     seam.Remove("snapshot"),
		"remove all": seam.RemoveAll("snapshot"),
		"rename":     seam.Rename("snapshot", "other"),
		"link":       seam.Link("snapshot", "other"),
		"mkdir":      seam.MkdirAll("dir", 0o755),
		"sync":       f.Sync(),
		"sync data":  f.SyncData(),
	}
	_, withheld["create"] = seam.Create("other", vfs.WriteCategoryUnspecified)
	_, withheld["open"] = seam.OpenReadWrite("other", vfs.WriteCategoryUnspecified)
	_, withheld["write"] = f.Write([]byte("x"))
	_, withheld["write at"] = f.WriteAt([]byte("x"), 0)
	_, withheld["sync to"] = f.SyncTo(1)
	for op, err := range withheld {
		if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "frozen") {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Errorf("close of a handle: %v", err)
	}
	names, err := mem.List("/")
	if err != nil || !slices.Equal(names, []string{"snapshot"}) {
		t.Errorf("the folder holds %v, %v", names, err)
	}
}

// TestFailureText: a failure names its path once.
func TestFailureText(t *testing.T) {
	of := func(path string) error {
		return &fsys.Failure{Op: "write", Path: "db/1.log", Cause: &fs.PathError{Op: "write", Path: path, Err: errDisk}}
	}
	for got, want := range map[string]string{
		of("db/1.log").Error(): "write db/1.log: " + errDisk.Error(),
		of("db").Error():       "write db/1.log: write db: " + errDisk.Error(),
		(&fsys.Failure{Op: "sync", Path: "db/1.log", Cause: errDisk}).Error(): "sync db/1.log: " + errDisk.Error(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestReleaseLocks gives a lock back that its holder never closed, and lets
// the holder close it afterwards.
func TestReleaseLocks(t *testing.T) {
	mem := vfs.NewMem()
	seam := fsys.New(mem)
	l, err := seam.Lock("LOCK")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Lock("LOCK"); err == nil {
		t.Fatal("locked twice")
	}
	if err := seam.ReleaseLocks(); err != nil {
		t.Fatal(err)
	}
	again, err := mem.Lock("LOCK")
	if err != nil {
		t.Fatalf("still locked: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := mem.Lock("LOCK"); err == nil {
		t.Error("closing the old lock released the new one")
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
