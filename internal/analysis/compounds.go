package analysis

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// compounding are the languages that write words together.
var compounding = Languages(0).With(German).With(Dutch).With(Danish).With(Norwegian).With(Swedish).With(Finnish).With(Hungarian)

// Compounds reports whether a query is read in a language that writes words together, and counts it for as much as
// others.
func (r *Reading) Compounds() bool {
	for l := range compounding.All() {
		if r.In.Has(l) && r.weights[l] > unsureWeight {
			return true
		}
	}
	return false
}

// compoundFront stands before a word to see what becomes of it at the end of a compound: a stemmer takes more off a
// longer word. Rechnung keeps its end, and Stromrechnung does not.
const compoundFront = "haus"

// Ends are the forms that a term of a query has at the end of compounds in the languages of the query, where they are
// others than itself.
func (r *Reading) Ends(term string) (ends []string) {
	if !r.Compounds() && !r.In.Has(Unsure) {
		return nil
	}
	for l := range compounding.All() {
		if !r.In.Has(l) && !r.In.Has(Unsure) {
			continue
		}
		if end, ok := strings.CutPrefix(termIn(l, compoundFront+term), compoundFront); ok && end != term && !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	return ends
}

const (
	// mostJoined is how many terms of such pairs there are at most.
	mostJoined = 8
	// leastJoined is how many bytes each of the two has: less is seldom a word of a compound.
	leastJoined = 3
)

// Joined are the terms of neighbouring words of a query that are written as one in texts: of "smart watch" that of
// smartwatch. Words that questions are put with join no others.
func (a *Analyzer) Joined(text string, r *Reading) (terms []string) {
	text = text[:headOf(text)]
	from, to := 0, 0 // the word before, empty where it is no part
	for lo, hi := nextWord(text, 0); lo < hi && len(terms) < mostJoined; lo, hi = nextWord(text, hi) {
		if !a.joins(text[lo:hi]) {
			from, to = 0, 0
			continue
		}
		if from < to && text[to:lo] == " " {
			terms = a.appendJoined(terms, text[from:to]+text[lo:hi], r)
		}
		from, to = lo, hi
	}
	return terms
}

// joins reports whether a word may be a part of another.
func (a *Analyzer) joins(word string) bool {
	if len(word) < leastJoined || len(word) > maxCached || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return false
	}
	var buf [4 * maxCached]byte
	e := a.words.lookup(appendFolded(buf[:0], normalize(word)), base)
	return e.term != "" && !e.asking && e.votes == 0
}

// appendJoined appends the terms of a word in the languages of a query.
func (a *Analyzer) appendJoined(terms []string, word string, r *Reading) []string {
	if utf8.RuneCountInString(word) > maxCached {
		return terms
	}
	add := func(term string) {
		if term != "" && !slices.Contains(terms, term) {
			terms = append(terms, term)
		}
	}
	add(a.words.lookup([]byte(Fold(word)), base).term)
	for l := range (compounding & r.In).All() {
		add(termIn(l, lowerWord(word)))
	}
	return terms
}
