package hnsw

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// realEmbeddings reads embeddings of text by a learned model, 1,024 components
// each, from the folder of data sets.
func realEmbeddings(t *testing.T) [][]float32 {
	t.Helper()
	const dim = 1024
	dir := os.Getenv("MEMDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	b, err := os.ReadFile(filepath.Join(dir, "vectors", "1024-paragraph.queries.vec"))
	if err != nil {
		t.Skipf("no embeddings: set MEMDB_DATA to the folder that holds vectors/1024-paragraph.queries.vec: %v", err)
	}
	var vecs [][]float32
	for ; len(b) >= 4*dim; b = b[4*dim:] {
		v := make([]float32, dim)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		vecs = append(vecs, v)
	}
	return vecs
}

// perturbed adds noise of that length to a vector.
func perturbed(rng *rand.Rand, v []float32, length float64) []float32 {
	out := make([]float32, len(v))
	scale := length * math.Sqrt(squaredNorm(v)/float64(len(v)))
	for i := range v {
		out[i] = v[i] + float32(rng.NormFloat64()*scale)
	}
	return out
}

// TestRealEmbeddings: on embeddings of text, with noise to make more of them,
// the codes with a second look at the rows lose next to nothing: neither of a
// flat search, nor of a walk, beside one that float32 alone would do.
func TestRealEmbeddings(t *testing.T) {
	sequential(t)
	rng := random(t)
	real := realEmbeddings(t)
	const copies, asked = 12, 100
	var vecs, queries [][]float32
	for range copies {
		for _, v := range real {
			vecs = append(vecs, perturbed(rng, v, 0.5))
		}
	}
	for _, v := range real[:asked] {
		queries = append(queries, perturbed(rng, v, 0.5))
	}
	x := linkedIndex(t, Config{Dim: len(real[0])}, vecs)
	s := Search{K: 10, Slots: x.Len()}
	for _, c := range []struct {
		strategy Strategy
		ef       int
		least    float64
	}{{Flat, 0, 0.9999}, {Sweep, 512, 0.995}, {Sweep, 64, 0.98}} {
		s.Strategy, s.Ef = c.strategy, c.ef
		got := recall(t, x, queries, s)
		t.Logf("strategy %d, ef %d: recall %.4f", c.strategy, c.ef, got)
		if got < c.least {
			t.Errorf("strategy %d: recall %.4f, want %v", c.strategy, got, c.least)
		}
	}
	// How much the second look is for: outlying components take codes from all
	// others.
	outlier, found := 0.0, 0
	for _, v := range real {
		outlier = max(outlier, largestMagnitude(v)/math.Sqrt(squaredNorm(v)/float64(len(v))))
	}
	for _, q := range queries {
		want := mustSearch(t, x, q, Search{K: 10, Slots: x.Len(), Exact: true})
		rough := mustSearch(t, x, q, Search{K: 10, Slots: x.Len(), Strategy: Flat, Rough: true})
		for _, h := range rough {
			if slices.ContainsFunc(want, func(w Hit) bool { return w.Slot == h.Slot }) {
				found++
			}
		}
	}
	t.Logf("codes alone: recall %.4f; the largest component is up to %.1f times the root mean square", float64(found)/float64(10*len(queries)), outlier)
}
