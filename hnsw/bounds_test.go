package hnsw

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// hardRow makes a row whose codes are off in ways that depend on the query.
var hardRow = map[string]func(rng *rand.Rand, v []float32){
	"counts beside flags": func(rng *rand.Rand, v []float32) {
		share := rng.Float64()
		for i := range v {
			v[i] = 0
			if i < len(v)/2 {
				v[i] = float32(rng.IntN(255))
			} else if rng.Float64() < share {
				v[i] = .99
			}
		}
		v[0] = 254
	},
	"shifted, with outliers": func(rng *rand.Rand, v []float32) {
		for i := range v {
			v[i] += 300
		}
		if rng.IntN(3) == 0 {
			v[rng.IntN(len(v))] += float32(rng.IntN(1000))
		}
	},
	"shifted by 1000": func(_ *rand.Rand, v []float32) {
		for i := range v {
			v[i] += 1000
		}
	},
	"denormal": func(rng *rand.Rand, v []float32) {
		for i := range v {
			v[i] *= 1e-43
		}
		v[0] = 1e-43
	},
}

// TestFlatIsFloat32: a flat search returns what float32 would, and the bounds of an
// estimator hold, whatever errors of codes have to do with the query.
func TestFlatIsFloat32(t *testing.T) {
	const rows, queries, k = 600, 12, 10
	for name, row := range hardRow {
		for _, metric := range allMetrics {
			for _, dim := range []int{64, 384} {
				t.Run(fmt.Sprintf("%s, %s, %d components", name, metric, dim), func(t *testing.T) {
					rng := random(t)
					x := mustNew(t, Config{Dim: dim, Metric: metric, Sketched: 100})
					slots := make([]uint32, rows)
					for i := range slots {
						v := randomVector(rng, dim)
						row(rng, v)
						slots[i] = mustAdd(t, x, v)
					}
					for i := range queries {
						q := randomVector(rng, dim)
						switch i % 3 {
						case 0:
							row(rng, q)
						case 1: // short, and of the flags alone
							clear(q[:dim/2])
							q[dim-1] = 1
						}
						checkFlat(t, x, q, slots, k)
						checkBounds(t, x, q, slots)
					}
				})
			}
		}
	}
}

// checkFlat wants a flat search to have the scores that all rows' own have.
func checkFlat(t *testing.T, x *Index, q []float32, slots []uint32, k int) {
	t.Helper()
	best, scores := topK{k: k}, make([]float32, len(slots))
	if err := x.Scores(q, slots, scores); err != nil {
		t.Fatal(err)
	}
	for i, score := range scores {
		best.push(Hit{slots[i], score})
	}
	for i, want := range best.sorted() {
		if got := mustSearch(t, x, q, Search{K: k, Slots: x.Len(), Strategy: Flat}); got[i].Score != want.Score {
			t.Fatalf("hit %d scores %v; want %v", i, got[i].Score, want.Score)
		}
	}
}

// checkBounds wants bounds by codes to hold, and to be apart.
func checkBounds(t *testing.T, x *Index, q []float32, slots []uint32) {
	t.Helper()
	scores, low, high := make([]float32, len(slots)), make([]float32, len(slots)), make([]float32, len(slots))
	if err := x.Scores(q, slots, scores); err != nil {
		t.Fatal(err)
	}
	e, err := x.Estimator(q, false)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	wrong := 0
	for _, by := range []struct {
		bound func([]uint32, []float32, []float32) error
		most  int
	}{
		{e.Estimate, max(3, len(slots)/100)}, // by sketches, of which one in a thousand is off
		{e.Refine, 0},
		{e.Sharpen, 0},
	} {
		if err := by.bound(slots, low, high); err != nil {
			t.Fatal(err)
		}
		wrong = 0
		for i, score := range scores {
			if !(low[i] <= score && score <= high[i]) {
				wrong++
			}
			if !(low[i] < high[i]) {
				t.Fatalf("bounds %v and %v of %v are not apart", low[i], high[i], score)
			}
		}
		if wrong > by.most {
			t.Fatalf("%d of %d bounds do not hold", wrong, len(scores))
		}
	}
}

// TestMoreCandidatesFindMore: recall does not fall as a walk keeps more candidates, be it
// that codes tell the rows apart or that they do not, and few searches go on with more
// than they were asked for where they do.
func TestMoreCandidatesFindMore(t *testing.T) {
	race.Sequential(t)
	rng := rand.New(rand.NewPCG(3, 4))
	near := func(rows int, off float64) [][]float32 {
		vecs := make([][]float32, rows)
		var centre []float32
		for i := range vecs {
			if i%100 == 0 {
				centre = randomVector(rng, 48)
			}
			vecs[i] = moved(rng, centre, off)
		}
		rng.Shuffle(rows, func(i, j int) { vecs[i], vecs[j] = vecs[j], vecs[i] })
		return vecs
	}
	for _, off := range []float64{.005, .02, 1} {
		vecs := near(6000, off)
		x := linkedIndex(t, Config{Dim: 48, Metric: L2, EfConstruction: 100}, vecs)
		queries := make([][]float32, 60)
		for i := range queries {
			queries[i] = moved(rng, vecs[rng.IntN(len(vecs))], off/2)
		}
		before := 0.0
		for _, ef := range []int{10, 11, 12, 13, 14, 16, 20, 32, 64, 128} {
			r := recall(t, x, queries, Search{K: 10, Ef: ef, Slots: x.Len()})
			if r < before-.02 { // of 600 hits a few are a matter of where the walk comes by
				t.Errorf("deviation %v: recall@10 %.3f with %d candidates, %.3f with fewer", off, r, ef, before)
			}
			before = max(before, r)
		}
		if before < .95 {
			t.Errorf("deviation %v: recall@10 %.3f at most", off, before)
		}
		if off < 1 {
			continue
		}
		steps := func(ef int) (sum int) {
			r := newSearcher(x)
			for _, q := range queries {
				r.setQuery(q, 1)
				s := Search{K: 10, Ef: ef, Slots: x.Len()}
				if _, err := r.search(t.Context(), &s); err != nil {
					t.Fatal(err)
				}
				sum += r.beam.steps
			}
			return sum
		}
		if few, many := steps(11), steps(32); few > many {
			t.Errorf("%d rows scored with 11 candidates; %d with 32", few, many)
		}
	}
}
