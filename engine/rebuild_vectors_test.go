package engine

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestRebuildVectors: beside changes, Views and searches each index is made anew; what was
// found is found, before and after reopening, and the snapshot is another.
func TestRebuildVectors(t *testing.T) {
	for _, metric := range []Metric{MetricCosine, MetricL2} {
		w := newVectorWorld(t, metric, Options{})
		w.opts.vectors = smallLimits()
		w.opts.vectors.SaveTail, w.opts.vectors.CloseTail = 1<<30, 1<<30 // only a rebuild writes a snapshot
		w.reopen()
		for range 300 {
			w.change(w.db.Memories(), w.mems)
		}
		waitIndexed(t, w.db)
		old := w.db.spaces.Named(memory.DefaultSpace)
		before := maps.Clone(w.mems)
		var done, of int64
		err := w.db.View(t.Context(), func(tx *Tx) error {
			var running sync.WaitGroup
			var err error
			running.Go(func() {
				err = w.db.Rebuild(t.Context(), IndexVectors, func(n, all int64) { done, of = n, all })
			})
			for range 100 {
				w.change(w.db.Memories(), w.mems)
			}
			running.Wait()
			w.check(tx.Memories(), before)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		now := w.db.spaces.Named(memory.DefaultSpace)
		if now == old || done != of || done < 30 || now.Index.Linked() < 30 {
			t.Fatalf("the same index: %v; %d of %d vectors, %d linked", now == old, done, of, now.Index.Linked())
		}
		w.check(w.db.Memories(), w.mems)
		if names := snapshots(t, w.fs); len(names) != 1 {
			t.Fatalf("snapshots: %v", names)
		}
		name := now.Saved.Name
		for range 50 {
			w.change(w.db.Memories(), w.mems)
		}
		w.reopen()
		if s := w.db.spaces.Named(memory.DefaultSpace); s.Saved.Name != name {
			t.Errorf("opened with the snapshot %q, not with %q", s.Saved.Name, name)
		}
		w.check(w.db.Memories(), w.mems)
		w.enough()
		waitIndexed(t, w.db)
		mustCheck(t, w.db, len(w.mems))
		closeTest(t, w.db)
	}
}

// TestRebuildVectorsReplaces: a graph of links that finds little is mended by a rebuild, which
// replaces its snapshot; a check says so. Small spaces have no graph, and no snapshot.
func TestRebuildVectorsReplaces(t *testing.T) {
	w, name := savedWorld(t)
	w.openOn(w.fs)
	mustRebuild(t, w.db, IndexVectors)
	s := w.db.spaces.Named(memory.DefaultSpace)
	if s.Broken.Load() || s.Saved.Name == "" || !slices.Equal(snapshots(t, w.fs), []string{s.Saved.Name}) {
		t.Errorf("the snapshot was %s, and is %s; files: %v", name, s.Saved.Name, snapshots(t, w.fs))
	}
	for _, left := range []bool{false, true} {
		if left {
			for id, m := range w.mems {
				if err := w.db.Memories().Delete(t.Context(), m.Scope, id); err != nil {
					t.Fatal(err)
				}
				delete(w.mems, id)
			}
			waitCleaned(t, w.db)
		}
		s.Broken.Store(true)
		mustRebuild(t, w.db, IndexVectors)
		s = w.db.spaces.Named(memory.DefaultSpace)
		if s.Broken.Load() {
			t.Error("the space is still broken")
		}
	}
	if names := snapshots(t, w.fs); len(names) != 0 {
		t.Errorf("snapshots of nothing: %v", names)
	}
	closeTest(t, w.db)
}

// TestRebuildVectorsKilled: a database that is killed at any write of a rebuild of its vectors
// opens with what was there, and so does one that loses what was not synced.
func TestRebuildVectorsKilled(t *testing.T) {
	w, _ := savedWorld(t)
	w.openOn(w.fs)
	ops := 0
	disk := w.fs.(*crashfs.Disk)
	var killed []*crashfs.Disk
	err := w.db.Rebuild(t.Context(), IndexVectors, func(_, _ int64) {
		if ops++; ops <= 3 {
			killed = append(killed, disk.Crash(crashfs.Crash{}), disk.Lose(50, w.rng))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	killed = append(killed, disk.Crash(crashfs.Crash{}), disk.Lose(50, w.rng))
	closeTest(t, w.db)
	if len(killed) < 4 {
		t.Fatalf("killed %d times", len(killed))
	}
	for _, fs := range killed {
		w.openOn(fs)
		w.check(w.db.Memories(), w.mems)
		mustCheck(t, w.db, len(w.mems))
		closeTest(t, w.db)
	}
}

// TestRebuildUnreadableVector: a vector that the store cannot give back is left out, and told.
func TestRebuildUnreadableVector(t *testing.T) {
	var o setup
	var log func() string
	o.Logger, log = logged()
	w := newVectorWorld(t, MetricCosine, o)
	for range 60 {
		w.change(w.db.Memories(), w.mems)
	}
	s := w.db.spaces.Named(memory.DefaultSpace)
	waitCleaned(t, w.db)
	used := int64(0) // the space may still count one whose keys have just gone
	for _, mem := range w.mems {
		if mem.Embedding != nil {
			used++
		}
	}
	err := w.db.View(t.Context(), func(tx *Tx) error {
		for doc := uint32(0); ; doc++ {
			if slot, ok := s.Slot(doc); ok && tx.db.tables.Docs.Row(doc).Visible(tx.state.LSN) {
				return w.db.store.Delete(tx.state.Keys.Vector(s.Num, s.Holders.At(uint64(slot)).Version()), nil)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	mustRebuild(t, w.db, IndexVectors)
	if now := w.db.spaces.Named(memory.DefaultSpace).Used.Load(); now != used-1 || log() == "" {
		t.Errorf("%d vectors of %d; log: %s", now, used, log())
	}
	closeTest(t, w.db)
}

// TestRebuildAll: all makes each of the three, and a name that is none is refused.
func TestRebuildAll(t *testing.T) {
	w := newVectorWorld(t, MetricCosine, Options{})
	for range 100 {
		w.change(w.db.Memories(), w.mems)
	}
	old := w.db.spaces.Named(memory.DefaultSpace)
	text := w.db.tables.NewestIndex.Load()
	mustRebuild(t, w.db, IndexAll)
	if w.db.spaces.Named(memory.DefaultSpace) == old || w.db.tables.NewestIndex.Load() == text {
		t.Error("an index is the one of before")
	}
	mustCheck(t, w.db, len(w.mems))
	if err := w.db.Rebuild(t.Context(), "rows", nil); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("rebuild rows: %v", err)
	}
	closeTest(t, w.db)
}
