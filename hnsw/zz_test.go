package hnsw

import (
	"math/rand/v2"
	"testing"
)

func firsts(t *testing.T, name string, cfg Config, vecs [][]float32, queries [][]float32) {
	x := linkedIndex(t, cfg, vecs)
	for _, st := range []Strategy{Planned, Sweep} {
		for _, ef := range []int{0, 16, 64} {
			worse, self := 0, 0
			rec := 0.0
			for _, q := range queries {
				want := mustSearch(t, x, q, Search{K: 10, Slots: x.Len(), Exact: true})
				got := mustSearch(t, x, q, Search{K: 10, Slots: x.Len(), Strategy: st, Ef: ef})
				if got[0].Score < want[0].Score {
					worse++
				}
				if got[0].Slot == want[0].Slot {
					self++
				}
				floor := want[9].Score
				for _, h := range got {
					if h.Score >= floor {
						rec += .1
					}
				}
			}
			t.Logf("%s strategy %d ef %d: first worse %d of %d, recall %.3f blocks %v", name, st, ef, worse, len(queries), rec/float64(len(queries)), x.graph.blocks.Load() != nil)
		}
	}
}

func TestZZFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{128, 384} {
		var vecs, qs [][]float32
		distinct := map[[2]int]bool{}
		for len(vecs) < 40000 && len(distinct) < dim*(dim-1)/2 {
			i, j := rng.IntN(dim), rng.IntN(dim)
			if i >= j || distinct[[2]int{i, j}] {
				continue
			}
			distinct[[2]int{i, j}] = true
			v := make([]float32, dim)
			v[i], v[j] = 1, 1
			vecs = append(vecs, v)
		}
		for range 100 {
			qs = append(qs, vecs[rng.IntN(len(vecs))])
		}
		firsts(t, "two-hot", Config{Dim: dim, Metric: L2}, vecs, qs)
	}
	var vecs, qs [][]float32
	for i := range 24 {
		_ = i
		v := randomVector(rng, 128)
		qs = append(qs, v)
		for range 1000 {
			vecs = append(vecs, v)
		}
	}
	rng.Shuffle(len(vecs), func(i, j int) { vecs[i], vecs[j] = vecs[j], vecs[i] })
	for range 76 {
		qs = append(qs, randomVector(rng, 128))
	}
	firsts(t, "24 distinct", Config{Dim: 128, Metric: L2}, vecs, qs)
	firsts(t, "24 distinct", Config{Dim: 128, Metric: Cosine}, vecs, qs)
	for _, order := range []string{"first", "last", "mixed"} {
		var rare, dense [][]float32
		for range 500 {
			rare = append(rare, randomVector(rng, 128))
		}
		c := randomVector(rng, 128)
		for range 22000 {
			dense = append(dense, moved(rng, c, .3))
		}
		all := append(append([][]float32{}, rare...), dense...)
		if order == "last" {
			all = append(append([][]float32{}, dense...), rare...)
		}
		if order == "mixed" {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		firsts(t, "rare "+order, Config{Dim: 128, Metric: Cosine}, all, rare)
	}
}
