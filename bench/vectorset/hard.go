package vectorset

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The metrics of a hard set: larger scores are closer.
const (
	Cosine = "cosine"
	Dot    = "dot"
	L2     = "l2"
)

// Hard is a kind of vectors on which indexes are known to fail, drawn by chance.
type Hard struct {
	Name string
	Dim  int
	// Metrics are those under which the kind is hard.
	Metrics []string
	noise   float64 // of a query's components, about a row
	row     func(rng *rand.Rand, v []float32, i, n int)
}

// templateRows is how many rows of one template follow each other.
const templateRows = 100

// Hards lists the kinds.
func Hards() []Hard {
	all, distances := []string{Cosine, Dot, L2}, []string{Cosine, L2}
	return []Hard{
		{"cosine .99 within 100 rows", 48, all, .05, template(.1)},
		{"cosine .9975", 48, all, .025, template(.05)},
		{"cosine .9996", 48, all, .01, template(.02)},
		{"cosine .9996, 384 components", 384, all, .01, template(.02)},
		{"cosine .9999", 64, all, .005, template(.01)},
		{"shifted by 30", 32, distances, .1, shift(30)},
		{"shifted by 1,000", 32, []string{L2}, .1, shift(1000)},
		{"a large component", 32, distances, .1, func(rng *rand.Rand, v []float32, _, _ int) { v[3] = 40 + 10*float32(rng.NormFloat64()) }},
		{"outliers", 32, all, .1, func(rng *rand.Rand, v []float32, _, _ int) {
			if rng.IntN(20) == 0 {
				v[rng.IntN(len(v))] += 100
			}
		}},
		{"two far groups", 32, all, .2, func(_ *rand.Rand, v []float32, i, n int) { v[0] += float32(1000 * (2 * i / n)) }},
		{"heavy noise", 24, all, .5, func(*rand.Rand, []float32, int, int) {}},
		{"norms from 1 to 80", 48, all, .1, lengthen},
		{"norms from 1 to 80, 24 components", 24, all, .1, lengthen},
		{"one-hot", 64, all, .02, func(_ *rand.Rand, v []float32, i, _ int) {
			clear(v)
			v[i%len(v)] = 1
		}},
	}
}

// template rows lie about a centre that changes with each hundredth row. Which centre that
// is follows from the row's number, so that it is drawn once for all of them.
func template(off float32) func(*rand.Rand, []float32, int, int) {
	return func(_ *rand.Rand, v []float32, i, _ int) {
		centre := rand.New(rand.NewPCG(11, uint64(i/templateRows)))
		for k := range v {
			v[k] = float32(centre.NormFloat64()) + off*v[k]
		}
		normalise(v)
		for k := range v {
			v[k] *= float32(math.Sqrt(float64(len(v))))
		}
	}
}

func shift(by float32) func(*rand.Rand, []float32, int, int) {
	return func(_ *rand.Rand, v []float32, _, _ int) {
		for k := range v {
			v[k] += by
		}
	}
}

// lengthen makes each row longer than the one before.
func lengthen(_ *rand.Rand, v []float32, i, n int) {
	for k := range v {
		v[k] *= 80 * float32(i+1) / float32(n)
	}
}

// Sets draws n rows, in the order of their groups or lengths, and queries, each a row
// with noise. Rows are normalised under cosine alone.
func (h Hard) Sets(metric string, n, queries int) (base, asked *Set) {
	rng := rand.New(rand.NewPCG(7, uint64(h.Dim)))
	base, asked = &Set{Dim: h.Dim, flat: make([]float32, n*h.Dim)}, &Set{Dim: h.Dim}
	for i := range n {
		v := base.Row(i)
		for k := range v {
			v[k] = float32(rng.NormFloat64())
		}
		h.row(rng, v, i, n)
	}
	for range queries {
		q := slices.Clone(base.Row(rng.IntN(n)))
		for k := range q {
			q[k] += float32(h.noise * rng.NormFloat64())
		}
		asked.flat = append(asked.flat, q...)
	}
	if metric == Cosine {
		for _, s := range []*Set{base, asked} {
			for i := range s.Len() {
				normalise(s.Row(i))
			}
		}
	}
	return base, asked
}

// Floors judge answers by what rows score, in float64: rows that score the same are
// as good as each other.
type Floors struct {
	metric        string
	base, queries *Set
	k             int
	least         []float64 // what the k-th best row scores, for each query
}

// NewFloors compares every query with every row.
func NewFloors(metric string, base, queries *Set, k int) *Floors {
	f := &Floors{metric, base, queries, min(k, base.Len()), make([]float64, queries.Len())}
	scores := make([]float64, base.Len())
	for q := range f.least {
		for i := range scores {
			scores[i] = f.score(q, i)
		}
		slices.Sort(scores)
		f.least[q] = scores[len(scores)-f.k]
	}
	return f
}

func (f *Floors) score(query, row int) (sum float64) {
	v := f.base.Row(row)
	for k, x := range f.queries.Row(query) {
		if f.metric == L2 {
			d := float64(x) - float64(v[k])
			sum -= d * d
		} else {
			sum += float64(x) * float64(v[k])
		}
	}
	return sum
}

// Judge is the share of the k best rows that the answers have. A row that float32 cannot
// tell from the k-th best is as good.
func (f *Floors) Judge(answers [][]uint32) float64 {
	good := 0
	for q, ids := range answers {
		seen := map[uint32]bool{}
		slack := 1e-6 * math.Abs(f.least[q])
		for _, id := range ids[:min(len(ids), f.k)] {
			if !seen[id] && f.score(q, int(id)) >= f.least[q]-slack {
				good++
			}
			seen[id] = true
		}
	}
	return float64(good) / float64(len(answers)*f.k)
}
