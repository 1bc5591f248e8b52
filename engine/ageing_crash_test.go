package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestAgeingCrashes crashes the machine after each acknowledged consolidation, eviction and
// undo, losing a random part of what was not synced: all that was acknowledged is there, and
// nothing that was evicted is back.
func TestAgeingCrashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	fs, clk := vfs.NewCrashableMem(), newTestClock()
	db := trashDB(t, fs, clk)
	model := map[string]float64{} // the confidences of what is there
	gone := map[string]bool{}
	var undo uint64
	n := 0
	for step := range 60 {
		switch rng.IntN(5) {
		case 0, 1:
			for range 5 {
				m := Memory{ID: fmt.Sprint("m", n), Text: fmt.Sprint("text number ", n), Scope: Scope{Agent: "a"}, Confidence: new(.05 + float64(rng.IntN(20))/20*.9), Importance: new(.5)}
				mustStore(t, db.Memories(), m)
				model[m.ID] = *m.Confidence
				n++
			}
		case 2:
			clk.advance(8 * 24 * time.Hour)
			if _, err := db.Consolidate(t.Context(), &ConsolidateOptions{Rate: new(.3), Merge: new(false)}); err != nil {
				t.Fatal(err)
			}
			for id, c := range model {
				model[id] = max(c*.7, min(c, .1))
			}
		case 3:
			r, victims := mustEvict(t, db, EvictOptions{Cap: new(int64(10))})
			for id := range victims {
				delete(model, id)
				gone[id] = true
			}
			if undo = 0; r.Evicted > 0 {
				undo = r.LSN
			}
		case 4:
			if undo == 0 {
				continue
			}
			r, err := db.Undo(t.Context(), undo)
			if errors.Is(err, fault.ErrNotRetained) { // too old
				continue
			}
			if err != nil || r.Restored == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			undo = 0
			for _, m := range mustList(t, db.Memories(), Scope{Agent: "a"}) {
				if gone[m.ID] {
					delete(gone, m.ID)
					model[m.ID] = *m.Confidence
				}
			}
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		crashed, err := openOn(clone, "db", setup{Options: Options{Clock: clk.now, MemoryBudget: testBudget}})
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		left := mustList(t, crashed.Memories(), Scope{Agent: "a"})
		if len(left) != len(model) {
			t.Fatalf("step %d: %d memories after a crash, want %d", step, len(left), len(model))
		}
		for _, m := range left {
			if !alike(*m.Confidence, model[m.ID]) {
				t.Fatalf("step %d: %s has the confidence %v after a crash, want %v", step, m.ID, *m.Confidence, model[m.ID])
			}
		}
		mustCheck(t, crashed, len(model))
		closeTest(t, crashed)
	}
	if p, err := db.Policies().Show(t.Context()); err != nil || p.Trash != policy.Span(time.Hour) {
		t.Errorf("%+v, %v", p, err)
	}
}
