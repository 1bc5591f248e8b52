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
	var row [analysis.MaxTermBytes + 1]int
	for j := range len(y) + 1 {
		row[j] = j
	}
	for i, r := range x {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j, s := range y {
			cost := 1
			if r == s {
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

// Matches says whether the texts of a document have the phrases that they must have,
// each in one of the texts, and none that they must not have. Words that are no terms,
// such as the stop words, do not count: "state of the art" is in "state-art". It
// does not look at anything else that the query asks.
func (q *Query) Matches(texts ...string) bool {
	missing := make([]bool, len(q.Clauses))
	for i := range q.Clauses {
		missing[i] = q.Clauses[i].Kind == Phrase && q.Clauses[i].Occur == Must
	}
	var tokens []analysis.Token
	for _, text := range texts {
		tokens = q.analyzer.Tokens(tokens[:0], text)
		for i := range q.Clauses {
			c := &q.Clauses[i]
			if c.Kind != Phrase || c.Occur == Must && !missing[i] {
				continue
			}
			if _, _, ok := c.next(tokens, 0); ok {
				if c.Occur == MustNot {
					return false
				}
				missing[i] = false
			}
		}
	}
	return !slices.Contains(missing, true)
}

// next finds the phrase in tokens from a place on: it begins with the token at from
// and ends with the one before to.
func (c *Clause) next(tokens []analysis.Token, at int) (from, to int, ok bool) {
	for ; at < len(tokens); at++ {
		if tokens[at].Term != c.tokens[0] {
			continue
		}
		if to, ok := c.ends(tokens, at); ok {
			return at, to, true
		}
	}
	return 0, 0, false
}

// ends says whether the phrase begins with the token at from, and after which it ends.
// Between two of its tokens may stand wholes of which the next is a part: "see src"
// is in "see src/auth.rs".
func (c *Clause) ends(tokens []analysis.Token, from int) (int, bool) {
	at := from
	for _, term := range c.tokens {
		for at < len(tokens) && tokens[at].Term != term {
			if at == from || at+1 == len(tokens) || !holds(&tokens[at], &tokens[at+1]) {
				return 0, false
			}
			at++
		}
		if at == len(tokens) {
			return 0, false
		}
		at++
	}
	return at, true
}

// holds says whether the second token is a part of the first.
func holds(whole, part *analysis.Token) bool {
	return whole.Start <= part.Start && part.End <= whole.End
}

// Span is the bytes text[Start:End].
type Span struct{ Start, End int }

// Spans appends to dst where a text has what the query looks for, in ascending order,
// none touching the next: words, what prefixes and fuzzy words stand for, and phrases as a
// whole. It does not say whether the document is a hit.
func (q *Query) Spans(dst []Span, text string) []Span {
	var found []Span
	tokens := q.analyzer.Tokens(nil, text)
	words := map[string]bool{}
	var others []*Clause
	for i := range q.Clauses {
		switch c := &q.Clauses[i]; {
		case c.Occur == MustNot:
		case c.Kind == Word:
			words[c.Terms[0]] = true
		case c.Kind == Phrase:
			for from, to, ok := c.next(tokens, 0); ok; from, to, ok = c.next(tokens, to) {
				found = append(found, spanOf(tokens[from:to]))
			}
		default:
			others = append(others, c)
		}
	}
	for _, t := range tokens {
		wanted := words[t.Term]
		for _, c := range others {
			if wanted {
				break
			}
			_, wanted = c.accept(t.Term)
		}
		if wanted {
			found = append(found, Span{t.Start, t.End})
		}
	}
	return merge(dst, found)
}

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
