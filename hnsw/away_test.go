package hnsw

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// TestFilterAway: what a filter leaves is found in clusters away from the query as well as
// in those about it.
func TestFilterAway(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	const n, dim, clusters, queries = 12_000, 32, 60, 40
	rng := random(t)
	var centres [clusters][]float32
	for i := range centres {
		centres[i] = randomVector(rng, dim)
	}
	vecs, cluster := make([][]float32, n), make([]int, n)
	for i := range vecs {
		cluster[i] = rng.IntN(clusters)
		vecs[i] = moved(rng, centres[cluster[i]], .5)
	}
	for _, metric := range allMetrics {
		x := linkedIndex(t, Config{Dim: dim, Metric: metric, EfConstruction: 100}, vecs)
		for name, matches := range map[string]func(i int) bool{
			"half of the clusters":      func(i int) bool { return cluster[i] < clusters/2 },
			"three of ten clusters":     func(i int) bool { return cluster[i] < 3*clusters/10 },
			"one cluster and one in 10": func(i int) bool { return cluster[i] == 7 || i%10 == 0 },
			"half of each cluster":      func(i int) bool { return i%2 == 0 },
		} {
			within := NewSet()
			for i := range n {
				if matches(i) {
					within.Add(uint32(i))
				}
			}
			for _, away := range []bool{false, true} {
				var asked [][]float32
				for len(asked) < queries {
					if i := rng.IntN(n); matches(i) != away {
						asked = append(asked, moved(rng, vecs[i], .2))
					}
				}
				if r := recall(t, x, asked, Search{K: 10, Ef: 64, Slots: x.Len(), Within: within}); r < .95 {
					t.Errorf("%s, %s, away %t: recall@10 %.3f", metric, name, away, r)
				}
			}
		}
	}
}
