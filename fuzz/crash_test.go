package fuzz

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// keep is the share of the unsynced data that a crash keeps, in percent.
var keep = []int{0, 30, 70, 100}

// crash is what a crash before one change left, and what had been acknowledged.
type crash struct {
	op    crashfs.Op
	how   crashfs.Crash
	left  *crashfs.Disk
	floor floor
}

func (c crash) String() string {
	return fmt.Sprintf("crash before change %d, %s of %s, with %d%% of the unsynced, names in any order: %v, chance bytes: %v",
		c.op.N, c.op.Kind, c.op.Path, c.how.Percent, c.how.Unordered, c.how.Garbage)
}

// TestCrash crashes each workload before its writes, syncs, creations, renames
// and removals, and recovers. Writes that are not synced are torn in sectors of 512 bytes, files
// that grew end in zeros or chance bytes, and names that are not synced are there or not, in
// the order of a journal or in any (see crashfs.Disk). A sample takes every change while the folder is
// made, and one in several later on.
func TestCrash(t *testing.T) {
	const making = 40
	for _, workload := range workloads {
		t.Run(workload.name, func(t *testing.T) {
			seed := newSeed(t)
			rng := rand.New(rand.NewPCG(seed, 1))
			soaking := soak(t) > 0
			w := newWorld()
			crashes := make(chan crash)
			changed := map[string]int{}
			sample := workload.sample
			if race.Enabled { // which takes ten times as long for each
				sample *= 10
			}
			w.disk.SetHook(func(op crashfs.Op) error {
				changed[op.Class().String()]++
				if op.Kind == crashfs.Close {
					return nil
				}
				chosen := rng.IntN(len(keep))
				if op.N > making && rng.IntN(sample) != 0 {
					chosen = -1
				}
				for i, percent := range keep {
					if soaking || i == chosen {
						crashes <- w.crash(op, percent, seed)
					}
				}
				return nil
			})
			done := make(chan error, 1)
			go func() {
				defer close(crashes)
				err := workload.run(t.Context(), w, rand.New(rand.NewPCG(seed, 2)))
				if w.db != nil {
					err = errors.Join(err, w.db.Close())
				}
				done <- err
			}()
			recovered := w.recoverAll(t, crashes)
			if err := <-done; err != nil {
				t.Errorf("the run: %v", err)
			}
			w.disk.SetHook(nil)
			if err := w.verify(t.Context(), w.mem, w.floor()); err != nil {
				t.Errorf("after the run: %v", err)
			}
			t.Logf("%d commits, changes to files %v, %d crashes recovered", w.journal.watermark(), changed, recovered)
		})
	}
}

// crash simulates one. The floor is read first: what is acknowledged after it
// need not be there.
func (w *world) crash(op crashfs.Op, percent int, seed uint64) crash {
	rng := rand.New(rand.NewPCG(seed, uint64(op.N)<<8|uint64(percent)))
	c := crash{op: op, floor: w.floor()}
	c.how = crashfs.Crash{Percent: percent, Unordered: rng.IntN(2) == 0, Garbage: rng.IntN(2) == 0, Rand: rng}
	c.left = w.mem.Crash(c.how)
	return c
}

// recoverAll verifies crashes beside the run that they come from, which waits
// for it: a few clones of the disk exist at a time.
func (w *world) recoverAll(t *testing.T, crashes <-chan crash) int {
	var recovered atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range crashes {
				if t.Failed() {
					continue // one is enough; the run must end
				}
				if err := w.verify(t.Context(), c.left, c.floor); err != nil {
					t.Errorf("%v: %v", c, err)
				}
				recovered.Add(1)
			}
		})
	}
	wg.Wait()
	return int(recovered.Load())
}
