package hnsw

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// realEmbeddings reads embeddings of text by a learned model, 1,024 components
// each, from the folder of data sets.
func realEmbeddings(t *testing.T) [][]float32 {
	t.Helper()
	const dim = 1024
	b, err := os.ReadFile(realdata.Path(t, "vectors/1024-paragraph.queries.vec"))
	if err != nil {
		t.Fatal(err)
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
	scale := length * math.Sqrt(simd.SquaredNorm(v)/float64(len(v)))
	for i := range v {
		out[i] = v[i] + float32(rng.NormFloat64()*scale)
	}
	return out
}

// TestRealEmbeddings: on embeddings of text, with noise to make more of them,
// the codes with a second look at the rows lose next to nothing: neither of a
// flat search, nor of a walk, beside one that float32 alone would do.
func TestRealEmbeddings(t *testing.T) {
	race.Sequential(t)
	rng := random(t)
	real := realEmbeddings(t)
	const copies, asking = 12, 100
	var vecs, queries [][]float32
	for range copies {
		for _, v := range real {
			vecs = append(vecs, perturbed(rng, v, 0.5))
		}
	}
	for _, v := range real[:asking] {
		queries = append(queries, perturbed(rng, v, 0.5))
	}
	checkRecall(t, "codes", linkedIndex(t, Config{Dim: len(real[0])}, vecs), queries,
		leastRecall{Flat, 0, 0.9999}, leastRecall{Sweep, 512, 0.995}, leastRecall{Sweep, 64, 0.98})
	x := newGraph(t, Config{Dim: len(real[0])})
	for i, v := range vecs {
		if i == len(vecs)/8 {
			sketched(t, x, uint32(i))
		}
		mustAdd(t, x, v)
	}
	mustLink(t, x)
	checkRecall(t, "sketches", x, queries,
		leastRecall{Flat, 0, 0.9999}, leastRecall{Sweep, 128, 0.98}, leastRecall{Sweep, 64, 0.97})
	// Rotation would spread the components that are so large that they take codes
	// from all others. It is not done: the second look sets right what codes get
	// wrong, and reads few more rows for it.
	plain, asked := lookedAt(t, vecs, queries)
	for _, set := range [][][]float32{vecs, queries} {
		for i, v := range set {
			set[i] = rotated(v)
		}
	}
	turned, askedTurned := lookedAt(t, vecs, queries)
	t.Logf("recall by codes alone %.4f, rows looked at %.1f; rotated %.4f and %.1f; the largest component is %.1f times the root mean square in the mean",
		plain, asked, turned, askedTurned, outlier(real))
	if asked > 1.5*askedTurned {
		t.Errorf("%.1f rows are looked at; %.1f were the vectors rotated", asked, askedTurned)
	}
}

// leastRecall is what a way to search must reach.
type leastRecall struct {
	strategy Strategy
	ef       int
	least    float64
}

func checkRecall(t *testing.T, by string, x *Index, queries [][]float32, cases ...leastRecall) {
	t.Helper()
	for _, c := range cases {
		got := recall(t, x, queries, Search{K: 10, Slots: x.Len(), Strategy: c.strategy, Ef: c.ef})
		t.Logf("by %s, strategy %d, ef %d: recall %.4f", by, c.strategy, c.ef, got)
		if got < c.least {
			t.Errorf("by %s, strategy %d, ef %d: recall %.4f, want %v", by, c.strategy, c.ef, got, c.least)
		}
	}
}

// outlier is the mean of the vectors' largest components, in units of their root
// mean square.
func outlier(vecs [][]float32) (mean float64) {
	for _, v := range vecs {
		mean += float64(simd.Largest(v)) / math.Sqrt(simd.SquaredNorm(v)/float64(len(v))) / float64(len(vecs))
	}
	return mean
}

// lookedAt returns the recall@10 of flat searches by codes alone, and how many rows
// those for the true hits look at.
func lookedAt(t *testing.T, vecs, queries [][]float32) (recall, rows float64) {
	t.Helper()
	asked := 0
	x := mustNew(t, Config{Dim: len(vecs[0]), Truth: func(slot uint32, dst []float32) ([]float32, error) {
		asked++
		return append(dst, vecs[slot]...), nil
	}})
	for _, v := range vecs {
		mustAdd(t, x, v)
	}
	found := 0
	for _, q := range queries {
		s := Search{K: 10, Slots: x.Len(), Strategy: Flat}
		want := mustSearch(t, x, q, s)
		s.Rough = true
		for _, h := range mustSearch(t, x, q, s) {
			if slices.ContainsFunc(want, func(w Hit) bool { return w.Slot == h.Slot }) {
				found++
			}
		}
	}
	n := float64(len(queries))
	return float64(found) / (10 * n), float64(asked) / n
}

// rotated turns a vector of a power of two of components by the Hadamard transform
// of them with signs by a fixed pattern, which spreads each over all.
func rotated(v []float32) []float32 {
	out := slices.Clone(v)
	signs := rand.New(rand.NewPCG(1, 1))
	scale := float32(1 / math.Sqrt(float64(len(v))))
	for i := range out {
		out[i] *= scale * float32(1-2*signs.IntN(2))
	}
	for h := 1; h < len(out); h *= 2 {
		for i := 0; i < len(out); i += 2 * h {
			for j := i; j < i+h; j++ {
				out[j], out[j+h] = out[j]+out[j+h], out[j]-out[j+h]
			}
		}
	}
	return out
}
