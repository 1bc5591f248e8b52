package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// deadTea is a database that has reclaimed nothing yet: a memory with a vector that
// was deleted. The janitor rests until release is called.
func deadTea(t *testing.T, o opener) (db *DB, release func()) {
	t.Helper()
	db = openTest(t, vfs.NewMem(), o)
	db.chunks.busy.Lock()
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "tea", Embedding: []float32{1, 2}})
	if err := db.Memories().Delete(t.Context(), ada, "a"); err != nil {
		t.Fatal(err)
	}
	// What the parts read behind the opening may still see the memory.
	comes(t, "that nobody sees the memory", func() bool { return db.points.oldest() >= db.LSN() })
	return db, db.chunks.busy.Unlock
}

// TestJanitorWaits: the janitor waits for the writer lock for as long as it takes;
// LockWait is for calls.
func TestJanitorWaits(t *testing.T) {
	const wait = time.Second // enough for the calls of the test
	db, release := deadTea(t, Options{LockWait: wait})
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
	time.Sleep(wait + 20*time.Millisecond)
	db.unlock()
	waitVectors(t, db, 0)
}

// TestJanitorBeginsAgain: what could not be reclaimed is reclaimed the next time.
func TestJanitorBeginsAgain(t *testing.T) {
	db, release := deadTea(t, Options{})
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	db.janitor.group.End() // what runs by itself
	release()
	db.janitor.stop()
	if err := db.janitor.work(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without the lock: %v", err)
	}
	db.unlock()
	if err := db.janitor.work(t.Context()); err != nil {
		t.Error(err)
	}
	waitVectors(t, db, 0)
}

// TestJanitorPassesDamage: a dead record that cannot be read keeps the janitor from
// nothing but its vectors.
func TestJanitorPassesDamage(t *testing.T) {
	db, release := deadTea(t, setup{tuning: tuning{hotBytes: 1}})
	err := kv.Scan(db.store, db.keys().Header(layout.KindRecord, 0), layout.PrefixEnd(db.keys().Header(layout.KindRecord, 0)), func(key, _ []byte) error {
		return db.store.Set(key, []byte{99}, pebble.Sync)
	})
	if err != nil {
		t.Fatal(err)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "begins another chunk"})
	release()
	janitorDone(t, db)
	waitVectors(t, db, 0)
	if n := countKeys(t, db, layout.KindTombstone); n > 0 {
		t.Errorf("%d tombstones are left", n)
	}
}

// TestRangeWithDamage: a damaged record of a death range keeps neither the rest of the
// range nor the sealing of chunks, for which writers wait.
func TestRangeWithDamage(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{hotBytes: 1}})
	ada := memory.Scope{User: "ada"}
	db.chunks.busy.Lock()
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "tea"})
	err := kv.Scan(db.store, db.keys().Header(layout.KindRecord, 0), layout.PrefixEnd(db.keys().Header(layout.KindRecord, 0)), func(key, _ []byte) error {
		return db.store.Set(key, []byte{99}, pebble.Sync)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Memories().DeleteScope(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "bob"}, Text: "coffee"})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "bob"}, Text: "begins another chunk"})
	waitForReaders(t, db)
	db.chunks.busy.Unlock()
	waitCleaned(t, db)
	if n := db.waitSealed(t); n == 0 {
		t.Error("nothing is sealed")
	}
}

// TestResetTakenBack: a reset that does not commit leaves the clean-up that there is
// to do.
func TestResetTakenBack(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "tea"})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "bob"}, Text: "coffee"})
	err := db.View(t.Context(), func(*Tx) error { // so that the range stays
		if _, err := db.Memories().DeleteScope(t.Context(), ada); err != nil {
			return err
		}
		failure := errors.New("changed my mind")
		err := db.Update(t.Context(), func(tx *Tx) error {
			if _, err := tx.reset(); err != nil {
				return err
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("update: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waitCleaned(t, db)
	mustCheck(t, db, 1)
}

// TestForgetKeepsOrder: the dead stay in the order of their LSNs, by which they are
// taken.
func TestForgetKeepsOrder(t *testing.T) {
	j := &janitor{
		dead:   []records.Dead{{Doc: 1, LSN: 3}, {Doc: 2, LSN: 9}, {Doc: 3, LSN: 9}},
		ranges: []layout.DeathRange{{LSN: 5, Docs: roaring.BitmapOf(8, 9)}, {LSN: 7, Docs: roaring.BitmapOf(7)}},
	}
	j.forget()
	var docs []uint32
	for _, d := range j.dead {
		docs = append(docs, d.Doc)
	}
	if want := []uint32{1, 8, 9, 7, 2, 3}; !slices.Equal(docs, want) || len(j.ranges) > 0 {
		t.Errorf("%v, want %v; %d ranges", docs, want, len(j.ranges))
	}
	if part := j.takeDead(7); len(part) != 4 {
		t.Errorf("%d died at 7 or before", len(part))
	}
}

// TestBusyJanitor: a reset and a rebuild wait for the janitor as long as they are told,
// even while it waits for a write.
func TestBusyJanitor(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea"})
	db.life.EndWork() // parts look at it, too
	db.lockWait = time.Millisecond
	db.chunks.busy.Lock()
	_, err := db.Reset(t.Context())
	wantError(t, "reset", err, fault.ErrBusy)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	wantError(t, "rebuild", db.Rebuild(ctx, IndexText, nil), context.Canceled)
	db.lockWait = 0
	_, err = db.Reset(ctx)
	wantError(t, "reset", err, context.Canceled)
	db.chunks.busy.Unlock()
	if n, err := db.Reset(t.Context()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
