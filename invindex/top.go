package invindex

import (
	"math"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/topk"
)

// top keeps the k best of documents that are offered in ascending order.
type top struct {
	k int
	// heap has the worst first. A candidate is its score, as the bits of its sum's
	// float32, in the upper half and the complement of its document in the lower:
	// the greater is the better.
	heap []uint64
	// min is a sum that can no longer enter, and 0 as long as every one can.
	min uint32
}

func (t *top) reset(k int) {
	*t = top{k: k, heap: t.heap[:0]}
}

// push offers a document.
func (t *top) push(doc, sum uint32) {
	c := uint64(math.Float32bits(float32(sum)))<<32 | uint64(^doc)
	switch {
	case len(t.heap) < t.k:
		t.heap = append(t.heap, c)
		if len(t.heap) < t.k {
			return
		}
		t.heapify()
	case c <= t.heap[0]:
		return
	default:
		t.heap[0] = c
		topk.Down(t.heap, 0)
	}
	// A sum that equals the worst loses to it, being of a higher document.
	t.min = candidateSum(t.heap[0])
}

// candidateSum returns a candidate's sum, rounded to a float32's precision.
func candidateSum(c uint64) uint32 {
	return uint32(math.Float32frombits(uint32(c >> 32)))
}

func (t *top) heapify() {
	for i := len(t.heap)/2 - 1; i >= 0; i-- {
		topk.Down(t.heap, i)
	}
}

// hits returns the documents, best first.
func (t *top) hits(s *scorer) []Hit {
	slices.SortFunc(t.heap, func(a, b uint64) int {
		if a > b {
			return -1
		}
		return 1
	})
	hits := make([]Hit, len(t.heap))
	for i, c := range t.heap {
		hits[i] = Hit{Doc: ^uint32(c), Score: s.score(candidateSum(c))}
	}
	return hits
}
