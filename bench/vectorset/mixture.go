package vectorset

import (
	"math"
	"math/rand/v2"
	"sync"
)

// What a Mixture is made of. The recipe imitates embeddings of text: topics
// within broader ones, each spread along a few directions of its own, all of
// them leaning towards a common mean.
const (
	supers     = 40
	topics     = 1000
	directions = 24
	meanShare  = 0.6  // length of the common mean
	superShare = 0.6  // spread of the broad topics about it
	topicShare = 0.5  // spread of the topics about theirs
	widest     = 0.35 // spread along a topic's first direction
	decay      = 0.93 // of each further direction, of the one before
	noise      = 0.15 // spread beyond all directions
)

// A Mixture is a source of vectors drawn from a gaussian mixture.
type Mixture struct {
	dim    int
	seed   uint64
	centre [topics][]float32
	basis  [topics][]float32 // directions * dim
}

// NewMixture prepares a mixture, which depends on its arguments alone.
func NewMixture(dim int, seed uint64) *Mixture {
	m := &Mixture{dim: dim, seed: seed}
	rng := rand.New(rand.NewPCG(seed, 0))
	mean := gaussian(rng, make([]float32, dim), meanShare)
	broad := make([][]float32, supers)
	for i := range broad {
		broad[i] = plus(gaussian(rng, make([]float32, dim), superShare), mean)
	}
	for t := range topics {
		m.centre[t] = plus(gaussian(rng, make([]float32, dim), topicShare), broad[t%supers])
		m.basis[t] = make([]float32, directions*dim)
		scale := widest
		for d := range directions {
			gaussian(rng, m.basis[t][d*dim:(d+1)*dim], scale)
			scale *= decay
		}
	}
	return m
}

// Row computes vector i, normalised, into dst, which has the right length.
func (m *Mixture) Row(i int, dst []float32) {
	rng := rand.New(rand.NewPCG(m.seed, uint64(i)+1))
	t := rng.IntN(topics)
	gaussian(rng, dst, noise)
	plus(dst, m.centre[t])
	for d := range directions {
		weight := float32(rng.NormFloat64())
		for j, b := range m.basis[t][d*m.dim : (d+1)*m.dim] {
			dst[j] += weight * b
		}
	}
	normalise(dst)
}

// Set computes vectors first to first+n-1.
func (m *Mixture) Set(first, n int) *Set {
	s := &Set{Dim: m.dim, flat: make([]float32, n*m.dim)}
	const step = 4096
	var wg sync.WaitGroup
	for from := 0; from < n; from += step {
		wg.Go(func() {
			for i := from; i < min(from+step, n); i++ {
				m.Row(first+i, s.Row(i))
			}
		})
	}
	wg.Wait()
	return s
}

// gaussian fills v with components drawn so that its length is about the one
// given.
func gaussian(rng *rand.Rand, v []float32, length float64) []float32 {
	scale := length / math.Sqrt(float64(len(v)))
	for i := range v {
		v[i] = float32(rng.NormFloat64() * scale)
	}
	return v
}

func plus(v, w []float32) []float32 {
	for i := range v {
		v[i] += w[i]
	}
	return v
}
