package hnsw

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// clustered returns vectors around centres, as embeddings lie.
func clustered(rng *rand.Rand, n, dim, centres int) [][]float32 {
	middle := make([][]float32, centres)
	for i := range middle {
		middle[i] = randomVector(rng, dim)
	}
	vecs := make([][]float32, n)
	for i := range vecs {
		vecs[i] = randomVector(rng, dim)
		for k, m := range middle[rng.IntN(centres)] {
			vecs[i][k] = m + 0.6*vecs[i][k]
		}
	}
	return vecs
}

// newGraph returns an empty index that builds a graph from the first row on.
func newGraph(t testing.TB, cfg Config) *Index {
	t.Helper()
	x := mustNew(t, cfg)
	x.cfg.Crossover = 0
	return x
}

// linkedIndex returns an index with all vectors in its graph.
func linkedIndex(t testing.TB, cfg Config, vecs [][]float32) *Index {
	t.Helper()
	x := newGraph(t, cfg)
	for _, v := range vecs {
		mustAdd(t, x, v)
	}
	mustLink(t, x)
	return x
}

func mustLink(t testing.TB, x *Index) {
	t.Helper()
	if err := x.Link(t.Context(), x.Len()); err != nil {
		t.Fatal(err)
	}
}

func mustSearch(t testing.TB, x *Index, query []float32, s Search) []Hit {
	t.Helper()
	hits, err := x.Search(t.Context(), query, s)
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// recall returns the mean share of the true top k among the hits, and checks
// that there are as many and that their scores are right.
func recall(t testing.TB, x *Index, queries [][]float32, s Search) float64 {
	t.Helper()
	found, total := 0, 0
	for _, q := range queries {
		s.Exact = true
		want := mustSearch(t, x, q, s)
		s.Exact = false
		got := mustSearch(t, x, q, s)
		if len(got) != len(want) {
			t.Fatalf("%d hits; a flat search has %d", len(got), len(want))
		}
		scores := map[uint32]float32{}
		for _, h := range want {
			scores[h.Slot] = h.Score
		}
		for _, h := range got {
			score, ok := scores[h.Slot]
			if ok && score != h.Score {
				t.Fatalf("slot %d scores %v; in a flat search %v", h.Slot, h.Score, score)
			}
			if ok || h.Score >= want[len(want)-1].Score { // equal ones are as good
				found++
			}
		}
		total += len(want)
	}
	if total == 0 {
		return 1
	}
	return float64(found) / float64(total)
}

// checkGraph asserts what holds of a graph that nobody is changing: links lead
// to linked slots in their layer, once, and every live one can be reached, but
// under Dot, where no row is closest to a short one.
func checkGraph(t testing.TB, x *Index) {
	t.Helper()
	g := &x.graph
	entry, top, ok := g.entryPoint()
	linked := map[uint32]bool{}
	for slot := range x.Len() {
		if g.node(slot).state.Load()&stateLinked == 0 {
			continue
		}
		linked[slot] = true
		if level := g.level(slot); level > top {
			t.Fatalf("slot %d in layer %d is above the entry point's %d", slot, level, top)
		}
	}
	if len(linked) != int(g.linked.Load()) || ok != (len(linked) > 0) {
		t.Fatalf("%d slots are linked; counted %d; entry point %t", len(linked), g.linked.Load(), ok)
	}
	if !ok {
		return
	}
	if !linked[entry] || g.level(entry) != top {
		t.Fatalf("entry point %d in layer %d is not in the graph", entry, top)
	}
	for slot := range linked {
		for level := range g.level(slot) + 1 {
			seen := map[uint32]bool{slot: true}
			for _, to := range g.neighbours(slot, level, nil) {
				if seen[to] || !linked[to] || g.level(to) < level {
					t.Fatalf("slot %d in layer %d has a wrong link to %d", slot, level, to)
				}
				seen[to] = true
			}
		}
	}
	reached, queue := map[uint32]bool{entry: true}, []uint32{entry}
	for len(queue) > 0 {
		slot := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for level := range g.level(slot) + 1 {
			for _, to := range g.neighbours(slot, level, nil) {
				if !reached[to] {
					reached[to] = true
					queue = append(queue, to)
				}
			}
		}
	}
	lost := 0
	for slot := range linked {
		if g.live(slot) && !reached[slot] {
			lost++
		}
	}
	// Nothing promises that no slot is lost; the fewer links, the more are.
	if lost > len(linked)/(30*x.cfg.M) && x.cfg.Metric != Dot {
		t.Fatalf("%d of %d slots can't be reached", lost, len(linked))
	}
}

func TestRecall(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	for _, cfg := range configs() {
		cfg.Dim = 32
		vecs := clustered(rng, 3100, cfg.Dim, 40)
		x := linkedIndex(t, cfg, vecs[:3000])
		checkGraph(t, x)
		if got := recall(t, x, vecs[3000:], Search{K: 10, Slots: x.Len()}); got < 0.97 {
			t.Errorf("%s quantized=%t: recall %.4f", cfg.Metric, cfg.Quantized, got)
		}
	}
}

// TestExactEqualsFloat32 gives the codes' error its worst: a component that is
// far larger than the others, near duplicates, rows of very different lengths.
func TestExactEqualsFloat32(t *testing.T) {
	race.Sequential(t)
	shapes := map[string]func(rng *rand.Rand, base, vec []float32){
		"normal":  func(*rand.Rand, []float32, []float32) {},
		"outlier": func(rng *rand.Rand, _, vec []float32) { vec[3] = 50 + rng.Float32() },
		"near duplicates": func(_ *rand.Rand, base, vec []float32) {
			for i := range vec {
				vec[i] = base[i] + vec[i]*1e-4
			}
		},
		"lengths": func(rng *rand.Rand, _, vec []float32) {
			scale := float32(math.Exp2(rng.Float64()*20 - 10))
			for i := range vec {
				vec[i] *= scale
			}
		},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			rng := random(t)
			for _, cfg := range configs() {
				cfg.Dim = 200
				x := mustNew(t, cfg)
				base := randomVector(rng, cfg.Dim)
				slots := make([]uint32, 2000)
				for i := range slots {
					vec := randomVector(rng, cfg.Dim)
					shape(rng, base, vec)
					slots[i] = mustAdd(t, x, vec)
				}
				for range 10 {
					query := randomVector(rng, cfg.Dim)
					shape(rng, base, query)
					scores := make([]float32, len(slots))
					if err := x.Scores(query, slots, scores); err != nil {
						t.Fatal(err)
					}
					want := make([]Hit, len(slots))
					for i, score := range scores {
						want[i] = Hit{slots[i], score}
					}
					slices.SortFunc(want, compareHits)
					for _, k := range []int{1, 10, 700} {
						for _, exact := range []bool{true, false} {
							got := mustSearch(t, x, query, Search{K: k, Slots: x.Len(), Exact: exact})
							if !slices.Equal(got, want[:k]) {
								t.Fatalf("%s quantized=%t exact=%t: the top %d differ from float32's", cfg.Metric, cfg.Quantized, exact, k)
							}
						}
					}
				}
			}
		})
	}
}

// TestCoarseCodes stores rows whose codes say nothing of what the query asks
// for, next to one component that drowns it.
func TestCoarseCodes(t *testing.T) {
	rng := random(t)
	const dim, large, less = 1024, 1200, 220
	x := mustNew(t, Config{Dim: dim, Metric: Dot})
	row := func(first float32) []float32 {
		vec := make([]float32, dim)
		for i := range vec {
			vec[i] = 2*rng.Float32() - 1
		}
		vec[0] = first
		return vec
	}
	for range 100 {
		mustAdd(t, x, row(large))
	}
	query := row(1)
	best := slices.Clone(query) // a third of dim from all components together
	best[0] = large - less
	want := mustAdd(t, x, best)
	if hits := mustSearch(t, x, query, Search{K: 1, Slots: x.Len()}); hits[0].Slot != want {
		t.Errorf("%v is found; slot %d is best", hits, want)
	}
}

func TestTruthIsAskedForScores(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	for _, m := range []Metric{Cosine, Dot, L2} {
		vecs := clustered(rng, 2100, 24, 30)
		asked := 0
		cfg := Config{Dim: 24, Metric: m}
		plain := linkedIndex(t, cfg, vecs[:2000])
		cfg.Truth = func(slot uint32, dst []float32) ([]float32, error) {
			asked++
			return append(dst, vecs[slot]...), nil
		}
		x := linkedIndex(t, cfg, vecs[:2000])
		if kept, _ := x.rows.bytes(x.Len()); kept != 0 {
			t.Errorf("%d bytes of rows are kept beside their truth", kept)
		}
		for _, q := range vecs[2000:] {
			for _, exact := range []bool{false, true} {
				s := Search{K: 10, Slots: x.Len(), Exact: exact, Ef: 100}
				got, want := mustSearch(t, x, q, s), mustSearch(t, plain, q, s)
				for i, h := range got {
					if math.Abs(float64(h.Score-want[i].Score)) > 1e-4 {
						t.Fatalf("%s: hit %d scores %v; %v with rows in memory", m, i, h.Score, want[i].Score)
					}
				}
			}
		}
		if asked > 200*60 {
			t.Errorf("%s: %d rows were asked for, for 200 searches of 10", m, asked)
		}
	}
	lost := errors.New("lost") // and not asked for by a rough search
	x := mustNew(t, Config{Dim: 1, Truth: func(uint32, []float32) ([]float32, error) { return nil, lost }})
	mustAdd(t, x, []float32{1})
	if _, err := x.Search(t.Context(), []float32{1}, Search{K: 1, Slots: 1}); !errors.Is(err, lost) {
		t.Errorf("a lost row: %v", err)
	}
	if hits := mustSearch(t, x, []float32{1}, Search{K: 1, Slots: 1, Rough: true}); len(hits) != 1 || hits[0] != (Hit{0, 1}) {
		t.Errorf("a rough search: %v", hits)
	}
	own := func(uint32, []float32) ([]float32, error) { return []float32{2}, nil }
	if hits := mustSearch(t, x, []float32{1}, Search{K: 1, Slots: 1, Truth: own}); len(hits) != 1 || hits[0].Score != 1 {
		t.Errorf("a search that brings the row: %v", hits)
	}
	x = mustNew(t, Config{Dim: 1, Truth: func(uint32, []float32) ([]float32, error) { return []float32{1, 2}, nil }})
	mustAdd(t, x, []float32{1})
	if err := x.Scores([]float32{1}, []uint32{0}, make([]float32, 1)); !errors.Is(err, ErrDimension) {
		t.Errorf("a row of another dimension: %v", err)
	}
	if _, err := New(Config{Dim: 1, Quantized: true, Truth: x.cfg.Truth}); !errors.Is(err, ErrConfig) {
		t.Errorf("codes that are their own truth, and another: %v", err)
	}
}

// TestRowScore: rows of any length are compared by their direction, and what no
// row can be is named.
func TestRowScore(t *testing.T) {
	query := []float32{0.6, 0, 0.8}
	for _, scale := range []float32{1, 1e-30, 1e30, 3e37, 1e-44} {
		row := []float32{3 * scale, 0, 4 * scale}
		// The smallest numbers have few digits.
		if got, err := rowScore(Cosine, query, row); err != nil || math.Abs(float64(got)-1) > 1e-2 || scale > 1e-40 && math.Abs(float64(got)-1) > 1e-6 {
			t.Errorf("the cosine with %v is %v, %v", row, got, err)
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		metric Metric
		row    []float32
		want   error
	}{
		{Cosine, []float32{0, 0, 0}, ErrZeroVector},
		{Cosine, []float32{nan, 0, 0}, ErrNotFinite},
		{Dot, []float32{0, nan, 0}, ErrNotFinite},
		{Dot, []float32{0, 0, inf}, ErrNotFinite},
		{L2, []float32{0, -inf, 0}, ErrNotFinite},
		{L2, []float32{0, 0, 3e38}, ErrTooLong},
		{Dot, []float32{1, 2}, ErrDimension},
		{L2, nil, ErrDimension},
	} {
		if got, err := rowScore(c.metric, query, c.row); !errors.Is(err, c.want) {
			t.Errorf("%s with %v: %v, %v; want %v", c.metric, c.row, got, err, c.want)
		}
	}
}

func TestDeterministicForASeed(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	vecs := clustered(rng, 1500, 16, 20)
	links := func(seed uint64) (all []uint32) {
		x := linkedIndex(t, Config{Dim: 16, Seed: seed}, vecs)
		for slot := range x.Len() {
			for level := range x.graph.level(slot) + 1 {
				all = append(all, uint32(level))
				all = x.graph.neighbours(slot, level, all)
			}
		}
		return all
	}
	if !slices.Equal(links(7), links(7)) {
		t.Error("two builds with one seed differ")
	}
	if slices.Equal(links(7), links(8)) {
		t.Error("the seed changes nothing")
	}
}

func TestParallelBuild(t *testing.T) {
	rng := random(t)
	vecs := clustered(rng, 1600, 32, 20)
	x := linkedIndex(t, Config{Dim: 32, Builders: 8}, vecs[:1500])
	checkGraph(t, x)
	if got := recall(t, x, vecs[1500:], Search{K: 10, Slots: x.Len()}); got < 0.97 {
		t.Errorf("recall %.4f", got)
	}
}

func TestNoGraphBelowCrossover(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	x := mustNew(t, Config{Dim: 4})
	for range Crossover - 1 {
		mustAdd(t, x, randomVector(rng, 4))
	}
	mustLink(t, x)
	if x.graph.linked.Load() != 0 {
		t.Error("a graph was built below the crossover")
	}
	mustAdd(t, x, randomVector(rng, 4))
	mustLink(t, x)
	if got := x.graph.linked.Load(); got != Crossover {
		t.Errorf("%d rows are linked; want %d", got, Crossover)
	}
}

// TestUnlinkedRowsAreFound searches with part of the rows in the graph, in all
// of which the answer must be as good.
func TestUnlinkedRowsAreFound(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	vecs := clustered(rng, 3000, 24, 30)
	x := newGraph(t, Config{Dim: 24})
	for i, v := range vecs {
		slot := mustAdd(t, x, v)
		if i%500 == 250 {
			if err := x.Link(t.Context(), slot-100); err != nil {
				t.Fatal(err)
			}
		}
		hits := mustSearch(t, x, v, Search{K: 3, Slots: x.Len(), Ef: 20})
		if hits[0].Slot != slot {
			t.Fatalf("row %d is not found right after it was stored: %v", slot, hits)
		}
	}
	got := x.Stats()
	want := Stats{Slots: 3000, Linked: 2650, Pending: 350, Bytes: x.Bytes()} // from the last call's limit on
	if got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	if perRow := got.Bytes / 3000; perRow < 24*5 || perRow > 24*5+300 {
		t.Errorf("%d bytes a row", perRow)
	}
	if got := recall(t, x, vecs[:100], Search{K: 10, Slots: x.Len()}); got < 0.97 {
		t.Errorf("recall %.4f", got)
	}
	mustLink(t, x)
	checkGraph(t, x)
}

func TestLinkStopsWithItsContext(t *testing.T) {
	rng := random(t)
	x := newGraph(t, Config{Dim: 8})
	for range 100 {
		mustAdd(t, x, randomVector(rng, 8))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Link(ctx, x.Len()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Link: %v", err)
	}
	mustLink(t, x)
	checkGraph(t, x)
	if got := x.graph.linked.Load(); got != 100 {
		t.Errorf("%d rows are linked; want 100", got)
	}
}

func TestDuplicates(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	same := randomVector(rng, 16)
	vecs := clustered(rng, 1000, 16, 10)
	for i := range 3000 {
		vecs = append(vecs, same)
		if i%10 == 0 {
			vecs = append(vecs, randomVector(rng, 16))
		}
	}
	x := linkedIndex(t, Config{Dim: 16}, vecs)
	for _, h := range mustSearch(t, x, same, Search{K: 50, Slots: x.Len()}) {
		if h.Score < 0.9999 {
			t.Errorf("of 3,000 duplicates, the top 50 hold one that scores %v", h.Score)
		}
	}
	queries := clustered(rng, 400, 16, 400)
	if got := recall(t, x, queries, Search{K: 10, Slots: x.Len()}); got < 0.95 {
		t.Errorf("recall beside duplicates: %.4f", got)
	}
}

// TestChurn replaces a fifth of the rows ten times: recall must stay that of a
// fresh graph, and slots must be used again.
func TestChurn(t *testing.T) {
	race.Sequential(t)
	t.Run("codes", func(t *testing.T) { churn(t, 24, 20, false) })
	t.Run("sketches", func(t *testing.T) { churn(t, 128, 60, true) })
}

func churn(t *testing.T, dim, ef int, sketches bool) {
	t.Helper()
	rng := random(t)
	const n = 2000
	pool := clustered(rng, 3*n+200, dim, 40)
	queries, pool := pool[:200], pool[200:]
	x := newGraph(t, Config{Dim: dim, EfConstruction: 100})
	if sketches {
		sketched(t, x, n/3)
	}
	rows := map[uint32][]float32{}
	add := func() {
		v := pool[rng.IntN(len(pool))]
		rows[mustAdd(t, x, v)] = v
	}
	for range n {
		add()
	}
	mustLink(t, x)
	for range 10 {
		slots := slices.Sorted(func(yield func(uint32) bool) {
			for slot := range rows {
				if !yield(slot) {
					return
				}
			}
		})
		rng.Shuffle(n, func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		for _, slot := range slots[:n/5] {
			x.Remove(slot)
			delete(rows, slot)
		}
		for range n / 5 {
			add()
		}
		mustLink(t, x)
		checkGraph(t, x)
	}
	if x.Len() > n+2*n/5 {
		t.Errorf("%d slots were handed out for %d rows", x.Len(), n)
	}
	var vecs [][]float32
	for _, v := range rows {
		vecs = append(vecs, v)
	}
	s := Search{K: 10, Slots: x.Len(), Ef: ef}
	got := recall(t, x, queries, s)
	want := recall(t, linkedIndex(t, Config{Dim: dim, EfConstruction: 100}, vecs), queries, s)
	t.Logf("recall %.4f; in a fresh graph %.4f", got, want)
	if got < want-0.01 {
		t.Errorf("recall %.4f; in a fresh graph %.4f", got, want)
	}
}

func TestRemoveAll(t *testing.T) {
	rng := random(t)
	x := linkedIndex(t, Config{Dim: 8}, clustered(rng, 600, 8, 5))
	for round := range 3 {
		for slot := range x.Len() {
			x.Remove(slot)
		}
		query := randomVector(rng, 8)
		if hits := mustSearch(t, x, query, Search{K: 5, Slots: x.Len()}); len(hits) != 0 {
			t.Fatalf("hits in an index of removed rows: %v", hits)
		}
		if round > 0 { // else they are added beside the dead ones
			mustLink(t, x)
			checkGraph(t, x)
			if x.graph.linked.Load() != 0 {
				t.Fatalf("%d removed rows are in the graph", x.graph.linked.Load())
			}
		}
		for range 300 {
			mustAdd(t, x, randomVector(rng, 8))
		}
		mustLink(t, x)
		checkGraph(t, x)
		if hits := mustSearch(t, x, query, Search{K: 500, Slots: x.Len()}); len(hits) != 300 {
			t.Fatalf("%d hits of 300 rows", len(hits))
		}
	}
}

// patience is a context that is done after so many looks at it.
type patience struct {
	context.Context
	looks int
}

func (p *patience) Err() error {
	if p.looks--; p.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestRepairCancelled: a slot that lost its only link to a repair that was cancelled is
// linked anew by the next.
func TestRepairCancelled(t *testing.T) {
	rng := random(t)
	x := linkedIndex(t, Config{Dim: 4}, clustered(rng, 100, 4, 3))
	g := &x.graph
	entry, _, _ := g.entryPoint()
	slot := uint32(0)
	for slot == entry || g.level(slot) > 0 {
		slot++
	}
	other := slot + 1
	for from := range x.Len() { // only these two link to each other
		links := slices.DeleteFunc(g.neighbours(from, 0, nil), func(to uint32) bool { return to == slot || to == other })
		g.setNeighbours(from, 0, links)
	}
	g.setNeighbours(slot, 0, []uint32{other})
	g.setNeighbours(other, 0, []uint32{slot})
	for gone := range uint32(10) {
		x.Remove(other + gone)
	}
	for x.Len() <= rowsPerCheck { // repair looks at its context again
		mustAdd(t, x, randomVector(rng, 4))
	}
	w := newBuilder(x)
	if err := w.repair(&patience{t.Context(), 2}); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled repair: %v", err)
	}
	if links := g.neighbours(slot, 0, nil); len(links) > 0 {
		t.Fatalf("the slot still has links: %v", links)
	}
	if err := w.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	links := g.neighbours(slot, 0, nil)
	if !slices.ContainsFunc(links, func(to uint32) bool { return slices.Contains(g.neighbours(to, 0, nil), slot) }) {
		t.Errorf("slot %d links to %v, of which none links back", slot, links)
	}
}

// TestRepairComesFirst: where very many are removed, links are led around them before
// others are linked, unless somebody waits for those: a process may end any time.
func TestRepairComesFirst(t *testing.T) {
	vecs := clustered(random(t), 300, 4, 3)
	for _, c := range []struct {
		yields        bool
		removed, left int
	}{{true, 20, 20}, {true, 60, 0}, {false, 60, 60}} {
		x := linkedIndex(t, Config{Dim: 4}, vecs)
		x.SetYield(c.yields)
		for slot := range uint32(c.removed) {
			x.Remove(slot)
		}
		for _, v := range vecs {
			mustAdd(t, x, v)
		}
		if err := x.Link(&patience{t.Context(), 1}, x.Len()); !errors.Is(err, context.Canceled) {
			t.Fatalf("linking that is cancelled: %v", err)
		}
		if got := x.Stats(); got.Removed != c.left || got.Pending < len(vecs)-1 {
			t.Errorf("%+v of 300: %d removed ones are in the graph, %d wait to be linked", c, got.Removed, got.Pending)
		}
		mustLink(t, x)
		checkGraph(t, x)
	}
}

// TestRemovedDuringRepair: the last row goes while repair leads around the others. Rows
// are long, so that no page can be mistaken for that of a slot that is none.
func TestRemovedDuringRepair(t *testing.T) {
	x := linkedIndex(t, Config{Dim: MaxDim}, clustered(random(t), 20, MaxDim, 3))
	for slot := range x.Len() - 1 {
		x.Remove(slot)
	}
	w, removed := newBuilder(x), slices.Clone(x.graph.removed)
	x.Remove(x.Len() - 1)
	if err := w.leadAround(t.Context(), removed); err != nil {
		t.Fatal(err)
	}
	mustLink(t, x) // the rest
	checkGraph(t, x)
	if n := x.Linked(); n != 0 {
		t.Errorf("%d removed rows are in the graph", n)
	}
}

// TestFilters searches within sets of every size: spread evenly, along a
// direction, and far from the query.
func TestFilters(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	const n, dim = 20_000, 24
	vecs := clustered(rng, n+40, dim, 60)
	queries := vecs[n:]
	x := linkedIndex(t, Config{Dim: dim, EfConstruction: 100}, vecs[:n])
	axis := randomVector(rng, dim)
	along := make([]float32, n)
	for i := range along {
		along[i] = simd.Dot(axis, vecs[i])
	}
	sorted := slices.Sorted(slices.Values(along))
	kinds := map[string]func(slot uint32, share float64) bool{
		"even":      func(_ uint32, share float64) bool { return rng.Float64() < share },
		"clustered": func(slot uint32, share float64) bool { return along[slot] >= sorted[int(float64(n-1)*(1-share))] },
		"far": func(slot uint32, share float64) bool {
			return along[slot] <= sorted[int(float64(n-1)*share)]
		},
	}
	for kind, matches := range kinds {
		for _, share := range []float64{0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 0.9} {
			set := roaring.New()
			for slot := range uint32(n) {
				if matches(slot, share) {
					set.Add(slot)
				}
			}
			near := queries
			if kind == "far" {
				near = slices.DeleteFunc(slices.Clone(queries), func(q []float32) bool {
					return simd.Dot(axis, q) < sorted[n/2]
				})
			}
			if got := recall(t, x, near, Search{K: 10, Slots: x.Len(), Within: setOf(set)}); got < 0.95 {
				t.Errorf("%s, %v of the rows: recall %.4f", kind, share, got)
			}
			hide := Search{K: 10, Slots: x.Len(), Visible: set.Contains}
			if got := recall(t, x, near, hide); got < 0.95 {
				t.Errorf("%s, %v of the rows visible: recall %.4f", kind, share, got)
			}
		}
	}
}

// TestStrategies forces each way to search: none returns what doesn't match, or
// fewer than there are, and each finds most of the best.
func TestStrategies(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	const n, dim = 6_000, 16
	vecs := clustered(rng, n+20, dim, 30)
	queries := vecs[n:]
	x := linkedIndex(t, Config{Dim: dim, EfConstruction: 80}, vecs[:n])
	for _, every := range []uint32{1, 4, 100, 2_000} {
		set := roaring.New()
		for slot := uint32(0); slot < n; slot += every {
			set.Add(slot)
		}
		for _, strategy := range []Strategy{Planned, Flat, Sweep, Within} {
			s := Search{K: 10, Slots: x.Len(), Within: setOf(set), Strategy: strategy, Ef: 200}
			for _, q := range queries {
				hits := mustSearch(t, x, q, s)
				if want := min(10, int(set.GetCardinality())); len(hits) != want {
					t.Errorf("strategy %d, one in %d: %d hits, want %d", strategy, every, len(hits), want)
				}
				for _, h := range hits {
					if !set.Contains(h.Slot) {
						t.Errorf("strategy %d, one in %d: slot %d does not match", strategy, every, h.Slot)
					}
				}
			}
			// Forced to, a walk through few matching rows loses its way.
			if got := recall(t, x, queries, s); got < 0.9 && (strategy != Within || every < 100) {
				t.Errorf("strategy %d, one in %d: recall %.4f", strategy, every, got)
			}
		}
	}
}

// TestNothingToFind: whatever the way, a search that may return nothing does.
func TestNothingToFind(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	vecs := clustered(rng, 3_000, 8, 20)
	x := linkedIndex(t, Config{Dim: 8, EfConstruction: 40}, vecs)
	beyond := roaring.New()
	beyond.AddRange(uint64(x.Len()), uint64(x.Len())+5_000)
	none := func(uint32) bool { return false }
	half := roaring.New()
	half.AddRange(0, 1_500)
	for _, strategy := range []Strategy{Planned, Flat, Sweep, Within} {
		for name, s := range map[string]Search{
			"k 0":             {K: 0},
			"an empty set":    {K: 5, Within: NewSet()},
			"a set beyond":    {K: 5, Within: setOf(beyond)},
			"nothing visible": {K: 5, Visible: none},
			"a hidden half":   {K: 5, Within: setOf(half), Visible: func(slot uint32) bool { return !half.Contains(slot) }},
		} {
			s.Slots, s.Strategy = x.Len(), strategy
			if hits := mustSearch(t, x, vecs[7], s); len(hits) != 0 {
				t.Errorf("%s, strategy %d: %v", name, strategy, hits)
			}
		}
		all := Search{K: math.MaxInt, Slots: x.Len(), Strategy: strategy, Within: setOf(half)}
		if hits := mustSearch(t, x, vecs[7], all); len(hits) != 1_500 {
			t.Errorf("strategy %d: %d hits of 1,500", strategy, len(hits))
		}
	}
}

// TestEverybodyAtOnce runs a writer, a linker and readers beside each other,
// with kernels that the race detector can watch.
func TestEverybodyAtOnce(t *testing.T) {
	defer simd.Use(simd.Portable)()
	seed := random(t).Uint64()
	for _, cfg := range []Config{{Metric: Cosine}, {Metric: L2, Quantized: true, Builders: 3}} {
		t.Run(fmt.Sprint(cfg.Metric), func(t *testing.T) {
			cfg.Dim, cfg.EfConstruction = 16, 40
			x := newGraph(t, cfg)
			if cfg.Metric == Cosine {
				sketched(t, x, 500)
			}
			const churned = 3 // slots of this residue are removed and used again
			var stop atomic.Bool
			var reads atomic.Int64
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(i)))
					for !stop.Load() {
						reads.Add(1)
						readOnce(t, x, randomVector(rng, cfg.Dim), func(slot uint32) bool { return slot%churned != 0 })
					}
				})
			}
			wg.Go(func() {
				for !stop.Load() {
					if err := x.Link(t.Context(), math.MaxUint32); err != nil {
						t.Error(err)
					}
				}
			})
			rng := rand.New(rand.NewPCG(seed, 99))
			for i := 0; i < 2000 || reads.Load() < 300 && i < 20_000; i++ {
				if i%50 == 0 {
					runtime.Gosched()
				}
				mustAdd(t, x, randomVector(rng, cfg.Dim))
				if slot := rng.Uint32N(x.Len()); slot%churned == 0 {
					x.Remove(slot)
				}
			}
			stop.Store(true)
			wg.Wait()
			mustLink(t, x)
			checkGraph(t, x)
		})
	}
}

// readOnce searches as a reader that sees part of the slots does, and checks
// that each hit is one of them and scores what its row does.
func readOnce(t *testing.T, x *Index, query []float32, visible func(uint32) bool) {
	pinned := x.Len()
	matching := 0
	for slot := range pinned {
		if visible(slot) {
			matching++
		}
	}
	hits, err := x.Search(t.Context(), query, Search{K: 7, Slots: pinned, Visible: visible, Ef: 20})
	if err != nil {
		t.Error(err)
		return
	}
	if want := min(7, matching); len(hits) != want {
		t.Errorf("%d hits of %d slots; want %d", len(hits), pinned, want)
	}
	for i, h := range hits {
		row, err := x.Row(h.Slot, nil)
		if err != nil {
			t.Error(err)
		}
		if !visible(h.Slot) || h.Slot >= pinned {
			t.Errorf("slot %d can't be seen", h.Slot)
		} else if math.Abs(exactScore(x.cfg.Metric, query, row)-float64(h.Score)) > tolerance(x.cfg.Metric, query, row) {
			t.Errorf("slot %d scores %v, which its row does not", h.Slot, h.Score)
		}
		if i > 0 && compareHits(hits[i-1], h) >= 0 {
			t.Errorf("hits out of order: %v, %v", hits[i-1], h)
		}
	}
}

// TestChurnBelowCrossover: where few rows are replaced often, no graph is built and
// the list of pending ones stays short.
func TestChurnBelowCrossover(t *testing.T) {
	rng := random(t)
	x := mustNew(t, Config{Dim: 4, Crossover: 500})
	var slots []uint32
	for range 100 {
		slots = append(slots, mustAdd(t, x, randomVector(rng, 4)))
	}
	for range 5000 {
		i := rng.IntN(len(slots))
		x.Remove(slots[i])
		slots[i] = mustAdd(t, x, randomVector(rng, 4))
		if x.Due() || x.Pending() > 5*len(slots) {
			t.Fatalf("%d rows of %d are pending, due %v", x.Pending(), len(slots), x.Due())
		}
	}
	mustLink(t, x)
	if st := x.Stats(); st.Linked > 0 || st.Slots > 2*len(slots) {
		t.Errorf("%+v", st)
	}
	query := randomVector(rng, 4)
	checkHits(t, x, query, slots, 10, mustSearch(t, x, query, Search{K: 10, Slots: x.Len()}))
}

// TestSetBuilders: within the limits, for calls of Link to come, which may yield.
func TestSetBuilders(t *testing.T) {
	x := newGraph(t, Config{Dim: 16, Builders: 2})
	vecs := clustered(random(t), 500, 16, 3)
	for _, v := range vecs {
		mustAdd(t, x, v)
	}
	for n, want := range map[int]int32{-1: 1, 0: 1, 3: 3, 1 << 20: maxBuilders} {
		if x.SetBuilders(n); x.builders.Load() != want {
			t.Errorf("%d: %d builders", n, x.builders.Load())
		}
	}
	x.SetYield(true)
	if err := x.Link(t.Context(), x.Len()); err != nil || x.Linked() != len(vecs) || x.Work() != uint64(len(vecs)) {
		t.Errorf("linked %d, %v, work %d", x.Linked(), err, x.Work())
	}
}

// TestManyClusters: a search finds the cluster that its query is of among hundreds, each
// of them with more rows than the search keeps candidates.
func TestManyClusters(t *testing.T) {
	const clusters, each, dim = 400, 50, 8
	rng := rand.New(rand.NewPCG(2, 0)) // a graph of one builder follows from it
	middle := make([][]float32, clusters)
	for i := range middle {
		middle[i] = randomVector(rng, dim)
	}
	near := func(cluster int) []float32 {
		v := randomVector(rng, dim)
		for k, m := range middle[cluster] {
			v[k] = m + 0.1*v[k]
		}
		return v
	}
	vecs := make([][]float32, clusters*each)
	for i := range vecs {
		vecs[i] = near(i % clusters)
	}
	x := linkedIndex(t, Config{Dim: dim, M: 4, EfConstruction: 40}, vecs)
	lost := 0
	for cluster := range clusters {
		hits := mustSearch(t, x, near(cluster), Search{K: 5, Ef: 10, Slots: x.Len()})
		if !slices.ContainsFunc(hits, func(h Hit) bool { return int(h.Slot)%clusters == cluster }) {
			lost++
		}
	}
	if lost > 1 {
		t.Errorf("%d of %d searches ended in other clusters", lost, clusters)
	}
}

// TestAddLinks compares the set that a walk keeps of what it has met with a map.
func TestAddLinks(t *testing.T) {
	rng := random(t)
	var s slotSet
	for range 100 {
		limit := 1 + rng.Uint32N(300)
		s.reset(limit)
		members := map[uint32]bool{}
		for range rng.IntN(20) {
			list := make([]atomic.Uint32, rng.IntN(40))
			want := []uint32{7} // what was there before
			for i, ended := 0, false; i < len(list); i++ {
				link := rng.Uint32N(limit + 10) // 0 ends the list, and some are beyond the limit
				list[i].Store(link)
				ended = ended || link == 0
				if slot := link - 1; !ended && slot < limit && !members[slot] {
					members[slot] = true
					want = append(want, slot)
				}
			}
			if got := s.addLinks(list, []uint32{7}); !slices.Equal(got, want) {
				t.Fatalf("below %d, links %v are new: %v; want %v", limit, list, got, want)
			}
		}
		for slot := range limit {
			if s.has(slot) != members[slot] {
				t.Fatalf("slot %d is a member: %v", slot, s.has(slot))
			}
		}
	}
}
