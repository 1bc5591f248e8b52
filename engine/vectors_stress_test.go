package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// stressRounds is how often the database is opened and closed: -count repeats
	// the whole.
	stressRounds = 3
	stressActors = 3
	// stressSteps is after how many steps of all actors the database is closed.
	stressSteps = 250
)

// stressActor changes the memories of an owner of its own, and knows what there are.
type stressActor struct {
	t     *testing.T
	scope memory.Scope
	rng   *rand.Rand
	vecs  map[string][]float32 // by ID
	dim   int
	made  int
	// asked and missed count the searches by graph for a vector that is there.
	asked, missed int
}

// TestVectorStress: while several owners store, change and delete vectors, which
// are linked and saved beside that, the next recall of each finds what it has
// stored and nothing that it has deleted, a View stands still, and what was
// acknowledged before a Close in the midst of it is there afterwards.
func TestVectorStress(t *testing.T) {
	limits := smallLimits()
	limits.UnlinkedSoft, limits.UnlinkedIdle, limits.SaveTail = 20, 40, 100
	stressVectors(t, limits, 12)
}

// TestSketchStress is the same where scopes are compared by sketches.
func TestSketchStress(t *testing.T) {
	limits := smallLimits()
	limits.SaveTail, limits.Sketched, limits.Exhaustive = 100, 20, 1<<20
	stressVectors(t, limits, 256)
}

func stressVectors(t *testing.T, limits *spaces.Limits, dim int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	fs := vfs.NewMem()
	actors := make([]*stressActor, stressActors)
	for i := range actors {
		actors[i] = &stressActor{
			t: t, scope: memory.Scope{Agent: fmt.Sprint("a", i)}, rng: rand.New(rand.NewPCG(seed, uint64(i))), vecs: map[string][]float32{}, dim: dim,
		}
	}
	for round := range stressRounds {
		db := openTest(t, fs, setup{tuning: tuning{vectors: limits}})
		for _, a := range actors {
			a.verify(db)
		}
		if t.Failed() {
			return
		}
		var steps atomic.Int64
		var running sync.WaitGroup
		for _, a := range actors {
			running.Go(func() {
				for a.step(db) && !t.Failed() {
					steps.Add(1)
				}
			})
		}
		running.Go(func() { recallUntilClosed(t, db, dim, rand.New(rand.NewPCG(seed, uint64(round)+1000))) })
		for steps.Load() < stressSteps && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		closeTest(t, db)
		running.Wait()
	}
	asked, missed := 0, 0
	for _, a := range actors {
		asked, missed = asked+a.asked, missed+a.missed
	}
	t.Logf("%d of %d searches by graph missed the vector they were for", missed, asked)
	if 100*missed > asked {
		t.Errorf("%d of %d searches by graph missed the vector they were for", missed, asked)
	}
}

// step makes a change and recalls it, or looks twice at one state. It returns false
// when the database has been closed.
func (a *stressActor) step(db *DB) bool {
	var err error
	switch n := a.rng.IntN(10); {
	case n < 5:
		err = a.put(db, 1+a.rng.IntN(2)*a.rng.IntN(20))
	case n < 7:
		err = a.update(db)
	case n < 9:
		err = a.remove(db)
	default:
		err = a.standStill(db)
	}
	if err != nil && !errors.Is(err, fault.ErrClosed) {
		a.t.Error(err)
	}
	return err == nil
}

func (a *stressActor) put(db *DB, n int) error {
	mems := make([]memory.Memory, n)
	for i := range mems {
		a.made++
		mems[i] = memory.Memory{ID: fmt.Sprint("m", a.made), Scope: a.scope, Text: fmt.Sprint("number ", a.made), Embedding: randomVec(a.rng, a.dim)}
	}
	if _, err := db.Memories().StoreBatch(a.t.Context(), mems, nil); err != nil {
		return err
	}
	for _, m := range mems {
		a.vecs[m.ID] = m.Embedding
	}
	last := mems[n-1]
	return a.find(db, last.ID, last.Embedding)
}

func (a *stressActor) update(db *DB) error {
	id, _ := a.any()
	if id == "" {
		return nil
	}
	vec := randomVec(a.rng, a.dim)
	if _, err := db.Memories().Update(a.t.Context(), a.scope, id, memory.Patch{Embedding: vec}); err != nil {
		return err
	}
	a.vecs[id] = vec
	return a.find(db, id, vec)
}

func (a *stressActor) remove(db *DB) error {
	id, vec := a.any()
	if id == "" {
		return nil
	}
	if err := db.Memories().Delete(a.t.Context(), a.scope, id); err != nil {
		return err
	}
	delete(a.vecs, id)
	r, err := a.recall(db.Memories(), vec, false, valid.MaxLimit)
	if slices.Contains(hitIDs(r.Hits), id) {
		a.t.Errorf("%s: %s was found after it was deleted: %+v", a.scope, id, r.Plan)
	}
	return err
}

// any is one of the actor's memories.
func (a *stressActor) any() (string, []float32) {
	ids := make([]string, 0, len(a.vecs))
	for id := range a.vecs {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return "", nil
	}
	slices.Sort(ids)
	id := ids[a.rng.IntN(len(ids))]
	return id, a.vecs[id]
}

func (a *stressActor) recall(m Memories, vec []float32, exact bool, limit int) (memory.Result, error) {
	return m.Recall(a.t.Context(), memory.Query{
		Scope: a.scope, Embedding: vec, Profile: memory.ProfileVector, Exact: exact, Limit: limit, NoTouch: true, Explain: true,
	})
}

// find recalls a memory by its vector.
func (a *stressActor) find(db *DB, id string, vec []float32) error {
	for _, exact := range []bool{false, true} {
		r, err := a.recall(db.Memories(), vec, exact, 1)
		if err != nil {
			return err
		}
		found := len(r.Hits) == 1 && r.Hits[0].ID == id && math.Abs(r.Hits[0].Score-1) < 1e-5
		if r.Plan.Approximate {
			if a.asked++; !found {
				a.missed++
			}
		} else if !found {
			a.t.Errorf("%s: %s was not found: %v, %+v", a.scope, id, r.Hits, r.Plan)
		}
	}
	return nil
}

// standStill asks the same of one state twice.
func (a *stressActor) standStill(db *DB) error {
	return db.View(a.t.Context(), func(tx *Tx) error {
		vec := randomVec(a.rng, a.dim)
		var before []memory.Hit
		for i := range 4 {
			r, err := a.recall(tx.Memories(), vec, true, 20)
			if err != nil {
				return err
			}
			if len(r.Hits) != min(20, len(a.vecs)) {
				a.t.Errorf("%s: %d hits of %d memories", a.scope, len(r.Hits), len(a.vecs))
			}
			if i > 0 && !slices.EqualFunc(before, r.Hits, func(x, y memory.Hit) bool { return x.ID == y.ID && x.Score == y.Score }) {
				a.t.Errorf("%s: a View has found %v, then %v", a.scope, hitIDs(before), hitIDs(r.Hits))
			}
			before = r.Hits
			time.Sleep(time.Millisecond)
		}
		return nil
	})
}

// verify compares what is stored with what the actor was told is.
func (a *stressActor) verify(db *DB) {
	a.t.Helper()
	page, err := db.Memories().List(a.t.Context(), memory.ListQuery{Scope: a.scope, Limit: valid.MaxLimit, WithVectors: true})
	if err != nil {
		a.t.Fatal(err)
	}
	if len(page.Memories) != len(a.vecs) {
		a.t.Errorf("%s: %d memories, want %d", a.scope, len(page.Memories), len(a.vecs))
	}
	for _, m := range page.Memories {
		if !slices.Equal(m.Embedding, a.vecs[m.ID]) {
			a.t.Errorf("%s: %s has the vector %v, want %v", a.scope, m.ID, m.Embedding, a.vecs[m.ID])
		}
	}
	if id, vec := a.any(); id != "" {
		if err := a.find(db, id, vec); err != nil {
			a.t.Fatal(err)
		}
	}
}

// recallUntilClosed searches all owners until the database is closed.
func recallUntilClosed(t *testing.T, db *DB, dim int, rng *rand.Rand) {
	for !t.Failed() {
		r, err := db.Memories().Recall(t.Context(), memory.Query{
			AllScopes: true, Embedding: randomVec(rng, dim), Text: "number", Profile: []memory.Profile{memory.ProfileVector, memory.ProfileHybrid, memory.ProfileBest}[rng.IntN(3)],
			Limit: 50, NoTouch: true,
		})
		if errors.Is(err, fault.ErrClosed) {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		seen := map[string]bool{}
		for i, h := range r.Hits {
			if key := h.Agent + h.ID; seen[key] {
				t.Errorf("%s was found twice", key)
			} else {
				seen[key] = true
			}
			if i > 0 && h.Score > r.Hits[i-1].Score {
				t.Errorf("rank %d is out of order", i)
			}
		}
	}
}
