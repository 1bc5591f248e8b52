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
	// ask makes of a row with noise the query; nil leaves it as it is.
	ask func(rng *rand.Rand, q []float32)
	// about says which of n rows queries are about; nil: all.
	about func(i, n int) bool
	// Gone says which of n rows are removed once all are there; nil: none.
	Gone func(i, n int) bool
}

// templateRows is how many rows of one template follow each other.
const templateRows = 100

// Hards lists the kinds.
func Hards() []Hard {
	all, distances := []string{Cosine, Dot, L2}, []string{Cosine, L2}
	near := func(name string, dim int, noise float64, off float32) Hard {
		return Hard{Name: name, Dim: dim, Metrics: all, noise: noise, row: template(off)}
	}
	return []Hard{
		near("cosine .99 within 100 rows", 48, .05, .1),
		near("cosine .9975", 48, .025, .05),
		near("cosine .9996", 48, .01, .02),
		near("cosine .9996, 384 components", 384, .01, .02),
		near("cosine .9999", 64, .005, .01),
		{Name: "one cluster of .9999", Dim: 48, Metrics: []string{L2}, noise: .005, row: topic(1, .01)},
		{Name: "unseen topics, 384 components", Dim: 384, Metrics: []string{Cosine, Dot}, row: topic(40, 1.0/3), ask: topicOf(unseen, 40, 1.0/3)},
		{Name: "unseen topics, 96 components", Dim: 96, Metrics: distances, row: topic(25, 1.0/3), ask: topicOf(unseen, 25, 1.0/3)},
		{Name: "the opposite half-space", Dim: 48, Metrics: []string{Dot}, noise: .1, row: oneSide, ask: opposite},
		{Name: "shifted by 30", Dim: 32, Metrics: distances, noise: .1, row: shift(30)},
		{Name: "shifted by 1,000", Dim: 32, Metrics: []string{L2}, noise: .1, row: shift(1000)},
		{Name: "a large component", Dim: 32, Metrics: distances, noise: .1, row: func(rng *rand.Rand, v []float32, _, _ int) { v[3] = 40 + 10*float32(rng.NormFloat64()) }},
		{Name: "outliers", Dim: 32, Metrics: all, noise: .1, row: func(rng *rand.Rand, v []float32, _, _ int) {
			if rng.IntN(20) == 0 {
				v[rng.IntN(len(v))] += 100
			}
		}},
		{Name: "1 % 10,000 times as long", Dim: 32, Metrics: all, noise: .1, row: func(rng *rand.Rand, v []float32, _, _ int) {
			if rng.IntN(100) == 0 {
				scale(v, 10_000)
			}
		}},
		{Name: "two far groups", Dim: 32, Metrics: all, noise: .2, row: func(_ *rand.Rand, v []float32, i, n int) { v[0] += float32(1000 * (2 * i / n)) }},
		{Name: "two groups, one 140 times as long", Dim: 32, Metrics: []string{Dot, L2}, noise: .1, row: func(_ *rand.Rand, v []float32, i, _ int) {
			if i%2 == 0 {
				scale(v, 140)
			}
		}},
		{Name: "heavy noise", Dim: 24, Metrics: all, noise: .5, row: func(*rand.Rand, []float32, int, int) {}},
		{Name: "norms from 1 to 80", Dim: 48, Metrics: all, noise: .1, row: lengthen},
		{Name: "norms from 1 to 80, 24 components", Dim: 24, Metrics: all, noise: .1, row: lengthen},
		{Name: "one-hot", Dim: 64, Metrics: all, noise: .02, row: func(_ *rand.Rand, v []float32, i, _ int) {
			clear(v)
			v[i%len(v)] = 1
		}},
		{Name: "whole numbers", Dim: 24, Metrics: all, row: func(_ *rand.Rand, v []float32, _, _ int) {
			for k := range v {
				v[k] = float32(math.Round(2 * float64(v[k])))
			}
		}},
		{Name: "rare rows first", Dim: 32, Metrics: all, row: rareFirst, about: rare},
		{Name: "deleted clusters", Dim: 48, Metrics: all, noise: .1, row: template(.2), about: oddTemplate, Gone: oddTemplate},
	}
}

func scale(v []float32, by float32) {
	for k := range v {
		v[k] *= by
	}
}

// topic rows lie about one of some centres.
func topic(topics int, off float32) func(*rand.Rand, []float32, int, int) {
	return func(_ *rand.Rand, v []float32, i, _ int) { about(13, i%topics, v, off) }
}

// unseen is the seed of topics that no row is of.
const unseen = 17

// topicOf queries lie about centres of another seed.
func topicOf(seed uint64, topics int, off float32) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, q []float32) {
		for k := range q {
			q[k] = float32(rng.NormFloat64())
		}
		about(seed, rng.IntN(topics), q, off)
	}
}

// about moves noise, times off, to a centre whose components are about 1.
func about(seed uint64, which int, v []float32, off float32) {
	centre := rand.New(rand.NewPCG(seed, uint64(which)))
	for k := range v {
		v[k] = float32(centre.NormFloat64()) + off*v[k]
	}
}

// oneSide rows lie about one direction.
func oneSide(_ *rand.Rand, v []float32, _, _ int) {
	for k := range v {
		v[k]++
	}
}

func opposite(_ *rand.Rand, q []float32) { scale(q, -1) }

// One row in rareShare is rare: it points anywhere, and the others in a few directions.
const rareShare = 45

func rare(i, n int) bool { return i < n/rareShare }

func rareFirst(_ *rand.Rand, v []float32, i, n int) {
	if !rare(i, n) {
		about(19, i%8, v, .2)
	}
}

// oddTemplate says which rows are of every other template.
func oddTemplate(i, _ int) bool { return i/templateRows%2 == 1 }

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

// Sets draws n rows, in the order of their groups or lengths, and queries, most of them a row
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
		i := rng.IntN(n)
		for h.about != nil && !h.about(i, n) {
			i = rng.IntN(n)
		}
		q := slices.Clone(base.Row(i))
		for k := range q {
			q[k] += float32(h.noise * rng.NormFloat64())
		}
		if h.ask != nil {
			h.ask(rng, q)
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

// NewFloors compares every query with every row but those that are gone; nil: none is.
func NewFloors(metric string, base, queries *Set, k int, gone func(i, n int) bool) *Floors {
	f := &Floors{metric, base, queries, min(k, base.Len()), make([]float64, queries.Len())}
	scores := make([]float64, 0, base.Len())
	for q := range f.least {
		scores = scores[:0]
		for i := range base.Len() {
			if gone == nil || !gone(i, base.Len()) {
				scores = append(scores, f.score(q, i))
			}
		}
		slices.Sort(scores)
		f.k = min(f.k, len(scores))
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
