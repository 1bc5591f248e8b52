package hnsw

import (
	"math"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// TestProofReaches: every node is reached from the entry point of a graph whose rows are
// in few directions, in islands, or removed in part, and all entries are nodes.
func TestProofReaches(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	for _, metric := range allMetrics {
		vecs := make([][]float32, 3000)
		for i := range vecs {
			vecs[i] = make([]float32, 48)
			vecs[i][i%48] = float32(1 + i%3)
			if i%7 == 0 {
				vecs[i] = moved(rng, vecs[i], .3)
			}
		}
		x := linkedIndex(t, Config{Dim: 48, Metric: metric, EfConstruction: 60, Crossover: 1000}, vecs)
		unreached := func() (n int) {
			w := newBuilder(x)
			w.beam.pin()
			var reached slotSet
			reached.reset(x.Len())
			entry, _, _ := x.graph.entryPoint()
			w.spread(entry, &reached)
			for slot := range x.Len() {
				if x.graph.node(slot).state.Load()&stateLinked != 0 && !reached.has(slot) {
					n++
				}
			}
			return n
		}
		if n := unreached(); n > 0 {
			t.Errorf("%s: %d of %d nodes are not reached", metric, n, len(vecs))
		}
		for slot := range x.Len() {
			if slot%3 == 0 {
				x.Remove(slot)
			}
		}
		mustLink(t, x)
		if n := unreached(); n > 0 {
			t.Errorf("%s, a third removed: %d nodes are not reached", metric, n)
		}
		for _, slot := range x.graph.entriesNow() {
			if x.graph.node(slot).state.Load()&stateLinked == 0 {
				t.Errorf("%s: entry %d is not a node", metric, slot)
			}
		}
	}
}

// TestMendFindsCutNodes: nodes that all links to are cut of are reached again.
func TestMendFindsCutNodes(t *testing.T) {
	rng := random(t)
	vecs := make([][]float32, 2000)
	for i := range vecs {
		vecs[i] = randomVector(rng, 16)
	}
	x := linkedIndex(t, Config{Dim: 16, Metric: L2, EfConstruction: 60, Crossover: 1000}, vecs)
	entry, _, _ := x.graph.entryPoint()
	cut := func(slot uint32) bool { return slot%9 == 4 && slot != entry }
	for slot := range x.Len() {
		var kept []uint32
		for _, to := range x.graph.neighbours(slot, 0, nil) {
			if !cut(to) {
				kept = append(kept, to)
			}
		}
		x.graph.setNeighbours(slot, 0, kept)
	}
	find := func() (missed int) {
		for slot := range x.Len() {
			// Near a row, since one that is the query is found by its codes.
			if hits := mustSearch(t, x, moved(rng, vecs[slot], .02), Search{K: 1, Slots: x.Len(), Strategy: Sweep}); hits[0].Slot != slot {
				missed++
			}
		}
		return missed
	}
	if n := find(); n < 100 {
		t.Fatalf("%d rows are missed after their links were cut", n)
	}
	w := newBuilder(x)
	w.beam.pin()
	w.pruner.beam.pin()
	if err := w.mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := find(); n > 20 {
		t.Errorf("%d rows are missed after mending", n)
	}
}

// TestGroupsBound: bounds and exact searches hold where rows have different centres, and
// scores of a removed group's slots are of what they hold now.
func TestGroupsBound(t *testing.T) {
	rng := random(t)
	for _, metric := range allMetrics {
		for _, apart := range []float32{20, 1000, 1e6} {
			vecs := make([][]float32, 1500)
			for i := range vecs {
				vecs[i] = randomVector(rng, 24)
				vecs[i][i%3] += apart * float32(i%3)
			}
			own := func(slot uint32, dst []float32) ([]float32, error) { return append(dst, vecs[slot]...), nil }
			x := mustNew(t, Config{Dim: 24, Metric: metric, Truth: own})
			for _, v := range vecs {
				mustAdd(t, x, v)
			}
			if apart == 1000 && !x.coding.Load().grouped() {
				t.Errorf("%s, %v apart: no groups", metric, apart)
			}
			slots := make([]uint32, x.Len())
			for i := range slots {
				slots[i] = uint32(i)
			}
			low, high := make([]float32, len(slots)), make([]float32, len(slots))
			for range 20 {
				q := moved(rng, vecs[rng.IntN(len(vecs))], .3)
				e := mustEstimate(t, x, q, true, slots, low, high)
				check := func(kind string) {
					for i, v := range vecs {
						want := exactScore(metric, q, v)
						if metric == Cosine {
							want /= math.Sqrt(exactScore(Dot, v, v))
						}
						slack := 1e-5 * (math.Abs(want) + 1)
						if want < float64(low[i])-slack || want > float64(high[i])+slack {
							t.Fatalf("%s, %v apart: row %d scores %v, not between %v and %v by %s", metric, apart, i, want, low[i], high[i], kind)
						}
					}
				}
				check("codes")
				if err := e.Sharpen(slots, low, high); err != nil {
					t.Fatal(err)
				}
				check("the query")
				e.Close()
			}
			if r := recall(t, x, [][]float32{vecs[0], vecs[1], vecs[2]}, Search{K: 10, Slots: x.Len()}); r < .99 {
				t.Errorf("%s, %v apart: a flat search has recall %v", metric, apart, r)
			}
		}
	}
}

// TestProofOfWhatIsLeft: rows may be removed while a graph is put to the proof, down to the last.
func TestProofOfWhatIsLeft(t *testing.T) {
	rng := random(t)
	for _, left := range []int{0, 1, proofHits, proofHits + 1} {
		vecs := make([][]float32, 200)
		for i := range vecs {
			vecs[i] = randomVector(rng, 12)
		}
		x := linkedIndex(t, Config{Dim: 12, Metric: Cosine, Crossover: 30}, vecs)
		w := newBuilder(x)
		var kept slotSet
		kept.reset(x.Len())
		for _, slot := range w.sample(proofQueries, proofRounds)[:left] {
			kept.add(slot)
		}
		n := 0
		for slot := range x.Len() {
			if kept.has(slot) {
				n++
			} else {
				x.Remove(slot)
			}
		}
		x.graph.proved, x.graph.measured = 0, 0
		if err := w.prove(t.Context(), proofEnd); err != nil {
			t.Errorf("%d rows are left: %v", n, err)
		}
		if hits := mustSearch(t, x, vecs[0], Search{K: 20, Slots: x.Len()}); len(hits) != n {
			t.Errorf("%d of %d rows are found", len(hits), n)
		}
	}
}
