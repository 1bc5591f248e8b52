package analysis

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A note of one to three words has seldom a word that says its language. It is read in each of the languages that it
// may be in, and as in English. A query is read in some of them: see Asked.

const (
	// shortWords and shortBytes are what a short text has at most.
	shortWords = 3
	shortBytes = 128
	// fewLanguages is in how many languages a short text may be for it to be marked with each. One that may be in more is
	// marked with Unsure.
	fewLanguages = 3
)

// Unsure stands among Languages for all of those that are written in Latin letters, and marks documents that may be in
// any of them.
const Unsure Language = 31

// unsureCode is the code of Unsure: that of ISO 639 for what is not determined.
const unsureCode = "und"

// latinLanguages are those that Unsure stands for.
var latinLanguages = func() (s Languages) {
	for _, l := range allLatin {
		if l != base {
			s = s.With(l)
		}
	}
	return s
}()

// Has reports whether a language is in the set by itself.
func (s Languages) Has(l Language) bool { return s>>l&1 != 0 }

// readShort reads a short text in the languages that it may be in besides those that it was read in, and adds the terms
// that it has in these alone. They have no part in its length, and single letters, which are clitics, are left out.
func (s *scanner) readShort(from place) {
	in := s.unsure()
	if in == 0 {
		return
	}
	rounds := (in &^ s.voices.set()).rounds()[1:]
	if s.bag == nil {
		for _, v := range rounds {
			s.tokens = append(s.tokens, s.tokensAs(v)...)
		}
		s.tokens = append(s.tokens[:from.tokens], distinct(s.tokens[from.tokens:])...)
		return
	}
	s.bag.markShort(in)
	var round, own Bag
	own.readAs(s, s.voices)
	for _, v := range rounds {
		round.Reset()
		round.readAs(s, v)
		for _, c := range round.counts {
			if len(c.entry.term) > 1 && own.find(c.entry).freq == 0 {
				own.find(c.entry).freq = 1
				of := s.bag.find(c.entry)
				of.freq = addSaturating(of.freq, s.weight)
			}
		}
	}
}

// readAs adds the terms of a scanner's text in some voices, as far as the context allows.
func (b *Bag) readAs(s *scanner, v voices) {
	other := scanner{a: s.a, bag: b, weight: 1, voices: v, meter: s.meter, text: s.text}
	other.read(0, len(s.text))
	s.meter = other.meter
}

// tokensAs returns the tokens of the scanner's text in some voices, without single letters.
func (s *scanner) tokensAs(v voices) []Token {
	other := scanner{a: s.a, voices: v, meter: s.meter, text: s.text}
	other.read(0, len(s.text))
	s.meter = other.meter
	return slices.DeleteFunc(other.tokens, func(t Token) bool { return len(t.Term) == 1 })
}

// distinct sorts the tokens of several readings of a text, and leaves each once.
func distinct(tokens []Token) []Token {
	slices.SortStableFunc(tokens, func(x, y Token) int { return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End)) })
	kept := tokens[:0]
	for _, t := range tokens {
		same := func(k Token) bool { return k == t }
		from := len(kept)
		for from > 0 && kept[from-1].Start == t.Start {
			from--
		}
		if !slices.ContainsFunc(kept[from:], same) {
			kept = append(kept, t)
		}
	}
	return kept
}

// markShort adds the terms that mark a short text.
func (b *Bag) markShort(in Languages) {
	if in.Has(Unsure) {
		b.find(unsureMark).freq = 1
		b.languages = b.languages.With(Unsure)
	}
	for l := range in.marked().All() {
		b.mark(l)
	}
}

// unsureMark is the entry of the term that marks documents that may be in any language.
var unsureMark = func() *entry {
	e := &entry{term: Unsure.Mark()}
	e.settle()
	return e
}()

// marked are the languages of a short text that it is marked with each.
func (s Languages) marked() Languages {
	if s.Has(Unsure) {
		return s &^ (1<<Unsure | latinLanguages)
	}
	return s
}

// unsure returns the languages that a text may be in, of which it is in one: none where it is long, or says its
// language. Where these are more than fewLanguages, Unsure is among them.
func (s *scanner) unsure() (in Languages) {
	if len(s.text) > shortBytes || strings.ContainsAny(s.text, `/\@#_<>={}$|~^&*[]`) {
		return 0 // no prose
	}
	t := tally{seen: map[string]bool{}}
	for lo, hi := nextWord(s.text, 0); lo < hi; lo, hi = nextWord(s.text, hi) {
		if r, _ := utf8.DecodeRuneInString(s.text[lo:]); unicode.IsLetter(r) && scriptOfWord(s.text[lo:hi]) == noScript {
			return 0 // of another script
		}
	}
	t.count(s.text)
	for script, words := range t.words {
		switch {
		case words == 0:
		case words > shortWords || in != 0:
			return 0 // too long, or of two scripts
		case writing(script) == latinScript:
			in = t.maybe(allLatin)
		case writing(script) == cyrillicScript:
			in = t.maybe([]Language{Russian, Ukrainian})
		case writing(script) == arabicScript:
			in = t.maybe([]Language{Arabic, Persian, Urdu})
		}
	}
	if bits.OnesCount32(uint32(in)) > fewLanguages {
		in = in.With(Unsure)
	}
	return in
}

// maybe returns those of some languages that a short text may be in: all, if nothing speaks for one of them but words
// that are English as well, and none if it is English.
func (t *tally) maybe(languages []Language) (in Languages) {
	most := 0
	for _, l := range languages {
		if l != base {
			most = max(most, t.points[l])
		}
	}
	if languages[0] == base {
		if t.english > 0 && t.points[base] >= most {
			return 0
		}
		if !t.hint {
			most = 0
		}
	}
	for _, l := range languages {
		if l != base && 2*t.points[l] >= most {
			in = in.With(l)
		}
	}
	return in
}
