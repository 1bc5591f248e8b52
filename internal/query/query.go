// Package query reads what people type into a search box: plain words, and a few
// signs that say more about them.
//
//	tea coffee        any of the words; more of them, and rarer ones, rank higher
//	+tea              documents with the word only
//	-tea  NOT tea     documents without the word only
//	tea AND milk      as +tea +milk
//	tea OR milk       as tea milk
//	"green tea"       documents with the words one after the other only
//	-"green tea"      documents without that only
//	choc*             words that begin so
//	tee~  tee~2       words that differ in one letter, or up to two
//
// Every text is a query: there is no error. A sign that makes no sense where it
// stands, such as a quote without its end, an operator without a word, or "-5", is
// read as the plain text it may be. Text without signs is ranked exactly as
// [analysis.Bag.AddQuery] takes it.
//
// The package knows words and texts, no index. What a query needs of one is in
// [Clause]; what only a text can tell is asked of a [Matcher].
package query

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// Limits. What is over them is not read as a sign, but as plain words, of which the
// first count, in ascending order.
const (
	// MaxTerms bounds the terms of a query, with what prefixes and fuzzy words
	// stand for.
	MaxTerms = 1024
	// MaxExpansions is how many words a prefix or a fuzzy word stands for at most.
	MaxExpansions = 64
	// maxSigned is the part of MaxTerms that words with signs may take.
	maxSigned = MaxTerms / 2
	// maxPhraseTokens is how many words of a phrase count. The index is asked for the
	// first maxPhraseTerms different ones, the text for all of them.
	maxPhraseTokens = 256
	maxPhraseTerms  = 32
	// minBase is how many letters a prefix or a fuzzy word has at least: fewer begin,
	// or resemble, most words.
	minBase = 2
	// MaxDistance is how many letters a fuzzy word may differ in.
	MaxDistance = 2
)

// Occur says what a clause asks of a document.
type Occur uint8

// What a clause may ask.
const (
	Should Occur = iota
	Must
	MustNot
)

// Kind says what a clause is.
type Kind uint8

// What a clause may be.
const (
	Word   Kind = iota
	Phrase      // never of a clause that Should
	Prefix
	Fuzzy
)

// Clause is a part of a query.
type Clause struct {
	Occur  Occur
	Kind   Kind
	Weight float64
	// Terms is the term of a Word, one for each language in which it has another; the terms
	// of a Phrase, each once; and the term that a Prefix or a Fuzzy word is itself, if it is
	// one.
	Terms []string
	// Readings: the terms of a Phrase are those of several languages, and a document has
	// the phrase in one of them.
	Readings bool
	// Base is what the terms of a Prefix begin with, and what those of a Fuzzy word
	// resemble.
	Base string
	// Distance is how many letters a Fuzzy word may differ in.
	Distance int

	tokens [][]string // of a Phrase, in order, in each language
	stem   string     // of a Fuzzy word
}

// Query is a text that was parsed.
type Query struct {
	Clauses  []Clause
	analyzer *analysis.Analyzer
}

// NeedsTexts says whether documents must be shown to Matches.
func (q *Query) NeedsTexts() bool {
	for i := range q.Clauses {
		if q.Clauses[i].Kind == Phrase {
			return true
		}
	}
	return false
}

// Parse reads a query. It runs in time linear in the text.
func Parse(a *analysis.Analyzer, text string) *Query {
	q, _ := ParseContext(context.Background(), a, text) // it never ends
	return q
}

// ParseContext is Parse, which ends with the context: only then is there an error.
func ParseContext(ctx context.Context, a *analysis.Analyzer, text string) (*Query, error) {
	return ParseIn(ctx, a, text, 0)
}

// ParseIn is ParseContext for texts in other languages as well, in each of which the
// words of the query are read; see [analysis.Bag.AddQueryIn].
func ParseIn(ctx context.Context, a *analysis.Analyzer, text string, in analysis.Languages) (*Query, error) {
	p := parser{ctx: ctx, analyzer: a, in: in, left: maxSigned}
	p.read(text)
	p.operators()
	for i := range p.items {
		if !p.goesOn(i) {
			break
		}
		p.take(&p.items[i])
	}
	p.plainWords(text)
	return &Query{Clauses: p.clauses, analyzer: a}, p.err
}

// Words reads a text without operators: all its words, as they are. It ends with the
// context: only then is there an error.
func Words(ctx context.Context, a *analysis.Analyzer, text string, in analysis.Languages) (*Query, error) {
	p := parser{ctx: ctx, analyzer: a, in: in, left: maxSigned}
	p.plainWords(text)
	return &Query{Clauses: p.clauses, analyzer: a}, p.err
}

// item is a field of the text, with what was said of it.
type item struct {
	text   string // of what the signs are about
	raw    string // with the signs
	occur  Occur
	quoted bool
	isOp   bool // AND, OR or NOT; whether it is one depends on its neighbours
}

type parser struct {
	ctx      context.Context
	err      error // its error
	analyzer *analysis.Analyzer
	in       analysis.Languages
	items    []item
	plain    []string // fields that are plain text
	signed   bool     // some field is not
	left     int      // terms that words with signs may still take
	clauses  []Clause
	tokens   []analysis.Token
	// No closing quote is left in the text.
	unclosed, unclosedCurly bool
}

// itemsPerLook is how many fields are read between looks at the context.
const itemsPerLook = 1 << 12

// goesOn reports whether the context allows to read the n-th field.
func (p *parser) goesOn(n int) bool {
	if n%itemsPerLook == 0 && p.err == nil {
		p.err = p.ctx.Err()
	}
	return p.err == nil
}

// analyse reads the tokens of a text, as in English.
func (p *parser) analyse(text string) {
	readings, err := p.analyzer.Readings(p.ctx, text, 0)
	if err != nil {
		p.tokens, p.err = nil, err
		return
	}
	p.tokens = readings[0]
}

// read takes the text apart into fields.
func (p *parser) read(text string) {
	for len(text) > 0 && p.goesOn(len(p.items)) {
		if isSpace(text[0]) {
			text = text[1:]
			continue
		}
		n := p.quoted(text)
		if n == 0 {
			n = strings.IndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf && isSpace(byte(r)) })
			if n < 0 {
				n = len(text)
			}
			p.field(text[:n])
		}
		text = text[n:]
	}
}

// isSpace is what separates words for the analyzer as well.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// sign cuts the sign off a field. It is one only before a letter or a quote: "-5" is
// a number.
func sign(text string) (Occur, string) {
	if len(text) < 2 || text[0] != '+' && text[0] != '-' {
		return Should, text
	}
	r, _ := utf8.DecodeRuneInString(text[1:])
	if !unicode.IsLetter(r) && r != '"' && r != '“' {
		return Should, text
	}
	if text[0] == '+' {
		return Must, text[1:]
	}
	return MustNot, text[1:]
}

// quoted takes a quotation at the beginning of the text, and returns its size; 0
// where there is none.
func (p *parser) quoted(text string) int {
	occur, rest := sign(text)
	open, end, unclosed := `"`, `"`, &p.unclosed
	if strings.HasPrefix(rest, "“") {
		open, end, unclosed = "“", "”", &p.unclosedCurly
	}
	inside, ok := strings.CutPrefix(rest, open)
	if !ok || *unclosed {
		return 0
	}
	n := strings.Index(inside, end)
	if n < 0 {
		*unclosed = true // and so are those that follow
		return 0
	}
	if occur == Should {
		occur = Must
	}
	size := len(text) - len(inside) + n + len(end)
	p.items = append(p.items, item{text: inside[:n], raw: text[:size], occur: occur, quoted: true})
	return size
}

// field takes a field that is no quotation.
func (p *parser) field(text string) {
	switch text {
	case "AND", "OR", "NOT":
		p.items = append(p.items, item{text: text, raw: text, isOp: true})
		return
	}
	occur, rest := sign(text)
	p.items = append(p.items, item{text: rest, raw: text, occur: occur})
}

// operators applies AND, OR and NOT to their neighbours. One without them is text.
func (p *parser) operators() {
	for i := range p.items {
		op := &p.items[i]
		if !op.isOp {
			continue
		}
		next := i + 1
		if op.text == "AND" && next < len(p.items) && p.items[next].isOp && p.items[next].text == "NOT" {
			next++ // a AND NOT b
		}
		if next >= len(p.items) || p.items[next].isOp || op.text != "NOT" && (i == 0 || p.items[i-1].isOp) {
			op.isOp = false
			continue
		}
		p.signed = true
		switch op.text {
		case "AND":
			p.items[i-1].demand()
			p.items[next].demand()
		case "NOT":
			p.items[next].occur = MustNot
		}
	}
}

// demand makes an item one that Must.
func (i *item) demand() {
	if i.occur == Should {
		i.occur = Must
	}
}

// take makes clauses of an item, or plain text.
func (p *parser) take(i *item) {
	switch {
	case i.isOp:
	case i.quoted:
		p.phrase(i)
	case p.expansion(i):
	case i.occur == Should:
		p.plain = append(p.plain, i.raw)
	default:
		p.word(i)
	}
}

// afford says whether so many more terms may be asked for.
func (p *parser) afford(n int) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	p.signed = true
	return true
}

// phrase takes a quotation, or a word of several terms.
func (p *parser) phrase(i *item) {
	p.analyse(i.text)
	if len(p.tokens) == 0 {
		p.signed = true // there is nothing to look for
		return
	}
	clauses := []Clause{p.reading(i, p.tokens)}
	for _, tokens := range p.readings(i.text) {
		if c := p.reading(i, tokens); len(c.Terms) > 0 {
			clauses = join(clauses, c)
		}
	}
	terms := 0
	for i := range clauses {
		terms += len(clauses[i].Terms)
	}
	if !p.afford(terms) {
		p.plain = append(p.plain, i.raw)
		return
	}
	p.clauses = append(p.clauses, clauses...)
}

// reading is a quotation, or a word of several terms, in one language.
func (p *parser) reading(i *item, tokens []analysis.Token) Clause {
	c := Clause{Occur: i.occur, Kind: Phrase, Weight: 1}
	var phrase []string
	for _, t := range tokens[:min(len(tokens), maxPhraseTokens)] {
		phrase = append(phrase, t.Term)
		if len(c.Terms) < maxPhraseTerms && !slices.Contains(c.Terms, t.Term) {
			c.Terms = append(c.Terms, t.Term)
		}
	}
	if len(phrase) == 1 {
		c.Kind = Word
		return c
	}
	c.tokens = [][]string{phrase}
	return c
}

// join adds the reading of a phrase in one more language to those that there are. A
// document must not have any of them, or must have one.
func join(clauses []Clause, c Clause) []Clause {
	first := &clauses[0]
	for i := range clauses {
		if slices.Equal(clauses[i].Terms, c.Terms) && slices.EqualFunc(clauses[i].tokens, c.tokens, slices.Equal) {
			return clauses
		}
	}
	if c.Occur == MustNot {
		return append(clauses, c)
	}
	if c.Kind == Word || first.Kind == Word {
		if c.Kind != first.Kind {
			return clauses // a word in one language, and several in another: the one that English has
		}
	} else {
		for _, tokens := range c.tokens {
			if !slices.ContainsFunc(first.tokens, func(t []string) bool { return slices.Equal(t, tokens) }) {
				first.tokens = append(first.tokens, tokens)
				first.Readings = true
			}
		}
	}
	for _, t := range c.Terms {
		if !slices.Contains(first.Terms, t) {
			first.Terms = append(first.Terms, t)
		}
	}
	return clauses
}

// readings are the tokens of a text in the languages besides English.
func (p *parser) readings(text string) [][]analysis.Token {
	if p.in == 0 || p.err != nil {
		return nil
	}
	readings, err := p.analyzer.Readings(p.ctx, text, p.in)
	if err != nil {
		p.err = err
		return nil
	}
	return readings[1:]
}

// others are the terms that a word is in the languages besides English.
func (p *parser) others(text, term string) []string {
	var terms []string
	for _, tokens := range p.readings(text) {
		if isWhole(tokens) && len(tokens) > 0 && tokens[0].Term != term && !slices.Contains(terms, tokens[0].Term) {
			terms = append(terms, tokens[0].Term)
		}
	}
	return terms
}

// word takes a word with a sign. One that is a term as a whole, such as src/auth.rs,
// is that; one that is only its parts, such as well-known, is a phrase of them.
func (p *parser) word(i *item) {
	p.analyse(i.text)
	tokens := p.tokens
	if !isWhole(tokens) {
		p.phrase(i)
		return
	}
	if len(tokens) == 0 {
		p.signed = true
		return
	}
	others := p.others(i.text, tokens[0].Term)
	if !p.afford(len(tokens) + len(others)) {
		p.plain = append(p.plain, i.raw)
		return
	}
	for n, t := range tokens {
		occur := i.occur
		if n > 0 { // a part
			if occur == MustNot {
				break
			}
			occur = Should
		}
		c := Clause{Occur: occur, Weight: 1, Terms: []string{t.Term}}
		if n == 0 {
			c.Terms = append(c.Terms, others...)
		}
		p.clauses = append(p.clauses, c)
	}
}

// isWhole says whether the first token spans all others: what they were made of is a
// term as a whole.
func isWhole(tokens []analysis.Token) bool {
	for _, t := range tokens {
		if t.Start < tokens[0].Start || t.End > tokens[0].End {
			return false
		}
	}
	return true
}

// inWholes are signs that make a term of the words that they join, so that one may
// begin with what is none itself: src/au and src/auth.rs.
const inWholes = `/\@.:#_`

// expansion takes a prefix or a fuzzy word, if the item is one.
func (p *parser) expansion(i *item) bool {
	c := Clause{Occur: i.occur, Weight: 1}
	base := ""
	for _, form := range [...]struct {
		suffix   string
		kind     Kind
		distance int
	}{{"*", Prefix, 0}, {"~", Fuzzy, 1}, {"~1", Fuzzy, 1}, {"~2", Fuzzy, MaxDistance}} {
		if rest, ok := strings.CutSuffix(i.text, form.suffix); ok {
			base, c.Kind, c.Distance = rest, form.kind, form.distance
			break
		}
	}
	first, _ := utf8.DecodeRuneInString(base)
	last, _ := utf8.DecodeLastRuneInString(base)
	if !isWordRune(first) || !isWordRune(last) || len(base) > analysis.MaxTermBytes {
		return false
	}
	c.Base = analysis.Fold(base)
	p.analyse(base)
	whole := isWhole(p.tokens)
	if !whole && (c.Kind != Prefix || !strings.ContainsAny(base, inWholes)) {
		i.text = base // "~2" is no word
		return false
	}
	if utf8.RuneCountInString(c.Base) < max(minBase, c.Distance+1) || len(c.Base) > analysis.MaxTermBytes || !p.afford(MaxExpansions) {
		return false
	}
	if whole && len(p.tokens) > 0 {
		c.Terms = []string{p.tokens[0].Term}
		c.stem = p.tokens[0].Term
	}
	p.clauses = append(p.clauses, c)
	return true
}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
}

// plainWords makes clauses of what has no signs.
func (p *parser) plainWords(text string) {
	if p.err != nil {
		return
	}
	if p.signed {
		text = strings.Join(p.plain, " ")
	}
	var bag analysis.Bag
	if p.err = bag.AddQueryIn(p.ctx, p.analyzer, text, 1, p.in); p.err != nil {
		return
	}
	terms, err := bag.First(p.ctx, MaxTerms-(maxSigned-p.left))
	if p.err = err; err != nil {
		return
	}
	for _, t := range terms {
		p.clauses = append(p.clauses, Clause{Weight: float64(t.Freq), Terms: []string{t.Term}})
	}
}
