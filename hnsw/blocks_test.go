package hnsw

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// blockedIndex returns an index with all vectors in its graph, and blocks where they fit,
// whatever walks by them find.
func blockedIndex(t testing.TB, cfg Config, vecs [][]float32) *Index {
	t.Helper()
	x := newGraph(t, cfg)
	x.leastByBlocks = 0
	for _, v := range vecs {
		mustAdd(t, x, v)
	}
	mustLink(t, x)
	return x
}

// Estimates of neighbours' costs are off by chance, by little, and not to one side.
func TestBlockEstimates(t *testing.T) {
	race.Sequential(t)
	const dim = 256
	for _, metric := range allMetrics {
		t.Run(metric.String(), func(t *testing.T) {
			rng := random(t)
			x := blockedIndex(t, Config{Dim: dim, Metric: metric}, clustered(rng, 5000, dim, 100))
			k := x.graph.blocks.Load()
			if k == nil {
				t.Fatal("there are no blocks")
			}
			r := newSearcher(x)
			var sum, squares, spread, n float64
			for range 20 {
				slot := rng.Uint32N(x.Len())
				row := mustRow(t, x, slot)
				q := moved(rng, row, .3*math.Sqrt(simd.SquaredNorm(row)/dim))
				r.setQuery(q, math.Sqrt(simd.SquaredNorm(q)))
				r.hop.ask(k, r.probe.own, defaultEf)
				for _, node := range x.graph.neighbours(slot, 0, nil) {
					base := -r.beam.scoreOne(node)
					found := simd.ScanBlock(&r.hop.tables, k.table.Load().At(node), base, float32(math.Inf(1)), &r.hop.found)
					for i := range found {
						want := float64(-r.beam.scoreOne(r.hop.found.IDs[i]))
						off, far := float64(r.hop.found.Costs[i])-want, want-float64(base)
						sum, squares, spread, n = sum+off, squares+off*off, spread+far*far, n+1
					}
				}
			}
			mean, deviation, usual := sum/n, math.Sqrt(squares/n), math.Sqrt(spread/n)
			t.Logf("off by %.4f, deviation %.4f, costs differ by %.4f", mean, deviation, usual)
			if math.Abs(mean) > 5*deviation/math.Sqrt(n)+.02*usual || deviation > usual {
				t.Errorf("estimates are off by %v on average, with a deviation of %v, where costs differ by %v", mean, deviation, usual)
			}
		})
	}
}

// checkBlocks holds each node's block to its links, and to what coding it anew makes.
func checkBlocks(t *testing.T, x *Index) {
	t.Helper()
	k := x.graph.blocks.Load()
	if k == nil {
		t.Fatal("there are no blocks")
	}
	w := newBuilder(x)
	w.pruner.beam.pin()
	w.coder.words = make([]uint16, k.bits/16)
	want := make([]byte, simd.BlockBytes(k.bits))
	for slot := range x.Len() {
		if x.graph.node(slot).state.Load()&stateLinked == 0 {
			continue
		}
		if !k.isCoded(slot) {
			t.Fatalf("node %d has no block", slot)
		}
		block := k.table.Load().At(slot)
		links := x.graph.neighbours(slot, 0, nil)
		if len(links) > simd.BlockRows {
			links = slices.Clone(w.choose(slot, links))
		}
		k.turn(slot, &w.coder.node)
		has := 0
		for place, id := range simd.BlockIDs(block, k.bits) {
			if id == math.MaxUint32 {
				simd.NoBlockRow(unsafe.Pointer(&want[0]), k.bits, place)
				// Its bits are whatever they were.
				continue
			}
			has++
			if !slices.Contains(links, id) {
				t.Fatalf("node %d: its block has %d, which is not among the links %d", slot, id, links)
			}
			copy(want, unsafe.Slice((*byte)(block), len(want)))
			k.turn(id, &w.coder.other)
			w.coder.set(unsafe.Pointer(&want[0]), place, id, &w.coder.other)
			if !bytes.Equal(want, unsafe.Slice((*byte)(block), len(want))) {
				t.Fatalf("node %d: the codes of %d are not those of its row", slot, id)
			}
		}
		if has != len(links) {
			t.Fatalf("node %d: its block has %d of the links %d", slot, has, links)
		}
	}
	if x.blocksDue() {
		t.Error("blocks are due after all were made")
	}
}

// Blocks follow links and rows, whatever comes, goes and takes the slots of others.
func TestBlocksFollow(t *testing.T) {
	race.Sequential(t)
	const dim, rows = 128, 1200
	for _, metric := range allMetrics {
		t.Run(metric.String(), func(t *testing.T) {
			rng := random(t)
			x := blockedIndex(t, Config{Dim: dim, Metric: metric, Crossover: 500}, clustered(rng, rows, dim, 24))
			checkBlocks(t, x)
			for range 4 {
				for range rows / 5 {
					x.Remove(rng.Uint32N(x.Len()))
				}
				mustLink(t, x)
				checkBlocks(t, x)
				for _, v := range clustered(rng, rows/5, dim, 5) {
					mustAdd(t, x, v)
				}
				mustLink(t, x)
				checkBlocks(t, x)
			}
		})
	}
}

// TestHopsBesideLink verifies that searches may walk over blocks while Link rebuilds blocks. It uses the
// kernels in Go, which the race detector can watch.
func TestHopsBesideLink(t *testing.T) {
	defer simd.Use(simd.Portable)()
	vecs := clustered(random(t), 600, leastBlockBits, 6)
	x := blockedIndex(t, Config{Dim: leastBlockBits, EfConstruction: 20}, vecs[:200])
	r, s := newSearcher(x), &Search{K: 5, Slots: 200, Ef: 10, Strategy: Sweep}
	r.setQuery(vecs[0], math.Sqrt(simd.SquaredNorm(vecs[0])))
	if p := r.plan(s); !r.hops(s, &p) {
		t.Fatal("no walk goes by blocks")
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if _, err := x.Search(t.Context(), vecs[n%200], *s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, v := range vecs[200:] {
		mustAdd(t, x, v)
		mustLink(t, x)
	}
	stop.Store(true)
	wg.Wait()
	checkBlocks(t, x)
}

// Walks over blocks find about what walks over links find, in filters and among removed
// rows as well.
func TestHops(t *testing.T) {
	race.Sequential(t)
	const dim = 128
	for _, metric := range allMetrics {
		t.Run(metric.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 8))
			vecs := clustered(rng, 6000, dim, 120)
			with := blockedIndex(t, Config{Dim: dim, Metric: metric}, vecs)
			none := linkedIndex(t, Config{Dim: dim, Metric: metric, BlockMemory: -1}, vecs)
			if none.graph.blocks.Load() != nil {
				t.Fatal("there are blocks where none were wanted")
			}
			if with.Bytes() <= none.Bytes() {
				t.Errorf("blocks take no memory: %d bytes with them, %d without", with.Bytes(), none.Bytes())
			}
			for range 300 {
				slot := rng.Uint32N(with.Len())
				with.Remove(slot)
				none.Remove(slot)
			}
			most := &Set{}
			for slot := range with.Len() {
				if slot%20 != 0 {
					most.Add(slot)
				}
			}
			for _, within := range []*Set{nil, most} {
				var queries [][]float32
				for range 100 {
					queries = append(queries, moved(rng, vecs[rng.IntN(len(vecs))], .3))
				}
				best := 0.0
				for _, ef := range []int{11, 16, 30, 64, 100, 0} {
					s := Search{K: 10, Slots: with.Len(), Within: within, Ef: ef}
					byBlocks, byLinks := recall(t, with, queries, s), recall(t, none, queries, s)
					if ef != 11 && ef != 16 && byBlocks < byLinks-.07 {
						t.Errorf("ef %d, within %v: by blocks %.3f of the rows are found, by links %.3f", ef, within != nil, byBlocks, byLinks)
					}
					if byBlocks < best-.01 {
						t.Errorf("ef %d, within %v: by blocks %.3f of the rows are found, with fewer candidates %.3f", ef, within != nil, byBlocks, best)
					}
					best = max(best, byBlocks)
				}
			}
		})
	}
}

// There are blocks as long as they fit, and none where signs tell nothing.
func TestBlockMemory(t *testing.T) {
	race.Sequential(t)
	const dim = 128
	rng := random(t)
	vecs := clustered(rng, 2000, dim, 40)
	size := int64(simd.BlockBytes(blockBits(dim)))
	cfg := Config{Dim: dim, Crossover: 500, BlockMemory: 1500 * size}
	x := blockedIndex(t, cfg, vecs[:1000])
	checkBlocks(t, x)
	for _, v := range vecs[1000:] {
		mustAdd(t, x, v)
	}
	mustLink(t, x)
	if x.graph.blocks.Load() != nil || x.blocksDue() {
		t.Error("there are blocks for which there is no room, or they are due")
	}
	uniform := make([][]float32, 3000)
	for i := range uniform {
		uniform[i] = randomVector(rng, 3*dim)
	}
	x = linkedIndex(t, Config{Dim: 3 * dim, Crossover: 500}, uniform)
	if x.graph.blocks.Load() != nil || x.blocksDue() {
		t.Error("there are blocks that mislead, or they are due")
	}
}
