package hnsw

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// checkTwins holds twins to what they are: each live row is a node, the twin of one or
// pending, and a twin has the codes of its node.
func checkTwins(t *testing.T, x *Index) {
	t.Helper()
	g, c := &x.graph, x.coding.Load()
	nodes, twins, pending := 0, 0, 0
	for slot := range x.Len() {
		n := g.node(slot)
		switch state := n.state.Load(); {
		case state&stateTwin != 0:
			twins++
			before := g.list(slot, 0)[0].Load() - 1
			if g.node(before).twin.Load() != slot+1 {
				t.Fatalf("twin %d is not the one after %d", slot, before)
			}
			if a, b := c.likeness(slot), c.likeness(before); string(a.codes) != string(b.codes) || a.scale != b.scale {
				t.Fatalf("twin %d has other codes than %d", slot, before)
			}
		case state&stateLinked != 0:
			nodes++
		case state&stateLive != 0:
			pending++
		default:
			if n.twin.Load() != 0 && state != 0 {
				t.Fatalf("slot %d, which holds no row, has a twin", slot)
			}
		}
	}
	if int64(twins) != g.twins.Load() {
		t.Fatalf("%d twins are counted, there are %d", g.twins.Load(), twins)
	}
	if x.Linked() != nodes+twins {
		t.Fatalf("%d rows are linked; there are %d nodes and %d twins", x.Linked(), nodes, twins)
	}
	if pending > x.Pending() {
		t.Fatalf("%d rows are pending, of which %d are told", pending, x.Pending())
	}
}

// Rows that are the same are all found, whichever of them come and go.
func TestTwins(t *testing.T) {
	race.Sequential(t)
	const dim, kinds = 24, 30
	for _, metric := range allMetrics {
		t.Run(metric.String(), func(t *testing.T) {
			rng := random(t)
			x := mustNew(t, Config{Dim: dim, Metric: metric, EfConstruction: 40, Crossover: 300})
			var vecs [][]float32
			for range kinds {
				vecs = append(vecs, randomVector(rng, dim))
			}
			held := map[uint32][]float32{}
			for step := range 12 {
				for range 300 {
					v := vecs[rng.IntN(kinds)]
					if rng.IntN(3) == 0 {
						v = randomVector(rng, dim)
					}
					held[mustAdd(t, x, v)] = v
				}
				for slot := range held {
					if step > 2 && rng.IntN(4) == 0 || step == 8 && rng.IntN(4) > 0 {
						x.Remove(slot)
						delete(held, slot)
					}
				}
				checkTwins(t, x)
				mustLink(t, x)
				checkTwins(t, x)
				if step == 6 {
					x = mustRead(t, snapshotOf(t, x), x.cfg)
					mustLink(t, x)
					checkTwins(t, x)
				}
				counts := map[float32]int{}
				for range 40 {
					q := vecs[rng.IntN(kinds)]
					for _, strategy := range []Strategy{Planned, Sweep} {
						s := Search{K: 20, Slots: x.Len(), Strategy: strategy}
						exact := s
						exact.Exact = true
						want, got := mustSearch(t, x, q, exact), mustSearch(t, x, q, s)
						if len(got) != len(want) || metric != Dot && got[0].Score != want[0].Score {
							t.Fatalf("step %d: %d hits, the first %v; want %d and %v", step, len(got), got[0], len(want), want[0])
						}
						clear(counts)
						for _, h := range want {
							counts[h.Score]++
						}
						for _, h := range got {
							if counts[h.Score]--; metric != Dot && h.Score == want[0].Score && counts[h.Score] < 0 {
								t.Fatalf("step %d: too many hits as good as the first: %v", step, got)
							}
							if _, ok := held[h.Slot]; !ok {
								t.Fatalf("step %d: slot %d holds no row", step, h.Slot)
							}
						}
						if metric != Dot && counts[want[0].Score] > 0 {
							t.Fatalf("step %d: %d rows that are the query are missing", step, counts[want[0].Score])
						}
					}
				}
			}
		})
	}
}

// TestTwinsBesideEverybody: rows that are the same come, go, are linked and are found at once.
func TestTwinsBesideEverybody(t *testing.T) {
	const dim, kinds, rounds = 96, 8, 40
	rng := random(t)
	x := mustNew(t, Config{Dim: dim, EfConstruction: 20, Crossover: 100, Builders: 2})
	var vecs [][]float32
	for range kinds {
		vecs = append(vecs, randomVector(rng, dim))
	}
	for i := range 400 {
		mustAdd(t, x, vecs[i%kinds])
	}
	mustLink(t, x)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // one row of each kind stays: it is found at all times
		defer close(done)
		rng := rand.New(rand.NewPCG(1, 2))
		for range rounds {
			for slot := uint32(kinds); slot < x.Len(); slot++ {
				if rng.IntN(3) == 0 {
					x.Remove(slot)
				}
			}
			for range 100 {
				if _, err := x.Add(vecs[rng.IntN(kinds)]); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := x.Link(t.Context(), x.Len()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				hits, err := x.Search(t.Context(), vecs[i%kinds], Search{K: 3, Slots: x.Len(), Strategy: Sweep})
				if err != nil || len(hits) == 0 || math.Abs(float64(hits[0].Score)-1) > 1e-5 {
					t.Errorf("row %d is not found: %v, %v", i%kinds, hits, err)
					return
				}
			}
		})
	}
	wg.Wait()
	mustLink(t, x)
	checkTwins(t, x)
}
