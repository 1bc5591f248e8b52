package hnsw

import (
	"runtime"
	"sync/atomic"
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

// BenchmarkLink links with as many goroutines as -cpu says.
func BenchmarkLink(b *testing.B) {
	const n = 20_000
	vecs := clustered(random(b), n, 384, 200)
	for b.Loop() {
		linkedIndex(b, Config{Dim: 384, Builders: runtime.GOMAXPROCS(0)}, vecs)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "us/row")
}

// BenchmarkSearches searches from as many goroutines as -cpu says.
func BenchmarkSearches(b *testing.B) {
	const n = 50_000
	vecs := clustered(random(b), n+1000, 384, 500)
	x := linkedIndex(b, Config{Dim: 384, EfConstruction: 60}, vecs[:n])
	var next atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := int(next.Add(100)); pb.Next(); i++ {
			mustSearch(b, x, vecs[n+i%1000], Search{K: 10, Ef: 40, Slots: x.Len()})
		}
	})
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

// BenchmarkUnlinked searches while many rows are not linked yet, each of which costs
// something to see.
func BenchmarkUnlinked(b *testing.B) {
	const linked, unlinked, dim = 8_000, 12_000, 784
	vecs := clustered(random(b), linked+unlinked+100, dim, 200)
	x := linkedIndex(b, Config{Dim: dim, EfConstruction: 60, Builders: runtime.GOMAXPROCS(0)}, vecs[:linked])
	queries := vecs[linked+unlinked:]
	for _, vec := range vecs[linked : linked+unlinked] {
		mustAdd(b, x, vec)
	}
	visible := make([]uint64, 50*x.Len()) // apart, as rows of documents are
	for _, seen := range []struct {
		name    string
		visible func(uint32) bool
	}{
		{"all seen", nil},
		{"asked", func(slot uint32) bool { return visible[50*(slot*7919%x.Len())] == 0 }},
	} {
		b.Run(seen.name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				mustSearch(b, x, queries[i%len(queries)], Search{K: 10, Slots: x.Len(), Visible: seen.visible})
				i++
			}
		})
	}
}
