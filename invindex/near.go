package invindex

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/near"
)

// The work of Near has bounds that do not grow with the index: beyond them it finds less.
const (
	// nearGrams bounds the grams of all words: eight words of eight letters.
	nearGrams = 64
	// nearChunks is in how many chunks it looks at most, the newest: four million documents.
	nearChunks = 64
	// nearPostings is how many terms it meets in lists of grams, over all chunks and words:
	// about 2,500 for a word in a chunk of English. It reads the lists of the rarest grams
	// first, and a term may have any gram whose list is not read.
	nearPostings = 1 << 16
	// nearShared is how many grams of the lists that are read a term has, though those that
	// are not read might be enough.
	nearShared = 2
	// nearLooks is how many terms it looks at, over all chunks and words, those with most
	// grams of the word first: about 30 for a word in a chunk.
	nearLooks = 1 << 11
)

// NearTerm is a term that Near has found.
type NearTerm struct {
	// Text is the term.
	Text     string
	Nearness float64 // to the nearest of the words, from 0 to 1
	Docs     uint32  // of those that were asked for: how many have it
}

// Near returns the terms near to any of the words that documents of in have: the nearest
// first, by hundredths, then those in most documents of in, then in ascending order; at most
// limit. What is not in in has no part in the answer.
//
// It finds them by their grams. A sealed chunk of a version without grams is read term by
// term.
func (x *Index) Near(ctx context.Context, s Snapshot, words []near.Word, in Docs, limit int) ([]NearTerm, error) {
	if limit < 0 || limit > MaxQueryTerms {
		return nil, fmt.Errorf("%w: %d near terms; at most %d are possible", ErrInvalid, limit, MaxQueryTerms)
	}
	sc := newScratch()
	defer sc.free()
	if sc.near == nil {
		sc.near = new(nearScratch)
	}
	n := nearSearch{sc: sc, words: firstWords(words), at: map[string]int{}}
	var views []view
	for v, err := range sc.views(ctx, x, &s, in) {
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	views = views[max(0, len(views)-nearChunks):]
	n.share(len(views))
	for i := range views {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := n.search(&views[i]); err != nil {
			sc.near = nil // its counts are not 0
			return nil, err
		}
	}
	return FirstNear(n.found, limit), nil
}

// firstWords are the words whose grams nearGrams allows; the first always.
func firstWords(words []near.Word) []near.Word {
	grams := 0
	for i := range words {
		if grams += len(words[i].Grams()); i > 0 && grams > nearGrams {
			return words[:i]
		}
	}
	return words
}

// nearSearch is one call of Near.
type nearSearch struct {
	sc       *scratch
	words    []near.Word
	postings int // that a word may meet in a chunk
	looks    int // that it may take
	found    []NearTerm
	at       map[string]int // where a term is in found, -1 for one that is not near
}

// nearScratch is what Near counts in.
type nearScratch struct {
	shared  [bankTerms]uint8 // by term of a bank, the grams of the word that it has; 0 between uses
	met     []posting        // terms of which that is not 0
	grams   []gramList
	numbers []uint32
	scored  []scoredTerm
	lists   []posting // of grams, where they are short
	decoded []posting
}

// gramList is the list of a gram that a word has, so many times.
type gramList struct {
	postingList
	times uint8
}

// scoredTerm is a term that may be near: spare is how many grams it has beyond those needed.
type scoredTerm struct {
	number uint32
	spare  int
}

// share gives each word in each of some chunks the same part of the work.
func (n *nearSearch) share(chunks int) {
	parts := max(1, chunks*len(n.words))
	n.postings, n.looks = nearPostings/parts, max(1, nearLooks/parts)
}

// Rank is the place of its nearness: terms of a lower one come first, however many documents have them.
func (t *NearTerm) Rank() int { return int((1 - t.Nearness) * 100) }

// FirstNear are the first of near terms, in the order in which Near returns them: at most limit. It sorts them.
func FirstNear(found []NearTerm, limit int) []NearTerm {
	found = slices.DeleteFunc(found, func(t NearTerm) bool { return t.Docs == 0 })
	slices.SortFunc(found, func(a, b NearTerm) int {
		return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), cmp.Compare(b.Docs, a.Docs), strings.Compare(a.Text, b.Text))
	})
	return found[:min(limit, len(found))]
}

// search adds what is near in a chunk.
func (n *nearSearch) search(v *view) error {
	sc := n.sc
	if v.docs != nil || v.visible != nil {
		v.mask(&sc.mask)
		if _, _, err := v.selected(sc); err != nil {
			return err
		}
	}
	if !v.hasGrams() {
		return n.searchAll(v)
	}
	t := sc.near
	t.numbers = t.numbers[:0]
	banks := (v.countTerms() + bankTerms - 1) / bankTerms
	for bank := range banks {
		for i := range n.words {
			unread, err := n.meet(v, &n.words[i], uint32(bank), n.postings/banks)
			if err != nil {
				return err
			}
			n.choose(&n.words[i], uint32(bank), unread, max(1, n.looks/banks))
		}
	}
	slices.Sort(t.numbers)
	t.numbers = slices.Compact(t.numbers)
	return v.termsAt(v.reader, t.numbers, &t.decoded, func(term []byte, open listOf) error {
		i := n.look(term)
		if i < 0 {
			return nil
		}
		l, err := open()
		if err == nil {
			n.found[i].Docs += v.countIn(&l, sc)
		}
		return err
	})
}

// searchAll is search by a look at every term.
func (n *nearSearch) searchAll(v *view) error {
	var has []int
	err := v.eachTerm(v.reader, "", func(term []byte, _ int) {
		if i := n.look(term); i >= 0 {
			has = append(has, i)
		}
	})
	for _, i := range has {
		if err != nil {
			return err
		}
		n.sc.decoded = n.sc.decoded[:0]
		var l postingList
		if l, err = v.list(ofTerms, n.found[i].Text, n.sc); err == nil {
			n.found[i].Docs += v.countIn(&l, n.sc)
		}
	}
	return err
}

// countIn counts the view's documents in a list, once selected has read them.
func (v *view) countIn(l *postingList, sc *scratch) uint32 {
	if !l.isPacked {
		l.below(v.limit)
	}
	if v.docs == nil && v.visible == nil {
		return uint32(l.count(v.limit))
	}
	return l.common(sc.slots, &sc.mask)
}

// meet counts, for each term of a bank, the grams that it shares with a word, rare grams
// first. It returns how many grams were too frequent to be read within most postings.
func (n *nearSearch) meet(v *view, w *near.Word, bank uint32, most int) (unread int, err error) {
	t := n.sc.near
	if err := t.open(v, w, bank); err != nil {
		return 0, err
	}
	for i := range t.grams {
		g := &t.grams[i]
		if most -= g.n; most < 0 && i > 0 {
			unread += int(g.times)
			continue
		}
		p := g.plain
		if g.isPacked {
			if t.decoded, err = g.appendTo(t.decoded[:0]); err != nil {
				return 0, err
			}
			p = t.decoded
		}
		for _, x := range p {
			shared := &t.shared[x>>16]
			if *shared == 0 {
				t.met = append(t.met, x)
			}
			*shared += g.times
		}
	}
	return unread, nil
}

// open opens the lists of a word's grams, the shortest first.
func (t *nearScratch) open(v *view, w *near.Word, bank uint32) error {
	t.grams, t.lists = t.grams[:0], t.lists[:0]
	grams := w.Grams()
	for i, gram := range grams {
		if slices.Contains(grams[:i], gram) {
			continue
		}
		times := uint8(0)
		for _, other := range grams[i:] {
			if other == gram {
				times++
			}
		}
		var room [gramKeyBytes]byte
		l, err := v.find(v.reader, ofGrams, string(gramKey(room[:0], bank, gram)), &t.lists)
		if err != nil {
			return err
		}
		if l.n > 0 {
			t.grams = append(t.grams, gramList{l, times})
		}
	}
	slices.SortFunc(t.grams, func(a, b gramList) int { return cmp.Compare(a.n, b.n) })
	return nil
}

// choose adds the terms met that may be near a word to the numbers, and forgets what was met.
func (n *nearSearch) choose(w *near.Word, bank uint32, unread, most int) {
	t := n.sc.near
	var needs [near.MaxLetters + 1]int
	for letters := range needs {
		needs[letters] = w.Needs(letters)
		needs[letters] = max(needs[letters]-unread, min(nearShared, needs[letters]))
	}
	t.scored = t.scored[:0]
	for _, x := range t.met {
		slot := x >> 16
		if spare := int(t.shared[slot]) - needs[x&near.MaxLetters]; spare >= 0 {
			t.scored = append(t.scored, scoredTerm{bank*bankTerms + slot, spare})
		}
		t.shared[slot] = 0
	}
	t.met = t.met[:0]
	if len(t.scored) > most {
		slices.SortFunc(t.scored, func(a, b scoredTerm) int {
			return cmp.Or(cmp.Compare(b.spare, a.spare), cmp.Compare(a.number, b.number))
		})
		t.scored = t.scored[:most]
	}
	for _, s := range t.scored {
		t.numbers = append(t.numbers, s.number)
	}
}

// look says where a term is among those found, -1 where it is not near.
func (n *nearSearch) look(term []byte) int {
	if i, known := n.at[string(term)]; known {
		return i
	}
	nearness := 0.0
	for i := range n.words {
		nearness = max(nearness, n.words[i].Nearness(term))
	}
	i := -1
	if nearness > 0 {
		i = len(n.found)
		n.found = append(n.found, NearTerm{Text: string(term), Nearness: nearness})
	}
	n.at[string(term)] = i
	return i
}
