package hnsw

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// oddRows are sets of rows that an application may hand over by mistake, or by its nature.
var oddRows = []struct {
	name string
	dim  int
	rows func(rng *rand.Rand, dim int) [][]float32
	gone func(i int) bool // removed after they were linked
}{
	{"one component", 1, shifted(10), nil},
	{"4,096 components", 4096, func(rng *rand.Rand, dim int) [][]float32 { return clustered(rng, 400, dim, 10) }, nil},
	{"all equal", 16, each(func(_ *rand.Rand, v []float32, _ int) {
		for k := range v {
			v[k] = 3
		}
	}), nil},
	{"a centre that moves", 24, each(func(_ *rand.Rand, v []float32, i int) {
		for k := range v {
			v[k] += float32(i) / 50
		}
	}), nil},
	{"whole clusters removed", 48, templates(.2), func(i int) bool { return i/100%2 == 0 }},
	{"nine of ten removed", 24, shifted(1), func(i int) bool { return i%10 != 0 }},
}

// TestOddRows: a search of such rows returns as many hits as there are, none of a removed
// row, each with its score, and nearly all of the best.
func TestOddRows(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	for _, c := range oddRows {
		for _, metric := range allMetrics {
			t.Run(fmt.Sprintf("%s, %s", c.name, metric), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(3, 5))
				vecs := c.rows(rng, c.dim)
				vecs = vecs[:min(len(vecs), 2000)]
				if metric == Cosine {
					normalise(vecs) // exactScore takes rows as they are stored
				}
				x := linkedIndex(t, Config{Dim: c.dim, Metric: metric, EfConstruction: 100, Crossover: 100}, vecs)
				gone := make([]bool, len(vecs))
				for i := range vecs {
					if gone[i] = c.gone != nil && c.gone(i); gone[i] {
						x.Remove(uint32(i))
					}
				}
				mustLink(t, x)
				found := 0
				for range 20 {
					found += goodHits(t, x, vecs, gone, moved(rng, vecs[rng.IntN(len(vecs))], .02))
				}
				if r := float64(found) / 200; r < .95 {
					t.Errorf("recall@10 %.3f", r)
				}
			})
		}
	}
}

func normalise(vecs [][]float32) {
	for _, v := range vecs {
		norm := math.Sqrt(exactScore(Dot, v, v))
		for k := range v {
			v[k] = float32(float64(v[k]) / norm)
		}
	}
}

// goodHits returns how many of 10 hits are no worse than the tenth best row.
func goodHits(t *testing.T, x *Index, vecs [][]float32, gone []bool, query []float32) (good int) {
	var want []float64
	for i, v := range vecs {
		if !gone[i] {
			want = append(want, exactScore(x.cfg.Metric, query, v))
		}
	}
	slices.Sort(want)
	hits := mustSearch(t, x, query, Search{K: 10, Slots: x.Len()})
	if len(hits) != 10 {
		t.Fatalf("%d hits of %d rows", len(hits), len(want))
	}
	for _, h := range hits {
		if gone[h.Slot] {
			t.Fatalf("slot %d was removed", h.Slot)
		}
		score := exactScore(x.cfg.Metric, query, vecs[h.Slot])
		slack := 1e-4 * (1 + math.Abs(score))
		if math.Abs(float64(h.Score)-score) > slack {
			t.Fatalf("slot %d scores %v, and is worth %v", h.Slot, h.Score, score)
		}
		if score >= want[len(want)-10]-slack {
			good++
		}
	}
	return good
}

// TestLargestComponents: rows whose scores float32 cannot hold are refused.
func TestLargestComponents(t *testing.T) {
	for _, metric := range []Metric{Dot, L2} {
		x := mustNew(t, Config{Dim: 4, Metric: metric})
		for _, v := range []float32{math.MaxFloat32, -math.MaxFloat32} {
			if _, err := x.Add([]float32{v, v, v, v}); !errors.Is(err, ErrTooLong) {
				t.Errorf("%s: a row of components %g: %v", metric, v, err)
			}
		}
		if x.Len() != 0 {
			t.Errorf("%s: %d slots handed out for refused rows", metric, x.Len())
		}
	}
}
