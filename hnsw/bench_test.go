package hnsw

import (
	"testing"
)

func BenchmarkAdd(b *testing.B) {
	rng := random(b)
	vecs := clustered(rng, 1000, 384, 20)
	x := mustNew(b, Config{Dim: 384})
	i := 0
	for b.Loop() {
		mustAdd(b, x, vecs[i%len(vecs)])
		i++
	}
}

func BenchmarkLink(b *testing.B) {
	const n = 5000
	vecs := clustered(random(b), n, 384, 50)
	for b.Loop() {
		linkedIndex(b, Config{Dim: 384}, vecs)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "us/row")
}

func BenchmarkSearch(b *testing.B) {
	const n = 20_000
	vecs := clustered(random(b), n+100, 384, 200)
	queries := vecs[n:]
	x := linkedIndex(b, Config{Dim: 384, EfConstruction: 100}, vecs[:n])
	searches := []struct {
		name string
		s    Search
	}{
		{"flat", Search{Exact: true}},
		{"ef 16", Search{Ef: 16}},
		{"ef 64", Search{Ef: 64}},
		{"ef 64, one in 64 hidden", Search{Ef: 64, Visible: func(slot uint32) bool { return slot%64 != 0 }}},
	}
	for _, search := range searches {
		s := search.s
		s.K, s.Slots = 10, x.Len()
		b.Run(search.name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				mustSearch(b, x, queries[i%len(queries)], s)
				i++
			}
			if !s.Exact {
				b.ReportMetric(recall(b, x, queries, s), "recall@10")
			}
		})
	}
}
