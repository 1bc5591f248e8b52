package analysis

import (
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// scanUnicode reads text[lo:hi] by the word boundaries of UAX #29.
func (s *scanner) scanUnicode(lo, hi int) {
	last := -1 // end of the last word segment of the chain
	for it := words.FromString(s.text[lo:hi]); it.Next(); {
		if !s.spend(1) {
			return
		}
		raw, from, to := it.Value(), lo+it.Start(), lo+it.End()
		r, _ := utf8.DecodeRuneInString(raw)
		kind := scriptOf(r)
		if kind != spaced {
			s.flushChain()
			last = -1
			s.spaceless(kind, raw, from, to)
			continue
		}
		s.flushRun()
		if isPictograph(r) {
			s.flushChain()
			last = -1
			s.emoji(raw, from, to)
			continue
		}
		if isPunctuation(r) {
			continue // the next word finds it in front
		}
		text := s.normalizeWord(raw)
		if wordStart(text, 0) == len(text) {
			continue
		}
		if s.detects && s.heard == 0 && beyondEnglish(raw) {
			s.heard = 1
		}
		g := segment{text: text, lo: from, hi: to, exact: text == raw}
		if last >= 0 {
			g.joiner = joinerOf(s.text[last:from])
		}
		s.segment(g)
		last = to
	}
	s.flushChain()
	s.flushRun()
}

// isPunctuation spares the commonest separators normalization. Marks may follow one, never a letter.
func isPunctuation(r rune) bool {
	return r < utf8.RuneSelf && !isSegmentByte(byte(r)) || 0x2010 <= r && r <= 0x205e || 0x3000 <= r && r <= 0x3002 || r == '\uff0c'
}

// joinerOf normalises what stands between two words, if it is short enough to join them.
func joinerOf(raw string) string {
	const longest = 3 * utf8.UTFMax
	if len(raw) > longest {
		return ""
	}
	return normalize(raw)
}

// script tells scripts written without spaces from the others.
type script int

const (
	spaced       script = iota
	eastern             // Chinese and Japanese
	southeastern        // Thai, Lao, Khmer, Burmese
)

func scriptOf(r rune) script {
	switch {
	case r < 0x0e00, 0x2000 <= r && r <= 0x206f, 0xff00 <= r && r <= 0xff20:
		return spaced
	case 0x4e00 <= r && r <= 0x9fff, 0x3041 <= r && r <= 0x3096, unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana), r == 'ー', r == '\uff70':
		return eastern
	case unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.Is(unicode.Nd, r) && !unicode.IsPunct(r):
		return southeastern
	}
	return spaced
}

// run is a stretch of text in a script without spaces. A cluster is a letter with its marks.
type run struct {
	kind   script
	last   string // the last cluster, normalised
	lo, hi int    // of the last cluster
	n      int    // clusters so far
	alone  bool   // the last cluster was emitted by itself
}

// spaceless takes a segment of such a script.
func (s *scanner) spaceless(kind script, raw string, lo, hi int) {
	if s.run.kind != kind || s.run.hi != lo {
		s.flushRun()
	}
	text := s.normalize(raw)
	if kind == southeastern {
		s.cluster(kind, text, lo, hi)
		return
	}
	// A segment of Katakana holds many characters.
	exact := text == raw
	for i, r := range text {
		if s.err != nil {
			return
		}
		end := i + utf8.RuneLen(r)
		from, to := lo, hi
		if exact {
			from, to = lo+i, lo+end
		}
		s.cluster(kind, text[i:end], from, to)
	}
}

// cluster takes the next cluster of a run and emits the pair it makes with the one before. An ideograph is a term by
// itself, too.
func (s *scanner) cluster(kind script, text string, lo, hi int) {
	r := &s.run
	if text == "" {
		return
	}
	text = s.simplify(text)
	if r.n > 0 {
		s.pair(r.last, text, r.lo, hi)
	}
	ideograph, _ := utf8.DecodeRuneInString(text)
	alone := unicode.Is(unicode.Han, ideograph)
	if alone {
		s.pair(text, "", lo, hi)
	}
	*r = run{kind: kind, last: text, lo: lo, hi: hi, n: r.n + 1, alone: alone}
}

// flushRun ends a run. A single cluster that is not yet a term becomes one.
func (s *scanner) flushRun() {
	r := &s.run
	if r.n == 1 && !r.alone {
		s.pair(r.last, "", r.lo, r.hi)
	}
	*r = run{}
}

// pair emits two clusters as a term.
func (s *scanner) pair(first, second string, lo, hi int) {
	var buf [MaxTermBytes]byte
	term := appendFolded(appendFolded(buf[:0], first), second)
	if !s.spend(1) {
		return
	}
	s.emit(s.a.words.lookup(term, base), lo, hi)
}

func hasHangul(word string) bool {
	const first = 0x1100
	for _, r := range word {
		if r >= first && unicode.Is(unicode.Hangul, r) {
			return true
		}
	}
	return false
}

// hangulWord emits a word with Korean syllables: they yield pairs, since particles follow a noun without a space, and
// the first of them is a term by itself. What stands between them (LG전자) are words.
func (s *scanner) hangulWord(g *segment, lo, hi int) {
	text := g.text
	for lo < hi && s.err == nil {
		r, size := utf8.DecodeRuneInString(text[lo:hi])
		if !unicode.Is(unicode.Hangul, r) {
			end := lo + size
			for end < hi {
				r, size := utf8.DecodeRuneInString(text[end:hi])
				if unicode.Is(unicode.Hangul, r) {
					break
				}
				end += size
			}
			s.word(g, lo, end)
			lo = end
			continue
		}
		from, to := g.span(lo, lo+size)
		s.pair(text[lo:lo+size], "", from, to)
		for lo += size; lo < hi && s.err == nil; lo += size {
			var next rune
			last := size
			next, size = utf8.DecodeRuneInString(text[lo:hi])
			if !unicode.Is(unicode.Hangul, next) {
				break
			}
			from, to := g.span(lo-last, lo+size)
			s.pair(text[lo-last:lo], text[lo:lo+size], from, to)
		}
	}
}
