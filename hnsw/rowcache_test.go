package hnsw

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// rowWorld is an index that keeps rows, and a twin that asks for each.
type rowWorld struct {
	t       testing.TB
	rng     *rand.Rand
	rows    sync.Map // slot → []float32
	asked   atomic.Int64
	x, twin *Index
}

func newRowWorld(t testing.TB, cfg Config, memory int64) *rowWorld {
	w := &rowWorld{t: t, rng: random(t)}
	cfg.Truth, cfg.Crossover = w.truth, 50
	w.twin = mustNew(t, cfg)
	cfg.Truth, cfg.Rows = w.counted, NewRowBudget(memory)
	w.x = mustNew(t, cfg)
	return w
}

func (w *rowWorld) truth(slot uint32, dst []float32) ([]float32, error) {
	row, _ := w.rows.Load(slot)
	return append(dst, row.([]float32)...), nil
}

func (w *rowWorld) counted(slot uint32, dst []float32) ([]float32, error) {
	w.asked.Add(1)
	return w.truth(slot, dst)
}

// add stores a vector in both, under the slot that both give it.
func (w *rowWorld) add() uint32 {
	vec := randomVector(w.rng, w.x.cfg.Dim)
	slot := mustAdd(w.t, w.x, vec)
	if twin := mustAdd(w.t, w.twin, vec); twin != slot {
		w.t.Fatalf("slot %d, and %d in the twin", slot, twin)
	}
	w.rows.Store(slot, vec)
	return slot
}

func (w *rowWorld) link() {
	for _, x := range []*Index{w.x, w.twin} {
		if err := x.Link(w.t.Context(), x.Len()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// compare asks both the same, and fails unless they answer the same to the bit.
func (w *rowWorld) compare() {
	w.t.Helper()
	query := randomVector(w.rng, w.x.cfg.Dim)
	s := Search{K: 1 + w.rng.IntN(12), Slots: w.x.Len(), Exact: w.rng.IntN(2) == 0}
	if got, want := mustSearch(w.t, w.x, query, s), mustSearch(w.t, w.twin, query, s); !slices.Equal(got, want) {
		w.t.Fatalf("%v; without rows that are kept %v", got, want)
	}
	if slot := w.rng.Uint32N(w.x.Len()); w.x.Live(slot) {
		w.compareRow(slot)
	}
}

// compareRow is compare for the exact score of a row.
func (w *rowWorld) compareRow(slot uint32) {
	w.t.Helper()
	query := randomVector(w.rng, w.x.cfg.Dim)
	var scores [2]float32
	for i, x := range []*Index{w.x, w.twin} {
		e, err := x.Estimator(query, false)
		if err != nil {
			w.t.Fatal(err)
		}
		if scores[i], err = e.Exact(slot, x.cfg.Truth); err != nil {
			w.t.Fatal(err)
		}
		e.Close()
	}
	if scores[0] != scores[1] {
		w.t.Fatalf("slot %d scores %v; without rows that are kept %v", slot, scores[0], scores[1])
	}
}

// TestKeptRows compares answers while rows come and go and slots are used again, with
// room for all rows, for a few, and for none.
func TestKeptRows(t *testing.T) {
	race.Sequential(t)
	for _, metric := range []Metric{Cosine, Dot, L2} {
		for _, room := range []int64{1 << 20, 100 * 4 * 24, 4 * 24, 0} {
			w := newRowWorld(t, Config{Dim: 24, Metric: metric}, room)
			for round := range 6 {
				for range 80 {
					w.add()
				}
				if round > 0 {
					w.link()
				}
				for range 40 {
					w.compare()
				}
				for range 30 {
					slot := w.rng.Uint32N(w.x.Len())
					w.x.Remove(slot)
					w.twin.Remove(slot)
				}
				for range 20 {
					w.compare()
				}
			}
			if added := w.add(); room == 4*24 {
				// In the single place a row is kept that is read twice in a row.
				w.compareRow(added)
				w.compareRow(added)
			}
			if got := w.x.cfg.Rows.Bytes(); got > room || got == 0 && room > 0 {
				t.Errorf("%d bytes of %d are taken", got, room)
			}
		}
	}
}

// TestKeptRowsAreNotAskedFor: with room for all, each is asked for once, or never if
// the caller kept it.
func TestKeptRowsAreNotAskedFor(t *testing.T) {
	w := newRowWorld(t, Config{Dim: 8}, 1<<20)
	for range 40 {
		w.add()
	}
	if !w.x.KeepsAll() || w.twin.KeepsAll() {
		t.Error("there is room for all rows, and none in the twin")
	}
	for i := range 2 {
		mustSearch(t, w.x, randomVector(w.rng, 8), Search{K: 40, Slots: 40})
		if got := w.asked.Load(); got != 40 {
			t.Errorf("search %d: %d rows were asked for", i+1, got)
		}
	}
	if got, want := w.x.cfg.Rows.Bytes(), int64(40*8*4); got != want {
		t.Errorf("%d bytes are taken; want %d", got, want)
	}
	for range 10 {
		slot := w.add()
		row, _ := w.truth(slot, nil)
		w.x.Keep(slot, row)
		w.x.Keep(slot, row[:3]) // no row of the index
	}
	mustSearch(t, w.x, randomVector(w.rng, 8), Search{K: 50, Slots: 50})
	if got := w.asked.Load(); got != 40 {
		t.Errorf("%d rows were asked for, of which the caller kept the last", got)
	}
}

// TestScarceRows: where there is no room for all rows, one that is read once is not kept.
func TestScarceRows(t *testing.T) {
	const dim, n = 8, 40
	w := newRowWorld(t, Config{Dim: dim}, 24*dim*4)
	for range n {
		w.add()
	}
	for i, want := range []struct {
		asked int64
		kept  bool
	}{{n, false}, {2 * n, true}} {
		mustSearch(t, w.x, randomVector(w.rng, dim), Search{K: n, Slots: n})
		if asked, kept := w.asked.Load(), w.x.cfg.Rows.Bytes() > 0; asked != want.asked || kept != want.kept {
			t.Errorf("search %d: %d rows were asked for, and rows are kept: %v; want %+v", i+1, asked, kept, want)
		}
	}
	if mustSearch(t, w.x, randomVector(w.rng, dim), Search{K: n, Slots: n}); w.asked.Load() == 3*n {
		t.Error("no row that was read twice is kept")
	}
}

// TestRowBudgetIsShared: what one index takes another lacks, until it is gone.
func TestRowBudgetIsShared(t *testing.T) {
	const dim, room = 16, 32 * 16 * 4
	memory := NewRowBudget(room)
	fill := func() *Index {
		x := mustNew(t, Config{Dim: dim, Rows: memory, Truth: func(uint32, []float32) ([]float32, error) { return nil, nil }})
		vec := make([]float32, dim)
		vec[0] = 1
		for range 40 {
			x.Keep(mustAdd(t, x, vec), vec)
		}
		return x
	}
	x := fill()
	if x.KeepsAll() || memory.Bytes() != room {
		t.Errorf("%d bytes are taken of %d", memory.Bytes(), room)
	}
	fill()
	if memory.Bytes() != room {
		t.Errorf("%d bytes are taken of %d", memory.Bytes(), room)
	}
	runtime.KeepAlive(x)
	x = nil
	for began := time.Now(); memory.taken.Load() > 0 || memory.Bytes() > 0; runtime.GC() {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%d bytes are not given back", memory.Bytes())
		}
	}
}

// TestKeptRowsBeside searches from several goroutines that share few places for rows,
// while another adds and removes: a row that is torn, or another slot's, has another
// score.
func TestKeptRowsBeside(t *testing.T) {
	const dim, readers, slots = 48, 4, 300
	w := newRowWorld(t, Config{Dim: dim}, 64*dim*4)
	for range slots {
		w.add()
	}
	var wg sync.WaitGroup
	var done atomic.Bool
	for i := range readers {
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		wg.Go(func() {
			for !done.Load() {
				query := randomVector(rng, dim)
				hits, err := w.x.Search(t.Context(), query, Search{K: 10, Slots: slots})
				if err != nil {
					t.Error(err)
					return
				}
				for _, h := range hits {
					row, _ := w.truth(h.Slot, nil)
					e, _ := w.x.Estimator(query, false)
					if want, _ := rowScore(Cosine, e.r.probe.vec, row); h.Score != want {
						t.Errorf("slot %d scores %v; want %v", h.Slot, h.Score, want)
					}
					e.Close()
				}
			}
		})
	}
	for range 300 { // beyond what they may see
		slot := mustAdd(t, w.x, randomVector(w.rng, dim))
		if slot < slots {
			t.Fatal("a slot that is in use was handed out")
		}
		w.x.Keep(slot, make([]float32, dim))
		w.x.Remove(slot)
	}
	done.Store(true)
	wg.Wait()
}

// TestMovedRowsAreDropped: a row that lies where its slot no longer has its place does not
// come back when the slot, which was given to another row, has that place again.
func TestMovedRowsAreDropped(t *testing.T) {
	c := newRowCache(4, NewRowBudget(1<<20))
	row := func(v float32) []float32 { return []float32{v, v, v, v} }
	slot := uint32(3 << c.shift)
	c.keep(0, row(1), true, false) // one frame
	c.growth.Lock()                // as where another goroutine is adding some
	c.keep(slot, row(2), true, false)
	c.growth.Unlock()
	if score, ok, err := c.score(slot, Dot, row(1)); !ok || score != 8 || err != nil {
		t.Fatalf("a row in a place that is not its own: %v, %t, %v", score, ok, err)
	}
	c.keep(1<<c.shift, row(1), true, false) // two frames
	c.forget(slot)
	c.keep(2<<c.shift, row(1), true, false) // three frames, and 3%3 is 0
	if score, ok, _ := c.score(slot, Dot, row(1)); ok {
		t.Errorf("a row that was forgotten is there: %v", score)
	}
	if kept := c.of.held.Load() / (4 * 4); kept != 2 && kept != 3 {
		t.Errorf("%d rows are counted, of 0, 1<<shift and 2<<shift", kept)
	}
}
