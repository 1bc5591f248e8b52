// Package needles finds which of many strings are within a text, in one pass over it, by
// the automaton of Aho and Corasick (1975).
package needles

import (
	"context"
	"slices"
)

// bytesPerLook is how much of a text is read between looks at the context: less than a
// millisecond.
const bytesPerLook = 1 << 16

// Set is strings that are looked for together. It takes some 20 bytes for each of theirs,
// does not change, and is safe for concurrent use.
type Set struct {
	nodes   []node
	labels  []byte // by which nodes are reached
	roots   [256]int32
	needles int
	empty   bool // the empty string is one of them
}

// node stands for a beginning of needles. The one at 0 is the empty beginning.
type node struct {
	first, end int32 // the nodes that are one byte longer, in the order of that byte
	fail       int32 // the longest beginning that this one ends with
	needle     int32 // the needle that it is + 1, or 0
	link       int32 // the longest needle that it ends with, as a node, or 0
}

// New makes a Set. Needles that are given twice count once.
func New(needles []string) *Set {
	sorted := slices.Clone(needles)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	s := &Set{needles: len(sorted), nodes: make([]node, 1), labels: make([]byte, 1)}
	if len(sorted) > 0 && sorted[0] == "" {
		s.empty = true
		sorted = sorted[1:]
	}
	// ranges are the needles that begin as each node does, in the order of the nodes.
	type needleRange struct{ from, to, depth int }
	ranges := []needleRange{{0, len(sorted), 0}}
	for at := 0; at < len(s.nodes); at++ {
		r := ranges[at]
		if r.from < r.to && len(sorted[r.from]) == r.depth {
			s.nodes[at].needle = int32(r.from + 1)
			r.from++
		}
		s.nodes[at].first = int32(len(s.nodes))
		for from := r.from; from < r.to; {
			label := sorted[from][r.depth]
			to := from + 1
			for to < r.to && sorted[to][r.depth] == label {
				to++
			}
			s.nodes, s.labels = append(s.nodes, node{}), append(s.labels, label)
			ranges = append(ranges, needleRange{from, to, r.depth + 1})
			from = to
		}
		s.nodes[at].end = int32(len(s.nodes))
	}
	for c := s.nodes[0].first; c < s.nodes[0].end; c++ {
		s.roots[s.labels[c]] = c
	}
	s.join()
	return s
}

// join sets where the search goes on behind each node. Those that are shorter come first.
func (s *Set) join() {
	for at := range s.nodes {
		n := s.nodes[at]
		for c := n.first; c < n.end; c++ {
			if at != 0 {
				s.nodes[c].fail = s.step(n.fail, s.labels[c])
			}
			fail := s.nodes[c].fail
			if s.nodes[c].link = s.nodes[fail].link; s.nodes[fail].needle != 0 {
				s.nodes[c].link = fail
			}
		}
	}
}

// step is the longest beginning that a node's and a further byte end with.
func (s *Set) step(at int32, b byte) int32 {
	for at != 0 {
		n := &s.nodes[at]
		from, to := n.first, n.end
		for from < to {
			switch middle := (from + to) / 2; {
			case s.labels[middle] < b:
				from = middle + 1
			case s.labels[middle] > b:
				to = middle
			default:
				return middle
			}
		}
		at = n.fail
	}
	return s.roots[b]
}

// Any reports whether one of the needles is within a text. It ends with the context.
func (s *Set) Any(ctx context.Context, text string) (bool, error) {
	if s.empty {
		return true, nil
	}
	one := false
	err := s.scan(ctx, text, func(*node) bool {
		one = true
		return false
	})
	return one, err
}

// All reports whether each of the needles is within a text. It ends with the context.
func (s *Set) All(ctx context.Context, text string) (bool, error) {
	missing := s.needles
	if s.empty {
		missing--
	}
	if missing == 0 {
		return true, nil
	}
	found := make([]bool, s.needles+1)
	err := s.scan(ctx, text, func(n *node) bool {
		// Of one that was found already, so were those that it ends with.
		for ; !found[n.needle]; n = &s.nodes[n.link] {
			found[n.needle] = true
			missing--
			if n.link == 0 {
				break
			}
		}
		return missing > 0
	})
	return missing == 0, err
}

// scan calls found with the longest needle that ends at each place of a text, until it
// returns false.
func (s *Set) scan(ctx context.Context, text string, found func(*node) bool) error {
	at := int32(0)
	for i := range len(text) {
		if i%bytesPerLook == bytesPerLook-1 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if at = s.step(at, text[i]); at == 0 {
			continue
		}
		n := &s.nodes[at]
		if n.needle == 0 {
			if n.link == 0 {
				continue
			}
			n = &s.nodes[n.link]
		}
		if !found(n) {
			return nil
		}
	}
	return nil
}
