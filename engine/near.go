package engine

import (
	"context"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// Where no memory in scope has a word of a query, its words may be misspelt, in a form that
// the stemmer does not know, or parts of words that are written together. So the words of
// the memories in scope are asked for those near them: alike in their letters, or one the
// beginning or the end of the other.

const (
	// nearWords is how many words of a query are looked for so, the first ones.
	nearWords = 8
	// nearLetters is how many letters a word has at least that is near another: shorter ones
	// are near too many.
	nearLetters = 4
	// nearAlike is how many of their trigrams two words share at least, by Dice's coefficient.
	nearAlike = .5
	// nearPart is how near a word is to one that begins or ends with it.
	nearPart = .6
)

// rankNear is rank where nothing has a word of the query: by the words near its own. It
// reads the dictionary of the chunks that the scope has documents in.
func (r *recalling) rankNear(ctx context.Context) ([]scored, error) {
	if !r.asksNear() {
		return nil, nil
	}
	var words []nearWord
	for _, t := range r.terms {
		if w, ok := newNearWord(t.Text); ok && len(words) < nearWords {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return nil, nil
	}
	most := func(term []byte) (nearness float64) {
		for i := range words {
			nearness = max(nearness, words[i].near(term))
		}
		return nearness
	}
	in := invindex.Docs{Set: r.set}
	terms, err := r.tx.index.Expand(ctx, r.tx.postings, "", func(term []byte) (rank int, ok bool) {
		nearness := most(term)
		return int((1 - nearness) * 100), nearness > 0
	}, in, query.MaxExpansions)
	if err != nil {
		return nil, textError(doingRecall, err)
	}
	r.stage("near words")
	if len(terms) == 0 {
		return nil, nil
	}
	if r.stats, err = r.tx.index.Stats(ctx, r.tx.postings, terms, in); err != nil {
		return nil, textError(doingRecall, err)
	}
	r.terms = r.terms[:0]
	for _, t := range terms {
		r.terms = append(r.terms, invindex.QueryTerm{Text: t, Weight: most([]byte(t))})
	}
	r.words = len(r.terms)
	r.plan.Near = terms
	return r.rank(ctx)
}

// asksNear reports whether the query is one of words alone, none of which is in scope.
func (r *recalling) asksNear() bool {
	if r.q.OnlyWords || r.q.Text == "" || r.q.Embedding != nil || r.q.Syntax == SyntaxOperators || r.set.IsEmpty() {
		return false
	}
	switch r.q.Profile {
	case ProfileVector, ProfileHybrid: // they have ranked by vectors of the same letters
		return false
	}
	return !slices.ContainsFunc(r.stats.DF, func(df uint32) bool { return df > 0 })
}

// nearWord is a word of a query.
type nearWord struct {
	text    string
	letters int
	grams   []uint64
}

// maxGrams is how many trigrams a word may have: as many as a number has bits.
const maxGrams = 64

// newNearWord takes a term of letters: names with digits or signs in them are that or
// another one, and not near.
func newNearWord(term string) (w nearWord, ok bool) {
	letters := utf8.RuneCountInString(term)
	if letters < nearLetters || letters+1 > maxGrams || !isLetters(term) {
		return w, false
	}
	w = nearWord{text: term, letters: letters}
	eachGram([]byte(term), func(g uint64) { w.grams = append(w.grams, g) })
	return w, true
}

func isLetters(term string) bool {
	return !strings.ContainsFunc(term, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) })
}

// eachGram calls visit for the runs of three letters of a word, one of which may be before
// or behind it.
func eachGram(word []byte, visit func(gram uint64)) {
	const letterBits, mask = 21, 1<<63 - 1
	gram := uint64(0)
	n := 0
	for len(word) > 0 {
		r, size := utf8.DecodeRune(word)
		word = word[size:]
		gram = (gram<<letterBits | uint64(r)) & mask
		if n++; n > 1 {
			visit(gram)
		}
	}
	visit(gram << letterBits & mask)
}

// near says how near a term is, from 0 to 1; 0 is not at all.
func (w *nearWord) near(term []byte) float64 {
	letters := utf8.RuneCount(term)
	if letters < nearLetters || letters+1 > maxGrams || analysis.IsMark(string(term)) {
		return 0
	}
	if string(term) == w.text {
		return 1
	}
	nearness := 0.0
	if alike := w.alike(term, letters); alike >= nearAlike {
		nearness = alike
	}
	long, short := w.text, string(term)
	if letters > w.letters {
		long, short = short, long
	}
	if letters != w.letters && (strings.HasPrefix(long, short) || strings.HasSuffix(long, short)) {
		nearness = max(nearness, nearPart)
	}
	if nearness == 0 || !isLetters(string(term)) {
		return 0
	}
	return nearness
}

// alike is Dice's coefficient of the trigrams of two words.
func (w *nearWord) alike(term []byte, letters int) float64 {
	all := float64(w.letters + letters)
	if 2*float64(min(w.letters, letters)) < nearAlike*all {
		return 0
	}
	used := uint64(0)
	eachGram(term, func(g uint64) {
		for i, own := range w.grams {
			if own == g && used>>i&1 == 0 {
				used |= 1 << i
				return
			}
		}
	})
	return 2 * float64(bits.OnesCount64(used)) / all
}
