package query

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// Accept says whether a term is one that a Prefix or a Fuzzy word stands for, and how
// close it is: 0 is the word itself. The term is valid until it returns.
func (c *Clause) Accept(term []byte) (distance int, ok bool) {
	return c.accept(string(term))
}

func (c *Clause) accept(term string) (distance int, ok bool) {
	switch c.Kind {
	case Prefix:
		if len(c.Terms) > 0 && term == c.Terms[0] {
			return 0, true
		}
		return 1, strings.HasPrefix(term, c.Base)
	case Fuzzy:
		distance, ok = levenshtein(c.Base, term, c.Distance)
		if c.stem != "" && c.stem != c.Base && (!ok || distance > 0) {
			if d, near := levenshtein(c.stem, term, c.Distance); near && (!ok || d < distance) {
				return d, true
			}
		}
		return distance, ok
	}
	return 0, slices.Contains(c.Terms, term)
}

// levenshtein returns the number of letters by which two words differ, if it is at
// most limit.
func levenshtein(a, b string, limit int) (int, bool) {
	// A letter is one to four bytes, so that most words need no counting.
	if len(b)-len(a) > 4*limit || len(a)-len(b) > 4*limit {
		return 0, false
	}
	var roomA, roomB [analysis.MaxTermBytes]rune
	x, okA := letters(roomA[:0], a)
	y, okB := letters(roomB[:0], b)
	if !okA || !okB || len(x)-len(y) > limit || len(y)-len(x) > limit {
		return 0, false
	}
	// Only what is at most limit off the diagonal can end within it (Ukkonen, 1985).
	var row [analysis.MaxTermBytes + 1]int
	for j := range len(y) + 1 {
		row[j] = min(j, limit+1)
	}
	for i, r := range x {
		from, to := max(0, i-limit), min(len(y), i+limit+1)
		diagonal := row[from]
		row[from] = min(i-from, limit) + 1
		least := row[from]
		for j := from; j < to; j++ {
			cost := 1
			if r == y[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least > limit {
			return 0, false
		}
	}
	return row[len(y)], row[len(y)] <= limit
}

// letters appends the runes of a word, unless it is longer than any term.
func letters(dst []rune, word string) ([]rune, bool) {
	if len(word) > cap(dst) {
		return nil, false
	}
	for _, r := range word {
		dst = append(dst, r)
	}
	return dst, true
}

// holds says whether the second token is a part of the first.
func holds(whole, part *analysis.Token) bool {
	return whole.Start <= part.Start && part.End <= whole.End
}

// Span is the bytes text[Start:End].
type Span struct{ Start, End int }

// spanOf is the span from the first token to the last.
func spanOf(tokens []analysis.Token) Span {
	s := Span{tokens[0].Start, 0}
	for _, t := range tokens {
		s.End = max(s.End, t.End)
	}
	return s
}

// merge appends spans in order, as one where they overlap or touch.
func merge(dst, spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
	from := len(dst)
	for _, s := range spans {
		if last := len(dst) - 1; last >= from && s.Start <= dst[last].End {
			dst[last].End = max(dst[last].End, s.End)
			continue
		}
		dst = append(dst, s)
	}
	return dst
}
