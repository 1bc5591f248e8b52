package hnsw

import (
	"cmp"
	"slices"
)

// Hit is a slot and its score: the cosine, the dot product, or the negated
// Euclidean distance. Higher is better.
type Hit struct {
	Slot  uint32
	Score float32
}

// compareHits orders best first, and equal scores by slot.
func compareHits(a, b Hit) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	return cmp.Compare(a.Slot, b.Slot)
}

// topK keeps the k best of the hits it is shown: a heap with the worst on top.
type topK struct {
	k    int
	hits []Hit
}

func (t *topK) push(h Hit) {
	switch {
	case len(t.hits) < t.k:
		t.hits = append(t.hits, h)
		t.up(len(t.hits) - 1)
	case t.k > 0 && compareHits(h, t.hits[0]) < 0:
		t.hits[0] = h
		t.down(0)
	}
}

func (t *topK) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if compareHits(t.hits[i], t.hits[parent]) <= 0 {
			return
		}
		t.hits[i], t.hits[parent] = t.hits[parent], t.hits[i]
		i = parent
	}
}

func (t *topK) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(t.hits) {
			return
		}
		if c+1 < len(t.hits) && compareHits(t.hits[c+1], t.hits[c]) > 0 {
			c++
		}
		if compareHits(t.hits[c], t.hits[i]) <= 0 {
			return
		}
		t.hits[i], t.hits[c] = t.hits[c], t.hits[i]
		i = c
	}
}

// sorted returns the hits, best first, and empties the heap.
func (t *topK) sorted() []Hit {
	hits := t.hits
	t.hits = nil
	slices.SortFunc(hits, compareHits)
	return hits
}
