package graph

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Near is an entity that a text names, or that lies near such.
type Near struct {
	// Number is that of the entity within its owner.
	Number uint32
	// Rank is its personalised PageRank from the entities that the text names.
	Rank float64
	// Seqs are the memories that it is linked to: nil where these are very many.
	Seqs []uint64
}

// NearPlan says how entities near a text were found.
type NearPlan struct {
	// Named are the IDs of the entities that the text names, in the order of the names.
	Named []string `json:"named"`
	// Like are those of them whose names the text has not, but others that are like them.
	Like []string `json:"like,omitzero"`
	// Entities is how many were ranked.
	Entities int `json:"entities"`
	// Memories is how many are linked to them.
	Memories int `json:"memories"`
	// Source is "memory" or "keys", and Why says why it was not memory.
	Source string `json:"source"`
	Why    string `json:"why,omitzero"`
}

const (
	// nearDamping is the share of its rank that an entity passes on. With less than that of
	// Rank, the entities that a text names stay above those around them (Gutiérrez et al. 2024,
	// HippoRAG, has the same).
	nearDamping = 0.5
	// nearWords bounds the words of a text that names are looked for in, and nearName the
	// words of a name.
	nearWords = 64
	nearName  = 5
	// nearNamed bounds the entities that a text may name.
	nearNamed = 16
	// nearEntities bounds those whose memories are read, by their ranks.
	nearEntities = 64
	// nearLinks is the number of memories from which on a link says too little to be followed.
	nearLinks = 4096
	// nearDegree is the number of relations from which on an entity leads nowhere: it is
	// related to too much.
	nearDegree = 1024
	// nearLeast is the residual, by relation, from which on an entity passes on its rank.
	nearLeast = 1e-4
	// nearPushes bounds how many entities pass on theirs.
	nearPushes = 2048
	// likeNames bounds the names that are compared with words of the text.
	likeNames = 2048
	// likeLeast is the least score of a name that a word means: one slip of eight letters.
	likeLeast = 0.87
	// likeLetters is the length of the shortest word that may have a slip.
	likeLetters = 5
)

// Near finds the entities that a text names, by a name or an alias, or by one of the names
// that its caller has found in it, and those that lie near them: with their personalised
// PageRank, by forward push (Andersen, Chung, Lang 2006, Local graph partitioning using
// PageRank vectors), which goes only where there is rank to pass on. Where the text names
// none, its words with a capital letter may have a slip.
func (p *Part) Near(ctx context.Context, v part.View, owner uint32, text string, names []string) (all []Near, plan NearPlan, err error) {
	r := &reader{View: v, owner: owner}
	own, err := r.owned()
	if err != nil || own.lastEntity == 0 {
		return nil, plan, err
	}
	w := &walk{ctx: ctx, reader: r, maxNodes: defaultNodes, maxEdges: nearPushes * nearDegree}
	n := &near{walk: w}
	if err := n.named(text, names); err != nil {
		return nil, plan, err
	}
	if len(n.seeds) == 0 {
		return nil, plan, nil
	}
	if w.source, plan.Why, err = p.source(r, &own, 0); err != nil {
		return nil, plan, err
	}
	plan.Source = w.name()
	byKeys, _ := w.source.(*keys)
	if byKeys != nil {
		byKeys.most = nearDegree
	}
	ranks, err := n.push()
	if err != nil && !errors.Is(err, kv.ErrStop) {
		return nil, plan, err
	}
	if byKeys != nil {
		p.read(owner, w.plan.Edges)
	}
	for _, s := range n.seeds {
		id, err := w.id(s.num)
		if err != nil {
			return nil, plan, err
		}
		if plan.Named = append(plan.Named, id); s.like {
			plan.Like = append(plan.Like, id)
		}
	}
	for num, rank := range ranks {
		all = append(all, Near{Number: num, Rank: rank})
	}
	slices.SortFunc(all, func(a, b Near) int { return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Number, b.Number)) })
	plan.Entities = len(all)
	all = all[:min(len(all), nearEntities)]
	for i := range all {
		if all[i].Seqs, err = r.linksUpTo(all[i].Number, nearLinks); err != nil {
			return nil, plan, err
		}
		plan.Memories += len(all[i].Seqs)
	}
	return all, plan, nil
}

// near looks for the entities of a text.
type near struct {
	*walk
	seeds []seed
}

// seed is an entity that a text names.
type seed struct {
	num  uint32
	like bool
}

// named finds the entities that a text names: of names that begin with one word, the longest.
func (n *near) named(text string, names []string) (err error) {
	it, err := n.reader.Iter(span(section(n.reader, kindGraph, n.reader.owner, secName, 0)))
	if err != nil {
		return err
	}
	return closing(it, func() error {
		words := wordsOf(text)
		for i := 0; i < len(words); i++ {
			for to := min(len(words), i+nearName); to > i; to-- {
				found, err := n.look(it, fold(text[words[i].from:words[to-1].to]))
				if err != nil {
					return err
				}
				if found {
					i = to - 1
					break
				}
			}
		}
		for _, name := range names {
			if _, err := n.look(it, fold(name)); err != nil {
				return err
			}
		}
		if len(n.seeds) > 0 {
			return nil
		}
		return n.like(it, text, words)
	}())
}

// look adds the entities of a folded name.
func (n *near) look(it kv.Iterator, folded string) (found bool, err error) {
	if folded == "" || len(folded) > valid.MaxID || strings.IndexByte(folded, 0) >= 0 {
		return false, nil
	}
	prefix := nameKey(n.reader, n.reader.owner, folded, 0)
	prefix = prefix[:len(prefix)-numSize]
	for ok := it.SeekGE(prefix); ok && strings.HasPrefix(string(it.Key()), string(prefix)); ok = it.Next() {
		_, num, ok := parseNameKey(it.Key())
		if !ok {
			return false, layout.BadKey("name", it.Key())
		}
		if err := n.seed(num, false); err != nil {
			return false, err
		}
		found = true
	}
	return found, it.Error()
}

func (n *near) seed(num uint32, like bool) error {
	if len(n.seeds) == nearNamed || slices.ContainsFunc(n.seeds, func(s seed) bool { return s.num == num }) {
		return nil
	}
	at, err := n.reader.node(num)
	switch {
	case err != nil:
		return err
	case at != nil:
		n.seeds = append(n.seeds, seed{num, like})
	case n.reader.asOf == 0: // names lead to what is there
		return missing("named entity", num, entityKey(n.reader, n.reader.owner, num))
	}
	return nil
}

// like adds the entities whose names are like words of the text that begin and end with capital
// letters.
func (n *near) like(it kv.Iterator, text string, words []place) error {
	var wanted []spelling
	capital := func(w place) bool {
		first, _ := utf8.DecodeRuneInString(text[w.from:])
		return unicode.IsUpper(first)
	}
	for i := range words {
		for to := i; to < min(len(words), i+nearName) && capital(words[i]) && len(wanted) < nearWords; to++ {
			if name := fold(text[words[i].from:words[to].to]); capital(words[to]) && utf8.RuneCountInString(name) >= likeLetters {
				wanted = append(wanted, newSpelling(name))
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	read := 0
	for ok := it.First(); ok && read < likeNames; ok = it.Next() {
		name, num, ok := parseNameKey(it.Key())
		if !ok {
			return layout.BadKey("name", it.Key())
		}
		read++
		for i := range wanted {
			if s := &wanted[i]; abs(len(name)-len(s.name)) <= 2 && s.like(name) >= min(likeLeast, 1-1/float64(len(s.letters))) {
				if err := n.seed(num, true); err != nil {
					return err
				}
			}
		}
	}
	return it.Error()
}

func abs(n int) int { return max(n, -n) }

// place is where a word stands in a text.
type place struct{ from, to int }

// wordsOf are the first words of a text, without the punctuation around them and without 's.
func wordsOf(text string) (words []place) {
	at := 0
	for field := range strings.FieldsSeq(text) {
		if len(words) == nearWords {
			break
		}
		at += strings.Index(text[at:], field)
		from, to := at, at+len(field)
		at = to
		edge := func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '@' && r != '#' && r != '_'
		}
		from += len(field) - len(strings.TrimLeftFunc(field, edge))
		word := strings.TrimRightFunc(text[from:to], edge)
		word = strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "’s")
		if word != "" {
			words = append(words, place{from, from + len(word)})
		}
	}
	return words
}

// push makes the ranks of the entities near the seeds: each passes on a share of what has come
// to it, in equal shares, and keeps the rest. An entity waits until what has come is worth it.
// Relations count in both directions.
func (n *near) push() (map[uint32]float64, error) {
	ranks, residual := map[uint32]float64{}, map[uint32]float64{}
	var queue []uint32
	queued := map[uint32]bool{}
	for _, s := range n.seeds {
		residual[s.num] = 1 / float64(len(n.seeds))
		queue, queued[s.num] = append(queue, s.num), true
	}
	var err error
	for pushes := 0; len(queue) > 0 && pushes < nearPushes && err == nil; pushes++ {
		num := queue[0]
		queue = queue[1:]
		delete(queued, num)
		var around []uint32
		if around, err = n.aroundFew(num); err != nil {
			break
		}
		come := residual[num]
		delete(residual, num)
		if len(around) == 0 {
			ranks[num] += come
			continue
		}
		ranks[num] += (1 - nearDamping) * come
		share := nearDamping * come / float64(len(around))
		for _, to := range around {
			if residual[to] += share; !queued[to] && residual[to] >= nearLeast {
				queue, queued[to] = append(queue, to), true
			}
		}
	}
	for _, num := range slices.Sorted(maps.Keys(residual)) { // what waits stays where it is
		ranks[num] += residual[num]
	}
	return ranks, err
}

// aroundFew are the entities around one, none for one with very many relations.
func (n *near) aroundFew(num uint32) (all []uint32, err error) {
	for _, dir := range []Direction{Out, In} {
		edges, err := n.edges(num, dir, 0)
		if err == nil && len(edges) > nearDegree {
			return nil, n.read(nearDegree)
		}
		if err == nil {
			err = n.read(len(edges))
		}
		if err != nil {
			return nil, err
		}
		for _, e := range edges {
			_, there, err := n.is(e.other)
			if err != nil {
				return nil, err
			}
			if there && e.other != num {
				all = append(all, e.other)
			}
		}
	}
	return all, nil
}
