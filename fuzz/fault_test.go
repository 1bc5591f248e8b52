package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

var errDisk = errors.New("the disk is broken")

// TestFailedWrites lets one change of each kind fail that the database can't go
// on after, now and at a rotation: from then on every call says ErrFailed, the
// process lives, Close returns, and opening again finds everything acknowledged.
func TestFailedWrites(t *testing.T) {
	race.Sequential(t)
	fault := func(class crashfs.Class, kind crashfs.Kind, skip int, torn bool) *crashfs.Fault {
		return &crashfs.Fault{Class: class, Kind: kind, Skip: skip, Torn: torn, Err: errDisk}
	}
	for _, f := range []*crashfs.Fault{
		fault(crashfs.Log, crashfs.Write, 0, false),
		fault(crashfs.Log, crashfs.Write, 3, true),
		fault(crashfs.Log, crashfs.Sync, 0, false),
		fault(crashfs.Log, crashfs.Sync, 3, false),
		fault(crashfs.Log, crashfs.Close, 0, false),  // at rotation
		fault(crashfs.Log, crashfs.Create, 0, false), // at rotation
		fault(crashfs.Log, crashfs.Create, 1, false),
		fault(crashfs.Other, crashfs.DirSync, 0, false), // at rotation of the log, or a flush
		fault(crashfs.Other, crashfs.DirSync, 2, false),
		fault(crashfs.Manifest, crashfs.Write, 0, true),
		fault(crashfs.Manifest, crashfs.Sync, 0, false),
	} {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			if err := w.open(); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(newSeed(t), 0))
			a := &actor{w: w, rng: rng, user: "single"}
			step := func() error { return w.update(t.Context(), a.add) }
			for range 5 {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			w.disk.SetHook(f.Hook)
			var err error
			for n := 0; err == nil && n < 500; n++ {
				err = step()
			}
			if f.Hits() == 0 {
				t.Fatal("the failure was never met")
			}
			if !errors.Is(err, memory.ErrFailed) || !errors.Is(err, errDisk) {
				t.Fatalf("the write returned %v", err)
			}
			refusesAll(t, w.db)
			closes(t, w.db)
			w.disk.SetHook(nil)
			w.recovers(t)
		})
	}
}

// refusesAll makes each call on a failed database.
func refusesAll(t *testing.T, db *engine.DB) {
	t.Helper()
	ctx, m := t.Context(), db.Memories()
	scope := memory.Scope{User: "single"}
	text := "new"
	calls := map[string]error{
		"Failed": db.Failed(),
		"View":   db.View(ctx, func(*engine.Tx) error { return nil }),
		"Update": db.Update(ctx, func(*engine.Tx) error { return nil }),
		"Delete": m.Delete(ctx, scope, "given 1"),
	}
	_, calls["Store"] = m.Store(ctx, memory.Memory{Scope: scope, Text: text}, nil)
	_, calls["StoreBatch"] = m.StoreBatch(ctx, []memory.Memory{{Scope: scope, Text: text}}, nil)
	_, calls["Get"] = m.Get(ctx, scope, "given 1")
	_, calls["Update memory"] = m.Update(ctx, scope, "given 1", memory.Patch{Text: &text})
	_, calls["DeleteScope"] = m.DeleteScope(ctx, scope)
	_, calls["List"] = m.List(ctx, memory.ListQuery{Scope: scope})
	_, calls["History"] = m.History(ctx, scope, "given 1")
	_, calls["Recall"] = m.Recall(ctx, memory.Query{Scope: scope, Text: text})
	_, calls["Stats"] = db.Stats(ctx)
	_, calls["Check"] = db.Check(ctx)
	_, calls["EmbedPending"] = db.EmbedPending(ctx, 10)
	for call, err := range calls {
		if !errors.Is(err, memory.ErrFailed) {
			t.Errorf("%s of a failed database: %v", call, err)
		}
	}
}

// closes closes a database, in bounded time.
func closes(t *testing.T, db *engine.DB) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- db.Close() }()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, memory.ErrFailed) {
			t.Errorf("Close: %v", err)
		}
	case <-time.After(closeLimit):
		t.Error("Close hangs")
	}
}

// recovers verifies what the process left, and what a power loss after it would
// have left.
func (w *world) recovers(t *testing.T) {
	t.Helper()
	seed := rand.Uint64()
	for _, percent := range []int{0, 50} {
		left := w.mem.Crash(crashfs.Crash{Percent: percent, Rand: rand.New(rand.NewPCG(seed, uint64(percent)))})
		if err := w.verify(t.Context(), left, w.floor()); err != nil {
			t.Errorf("after a power loss that kept %d%% of the unsynced (seed %d): %v", percent, seed, err)
		}
	}
	if err := w.verify(t.Context(), w.mem, w.floor()); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

// TestFailedOpen lets each change fail, alone or with all that follow, that
// opening a database with a log to replay makes: the new MANIFEST, its marker,
// the flush, the new log. Open returns, with the cause, and the next one
// recovers.
func TestFailedOpen(t *testing.T) {
	race.Sequential(t)
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	first := newWorld()
	if err := first.open(); err != nil {
		t.Fatal(err)
	}
	a := &actor{w: first, rng: rng, user: "single"}
	for range 30 {
		if err := a.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	crashed := func() *world {
		mem := first.mem.Crash(crashfs.Crash{Rand: rng})
		return &world{mem: mem, disk: crashfs.Wrap(mem, nil), journal: first.journal}
	}
	count := crashed()
	if err := count.open(); err != nil {
		t.Fatal(err)
	}
	total := count.disk.Ops()
	closes(t, count.db)
	seen := map[crashfs.Class]bool{}
	for n := 1; n <= total; n++ {
		for _, sticky := range []bool{false, true} {
			w := crashed()
			w.disk.SetHook(func(op crashfs.Op) error {
				if op.N == n || sticky && op.N > n {
					seen[op.Class()] = true
					return errDisk
				}
				return nil
			})
			w.runBroken(t, func(w *world) error { return w.open() })
			w.disk.SetHook(nil)
			if err := w.verify(t.Context(), w.mem, w.floor()); err != nil {
				t.Fatalf("change %d of %d, sticky %v: %v", n, total, sticky, err)
			}
		}
	}
	for _, class := range []crashfs.Class{crashfs.Log, crashfs.Manifest, crashfs.Marker, crashfs.Table} {
		if !seen[class] {
			t.Errorf("no change to a %s failed", class)
		}
	}
	closes(t, first.db)
}

// TestFullDisk fills the disk under the flushes until writers wait, and frees
// it: nothing has failed, and everything goes on.
func TestFullDisk(t *testing.T) {
	w := newWorld()
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	full := &crashfs.Fault{Class: crashfs.Table, Kind: crashfs.Write, Sticky: true, Err: errDisk}
	w.disk.SetHook(full.Hook)
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	a := &actor{w: w, rng: rng, user: "single"}
	wrote := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			err := w.update(ctx, a.add)
			select {
			case wrote <- err:
			case <-ctx.Done():
				close(wrote)
				return
			}
		}
	}()
	for stalled := false; !stalled; {
		select {
		case err := <-wrote:
			if err != nil {
				t.Fatalf("a write on a full disk: %v", err)
			}
		case <-time.After(time.Second):
			stalled = full.Hits() > 0 // else the machine is only slow
		}
	}
	// Readers don't wait.
	if _, err := w.db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true}); err != nil {
		t.Errorf("a list on a full disk: %v", err)
	}
	w.disk.SetHook(nil)
	if err := <-wrote; err != nil {
		t.Errorf("the write that waited: %v", err)
	}
	cancel()
	for range wrote { // until the writer has ended
	}
	if err := w.db.Failed(); err != nil {
		t.Errorf("a full disk failed the database: %v", err)
	}
	closes(t, w.db)
	w.recovers(t)
}

// TestFullDiskAnywhere has the disk full from each change of a workload on, so that
// nothing can be written or made and all else goes on: whatever was acknowledged can
// be read on the disk while it is full, and everything goes on when there is room. A
// sample takes one change in several.
func TestFullDiskAnywhere(t *testing.T) {
	race.Sequential(t)
	const sample = 12
	seed := newSeed(t)
	script := func(w *world) error {
		return singles(context.Background(), w, rand.New(rand.NewPCG(seed, 1)))
	}
	total := changesOf(t, script)
	rng := rand.New(rand.NewPCG(seed, 2))
	for n := 1; n <= total; n++ {
		if soak(t) == 0 && rng.IntN(sample) != 0 {
			continue
		}
		t.Run(fmt.Sprintf("change %d of %d", n, total), func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			full := func(op crashfs.Op) error {
				switch {
				case op.N < n:
				case op.Kind == crashfs.Write && op.N == n: // it takes the last space
					return (&crashfs.Fault{Kind: op.Kind, Class: op.Class(), Torn: true, Err: syscall.ENOSPC}).Hook(op)
				case op.Kind == crashfs.Write, op.Kind == crashfs.Create, op.Kind == crashfs.Mkdir:
					return syscall.ENOSPC
				}
				return nil
			}
			w.disk.SetHook(full)
			err := w.runFull(t, script)
			if err != nil && !fsys.IsFull(err) {
				t.Errorf("the run ended with %v", err)
			}
			o := options()
			o.ReadOnly = true
			if err := w.verifyAs(t.Context(), w.disk, o, w.floor()); err != nil && (!errors.Is(err, memory.ErrNotDatabase) || w.floor() != (floor{})) {
				t.Errorf("read on the full disk: %v", err)
			}
			w.disk.SetHook(nil)
			w.recovers(t)
		})
	}
}

// changesOf is how many changes to the disk a script makes.
func changesOf(t *testing.T, script func(*world) error) int {
	t.Helper()
	w := newWorld()
	if err := script(w); err != nil {
		t.Fatal(err)
	}
	closes(t, w.db)
	return w.disk.Ops()
}

// runFull runs a script on a disk that fills up, until an error ends it, and closes.
func (w *world) runFull(t *testing.T, script func(*world) error) (err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err = script(w); w.db != nil {
			closes(t, w.db)
		}
	}()
	select {
	case <-done:
	case <-time.After(closeLimit):
		t.Fatal("the run hangs")
	}
	return err
}

// TestEveryFailure lets each change to a file fail, alone or with all that
// follow, through the whole of a workload: opening, committing, flushing,
// rotating, reopening, closing. Whatever fails, the process lives, calls return,
// nothing acknowledged is lost. A sample takes one change in several.
func TestEveryFailure(t *testing.T) {
	race.Sequential(t)
	const sample = 12
	seed := newSeed(t)
	script := func(w *world) error {
		return singles(context.Background(), w, rand.New(rand.NewPCG(seed, 1)))
	}
	total := changesOf(t, script)
	rng := rand.New(rand.NewPCG(seed, 2))
	for n := 1; n <= total; n++ {
		for _, sticky := range []bool{false, true} {
			if soak(t) == 0 && rng.IntN(sample) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("change %d of %d, sticky %v", n, total, sticky), func(t *testing.T) {
				t.Parallel()
				w := newWorld()
				w.disk.SetHook(func(op crashfs.Op) error {
					if op.N == n || sticky && op.N > n {
						return errDisk
					}
					return nil
				})
				w.runBroken(t, script)
				w.disk.SetHook(nil)
				w.recovers(t)
			})
		}
	}
}

// runBroken runs a script on a disk that fails, until an error ends it, and
// closes. A full disk stalls writers by design: they go on when it is mended.
func (w *world) runBroken(t *testing.T, script func(*world) error) {
	t.Helper()
	const stall = 300 * time.Millisecond
	done := make(chan error, 1)
	go func() {
		err := script(w)
		if w.db != nil {
			closes(t, w.db)
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(stall):
		w.disk.SetHook(nil)
		select {
		case err = <-done:
		case <-time.After(closeLimit):
			t.Fatal("the run hangs, with the disk mended")
		}
	}
	if err != nil && !errors.Is(err, memory.ErrFailed) && !errors.Is(err, errDisk) {
		t.Errorf("the run ended with %v", err)
	}
}
