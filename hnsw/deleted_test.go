package hnsw

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// Rows of survivors: in each cluster of clusterRows the one at rareAt points anywhere.
const survivorDim, survivorRows, clusterRows, rareAt = 48, 3000, 100, 50

// survivors are rows of which some are to be removed.
type survivors struct {
	rng     *rand.Rand
	x       *Index
	vecs    [][]float32
	near    [][]float32 // what is almost the row of each slot
	centres [][]float32
	gone    []bool
}

func newSurvivors(t *testing.T, metric Metric) *survivors {
	s := &survivors{rng: rand.New(rand.NewPCG(1, 2)), gone: make([]bool, survivorRows)}
	for i := range survivorRows {
		if i%clusterRows == 0 {
			s.centres = append(s.centres, randomVector(s.rng, survivorDim))
		}
		v := moved(s.rng, s.centres[len(s.centres)-1], .3)
		if i%clusterRows == rareAt {
			v = randomVector(s.rng, survivorDim)
		}
		s.vecs = append(s.vecs, v)
		s.near = append(s.near, moved(s.rng, v, .02))
	}
	s.x = linkedIndex(t, Config{Dim: survivorDim, Metric: metric, EfConstruction: 100, Crossover: 500}, s.vecs)
	s.x.RepairAll(true)
	return s
}

func (s *survivors) remove(which func(slot int) bool) {
	for slot := range s.vecs {
		if which(slot) {
			s.gone[slot] = true
			s.x.Remove(uint32(slot))
		}
	}
}

// nearCentres are 40 queries like the rows of some clusters.
func (s *survivors) nearCentres(clusters ...int) (queries [][]float32) {
	for i := range 40 {
		queries = append(queries, moved(s.rng, s.centres[clusters[i%len(clusters)]], .3))
	}
	return queries
}

// nearOdd are queries like the rows of every other cluster.
func (s *survivors) nearOdd() (queries [][]float32) {
	var odd []int
	for i := 1; i < len(s.centres); i += 2 {
		odd = append(odd, i)
	}
	return s.nearCentres(odd...)
}

// nearRare are queries about rare rows.
func (s *survivors) nearRare() (queries [][]float32) {
	for slot := rareAt; slot < len(s.vecs); slot += clusterRows {
		queries = append(queries, moved(s.rng, s.vecs[slot], .1))
	}
	return queries
}

// check asks for each row that is there, and for what is near the queries.
func (s *survivors) check(t *testing.T, when string, queries [][]float32, least float64) {
	t.Helper()
	search := Search{K: 1, Ef: defaultEf, Slots: s.x.Len()}
	lost, all := 0, 0
	for slot, q := range s.near {
		if s.gone[slot] {
			continue
		}
		all++
		if hits := mustSearch(t, s.x, q, search); hits[0].Slot != uint32(slot) {
			lost++
		}
	}
	search.K = 10
	r := recall(t, s.x, queries, search)
	t.Logf("%s: %d of %d rows are lost, recall@10 %.4f", when, lost, all, r)
	if lost > 0 || r < least {
		t.Errorf("%s: %d of %d rows are lost, recall@10 %.4f, least %.3f", when, lost, all, r, least)
	}
}

// narrow are recalls by walks with few candidates, and by one with as many as a search keeps.
func (s *survivors) narrow(t *testing.T, queries [][]float32) (recalls [3]float64) {
	t.Helper()
	for i, ef := range []int{10, 20, defaultEf} {
		recalls[i] = recall(t, s.x, queries, Search{K: 10, Ef: ef, Slots: s.x.Len(), Plain: true})
	}
	return recalls
}

// TestRowsBesideDeleted: where clusters, nearly all rows or those about rare ones are
// removed, each row that is left is found still by walks for what is almost the same, and so
// are the rows nearest to what is gone, before links are led around it and after. That takes
// nothing from what walks with few candidates find.
func TestRowsBesideDeleted(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	odd := func(slot int) bool { return slot/clusterRows%2 == 1 }
	const gone = 7
	for _, metric := range distances {
		for _, c := range []struct {
			name          string
			gone          func(s *survivors) func(slot int) bool
			asked         func(s *survivors) [][]float32
			before, after float64
		}{
			{"a cluster", func(*survivors) func(int) bool {
				return func(slot int) bool { return slot/clusterRows == gone }
			}, func(s *survivors) [][]float32 { return s.nearCentres(gone) }, .9, .97},
			{"every other cluster", func(*survivors) func(int) bool { return odd }, (*survivors).nearOdd, .97, .97},
			{"nine of ten", func(*survivors) func(int) bool {
				return func(slot int) bool { return slot%10 != 0 }
			}, (*survivors).nearOdd, .99, .99},
			{"all beside rare rows", besideRare, (*survivors).nearRare, .9, .95},
		} {
			t.Run(c.name+", "+metric.String(), func(t *testing.T) {
				s := newSurvivors(t, metric)
				s.remove(c.gone(s))
				queries := c.asked(s)
				s.check(t, "before", queries, c.before)
				before := s.narrow(t, queries)
				mustLink(t, s.x)
				s.check(t, "after", queries, c.after)
				after := s.narrow(t, queries)
				t.Logf("walks with 10, 20 and %d candidates: recall %.3f before, %.3f after", defaultEf, before, after)
				for i := range before {
					if after[i] < before[i]-.01 {
						t.Errorf("walks with 10, 20 and %d candidates: recall %.3f before, %.3f after", defaultEf, before, after)
					}
				}
			})
		}
		t.Run("one cluster after another, "+metric.String(), func(t *testing.T) {
			s := newSurvivors(t, metric)
			for cluster := 1; cluster < len(s.centres); cluster += 2 {
				s.remove(func(slot int) bool { return slot/clusterRows == cluster && slot%clusterRows != rareAt })
				mustLink(t, s.x)
			}
			queries := s.nearOdd()
			s.check(t, "after", queries, .95)
			after := s.narrow(t, queries)
			t.Logf("walks with 10, 20 and %d candidates: recall %.3f", defaultEf, after)
			if after[1] < .9 {
				t.Errorf("walks with 20 candidates: recall %.3f", after[1])
			}
		})
	}
}

// besideRare says which rows have a link to a rare one, or one from it.
func besideRare(s *survivors) func(slot int) bool {
	beside := map[uint32]bool{}
	for slot := range uint32(len(s.vecs)) {
		for _, to := range s.x.graph.neighbours(slot, 0, nil) {
			if slot%clusterRows == rareAt {
				beside[to] = true
			}
			if to%clusterRows == rareAt {
				beside[slot] = true
			}
		}
	}
	return func(slot int) bool { return beside[uint32(slot)] && slot%clusterRows != rareAt }
}
