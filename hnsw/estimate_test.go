package hnsw

import (
	"errors"
	"testing"
)

// TestEstimate: the bounds hold the exact score, under every metric, and are
// close to it.
func TestEstimate(t *testing.T) {
	rng := random(t)
	for _, cfg := range configs() {
		for _, dim := range []int{1, 7, 128} {
			cfg.Dim = dim
			vecs := clustered(rng, 300, dim, 5)
			x, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			slots := make([]uint32, len(vecs))
			for i, v := range vecs {
				slots[i] = mustAdd(t, x, v)
			}
			want, low, high := make([]float32, len(vecs)), make([]float32, len(vecs)), make([]float32, len(vecs))
			for range 20 {
				query := randomVector(rng, dim)
				if err := x.Scores(query, slots, want); err != nil {
					t.Fatal(err)
				}
				for _, exact := range []bool{true, false} {
					e, err := x.Estimator(query, exact)
					if err != nil {
						t.Fatal(err)
					}
					if err := e.Estimate(slots, low, high); err != nil {
						t.Fatal(err)
					}
					for i := range slots {
						if !(low[i] <= want[i] && want[i] <= high[i]) {
							t.Fatalf("%s, %d dimensions: the score %v is not within %v and %v", cfg.Metric, dim, want[i], low[i], high[i])
						}
						own := func(uint32, []float32) ([]float32, error) { return vecs[i], nil }
						if got, err := e.Exact(slots[i], own); err != nil || abs(got-want[i]) > 1e-4*(1+abs(want[i])) {
							t.Fatalf("the exact score is %v, %v; want %v", got, err, want[i])
						}
					}
					if dim == 128 && cfg.Metric == Cosine && high[0]-low[0] > .1 {
						t.Errorf("bounds of a cosine are %v apart", high[0]-low[0])
					}
					e.Close()
				}
			}
			e, err := x.Estimator(vecs[0], false)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Estimate([]uint32{x.Len()}, low[:1], high[:1]); !errors.Is(err, ErrSlot) {
				t.Errorf("a slot beyond the end: %v", err)
			}
			if err := e.Estimate(slots, low[:1], high); !errors.Is(err, ErrConfig) {
				t.Errorf("no room: %v", err)
			}
			e.Close()
		}
	}
	x, err := New(Config{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Estimator([]float32{1}, false); !errors.Is(err, ErrDimension) {
		t.Errorf("a query that does not fit: %v", err)
	}
}

func abs(v float32) float32 { return max(v, -v) }
