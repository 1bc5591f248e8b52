package hnsw

import (
	"cmp"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/topk"
)

// Hit is a slot and its score: the cosine, the dot product, or the negated
// Euclidean distance. Higher is better.
type Hit struct {
	// Slot is where the vector lies, Score how close it is.
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
		topk.UpFunc(t.hits, worse)
	case t.k > 0 && compareHits(h, t.hits[0]) < 0:
		t.hits[0] = h
		topk.DownFunc(t.hits, 0, worse)
	}
}

// worse reports whether a comes after b.
func worse(a, b *Hit) bool { return compareHits(*a, *b) > 0 }

// sorted returns the hits, best first, and empties the heap.
func (t *topK) sorted() []Hit {
	hits := t.hits
	t.hits = nil
	slices.SortFunc(hits, compareHits)
	return hits
}
