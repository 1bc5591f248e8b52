package graph_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// BenchmarkGraphImport writes triples of known entities in batches, as an import does: 15,000
// entities of which few have most relations, 237 types. It reports relations a second.
func BenchmarkGraphImport(b *testing.B) {
	const entities, types, batch, batches = 15_000, 237, 20_000, 10
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a benchmark asks the same each time
	end := func() string {
		x := rng.Float64()
		return strconv.Itoa(int(x * x * x * entities))
	}
	all := make([]graph.Batch, batches)
	for i := range all {
		for range batch {
			all[i].Relations = append(all[i].Relations, graph.Relation{From: end(), Type: strconv.Itoa(rng.IntN(types)), To: end()})
		}
	}
	var names graph.Batch
	for i := range entities {
		names.Entities = append(names.Entities, graph.Entity{ID: strconv.Itoa(i), Type: "thing"})
	}
	o := memory.Owner{Agent: "bench"}
	for b.Loop() {
		b.StopTimer()
		db, err := engine.Open(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		g := db.Graph()
		if _, err := g.Write(b.Context(), o, names, nil); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for i := range all {
			if _, err := g.Write(b.Context(), o, all[i], nil); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N*batch*batches)/b.Elapsed().Seconds(), "relations/s")
}
