package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// crashesVar names the variable that says how often TestAgeingCrashes crashes.
const crashesVar = "MEMDB_CRASHES"

// TestAgeingCrashes crashes the machine after each acknowledged store, touch, consolidation,
// eviction and undo, losing a random part of what was not synced: all that was acknowledged is
// there with its confidence, and nothing that was evicted is back.
func TestAgeingCrashes(t *testing.T) {
	const each = 60
	points := race.Times(each)
	if v := os.Getenv(crashesVar); v != "" {
		var err error
		if points, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", crashesVar, err)
		}
	}
	for left := points; left > 0; left -= each {
		seed := rand.Uint64()
		a := &ageingCrash{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 4)), fs: crashfs.NewDisk(), clk: newTestClock(), model: map[string]aged{}, gone: map[string]bool{}}
		a.db = trashDB(t, a.fs, a.clk)
		for range min(left, each) {
			a.step()
			a.crash()
		}
		if p, err := a.db.Policies().Show(t.Context()); err != nil || p.Trash != policy.Span(time.Hour) {
			t.Errorf("%+v, %v", p, err)
		}
		closeTest(t, a.db)
	}
}

// ageingCrash is a database, and what should be in it.
type ageingCrash struct {
	*testing.T
	seed  uint64
	rng   *rand.Rand
	fs    *crashfs.Disk
	clk   *testClock
	db    *DB
	model map[string]aged
	gone  map[string]bool
	undo  uint64 // the LSN of the last eviction, 0 for none
	n     int
}

// aged is a memory that is there: its confidence, and when it was accessed or stored.
type aged struct {
	confidence float64
	accessed   time.Time
}

func (a *ageingCrash) fatalf(format string, args ...any) {
	a.Helper()
	a.Fatalf("seed %d: %s", a.seed, fmt.Sprintf(format, args...))
}

// step does one thing.
func (a *ageingCrash) step() {
	switch a.rng.IntN(7) {
	case 0, 1:
		for range 5 {
			m := memory.Memory{ID: fmt.Sprint("m", a.n), Text: fmt.Sprint("text number ", a.n), Scope: memory.Scope{Agent: "a"}, Confidence: new(.05 + float64(a.rng.IntN(20))/20*.9), Importance: new(.5)}
			mustStore(a.T, a.db.Memories(), m)
			a.model[m.ID] = aged{*m.Confidence, a.clk.now()}
			a.n++
		}
	case 2, 3:
		a.touch()
	case 4:
		a.consolidate()
	case 5:
		r, victims := mustEvict(a.T, a.db, EvictOptions{Cap: new(int64(10))})
		for id := range victims {
			delete(a.model, id)
			a.gone[id] = true
		}
		if a.undo = 0; r.Evicted > 0 {
			a.undo = r.LSN
		}
	case 6:
		a.bringBack()
	}
}

// touch recalls some, and has that written.
func (a *ageingCrash) touch() {
	a.clk.advance(time.Duration(a.rng.IntN(72)) * time.Hour)
	hits := mustRecall(a.T, a.db.Memories(), memory.Query{Scope: memory.Scope{Agent: "a"}, Text: fmt.Sprint("number ", a.rng.IntN(a.n+1)), Limit: 3})
	for _, h := range hits {
		m, there := a.model[h.ID]
		if !there {
			a.fatalf("%s is found, and should be gone", h.ID)
		}
		m.accessed = a.clk.now()
		a.model[h.ID] = m
	}
	if err := a.db.FlushTouches(a.Context()); err != nil {
		a.fatalf("%v", err)
	}
}

// consolidate decays what was not accessed for a week.
func (a *ageingCrash) consolidate() {
	a.clk.advance(time.Duration(1+a.rng.IntN(10)) * 24 * time.Hour)
	if _, err := a.db.Consolidate(a.Context(), &ConsolidateOptions{Rate: new(.3), Merge: new(false)}); err != nil {
		a.fatalf("%v", err)
	}
	for id, m := range a.model {
		if a.clk.now().Sub(m.accessed) >= 7*24*time.Hour {
			m.confidence = max(m.confidence*.7, min(m.confidence, .1))
			a.model[id] = m
		}
	}
}

// bringBack takes the last eviction back.
func (a *ageingCrash) bringBack() {
	if a.undo == 0 {
		return
	}
	r, err := a.db.Undo(a.Context(), a.undo)
	if errors.Is(err, fault.ErrNotRetained) { // too old
		return
	}
	if err != nil || r.Restored == 0 {
		a.fatalf("%+v, %v", r, err)
	}
	a.undo = 0
	for _, m := range mustList(a.T, a.db.Memories(), memory.Scope{Agent: "a"}) {
		if a.gone[m.ID] {
			delete(a.gone, m.ID)
			a.model[m.ID] = aged{*m.Confidence, m.LastAccessed}
			if m.LastAccessed.IsZero() {
				a.model[m.ID] = aged{*m.Confidence, m.CreatedAt}
			}
		}
	}
}

// crash opens what a crash would leave.
func (a *ageingCrash) crash() {
	clone := a.fs.Lose(a.rng.IntN(101), a.rng)
	crashed, err := openOn(clone, "db", setup{Options: Options{Clock: a.clk.now, MemoryBudget: testBudget}})
	if err != nil {
		a.fatalf("%v", err)
	}
	left := mustList(a.T, crashed.Memories(), memory.Scope{Agent: "a"})
	if len(left) != len(a.model) {
		a.fatalf("%d memories after a crash, want %d", len(left), len(a.model))
	}
	for _, m := range left {
		if want, there := a.model[m.ID]; !there || !alike(*m.Confidence, want.confidence) {
			a.fatalf("%s has the confidence %v after a crash, want %v", m.ID, *m.Confidence, want.confidence)
		}
	}
	mustCheck(a.T, crashed, len(a.model))
	closeTest(a.T, crashed)
}
