package hnsw

import (
	"errors"
	"testing"
)

// TestRecallOfItself: an index finds nearly all of its rows, and one whose links lead to few
// of them does not.
func TestRecallOfItself(t *testing.T) {
	rng := random(t)
	vecs := make([][]float32, 6000)
	for i := range vecs {
		vecs[i] = randomVector(rng, 24)
	}
	own := func(slot uint32, dst []float32) ([]float32, error) { return append(dst, vecs[slot]...), nil }
	for _, truth := range []Truth{nil, own} {
		x := linkedIndex(t, Config{Dim: 24, Metric: L2, EfConstruction: 60, Truth: truth}, vecs)
		s := Search{K: 10, Ef: 64, Slots: x.Len()}
		if r, err := x.Recall(t.Context(), s, AskStored, 100); err != nil || r.Sampled != 100 || r.Recall < .95 || r.First < .95 {
			t.Errorf("%+v, %v", r, err)
		}
		for slot := range x.Len() {
			links := x.graph.neighbours(slot, 0, nil)
			for i := range links {
				links[i] = (slot + uint32(i)) % 64
			}
			x.graph.setNeighbours(slot, 0, links)
		}
		if r, err := x.Recall(t.Context(), s, AskStored, 100); err != nil || r.Sampled != 100 || r.Recall > .7 {
			t.Errorf("all links lead to 64 rows: %+v, %v", r, err)
		}
	}
	x := newGraph(t, Config{Dim: 2})
	for _, asked := range Asks() {
		if r, err := x.Recall(t.Context(), Search{K: 10, Slots: 5}, asked, 10); err != nil || r != (Recalled{Recall: 1, First: 1}) {
			t.Errorf("an empty index, %s: %+v, %v", asked, r, err)
		}
	}
	if _, err := x.Recall(t.Context(), Search{}, AskStored, 10); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

// TestRecallOfWhatIsAsked: queries that are not like the rows are told apart from those that
// are, and rare rows from others.
func TestRecallOfWhatIsAsked(t *testing.T) {
	rng := random(t)
	const rare = 60
	vecs := clustered(rng, 600, 16, 3)
	for i := range rare {
		for k := range vecs[i] {
			vecs[i][k] = 8 * float32(rng.NormFloat64())
		}
	}
	asked := map[Asked]int{}
	x := placed(t, Config{Dim: 16, Metric: L2}, vecs)
	for _, a := range Asks() {
		p := sampling{x: x, s: Search{K: 10, Slots: x.Len()}, asked: a, seen: map[uint32]bool{}}
		if a == AskRare {
			if err := p.findRare(t.Context(), 20); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			query, err := p.query()
			if err != nil || query == nil {
				t.Fatalf("%s: no query, %v", a, err)
			}
			hit := mustSearch(t, x, query, Search{K: 1, Slots: x.Len(), Exact: true})[0]
			if a == AskStored && hit.Score != 0 || (a == AskAway || a == AskBetween) && hit.Score == 0 {
				t.Errorf("%s: the nearest row scores %v", a, hit.Score)
			}
			if hit.Slot < rare {
				asked[a]++
			}
		}
		if r, err := x.Recall(t.Context(), Search{K: 10, Slots: x.Len(), Sure: true}, a, 20); err != nil || r.Sampled != 20 || r.Recall < .99 || r.First < .99 {
			t.Errorf("%s: %+v, %v", a, r, err)
		}
	}
	if asked[AskRare] < 15 || asked[AskStored] > 10 {
		t.Errorf("rare rows are asked for so often: %v of 20", asked)
	}
}
