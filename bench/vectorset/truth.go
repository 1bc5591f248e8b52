package vectorset

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// Truth holds the true neighbours of queries.
type Truth [][]uint32

// block is how many rows stay in the cache while all queries are compared.
const block = 256

// Neighbours compares every query with every vector of the set that match
// accepts (nil: all), in float32, and returns the k closest of each.
func Neighbours(s, queries *Set, k int, match func(i int) bool) Truth {
	f := NewFinder(queries, k)
	f.Add(s, 0, match)
	return f.Truth()
}

// A Finder finds the neighbours of queries among vectors that come in parts.
type Finder struct {
	queries *Set
	best    []nearest
}

// NewFinder looks for the k closest vectors of each query.
func NewFinder(queries *Set, k int) *Finder {
	f := &Finder{queries, make([]nearest, queries.Len())}
	for q := range f.best {
		f.best[q].k = k
	}
	return f
}

// Add compares the vectors of a set that match accepts (nil: all), whose numbers
// begin with first.
func (f *Finder) Add(s *Set, first int, match func(i int) bool) {
	rows := &simd.Rows{Shift: 31, Stride: uintptr(s.Dim) * 4}
	rows.Pages = append(rows.Pages, unsafe.Pointer(unsafe.SliceData(s.flat)))
	var ids [block]uint32
	var out [block]float32
	for from := 0; from < s.Len(); from += block {
		n := 0
		for i := from; i < min(from+block, s.Len()); i++ {
			if match == nil || match(first+i) {
				ids[n] = uint32(i)
				n++
			}
		}
		for q := range f.best {
			simd.DotRows(f.queries.Row(q), rows, ids[:n], out[:n])
			for i, score := range out[:n] {
				f.best[q].push(score, uint32(first)+ids[i])
			}
		}
	}
}

// Truth returns the neighbours found so far.
func (f *Finder) Truth() Truth {
	truth := make(Truth, len(f.best))
	for q := range f.best {
		truth[q] = f.best[q].ids
	}
	return truth
}

// nearest keeps the ids of the k highest scores, the highest first.
type nearest struct {
	k      int
	scores []float32
	ids    []uint32
}

func (n *nearest) push(score float32, id uint32) {
	if len(n.ids) == n.k && (n.k == 0 || score <= n.scores[n.k-1]) {
		return
	}
	at, _ := slices.BinarySearchFunc(n.scores, score, func(have, s float32) int {
		if have >= s {
			return -1
		}
		return cmp.Compare(s, have)
	})
	n.scores, n.ids = slices.Insert(n.scores, at, score), slices.Insert(n.ids, at, id)
	if len(n.ids) > n.k {
		n.scores, n.ids = n.scores[:n.k], n.ids[:n.k]
	}
}

// Recall is the mean share of the true neighbours among the first as many
// answers. A query without true neighbours does not count; with none that
// counts, recall is 1.
func (t Truth) Recall(answers [][]uint32) float64 {
	sum, n := 0.0, 0
	for q, want := range t {
		if len(want) == 0 {
			continue
		}
		n++
		if q >= len(answers) {
			continue
		}
		found := 0
		for _, id := range answers[q][:min(len(want), len(answers[q]))] {
			if slices.Contains(want, id) {
				found++
			}
		}
		sum += float64(found) / float64(len(want))
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// Judge is the recall of answers to the first queries alone.
func (t Truth) Judge(answers [][]uint32) float64 { return t[:len(answers)].Recall(answers) }
