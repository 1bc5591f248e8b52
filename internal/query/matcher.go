package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

const (
	// MaxSteps bounds what the phrases and fuzzy words of one query cost over all texts. A
	// step is a token of a text, 64 places of phrases that a token is compared with, or some
	// letters that are compared with a fuzzy word: a few nanoseconds. A phrase of two words
	// takes some 250 steps for a memory of 1 KB, so that 17 million of them stay below.
	MaxSteps = 1 << 32
	// stepsPerLook is how many steps are taken between looks at the context: some 100 µs.
	stepsPerLook = 1 << 14
	// maxKnown is of how many words a Matcher remembers whether a prefix or a fuzzy word
	// stands for them: those of most texts, in some MB.
	maxKnown = 1 << 16
)

// ErrSteps is returned where a query takes more than MaxSteps.
var ErrSteps = errors.New("query: too many steps")

// Matcher looks for a query in the texts of documents. It is made once for all of them,
// and not safe for concurrent use.
type Matcher struct {
	q       *Query
	tokens  []analysis.Token
	phrases []phrase
	wanted  int // clauses that must be found, each in one reading
	// words are the terms of clauses that are words; others are prefixes and fuzzy words,
	// and known what they stand for.
	words  map[string]bool
	others []*Clause
	known  map[string]bool

	left  int64 // steps
	until int64 // of left, where the context is looked at

	// The places of all phrases are bits, those of one from a whole number on, which owner
	// says for each number. A bit of reached says that the tokens before have the phrase up
	// to that place; so all phrases are looked for at once, 64 places a step (Shift-And;
	// Baeza-Yates and Gonnet, 1992).
	reached, next []uint64
	active, after []int32 // numbers that are not 0 in reached, in next
	owner         []int32
	places        map[string][]cell // where a term stands in phrases, in ascending order
	signs         uint64            // of the terms: see signOf
	dense         []uint64          // cells of a token, else zeros
}

// phrase is a phrase that some clauses ask for.
type phrase struct {
	must, mustNot bool
	wanted        []int // what it is a reading of: numbers of clauses that Must
	at, n         int   // its numbers
	last          uint64
}

// cell is what of a number is set.
type cell struct {
	at   int32
	bits uint64
}

// Matcher returns a Matcher for the query.
func (q *Query) Matcher() *Matcher {
	m := &Matcher{q: q, words: map[string]bool{}, known: map[string]bool{}, places: map[string][]cell{}, left: MaxSteps}
	m.until = m.left
	at := map[string]int{}
	for i := range q.Clauses {
		switch c := &q.Clauses[i]; {
		case c.Kind == Phrase:
			m.addClause(c, at)
		case c.Occur == MustNot:
		case c.Kind == Word:
			for _, t := range c.Terms {
				m.words[t] = true
			}
		default:
			m.others = append(m.others, c)
		}
	}
	m.reached, m.next, m.dense = make([]uint64, len(m.owner)), make([]uint64, len(m.owner)), make([]uint64, len(m.owner))
	return m
}

// addClause gives the readings of a phrase their places; at has those of phrases that came
// before.
func (m *Matcher) addClause(c *Clause, at map[string]int) {
	for _, tokens := range c.tokens {
		key := strings.Join(tokens, "\x00")
		n, known := at[key]
		if !known {
			n = len(m.phrases)
			at[key] = n
			m.add(tokens)
		}
		p := &m.phrases[n]
		p.must = p.must || c.Occur == Must
		p.mustNot = p.mustNot || c.Occur == MustNot
		if c.Occur == Must {
			p.wanted = append(p.wanted, m.wanted)
		}
	}
	if c.Occur == Must {
		m.wanted++
	}
}

// wordBits is how many places a number has.
const wordBits = 64

// add gives a phrase its places.
func (m *Matcher) add(tokens []string) {
	p := phrase{at: len(m.owner), n: (len(tokens) + wordBits - 1) / wordBits, last: 1 << ((len(tokens) - 1) % wordBits)}
	for range p.n {
		m.owner = append(m.owner, int32(len(m.phrases)))
	}
	for i, term := range tokens {
		at, bit := int32(p.at+i/wordBits), uint64(1)<<(i%wordBits)
		cells := m.places[term]
		if last := len(cells) - 1; last >= 0 && cells[last].at == at {
			cells[last].bits |= bit
			continue
		}
		m.places[term] = append(cells, cell{at, bit})
		m.signs |= signOf(term)
	}
	m.phrases = append(m.phrases, p)
}

// signOf is a bit that few terms share: most tokens are in no phrase, which it says sooner
// than a map.
func signOf(term string) uint64 {
	return 1 << ((uint(term[0]) + 7*uint(term[len(term)-1]) + 31*uint(len(term))) % wordBits)
}

// spend counts steps.
func (m *Matcher) spend(ctx context.Context, steps int) error {
	if m.left -= int64(steps); m.left >= m.until {
		return nil
	}
	if m.left < 0 {
		return fmt.Errorf("%w: the phrases and fuzzy words of one query may take %d over the texts", ErrSteps, int64(MaxSteps))
	}
	m.until = max(0, m.left-stepsPerLook)
	return ctx.Err()
}

// Matches reports whether the texts of a document have the phrases that they must have,
// each in one of the texts, and none that they must not have. Words that are no terms,
// such as the stop words, do not count: "state of the art" is in "state-art". It does not
// look at anything else that the query asks. It takes time linear in the texts, and ends
// with the context, or with ErrSteps.
func (m *Matcher) Matches(ctx context.Context, texts ...string) (bool, error) {
	found := make([]bool, m.wanted)
	missing, refused, no := m.wanted, false, false
	for i := range m.phrases {
		no = no || m.phrases[i].mustNot
	}
	for _, text := range texts {
		if missing == 0 && !no {
			break
		}
		if err := m.analyse(ctx, text); err != nil {
			return false, err
		}
		err := m.run(ctx, func(n, _ int) bool {
			p := &m.phrases[n]
			refused = refused || p.mustNot
			for _, clause := range p.wanted {
				if !found[clause] {
					found[clause] = true
					missing--
				}
			}
			return !refused && (missing > 0 || no)
		})
		if err != nil || refused {
			return false, err
		}
	}
	return missing == 0, nil
}

// analyse reads the tokens of a text.
func (m *Matcher) analyse(ctx context.Context, text string) (err error) {
	m.tokens, err = m.q.analyzer.TokensContext(ctx, m.tokens[:0], text)
	return err
}

// run calls found for the ends of phrases in the tokens, until it returns false: the phrase
// and the token after its end. Between two tokens of a phrase may stand wholes of which the
// next is a part: "see src" is in "see src/auth.rs".
func (m *Matcher) run(ctx context.Context, found func(n, end int) bool) error {
	m.forget()
	for i := range m.tokens {
		var cells []cell
		if term := m.tokens[i].Term; m.signs&signOf(term) != 0 {
			cells = m.places[term]
		}
		if err := m.spend(ctx, 1+len(cells)+len(m.active)); err != nil {
			return err
		}
		skip := len(m.active) > 0 && m.passes(i)
		switch {
		case len(cells) > 0:
			m.advance(cells, skip)
		case !skip:
			m.forget()
			continue
		}
		for _, at := range m.active {
			p := &m.phrases[m.owner[at]]
			if int(at) != p.at+p.n-1 || m.reached[at]&p.last == 0 {
				continue
			}
			m.reached[at] &^= p.last
			if !found(int(m.owner[at]), i+1) {
				return nil
			}
		}
	}
	return nil
}

// passes reports whether a phrase goes on behind a token that it does not have: one that
// holds the next.
func (m *Matcher) passes(i int) bool {
	return i+1 < len(m.tokens) && holds(&m.tokens[i], &m.tokens[i+1])
}

// forget has no phrase begun.
func (m *Matcher) forget() {
	for _, at := range m.active {
		m.reached[at] = 0
	}
	m.active = m.active[:0]
}

// advance takes a token that stands in phrases where its cells say. Where it may be passed
// over, phrases that go on with another token stay where they are.
func (m *Matcher) advance(cells []cell, skip bool) {
	m.after = m.after[:0]
	for _, c := range cells {
		bits := m.before(c.at) & c.bits
		if bits != 0 {
			m.next[c.at] = bits
			m.after = append(m.after, c.at)
		}
	}
	if skip {
		m.stay(cells)
	}
	for _, at := range m.active {
		m.reached[at] = 0
	}
	m.reached, m.next = m.next, m.reached
	m.active, m.after = m.after, m.active
}

// before are the places of a number that come next: the first of each phrase always does.
func (m *Matcher) before(at int32) uint64 {
	bits := m.reached[at] << 1
	if at == int32(m.phrases[m.owner[at]].at) {
		return bits | 1
	}
	return bits | m.reached[at-1]>>(wordBits-1)
}

// stay keeps the phrases whose next place is in none of the cells.
func (m *Matcher) stay(cells []cell) {
	for _, c := range cells {
		m.dense[c.at] = c.bits
	}
	for _, at := range m.active {
		expected := m.dense[at] >> 1
		if int(at)+1 < len(m.dense) {
			expected |= m.dense[at+1] << (wordBits - 1)
		}
		if bits := m.reached[at] &^ expected; bits != 0 {
			if m.next[at] == 0 {
				m.after = append(m.after, at)
			}
			m.next[at] |= bits
		}
	}
	for _, c := range cells {
		m.dense[c.at] = 0
	}
}

// began returns the first token, from one on, at which a phrase begins that ends before
// another: the way back from its end.
func (m *Matcher) began(n, from, end int) int {
	const most = maxPhraseTokens / wordBits
	p := &m.phrases[n]
	var ways, bits [most]uint64 // places from which the tokens that follow lead to the end
	ways[p.n-1] = p.last
	first := end
	for i := end - 1; i >= from && ways != [most]uint64{}; i-- {
		bits = [most]uint64{}
		cells := m.places[m.tokens[i].Term]
		at, _ := slices.BinarySearchFunc(cells, int32(p.at), func(c cell, at int32) int { return int(c.at - at) })
		for ; at < len(cells) && int(cells[at].at) < p.at+p.n; at++ {
			bits[int(cells[at].at)-p.at] = cells[at].bits
		}
		if ways[0]&bits[0]&1 != 0 {
			first = i
		}
		skip := i < end-1 && m.passes(i)
		for w := range ways {
			var above, expected uint64
			if w+1 < most {
				above, expected = ways[w+1]&bits[w+1], bits[w+1]
			}
			// In ascending order, so that what is above is still that of the token behind.
			taken := (ways[w]&bits[w])>>1 | above<<(wordBits-1)
			if skip {
				taken |= ways[w] &^ (bits[w]>>1 | expected<<(wordBits-1))
			}
			ways[w] = taken
		}
	}
	return first
}

// Spans appends to dst where a text has what the query looks for, in ascending order,
// none touching the next: words, what prefixes and fuzzy words stand for, and phrases as a
// whole. It does not say whether the document is a hit. It ends with the context, or with
// ErrSteps.
func (m *Matcher) Spans(ctx context.Context, dst []Span, text string) ([]Span, error) {
	if err := m.analyse(ctx, text); err != nil {
		return dst, err
	}
	var found []Span
	behind := make([]int, len(m.phrases)) // the last of each that was found
	err := m.run(ctx, func(n, end int) bool {
		p := &m.phrases[n]
		if !p.must {
			return true
		}
		found = append(found, spanOf(m.tokens[m.began(n, behind[n], end):end]))
		behind[n] = end
		clear(m.reached[p.at : p.at+p.n])
		return true
	})
	if err != nil {
		return dst, err
	}
	for _, t := range m.tokens {
		wanted, err := m.wants(ctx, t.Term)
		if err != nil {
			return dst, err
		}
		if wanted {
			found = append(found, Span{t.Start, t.End})
		}
	}
	return merge(dst, found), nil
}

// wants reports whether a term is one of those that the query looks for.
func (m *Matcher) wants(ctx context.Context, term string) (bool, error) {
	// A distance is computed with some 300 letters.
	const stepsEach = 64
	if err := m.spend(ctx, 1); err != nil || m.words[term] || len(m.others) == 0 {
		return err == nil && m.words[term], err
	}
	wanted, ok := m.known[term]
	if ok {
		return wanted, nil
	}
	for _, c := range m.others {
		if err := m.spend(ctx, stepsEach); err != nil {
			return false, err
		}
		if _, wanted = c.accept(term); wanted {
			break
		}
	}
	if len(m.known) == maxKnown {
		clear(m.known)
	}
	m.known[term] = wanted
	return wanted, nil
}

// Matches is that of a Matcher for one document, without a bound.
func (q *Query) Matches(texts ...string) bool {
	m := q.Matcher()
	m.left = math.MaxInt64
	ok, _ := m.Matches(context.Background(), texts...)
	return ok
}

// Spans is that of a Matcher for one text, without a bound.
func (q *Query) Spans(dst []Span, text string) []Span {
	m := q.Matcher()
	m.left = math.MaxInt64
	dst, _ = m.Spans(context.Background(), dst, text)
	return dst
}
