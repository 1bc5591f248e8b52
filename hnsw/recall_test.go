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
		if n, r, err := x.Recall(t.Context(), s, 100); err != nil || n != 100 || r < .95 {
			t.Errorf("recall %v of %d rows, %v", r, n, err)
		}
		for slot := range x.Len() {
			links := x.graph.neighbours(slot, 0, nil)
			for i := range links {
				links[i] = (slot + uint32(i)) % 64
			}
			x.graph.setNeighbours(slot, 0, links)
		}
		if n, r, err := x.Recall(t.Context(), s, 100); err != nil || n != 100 || r > .7 {
			t.Errorf("all links lead to 64 rows: recall %v of %d rows, %v", r, n, err)
		}
	}
	x := newGraph(t, Config{Dim: 2})
	if n, r, err := x.Recall(t.Context(), Search{K: 10, Slots: 5}, 10); err != nil || n != 0 || r != 1 {
		t.Errorf("an empty index: recall %v of %d rows, %v", r, n, err)
	}
	if _, _, err := x.Recall(t.Context(), Search{}, 10); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}
