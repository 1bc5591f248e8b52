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

// TestTinyRows: rows whose squares float32 does not hold are told apart, alone and beside
// others, by searches of all rows and by those that choose their way.
func TestTinyRows(t *testing.T) {
	for _, cfg := range []Config{{Dim: 12, Metric: L2}, {Dim: 12, Metric: Dot}, {Dim: 12, Metric: L2, Quantized: true}} {
		for _, scale := range []float32{1e-18, 1e-23, 1e-30, 1e-37} {
			for _, beside := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, quantized %t, %g, others beside %t", cfg.Metric, cfg.Quantized, scale, beside), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(3, 5))
					vecs := clustered(rng, 500, cfg.Dim, 5)
					for i, v := range vecs {
						for k := range v {
							if !beside || i%2 == 0 {
								v[k] *= scale
							}
						}
					}
					cfg.EfConstruction = 40
					x := linkedIndex(t, cfg, vecs)
					for i := 0; i < 100; i += 2 {
						query, err := x.Row(uint32(i), nil)
						if err != nil {
							t.Fatal(err)
						}
						if cfg.Metric == Dot { // no float32 holds the product of two such rows
							for k := range query {
								query[k] /= scale
							}
						}
						for _, s := range []Search{{Exact: true}, {}} {
							s.K, s.Slots = 3, x.Len()
							best := mustSearch(t, x, query, s)[0]
							row, err := x.Row(best.Slot, nil)
							if err != nil {
								t.Fatal(err)
							}
							want, most := exactScore(cfg.Metric, query, row), math.Inf(-1)
							for slot := range x.Len() {
								if row, err = x.Row(slot, row); err != nil {
									t.Fatal(err)
								}
								most = max(most, exactScore(cfg.Metric, query, row))
							}
							if want < most-1e-5*math.Abs(most) || math.Abs(float64(best.Score)-want) > 1e-5*math.Abs(want)+math.SmallestNonzeroFloat32 {
								t.Fatalf("exact %t: row %d finds %v, which is worth %v; the best is worth %v", s.Exact, i, best, want, most)
							}
						}
					}
				})
			}
		}
	}
}
