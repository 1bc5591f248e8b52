package hnsw

import (
	"errors"
	"math/rand/v2"
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
					e := mustEstimate(t, x, query, exact, slots, low, high)
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
					width := high[0] - low[0]
					if err := e.Sharpen(slots, low, high); err != nil {
						t.Fatal(err)
					}
					for i := range slots {
						if !(low[i] <= want[i] && want[i] <= high[i]) {
							t.Fatalf("%s, %d dimensions: the score %v is not within %v and %v, which are sharp", cfg.Metric, dim, want[i], low[i], high[i])
						}
					}
					if dim == 128 && cfg.Metric == Cosine && high[0]-low[0] > .7*width {
						t.Errorf("sharp bounds of a cosine are %v apart; of codes %v", high[0]-low[0], width)
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

// mustEstimate bounds the scores of rows, by an estimator that the caller closes.
func mustEstimate(t *testing.T, x *Index, query []float32, exact bool, slots []uint32, low, high []float32) *Estimator {
	t.Helper()
	e, err := x.Estimator(query, exact)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Estimate(slots, low, high); err != nil {
		t.Fatal(err)
	}
	return e
}

func abs(v float32) float32 { return max(v, -v) }

// TestEstimateBySketches: bounds by sketches hold the exact score but for one row in
// thousands, those by codes are narrower, and those of an exact query hold for certain.
func TestEstimateBySketches(t *testing.T) {
	rng := random(t)
	const n, dim, from = 3000, 384, 1000
	for _, metric := range []Metric{Cosine, Dot, L2} {
		x := mustNew(t, Config{Dim: dim, Metric: metric})
		vecs := clustered(rng, n+20, dim, 7)
		slots := make([]uint32, n)
		for i := range slots {
			if i == from {
				sketched(t, x, from)
			}
			slots[i] = mustAdd(t, x, vecs[i])
		}
		rng.Shuffle(n, func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		want, low, high := make([]float32, n), make([]float32, n), make([]float32, n)
		outside := 0
		for _, query := range vecs[n:] {
			if err := x.Scores(query, slots, want); err != nil {
				t.Fatal(err)
			}
			e := mustEstimate(t, x, query, false, slots, low, high)
			var rough []uint32
			var widths, scores []float32
			for i, slot := range slots {
				if e.Refines(slot) != (slot >= from) {
					t.Fatalf("slot %d is refined: %v", slot, e.Refines(slot))
				}
				switch {
				case want[i] < low[i] || want[i] > high[i]:
					outside++
					if slot < from {
						t.Errorf("%s: the score %v is not within %v and %v, by codes", metric, want[i], low[i], high[i])
					}
				case slot >= from:
					rough, widths, scores = append(rough, slot), append(widths, high[i]-low[i]), append(scores, want[i])
				}
			}
			if err := e.Refine(rough, low[:len(rough)], high[:len(rough)]); err != nil {
				t.Fatal(err)
			}
			for i, score := range scores {
				if score < low[i] || score > high[i] || high[i]-low[i] > widths[i]/2 {
					t.Fatalf("%s: the score %v is refined to %v and %v; its bounds were %v apart", metric, score, low[i], high[i], widths[i])
				}
			}
			e.Close()
			checkExactBounds(t, x, query, slots, want)
		}
		// Of 40,000, one in 850 on either side are expected.
		if outside > 20*(n-from)/300 {
			t.Errorf("%s: %d bounds of %d don't hold", metric, outside, 20*(n-from))
		}
	}
}

// checkExactBounds wants the bounds of an exact query to be those of codes.
func checkExactBounds(t *testing.T, x *Index, query []float32, slots []uint32, want []float32) {
	t.Helper()
	low, high := make([]float32, len(slots)), make([]float32, len(slots))
	e := mustEstimate(t, x, query, true, slots, low, high)
	defer e.Close()
	for i, slot := range slots {
		if e.Refines(slot) || want[i] < low[i] || want[i] > high[i] {
			t.Fatalf("the score %v of an exact query is not within %v and %v", want[i], low[i], high[i])
		}
	}
}

// BenchmarkEstimate bounds the scores of 10,000 rows that lie far apart, by their codes
// and by their sketches, and by the codes of one in ten.
func BenchmarkEstimate(b *testing.B) {
	const n, dim, apart = 400_000, 384, 40
	x := mustNew(b, Config{Dim: dim})
	sketched(b, x, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	v := randomVector(rng, dim)
	for range n {
		v[rng.IntN(dim)] = float32(rng.NormFloat64())
		mustAdd(b, x, v)
	}
	e, err := x.Estimator(v, false)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for _, c := range []struct {
		name  string
		every uint32
		bound func(slots []uint32, low, high []float32) error
	}{{"codes", apart, e.Refine}, {"sketches", apart, e.Estimate}, {"a tenth of the codes", 10 * apart, e.Refine}} {
		b.Run(c.name, func(b *testing.B) {
			slots := make([]uint32, n/c.every)
			low, high := make([]float32, len(slots)), make([]float32, len(slots))
			for first := uint32(0); b.Loop(); first = (first + 7) % c.every {
				for i := range slots {
					slots[i] = uint32(i)*c.every + first
				}
				if err := c.bound(slots, low, high); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
