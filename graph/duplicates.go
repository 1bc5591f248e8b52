package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Duplicate is a pair of entities that may be one.
type Duplicate struct {
	// A is the older entity of the two: [Graph.Merge] of A and B keeps A.
	A string `json:"a"`
	B string `json:"b"`
	// Score is from 0 to 1.
	Score float64 `json:"score"`
	// Why says what they share: "name", "words", "letters", "part" or "neighbours".
	Why []string `json:"why"`
}

// Duplicates is the answer of Duplicates.
type Duplicates struct {
	Pairs []Duplicate // the highest score first, then the oldest
	Plan  Plan
}

// DuplicateOptions changes what Duplicates returns.
type DuplicateOptions struct {
	// Limit bounds the answer. 0: 100.
	Limit int
	// MinScore leaves out what has less. 0: 0.5.
	MinScore float64
	// MaxNodes and MaxEdges are those of [State].
	MaxNodes, MaxEdges int
}

// What two names that are alike count for, and what equal neighbourhoods do at most. What
// several say is joined as independent chances: 1 - (1-a)(1-b).
const (
	scoreName       = 0.8 // equal names or aliases
	scoreWords      = 0.7 // the same words in another order
	scoreLetters    = 0.6 // one letter more, less, another, or two changed about
	scorePart       = 0.3 // the words of one are among those of the other
	scoreNeighbours = 0.6 // times the share of common relations (Jaccard)
	// unlike is what a score is multiplied by where the types of the two differ, or one has
	// a relation to the other: a mother and her daughter may share a name.
	unlike = 0.5
	// usualScore and usualPairs are the least score and the most pairs of an answer.
	usualScore = 0.5
	usualPairs = 100
	// crowd bounds the entities that a word or a slip of the pen brings together: what is
	// common says little, and pairs are many.
	crowd = 32
	// crowdedNeighbour does the same for the relations of a type that an entity has.
	crowdedNeighbour = 8
	// commonNeighbours is how many relations two entities must share to be a pair without
	// names that are alike.
	commonNeighbours = 3
	// shortName is the length in letters below which one letter makes another name.
	shortName = 5
)

// Duplicates returns pairs of entities that may be one, by their names, their aliases and
// their relations: by equal and similar names as a look-up table of names less one letter
// finds them (Garbe 2012, Symmetric Delete), and by relations that both have. Memory and
// time grow with the names and the relations of the owner, and not with their pairs.
func (g Graph) Duplicates(ctx context.Context, o scope.Owner, opts DuplicateOptions) (Duplicates, error) {
	const doing = "look for duplicates"
	if opts.Limit < 0 || opts.MinScore < 0 || opts.MinScore > 1 {
		return Duplicates{}, fault.Invalid(doing, fmt.Sprintf("the limit is %d, and the least score %g", opts.Limit, opts.MinScore), "give a limit of 0 or more, and a score from 0 to 1")
	}
	var pairs []Duplicate
	plan, err := g.walk(ctx, doing, o, State{MaxNodes: opts.MaxNodes, MaxEdges: opts.MaxEdges}, func(w *walk) error {
		d := &deduper{walk: w, pairs: map[pair]alike{}}
		stopped := d.look()
		if stopped != nil && !errors.Is(stopped, kv.ErrStop) {
			return stopped
		}
		found, err := d.best(cmp.Or(opts.Limit, usualPairs), cmp.Or(opts.MinScore, usualScore))
		pairs = found
		return cmp.Or(err, stopped)
	})
	if err != nil {
		return Duplicates{}, err
	}
	return Duplicates{pairs, plan}, nil
}

// pair is two entities, the older one first.
type pair struct{ a, b uint32 }

// alike is what is known of a pair.
type alike struct {
	score float64 // of the names
	why   string
}

// deduper looks for duplicates.
type deduper struct {
	*walk
	pairs map[pair]alike
}

func (d *deduper) look() error {
	names := map[string][]uint32{}
	var stopped error
	err := d.reader.eachName(func(name string, num uint32) error {
		names[name] = append(names[name], num)
		stopped = d.node()
		return stopped
	})
	if err = cmp.Or(err, stopped); err != nil && !errors.Is(err, kv.ErrStop) {
		return err
	}
	d.names(names)
	return d.neighbours()
}

// names finds the pairs whose names are alike.
func (d *deduper) names(names map[string][]uint32) {
	words, letters, parts := map[string][]uint32{}, map[string][]uint32{}, map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		nums := names[name]
		d.together(nums, alike{scoreName, "name"})
		all := strings.Fields(name)
		slices.Sort(all)
		if key := strings.Join(all, " "); len(all) > 1 {
			words[key] = append(words[key], nums...)
		}
		for _, w := range slices.Compact(all) {
			if len(parts[w]) <= crowd {
				parts[w] = append(parts[w], name)
			}
		}
		if utf8.RuneCountInString(name) >= shortName {
			for _, key := range lessOneLetter(name) {
				if len(letters[key]) <= crowd {
					letters[key] = append(letters[key], nums...)
				}
			}
		}
	}
	for _, nums := range words {
		d.together(nums, alike{scoreWords, "words"})
	}
	for _, nums := range letters {
		d.square(nums, alike{scoreLetters, "letters"})
	}
	for word, of := range parts {
		if nums := names[word]; len(nums) > 0 && len(of) <= crowd { // a name of one word, in longer ones
			for _, name := range of {
				d.square(append(slices.Clone(nums), names[name]...), alike{scorePart, "part"})
			}
		}
	}
}

// lessOneLetter is a name, and what is left of it without each of its letters.
func lessOneLetter(name string) []string {
	all := []string{name}
	for i := range name {
		_, size := utf8.DecodeRuneInString(name[i:]) // 1 of a byte that is damaged
		all = append(all, name[:i]+name[i+size:])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// together makes a pair of each two entities, or of the oldest and each other one where
// there are too many.
func (d *deduper) together(nums []uint32, say alike) {
	if len(nums) <= crowd {
		d.square(nums, say)
		return
	}
	oldest := slices.Min(nums)
	for _, num := range nums {
		d.pair(oldest, num, say)
	}
}

// square makes a pair of each two entities, unless there are too many of them.
func (d *deduper) square(nums []uint32, say alike) {
	if len(nums) > crowd {
		return
	}
	for i, a := range nums {
		for _, b := range nums[:i] {
			d.pair(a, b, say)
		}
	}
}

func (d *deduper) pair(a, b uint32, say alike) {
	p := pair{min(a, b), max(a, b)}
	if have, known := d.pairs[p]; a != b && (!known || have.score < say.score) {
		d.pairs[p] = say
	}
}

// neighbours finds the pairs that share relations, by going through the relations of each
// entity that few share.
func (d *deduper) neighbours() error {
	var nums []uint32
	if err := d.members(0, func(num uint32) error { nums = append(nums, num); return nil }); err != nil {
		return err
	}
	common := map[pair]int{}
	for _, num := range nums {
		for _, dir := range []Direction{Out, In} {
			edges, err := d.next(num, dir, 0)
			if err != nil {
				return err
			}
			for len(edges) > 0 {
				n := 1
				for n < len(edges) && edges[n].typ == edges[0].typ {
					n++
				}
				count(common, edges[:n])
				edges = edges[n:]
			}
		}
	}
	for p, n := range common {
		if n >= commonNeighbours {
			d.pair(p.a, p.b, alike{})
		}
	}
	return nil
}

// count counts the pairs among the other ends of relations of one type.
func count(common map[pair]int, edges []edge) {
	if len(edges) > crowdedNeighbour {
		return
	}
	for i, e := range edges {
		for _, f := range edges[:i] {
			if e.other != f.other {
				common[pair{min(e.other, f.other), max(e.other, f.other)}]++
			}
		}
	}
}

// best are the pairs of the highest scores.
func (d *deduper) best(limit int, least float64) ([]Duplicate, error) {
	var all []Duplicate
	order := map[string]pair{}
	for p, say := range d.pairs {
		dup, err := d.scored(p, say)
		if err != nil {
			return nil, err
		}
		if dup.Score >= least {
			order[dup.A+"\x00"+dup.B] = p
			all = append(all, dup)
		}
	}
	slices.SortFunc(all, func(x, y Duplicate) int {
		p, q := order[x.A+"\x00"+x.B], order[y.A+"\x00"+y.B]
		return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b))
	})
	return all[:min(limit, len(all))], nil
}

// scored is a pair with its score, 0 where one of them is not there.
func (d *deduper) scored(p pair, say alike) (dup Duplicate, err error) {
	typA, thereA, err := d.is(p.a)
	if err != nil {
		return Duplicate{}, err
	}
	typB, thereB, err := d.is(p.b)
	if err != nil || !thereA || !thereB {
		return Duplicate{}, err
	}
	if dup.A, err = d.id(p.a); err != nil {
		return Duplicate{}, err
	}
	if dup.B, err = d.id(p.b); err != nil {
		return Duplicate{}, err
	}
	shared, related, err := d.shared(p)
	if err != nil {
		return Duplicate{}, err
	}
	dup.Score = 1 - (1-say.score)*(1-scoreNeighbours*shared)
	if related || typA != 0 && typB != 0 && typA != typB {
		dup.Score *= unlike
	}
	if say.why != "" {
		dup.Why = append(dup.Why, say.why)
	}
	if shared > 0 {
		dup.Why = append(dup.Why, "neighbours")
	}
	return dup, nil
}

// shared is the share of the relations of two entities that both have, and whether one has
// a relation to the other.
func (d *deduper) shared(p pair) (share float64, related bool, err error) {
	both, either := 0, 0
	for _, dir := range []Direction{Out, In} {
		row, err := d.next(p.a, dir, 0)
		if err != nil {
			return 0, false, err
		}
		mine := make(map[edge]bool, len(row))
		for _, e := range row {
			mine[e] = true
			related = related || e.other == p.b
		}
		either += len(mine)
		if row, err = d.next(p.b, dir, 0); err != nil {
			return 0, false, err
		}
		var last edge
		for _, e := range row {
			switch {
			case e == last: // parallel to the last one
			case mine[e]:
				both++
			default:
				either++
			}
			last = e
		}
	}
	if either == 0 {
		return 0, related, nil
	}
	return float64(both) / float64(either), related, nil
}
