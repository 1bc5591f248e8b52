package hnsw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// placed returns an index whose rows have places in cells, and no graph.
func placed(t testing.TB, cfg Config, vecs [][]float32) *Index {
	t.Helper()
	cfg.Celled = 1
	x := newGraph(t, cfg)
	for _, v := range vecs {
		mustAdd(t, x, v)
	}
	place(t, x)
	return x
}

// place gives fresh rows their places, as Link does.
func place(t testing.TB, x *Index) {
	t.Helper()
	x.graph.linking.Lock()
	defer x.graph.linking.Unlock()
	if err := newBuilder(x).place(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, _ := x.coding.Load().cover.look(); c == nil {
		t.Fatal("rows have no places")
	}
}

// lost returns how many of the hits of exact searches that others lack which go by cells: a
// row that scores as much is as good.
func lost(t testing.TB, x *Index, queries [][]float32, s Search) (missing, all int) {
	t.Helper()
	for _, q := range queries {
		s.Exact, s.Strategy = true, Planned
		want := mustSearch(t, x, q, s)
		var told Told
		s.Exact, s.Strategy, s.Told = false, Cascade, &told
		got := mustSearch(t, x, q, s)
		s.Told = nil
		if told.Way != Cascade || told.Miss != CellMiss || told.Certain {
			t.Fatalf("told %+v of a search by cells", told)
		}
		if len(got) != len(want) {
			t.Fatalf("%d hits by cells; %d exactly", len(got), len(want))
		}
		for i, h := range want {
			if all++; got[i].Score < h.Score {
				missing++
			}
		}
	}
	return missing, all
}

// TestCascade: what a search by cells finds is what an exact one does, on sets that are hard
// for codes, be the query near a row, away from all or on the other side.
func TestCascade(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	for _, c := range hardCases {
		for _, metric := range c.metrics {
			t.Run(fmt.Sprintf("%s, %s", c.name, metric), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				vecs := c.rows(rng, c.dim)
				x := placed(t, Config{Dim: c.dim, Metric: metric}, vecs)
				var queries [][]float32
				for i := range 60 {
					q := moved(rng, vecs[rng.IntN(len(vecs))], c.noise)
					switch i % 3 {
					case 1:
						q = randomVector(rng, c.dim)
					case 2:
						for k := range q {
							q[k] = -q[k]
						}
					}
					queries = append(queries, q)
				}
				if missing, all := lost(t, x, queries, Search{K: 10, Slots: x.Len()}); missing > all/500 {
					t.Errorf("%d of %d hits are missing", missing, all)
				}
			})
		}
	}
}

// TestCascadeLifecycle: rows that come, go and come again in slots that others had are found
// by cells, with and without a place in them, within a set, as far as they may be seen, and
// up to the length that a reader pinned.
func TestCascadeLifecycle(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	for _, cfg := range []Config{
		{Dim: 24},
		{Dim: 24, Metric: Dot, Quantized: true},
		{Dim: 24, Metric: L2},
		{Dim: 140, Metric: Dot},
		{Dim: 140, Metric: L2, Quantized: true},
	} {
		t.Run(fmt.Sprintf("%s, %d components, quantized %t", cfg.Metric, cfg.Dim, cfg.Quantized), func(t *testing.T) {
			rng := random(t)
			x := placed(t, cfg, clustered(rng, 600, cfg.Dim, 9))
			missing, all := 0, 0
			for round := range 12 {
				for range 40 + 200*(round%3) {
					x.Remove(rng.Uint32N(x.Len()))
				}
				pinned := x.Len() - x.Len()/10
				for _, v := range clustered(rng, 30+200*(round%2), cfg.Dim, 9) {
					mustAdd(t, x, v)
				}
				if round%4 == 3 {
					place(t, x)
				}
				if round == 8 {
					x = mustRead(t, snapshotOf(t, x), x.cfg)
				}
				within := NewSet()
				for slot := range x.Len() {
					if slot%3 > 0 {
						within.Add(slot)
					}
				}
				for _, s := range []Search{
					{K: 10, Slots: x.Len()},
					{K: 10, Slots: pinned, Within: within},
					{K: 40, Slots: x.Len(), Visible: func(slot uint32) bool { return slot%16 == 3 }},
					{K: 1000, Slots: x.Len()},
				} {
					m, n := lost(t, x, clustered(rng, 4, cfg.Dim, 2), s)
					missing, all = missing+m, all+n
				}
			}
			if missing > all/1000 {
				t.Errorf("%d of %d hits are missing", missing, all)
			}
		})
	}
}

// TestCascadeOfFewRows: cells go where rows come and go and nothing gives them places, and
// where there are too few rows; then there are none until Link makes others.
func TestCascadeOfFewRows(t *testing.T) {
	rng := random(t)
	x := placed(t, Config{Dim: 4}, clustered(rng, 50, 4, 2))
	var slots []uint32
	for range 3 * freshMost {
		slots = append(slots, mustAdd(t, x, randomVector(rng, 4)))
		if len(slots) > 20 {
			x.Remove(slots[0])
			slots = slots[1:]
		}
	}
	if c, fresh := x.coding.Load().cover.look(); c != nil {
		t.Errorf("%d rows are in cells, and %d slots are said to be fresh", c.rows, len(fresh))
	}
	if x.cfg.Celled = 1; !x.cellsDue() {
		t.Error("rows have no places, and Link has nothing to do")
	}
	place(t, x)
	if x.cellsDue() {
		t.Error("all rows have places, and Link has something to do")
	}
	before := x.Bytes()
	x.cfg.Celled = 1000
	mustLink(t, x)
	if c, _ := x.coding.Load().cover.look(); c != nil || x.Bytes() >= before {
		t.Errorf("cells of %d rows, where %d are too few; %d bytes, before %d", c.rows, x.graph.rows.Load(), x.Bytes(), before)
	}
}

// TestPlacesStopWithTheirContext: where there is little time for it, rows get their places
// by and by, and are found meanwhile.
func TestPlacesStopWithTheirContext(t *testing.T) {
	rng := random(t)
	vecs := clustered(rng, 5*cellsPerCheck/2, 6, 4)
	x := newGraph(t, Config{Dim: 6, Celled: 1})
	for _, v := range vecs {
		mustAdd(t, x, v)
	}
	w := newBuilder(x)
	for _, want := range []int{3 * cellsPerCheck / 2, cellsPerCheck / 2, 0} {
		if err := w.place(&patience{t.Context(), 0}); want > 0 != errors.Is(err, context.Canceled) {
			t.Errorf("%d rows are to be left: %v", want, err)
		}
		if _, fresh := x.coding.Load().cover.look(); len(fresh) != want {
			t.Errorf("%d rows have no place; want %d", len(fresh), want)
		}
		if missing, all := lost(t, x, vecs[:20], Search{K: 10, Slots: x.Len()}); missing > 0 {
			t.Errorf("%d of %d hits are missing", missing, all)
		}
	}
}

// TestCascadeBesideEverybody: searches by cells beside rows that come, go and get places
// return rows that there are, each once.
func TestCascadeBesideEverybody(t *testing.T) {
	rng := random(t)
	x := placed(t, Config{Dim: 12}, clustered(rng, 800, 12, 5))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			if err := x.Link(t.Context(), x.Len()); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for !stop.Load() {
				hits, err := x.Search(t.Context(), randomVector(rng, 12), Search{K: 20, Slots: x.Len(), Strategy: Cascade})
				if err != nil || len(hits) != 20 {
					t.Errorf("%d hits, %v", len(hits), err)
					return
				}
				slices.SortFunc(hits, func(a, b Hit) int { return cmp.Compare(a.Slot, b.Slot) })
				if n := len(slices.CompactFunc(hits, func(a, b Hit) bool { return a.Slot == b.Slot })); n != 20 {
					t.Errorf("%d different hits of 20", n)
				}
			}
		})
	}
	for range 3000 {
		v := randomVector(rng, 12)
		slot := mustAdd(t, x, v)
		hits := mustSearch(t, x, v, Search{K: 1, Slots: x.Len(), Strategy: Cascade})
		if hits[0].Slot != slot && hits[0].Score < .9999 {
			t.Fatalf("a row that was just added to slot %d finds %v", slot, hits)
		}
		x.Remove(rng.Uint32N(800))
	}
	stop.Store(true)
	wg.Wait()
}

// TestPlannedCascade: a search that is to be sure, or does not say how many candidates it
// wants, goes by cells where that is cheap, and finds what nobody stored anything like.
func TestPlannedCascade(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	const n, dim, topics = 20_000, 64, 40
	rng := rand.New(rand.NewPCG(5, 6))
	near := func(centre []float32) []float32 { return moved(rng, centre, 1.0/3) }
	var centres, vecs, queries [][]float32
	for range topics {
		centres = append(centres, randomVector(rng, dim))
	}
	for i := range n {
		vecs = append(vecs, near(centres[i%topics]))
	}
	for range 40 {
		queries = append(queries, near(randomVector(rng, dim)))
	}
	x := linkedIndex(t, Config{Dim: dim, EfConstruction: 40, M: 8}, vecs)
	way := func(s Search) (told Told) {
		s.K, s.Slots, s.Told = 10, x.Len(), &told
		mustSearch(t, x, queries[0], s)
		return told
	}
	half, few := NewSet(), NewSet()
	for slot := range x.Len() {
		if slot%2 == 0 {
			half.Add(slot)
		}
		if slot%64 == 0 {
			few.Add(slot)
		}
	}
	for _, c := range []struct {
		s    Search
		want Told
	}{
		{Search{}, Told{Way: Cascade, Miss: CellMiss}},
		{Search{Ef: 16, Sure: true}, Told{Way: Cascade, Miss: CellMiss}},
		{Search{Ef: 16}, Told{Way: Sweep}},
		{Search{Ef: 2000}, Told{Way: Cascade, Miss: CellMiss}},
		{Search{Within: half}, Told{Way: Cascade, Miss: CellMiss}},
		{Search{Within: few}, Told{Way: Flat, Certain: true}},
		{Search{Exact: true}, Told{Way: Flat, Certain: true}},
		{Search{Strategy: Sweep}, Told{Way: Sweep}},
	} {
		if got := way(c.s); got != c.want {
			t.Errorf("%+v: %+v; want %+v", c.s, got, c.want)
		}
	}
	if r := recall(t, x, queries, Search{K: 10, Slots: x.Len()}); r < .999 {
		t.Errorf("recall@10 %.4f of queries of unseen topics", r)
	}
	// A walk comes first then, and looks at all where what it found is all as far away.
	x.cfg.Sure = 1000
	if r := recall(t, x, queries, Search{K: 10, Slots: x.Len()}); r < .95 {
		t.Errorf("recall@10 %.4f of queries of unseen topics, by walks", r)
	}
}

// TestBitsThatTellNothing: where bits rule out next to nothing, searches compare all codes at
// once, but for a few that look whether bits tell more by now.
func TestBitsThatTellNothing(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	const n, dim = 12_000, 48
	rng := rand.New(rand.NewPCG(5, 6))
	var vecs [][]float32
	for range n {
		v := randomVector(rng, dim)
		for k := range v {
			v[k]++
		}
		vecs = append(vecs, v)
	}
	x := placed(t, Config{Dim: dim, Metric: Dot}, vecs)
	ask := func(by float32) (ways [Cascade + 1]int) {
		for range retryCells {
			q, told := slices.Clone(vecs[rng.IntN(n)]), Told{}
			for k := range q {
				q[k] *= by
			}
			mustSearch(t, x, q, Search{K: 10, Slots: x.Len(), Told: &told})
			ways[told.Way]++
		}
		return ways
	}
	ask(-1)
	if ways := ask(-1); ways[Flat] != retryCells-1 || ways[Cascade] != 1 {
		t.Errorf("of %d searches for the opposite of all rows %v went each way", retryCells, ways)
	}
	for range leftMean {
		mustSearch(t, x, vecs[0], Search{K: 10, Slots: x.Len(), Strategy: Cascade})
	}
	if ways := ask(1); ways[Cascade] != retryCells {
		t.Errorf("of %d searches for rows %v went each way", retryCells, ways)
	}
}

// TestMeasureBits: what is measured follows the processor within bounds.
func TestMeasureBits(t *testing.T) {
	for _, c := range []struct{ bits, codes time.Duration }{{1000, 1}, {1000, 12_000}, {1000, 15_000}, {1, 1_000_000}, {0, 0}} {
		calls := 0
		got := MeasureBits(func(f func()) time.Duration {
			f()
			if calls++; calls%2 == 1 {
				return c.bits
			}
			return c.codes
		})
		want := min(max(int(c.codes/max(c.bits, 1))/bitsPart, leastBitRows), mostBitRows)
		if got != want || calls != 2*measurings {
			t.Errorf("%+v: %d rows, measured %d times; want %d", c, got, calls, want)
		}
	}
	x := placed(t, Config{Dim: 4, BitRows: 2}, clustered(random(t), 20, 4, 2))
	p := plan{matching: 1 << 20, cells: x.coding.Load().cover.cells.Load(), bitRows: 2}
	if got := p.costOfAll(); got != cellsCost+10 {
		t.Errorf("20 rows of which two take as long as one cost %v", got)
	}
}

// BenchmarkCascade searches among rows of 40 topics for others of theirs and for what is
// like none of them, by cells and one row after the other.
func BenchmarkCascade(b *testing.B) {
	for _, n := range []int{24_000, 100_000} {
		rng := rand.New(rand.NewPCG(5, 6))
		const dim, topics = 384, 40
		centres := make([][]float32, topics)
		for i := range centres {
			centres[i] = randomVector(rng, dim)
		}
		vecs := make([][]float32, n)
		for i := range vecs {
			vecs[i] = moved(rng, centres[i%topics], 1.0/3)
		}
		x := placed(b, Config{Dim: dim}, vecs)
		for _, unseen := range []bool{false, true} {
			queries := make([][]float32, 100)
			for i := range queries {
				c := centres[i%topics]
				if unseen {
					c = randomVector(rng, dim)
				}
				queries[i] = moved(rng, c, 1.0/3)
			}
			for _, s := range []Search{{Strategy: Cascade}, {Exact: true}} {
				s.K, s.Slots = 10, x.Len()
				b.Run(fmt.Sprintf("%d rows/unseen %t/exact %t", n, unseen, s.Exact), func(b *testing.B) {
					for i := 0; b.Loop(); i++ {
						mustSearch(b, x, queries[i%len(queries)], s)
					}
				})
			}
		}
	}
}
