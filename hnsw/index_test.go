package hnsw

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

func random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func randomVector(rng *rand.Rand, dim int) []float32 {
	vec := make([]float32, dim)
	for i := range vec {
		vec[i] = float32(rng.NormFloat64())
	}
	return vec
}

func mustNew(t testing.TB, cfg Config) *Index {
	t.Helper()
	x, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func mustRow(t testing.TB, x *Index, slot uint32) []float32 {
	t.Helper()
	row, err := x.Row(slot, nil)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func mustAdd(t testing.TB, x *Index, vec []float32) uint32 {
	t.Helper()
	slot, err := x.Add(vec)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// exactScore is the oracle: the score in float64 of a raw query and the row as
// the index returns it.
func exactScore(m Metric, query, row []float32) float64 {
	var dot, square, norm float64
	for i, q := range query {
		r := float64(row[i])
		dot += float64(q) * r
		square += (float64(q) - r) * (float64(q) - r)
		norm += float64(q) * float64(q)
	}
	switch m {
	case Cosine:
		return dot / math.Sqrt(norm)
	case Dot:
		return dot
	default:
		return -math.Sqrt(square)
	}
}

// tolerance bounds the rounding of a score: float32 sums of dim products.
func tolerance(m Metric, query, row []float32) float64 {
	var q, r float64
	for i := range query {
		q += float64(query[i]) * float64(query[i])
		r += float64(row[i]) * float64(row[i])
	}
	unit := float64(len(query)+16) / (1 << 24)
	switch m {
	case Cosine:
		return unit * 2
	case Dot:
		return unit * math.Sqrt(q*r)
	default:
		return unit * (math.Sqrt(q) + math.Sqrt(r))
	}
}

// checkHits compares hits with the oracle over the slots that match: as many,
// each right, in order, and none left out that is clearly better.
func checkHits(t testing.TB, x *Index, query []float32, matching []uint32, k int, hits []Hit) {
	t.Helper()
	if want := min(k, len(matching)); len(hits) != want {
		t.Fatalf("%d hits; want %d", len(hits), want)
	}
	var worst float64
	returned := map[uint32]bool{}
	for i, h := range hits {
		if i > 0 && compareHits(hits[i-1], h) >= 0 {
			t.Fatalf("hits %d and %d are out of order: %v, %v", i-1, i, hits[i-1], h)
		}
		if !slices.Contains(matching, h.Slot) {
			t.Fatalf("slot %d does not match", h.Slot)
		}
		returned[h.Slot] = true
		row := mustRow(t, x, h.Slot)
		worst = exactScore(x.cfg.Metric, query, row)
		if diff := math.Abs(float64(h.Score) - worst); diff > tolerance(x.cfg.Metric, query, row) {
			t.Fatalf("slot %d scores %v; want %v", h.Slot, h.Score, worst)
		}
	}
	if k == 0 {
		return
	}
	for _, slot := range matching {
		row := mustRow(t, x, slot)
		score := exactScore(x.cfg.Metric, query, row)
		if !returned[slot] && score > worst+2*tolerance(x.cfg.Metric, query, row) {
			t.Fatalf("slot %d with score %v is missing; the worst hit has %v", slot, score, worst)
		}
	}
}

func configs() []Config {
	var all []Config
	for _, m := range []Metric{Cosine, Dot, L2} {
		for _, quantized := range []bool{false, true} {
			all = append(all, Config{Metric: m, Quantized: quantized})
		}
	}
	return all
}

func TestSearchAgainstBruteForce(t *testing.T) {
	for _, cfg := range configs() {
		t.Run(fmt.Sprintf("%s quantized=%t", cfg.Metric, cfg.Quantized), func(t *testing.T) {
			rng := random(t)
			for range 12 {
				cfg.Dim = 1 + rng.IntN(70)
				x := mustNew(t, cfg)
				if rng.IntN(2) == 0 {
					sketched(t, x, rng.Uint32N(400))
				}
				live := map[uint32]bool{}
				for range rng.IntN(900) {
					if rng.IntN(4) == 0 && len(live) > 0 {
						slot := rng.Uint32N(x.Len())
						x.Remove(slot)
						delete(live, slot)
						continue
					}
					live[mustAdd(t, x, randomVector(rng, cfg.Dim))] = true
				}
				for range 10 {
					searchOnce(t, rng, x, live)
				}
			}
		})
	}
}

// searchOnce runs one search with random limits and checks its hits.
func searchOnce(t *testing.T, rng *rand.Rand, x *Index, live map[uint32]bool) {
	t.Helper()
	s := Search{K: rng.IntN(40), Slots: x.Len()}
	if rng.IntN(3) == 0 {
		s.Slots = rng.Uint32N(x.Len() + 10)
	}
	hidden, within := rng.Uint32N(5), roaring.New()
	if hidden > 1 {
		s.Visible = func(slot uint32) bool { return slot%hidden != 0 }
	}
	if rng.IntN(2) == 0 {
		for range rng.IntN(500) {
			within.Add(rng.Uint32N(1000))
		}
		s.Within = setOf(within)
	}
	var matching []uint32
	for slot := range live {
		if slot < s.Slots && (s.Visible == nil || s.Visible(slot)) && (s.Within == nil || within.Contains(slot)) {
			matching = append(matching, slot)
		}
	}
	query := randomVector(rng, x.cfg.Dim)
	hits, err := x.Search(t.Context(), query, s)
	if err != nil {
		t.Fatal(err)
	}
	checkHits(t, x, query, matching, s.K, hits)

	scores := make([]float32, len(hits))
	slots := make([]uint32, len(hits))
	for i, h := range hits {
		slots[i] = h.Slot
	}
	if err := x.Scores(query, slots, scores); err != nil {
		t.Fatal(err)
	}
	for i, h := range hits {
		if scores[i] != h.Score {
			t.Fatalf("Scores gives %v for slot %d; Search %v", scores[i], h.Slot, h.Score)
		}
	}
}

func TestTiesAreOrderedBySlot(t *testing.T) {
	for _, cfg := range configs() {
		cfg.Dim = 3
		x := mustNew(t, cfg)
		for range 3000 {
			mustAdd(t, x, []float32{1, 2, 3})
		}
		hits, err := x.Search(t.Context(), []float32{1, 1, 1}, Search{K: 100, Slots: x.Len()})
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range hits {
			if h.Slot != uint32(i) {
				t.Fatalf("%+v: hit %d is slot %d", cfg, i, h.Slot)
			}
		}
	}
}

func TestRowIsWhatWasAdded(t *testing.T) {
	for _, cfg := range configs() {
		rng := random(t)
		cfg.Dim = 100
		x := mustNew(t, cfg)
		vec := randomVector(rng, cfg.Dim)
		row := mustRow(t, x, mustAdd(t, x, vec))
		norm, largest := 1.0, float64(simd.Largest(vec))
		if cfg.Metric == Cosine {
			norm = math.Sqrt(exactScore(Dot, vec, vec))
			if got := exactScore(Dot, row, row); math.Abs(got-1) > 1e-5 {
				t.Errorf("%+v: squared length %v", cfg, got)
			}
		}
		bound := largest * 1e-6
		if cfg.Quantized {
			// Half a step, and what it takes to make the codes' length one.
			bound = largest/codeMax/2 + largest*5e-3
		}
		for i, v := range row {
			if diff := math.Abs(float64(v)*norm - float64(vec[i])); diff > bound {
				t.Fatalf("%+v: component %d is %v after storing %v", cfg, i, float64(v)*norm, vec[i])
			}
		}
	}
}

// TestPages stores rows so long that they take several of an arena's pages.
func TestPages(t *testing.T) {
	rng := random(t)
	x := mustNew(t, Config{Dim: MaxDim, Metric: Dot})
	vecs := make([][]float32, 50)
	for i := range vecs {
		vecs[i] = randomVector(rng, MaxDim)
	}
	const n = 2500
	for i := range n {
		mustAdd(t, x, vecs[i%len(vecs)])
	}
	if pages := len(x.rows.pages); pages < 2 {
		t.Fatalf("the rows fill %d page", pages)
	}
	for slot := range uint32(n) {
		if !slices.Equal(mustRow(t, x, slot), vecs[slot%50]) {
			t.Fatalf("slot %d holds another row than was added", slot)
		}
	}
	for i, v := range vecs {
		hits := mustSearch(t, x, v, Search{K: n / 50, Slots: x.Len()})
		for k, h := range hits {
			if h.Slot != uint32(50*k+i) {
				t.Fatalf("hit %d of row %d is slot %d", k, i, h.Slot)
			}
		}
	}
}

func TestRemoveReusesSlots(t *testing.T) {
	x := mustNew(t, Config{Dim: 2})
	for range 100 {
		mustAdd(t, x, []float32{1, 1})
	}
	for slot := range uint32(50) {
		x.Remove(slot)
		x.Remove(slot) // a second time has no effect
	}
	x.Remove(5000)
	for _, slot := range []uint32{7, x.Len()} {
		if row, err := x.Row(slot, nil); !errors.Is(err, ErrSlot) {
			t.Fatalf("slot %d without a row holds %v, %v", slot, row, err)
		}
	}
	seen := map[uint32]bool{}
	for range 50 {
		seen[mustAdd(t, x, []float32{1, 0})] = true
	}
	if x.Len() != 100 || len(seen) != 50 {
		t.Fatalf("%d slots handed out, %d reused; want 100 and 50", x.Len(), len(seen))
	}
}

func TestBadInput(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	tests := []struct {
		name   string
		metric Metric
		vec    []float32
		want   error
		says   string
	}{
		{"short", Cosine, []float32{1, 2}, ErrDimension, "it has 2 components; 3 are needed"},
		{"long", Dot, []float32{1, 2, 3, 4}, ErrDimension, "it has 4 components; 3 are needed"},
		{"empty", L2, nil, ErrDimension, "it has 0 components"},
		{"nan", L2, []float32{1, nan, 3}, ErrNotFinite, "component 1 of 3 is NaN"},
		{"infinite", Dot, []float32{1, 2, inf}, ErrNotFinite, "component 2 of 3 is -Inf"},
		{"zero", Cosine, []float32{0, 0, 0}, ErrZeroVector, "all 3 components are zero"},
		{"too long", Dot, []float32{0, 3e30, 0}, ErrTooLong, "its length is 3e+30"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x := mustNew(t, Config{Dim: 3, Metric: test.metric})
			mustAdd(t, x, []float32{1, 1, 1})
			_, addErr := x.Add(test.vec)
			_, searchErr := x.Search(t.Context(), test.vec, Search{K: 1, Slots: 1})
			scoresErr := x.Scores(test.vec, []uint32{0}, make([]float32, 1))
			for _, err := range []error{addErr, searchErr, scoresErr, CheckVector(test.vec, 3, test.metric)} {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v; want %v that says %q", err, test.want, test.says)
				}
			}
			if x.Len() != 1 {
				t.Errorf("a refused vector changed the index")
			}
		})
	}
	for _, dim := range []int{0, -1, MaxDim + 1, 100_000} {
		if _, err := New(Config{Dim: dim}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), fmt.Sprint(dim)) {
			t.Errorf("dimension %d: %v", dim, err)
		}
	}
	if _, err := New(Config{Dim: 1, Metric: 9}); !errors.Is(err, ErrConfig) {
		t.Errorf("metric 9: %v", err)
	}
	if err := CheckVector(make([]float32, MaxDim+1), 0, Dot); !errors.Is(err, ErrDimension) {
		t.Errorf("%d components of any: %v", MaxDim+1, err)
	}
	if err := CheckVector([]float32{1e-45}, 0, Cosine); err != nil {
		t.Errorf("the smallest vector with a direction: %v", err)
	}
}

func TestBadSearches(t *testing.T) {
	x := mustNew(t, Config{Dim: 1})
	query := []float32{1}
	for _, s := range []Search{{K: -1}, {Ef: -1}, {K: 1, Strategy: Cascade + 1}} {
		if _, err := x.Search(t.Context(), query, s); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if hits, err := x.Search(t.Context(), query, Search{K: math.MaxInt, Slots: math.MaxUint32}); len(hits) != 0 || err != nil {
		t.Errorf("an empty index: %v, %v", hits, err)
	}
	slot := mustAdd(t, x, query)
	if hits, err := x.Search(t.Context(), query, Search{K: math.MaxInt, Slots: math.MaxUint32}); len(hits) != 1 || err != nil {
		t.Errorf("an index of one: %v, %v", hits, err)
	}
	if err := x.Scores(query, []uint32{1}, make([]float32, 1)); !errors.Is(err, ErrSlot) {
		t.Errorf("scores of a slot never handed out: %v", err)
	}
	if err := x.Scores(query, []uint32{0}, nil); !errors.Is(err, ErrConfig) {
		t.Errorf("scores without room: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Search(ctx, query, Search{K: 1, Slots: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search: %v", err)
	}
	x.Remove(slot)
	if hits, err := x.Search(t.Context(), query, Search{K: 5, Slots: 1}); len(hits) != 0 || err != nil {
		t.Errorf("all removed: %v, %v", hits, err)
	}
}

func TestMetricNames(t *testing.T) {
	for _, m := range []Metric{Cosine, Dot, L2} {
		if got, err := ParseMetric(strings.ToUpper(m.String())); got != m || err != nil {
			t.Errorf("%s parses as %v, %v", m, got, err)
		}
	}
	if _, err := ParseMetric("manhattan"); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "cosine, dot, l2") {
		t.Errorf("an unknown metric: %v", err)
	}
}

// TestReadersBesideWriter pins lengths as an engine would: each reader sees the
// slots that were live when it pinned, and the writer reuses a slot only after
// every reader that could see it has gone.
func TestReadersBesideWriter(t *testing.T) {
	for _, cfg := range configs() {
		t.Run(fmt.Sprintf("%s quantized=%t", cfg.Metric, cfg.Quantized), func(t *testing.T) {
			t.Parallel()
			cfg.Dim = 24
			x := mustNew(t, cfg)
			seed := random(t).Uint64()
			const odd = 2 // odd slots are removed and reused; readers see even ones
			var stop atomic.Bool
			var reads atomic.Int64
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					for !stop.Load() {
						reads.Add(1)
						readOnce(t, x, randomVector(rng, cfg.Dim), func(slot uint32) bool { return slot%odd == 0 })
					}
				})
			}
			rng := rand.New(rand.NewPCG(seed, 99))
			for i := 0; i < 2000 || reads.Load() < 300 && i < 20_000; i++ {
				if i%50 == 0 {
					runtime.Gosched()
				}
				slot := mustAdd(t, x, randomVector(rng, cfg.Dim))
				if slot%odd == 1 && rng.IntN(2) == 0 {
					x.Remove(slot)
				}
			}
			stop.Store(true)
			wg.Wait()
		})
	}
}

func FuzzCheckVector(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 0, 64}, 2, uint8(0))
	f.Add([]byte{0, 0, 128, 127, 0, 0, 0, 64}, 0, uint8(1))
	f.Add([]byte{}, 3, uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, dim int, metric uint8) {
		vec := make([]float32, len(data)/4)
		for i := range vec {
			vec[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24)
		}
		m := Metric(metric % uint8(len(metricNames)))
		if CheckVector(vec, dim, m) != nil {
			return
		}
		for _, quantized := range []bool{false, true} {
			x := mustNew(t, Config{Dim: len(vec), Metric: m, Quantized: quantized})
			slot := mustAdd(t, x, vec)
			hits, err := x.Search(t.Context(), vec, Search{K: 1, Slots: x.Len()})
			if err != nil || len(hits) != 1 || hits[0].Slot != slot {
				t.Fatalf("an accepted vector is not found: %v, %v", hits, err)
			}
			if s := float64(hits[0].Score); math.IsNaN(s) || math.IsInf(s, 0) {
				t.Fatalf("an accepted vector scores %v", s)
			}
		}
	})
}

func setOf(m *roaring.Bitmap) *Set { return NewSet(m.ToArray()...) }
