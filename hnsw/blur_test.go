package hnsw

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// TestFarFromTheOrigin: rows that lie close together and far from the origin, or of which
// one component dwarfs the others, are found.
func TestFarFromTheOrigin(t *testing.T) {
	race.Sequential(t)
	normal := func(mean, deviation float64) func(rng *rand.Rand, v []float32) {
		return func(rng *rand.Rand, v []float32) {
			for i := range v {
				v[i] = float32(mean + deviation*rng.NormFloat64())
			}
		}
	}
	for _, c := range []struct {
		name   string
		dim    int
		metric Metric
		row    func(rng *rand.Rand, v []float32)
	}{
		{"places of a city", 2, L2, func(rng *rand.Rand, v []float32) {
			v[0], v[1] = float32(48.1+0.2*rng.Float64()), float32(11.4+0.3*rng.Float64())
		}},
		{"places of a country", 2, L2, func(rng *rand.Rand, v []float32) {
			v[0], v[1] = float32(47+8*rng.Float64()), float32(6+9*rng.Float64())
		}},
		{"colours", 3, L2, func(rng *rand.Rand, v []float32) {
			for i := range v {
				v[i] = float32(rng.IntN(256))
			}
		}},
		{"people", 4, L2, func(rng *rand.Rand, v []float32) {
			v[0], v[1] = float32(170+10*rng.NormFloat64()), float32(70+12*rng.NormFloat64())
			v[2], v[3] = float32(20+50*rng.Float64()), float32(2000+3000*rng.ExpFloat64())
		}},
		{"shifted by 10", 16, L2, normal(10, 1)},
		{"shifted by 30", 16, L2, normal(30, 1)},
		{"shifted, by angle", 64, Cosine, normal(1, .03)},
		{"shifted, by product", 32, Dot, normal(1, .03)},
	} {
		t.Run(c.name, func(t *testing.T) {
			const rows, queries, k = 5000, 50, 10
			rng := rand.New(rand.NewPCG(5, 6))
			x, err := New(Config{Dim: c.dim, Metric: c.metric})
			if err != nil {
				t.Fatal(err)
			}
			vec := make([]float32, c.dim)
			for range rows {
				c.row(rng, vec)
				if _, err := x.Add(vec); err != nil {
					t.Fatal(err)
				}
			}
			if err := x.Link(t.Context(), x.Len()); err != nil {
				t.Fatal(err)
			}
			found := 0
			for range queries {
				c.row(rng, vec)
				s := Search{K: k, Slots: x.Len()}
				got, err := x.Search(t.Context(), vec, s)
				if err != nil {
					t.Fatal(err)
				}
				s.Exact = true
				want, err := x.Search(t.Context(), vec, s)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range got {
					if h.Score >= want[k-1].Score {
						found++
					}
				}
			}
			// Far from the origin is as good as about it: where noise fills 64 dimensions a walk
			// finds .95 of it anywhere.
			if recall := float64(found) / (queries * k); recall < 0.94 {
				t.Errorf("recall@10 %.3f", recall)
			}
		})
	}
}

// TestManyAlike: many rows of one vector do not make a walk look at all of them.
func TestManyAlike(t *testing.T) {
	const alike, others, dim = 3000, 3000, 32
	rng := rand.New(rand.NewPCG(7, 8))
	x, err := New(Config{Dim: dim, Metric: Cosine})
	if err != nil {
		t.Fatal(err)
	}
	same := randomVector(rng, dim)
	for i := range alike + others {
		vec := same
		if i%2 == 1 {
			vec = randomVector(rng, dim)
		}
		if _, err := x.Add(vec); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Link(t.Context(), x.Len()); err != nil {
		t.Fatal(err)
	}
	hits, err := x.Search(t.Context(), same, Search{K: 10, Slots: x.Len()})
	if err != nil || len(hits) != 10 || hits[9].Score < 0.9999 {
		t.Errorf("%v, %v", hits, err)
	}
}
