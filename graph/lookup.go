package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Named is an entity whose name or alias is like one that was looked for.
type Named struct {
	Entity
	// Matched is that name, as it is compared: in lower case.
	Matched string
	// Score is from 0 to 1, which is the name itself.
	Score float64
}

// LookupOptions changes what Lookup returns.
type LookupOptions struct {
	// Type keeps entities of this type; empty: of any.
	Type string
	// Limit bounds the answer. 0: 10.
	Limit int
	// MaxNodes and MaxEdges are those of [State].
	MaxNodes, MaxEdges int
}

// LookedUp is the answer of Lookup.
type LookedUp struct {
	Named []Named // the highest score first, then the oldest
	Plan  Plan
}

// The scores of names that are not the one that was looked for. A slip of the pen scores
// the share of letters that are right.
const (
	lookupWords  = 0.95 // its words in another order
	lookupPrefix = 0.9  // it begins so
	lookupPart   = 0.8  // it has all of the words
	// usualNamed is how many entities Lookup returns where the caller names no limit.
	usualNamed = 10
)

// Lookup returns the entities with a name or an alias like one: the same, the same words
// in another order, one that begins so, one that has all of the words, or one a slip or two
// away, without regard to case. A slip is a letter more, less, another, or two changed
// about (Damerau 1964); names of four letters may have one, of eight two. It reads all
// names of the owner.
func (g Graph) Lookup(ctx context.Context, o scope.Owner, name string, opts LookupOptions) (LookedUp, error) {
	doing := fmt.Sprintf("look up the name %q", valid.Short(name))
	if err := checkID(doing, "name", name); err != nil {
		return LookedUp{}, err
	}
	if opts.Limit < 0 {
		return LookedUp{}, fault.Invalid(doing, "the limit is negative", "give 0 or more")
	}
	l := &lookup{want: newSpelling(fold(name)), best: map[uint32]scoredName{}}
	var all []Named
	plan, err := g.walk(ctx, doing, o, State{MaxNodes: opts.MaxNodes, MaxEdges: opts.MaxEdges}, func(w *walk) error {
		l.walk = w
		if err := l.read(opts.Type); err != nil {
			return err
		}
		for _, num := range l.order()[:min(len(l.best), cmp.Or(opts.Limit, usualNamed))] {
			n, err := w.reader.node(num)
			if err != nil || n == nil {
				return cmp.Or(err, missing("entity", num, entityKey(w.reader, w.reader.owner, num)))
			}
			e, err := w.reader.entity(o, n)
			if err != nil {
				return err
			}
			all = append(all, Named{e, l.best[num].name, l.best[num].score})
		}
		return nil
	})
	if err != nil {
		return LookedUp{}, err
	}
	return LookedUp{all, plan}, nil
}

// lookup looks for a name.
type lookup struct {
	*walk
	want spelling
	best map[uint32]scoredName
}

type scoredName struct {
	name  string
	score float64
}

// read scores all names.
func (l *lookup) read(typeName string) error {
	typ := uint32(0)
	if typeName != "" {
		var err error
		if typ, err = l.reader.typeNumber(classEntity, typeName); err != nil || typ == 0 {
			return err
		}
	}
	var stopped error
	err := l.reader.eachName(func(name string, num uint32) error {
		if stopped = l.node(); stopped != nil {
			return stopped
		}
		score := l.want.like(name)
		if score <= l.best[num].score {
			return nil
		}
		have, there, err := l.is(num)
		if err == nil && !there {
			err = missing("named entity", num, entityKey(l.reader, l.reader.owner, num))
		}
		if err == nil && (typ == 0 || have == typ) {
			l.best[num] = scoredName{name, score}
		}
		return err
	})
	if err == nil && !errors.Is(stopped, kv.ErrStop) {
		err = stopped
	}
	return err
}

// eachName calls visit for the folded names of all entities in the state that is read. Those of
// a state of the past are not in the index of names, which is that of today.
func (r *reader) eachName(visit func(name string, num uint32) error) error {
	if r.asOf != 0 {
		return r.eachNode(func(num uint32, n *node) error {
			for _, name := range n.names() {
				if err := visit(name, num); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return each(r, section(r, kindGraph, r.owner, secName, 0), func(key, _ []byte) error {
		name, num, ok := parseNameKey(key)
		if !ok {
			return layout.BadKey("name", key)
		}
		return visit(name, num)
	})
}

// order is the entities, the best first.
func (l *lookup) order() []uint32 {
	nums := make([]uint32, 0, len(l.best))
	for num := range l.best {
		nums = append(nums, num)
	}
	slices.SortFunc(nums, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(l.best[b].score, l.best[a].score), cmp.Compare(a, b))
	})
	return nums
}

// spelling is a name that others are compared with.
type spelling struct {
	name    string
	letters []rune
	words   []string // in order
	slips   int      // how many it may have
	rows    [3][]int // of the distances, used again
}

const (
	oneSlip  = 4 // letters of a name that may have one slip
	twoSlips = 8 // and two
)

func newSpelling(folded string) spelling {
	s := spelling{name: folded, letters: []rune(folded), words: strings.Fields(folded)}
	slices.Sort(s.words)
	switch n := len(s.letters); {
	case n >= twoSlips:
		s.slips = 2
	case n >= oneSlip:
		s.slips = 1
	}
	for i := range s.rows {
		s.rows[i] = make([]int, len(s.letters)+1)
	}
	return s
}

// like scores a name, 0 for one that is not like it.
func (s *spelling) like(name string) float64 {
	if name == s.name {
		return 1
	}
	score := 0.0
	if longest := max(len(s.letters), utf8.RuneCountInString(name)); s.slips > 0 && longest-len(s.letters) <= s.slips {
		if d := s.distance(name); d <= s.slips {
			score = 1 - float64(d)/float64(longest)
		}
	}
	words := strings.Fields(name)
	slices.Sort(words)
	switch {
	case slices.Equal(words, s.words):
		score = max(score, lookupWords)
	case strings.HasPrefix(name, s.name):
		score = max(score, lookupPrefix)
	case len(s.words) > 0 && hasAll(words, s.words):
		score = max(score, lookupPart)
	}
	return score
}

// hasAll reports whether all words are among others. Both are in order.
func hasAll(words, wanted []string) bool {
	for _, w := range wanted {
		if _, found := slices.BinarySearch(words, w); !found {
			return false
		}
	}
	return true
}

// distance is how many slips lie between the names: the optimal string alignment distance.
// What is more than the slips it may have is more than those, and no exact number.
func (s *spelling) distance(name string) int {
	before, last, row := s.rows[0], s.rows[1], s.rows[2]
	for j := range last {
		last[j] = j
	}
	previous := rune(-1)
	i := 0
	for _, r := range name {
		i++
		row[0] = i
		least := math.MaxInt
		for j, c := range s.letters {
			cost := 1
			if c == r {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if j > 0 && c == previous && s.letters[j-1] == r {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least > s.slips+1 {
			return least
		}
		before, last, row = last, row, before
		previous = r
	}
	return last[len(s.letters)]
}
