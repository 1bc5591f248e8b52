package analysis

import (
	"unicode"
	"unicode/utf8"
)

// beginsWord reports whether a word may begin with r.
func beginsWord(r rune) bool {
	if r < utf8.RuneSelf {
		return isAlnum(byte(r))
	}
	return traitsOf(r)&letterOrNumber != 0
}

// continuesWord reports whether a word goes on with r: marks belong to the letter before them.
func continuesWord(r rune) bool {
	if r < utf8.RuneSelf {
		return isAlnum(byte(r))
	}
	return traitsOf(r)&(letterOrNumber|anyMark) != 0
}

// nextWord returns the first word in text[from:], as offsets in text. Without one, both are len(text).
func nextWord(text string, from int) (lo, hi int) {
	lo = wordStart(text, from)
	for hi = lo; hi < len(text); {
		if isAlnum(text[hi]) {
			hi++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[hi:])
		if !continuesWord(r) {
			break
		}
		hi += size
	}
	return lo, hi
}

// wordStart returns where the first word in text[from:] begins.
func wordStart(text string, from int) int {
	for from < len(text) && !isAlnum(text[from]) {
		r, size := utf8.DecodeRuneInString(text[from:])
		if beginsWord(r) {
			break
		}
		from += size
	}
	return from
}

// segmentWords emits the words of one segment.
func (s *scanner) segmentWords(g *segment) {
	text := g.text
	for lo, hi := nextWord(text, 0); lo < hi && s.err == nil; {
		next, end := nextWord(text, hi)
		if s.a.english && s.voices[latinScript] == base && hi+1 == next && text[hi] == '\'' {
			switch suffix := text[next:end]; {
			case isClitic(suffix):
				next, end = nextWord(text, end)
			case isNegation(text[lo:hi], suffix):
				s.negation(g, lo, hi)
				lo, hi = nextWord(text, end)
				continue
			}
		}
		s.word(g, lo, hi)
		lo, hi = next, end
	}
}

// isClitic reports whether an English word ends before 'suffix: Alice's, they'll, we're, I've, she'd, I'm.
func isClitic(suffix string) bool {
	var low [2]byte
	if len(suffix) > len(low) {
		return false
	}
	switch string(appendFolded(low[:0], suffix)) {
	case "s", "ll", "re", "ve", "d", "m":
		return true
	}
	return false
}

// isNegation reports whether word and suffix are such as don and t of don't.
func isNegation(word, suffix string) bool {
	return len(suffix) == 1 && lowered[suffix[0]] == 't' && lowered[word[len(word)-1]] == 'n'
}

// negation emits don't as dont, which is how it is typed in haste.
func (s *scanner) negation(g *segment, lo, hi int) {
	var buf [MaxTermBytes]byte
	word := append(appendFolded(buf[:0], g.text[lo:hi]), 't')
	from, to := g.span(lo, hi+len("'t"))
	s.emit(s.a.words.lookup(word, base), from, to)
}

// word emits the word text[lo:hi] of a segment, and its parts where it has any.
func (s *scanner) word(g *segment, lo, hi int) {
	if !s.spend((hi - lo) / bytesPerStep) {
		return
	}
	if hasHangul(g.text[lo:hi]) {
		s.hangulWord(g, lo, hi)
		return
	}
	s.term(g, lo, hi)
	var bounds [maxParts + 1]int
	parts := splitCase(bounds[:0], g.text[lo:hi])
	for i := 1; i < len(parts); i++ {
		from, to := lo+parts[i-1], lo+parts[i]
		if end := s.lettersFrom(g.text[lo:hi], parts, i-1); end > 0 {
			s.term(g, from, lo+end)
		}
		// One letter alone says nothing.
		if to-from > 1 || classes[g.text[from]] == digit {
			s.term(g, from, to)
		}
	}
}

// lettersFrom returns the end of the letters that begin with a part, if they have several parts and stand beside digits:
// of iPhone15 those of iPhone are a term, too. It is 0 where they are none.
func (s *scanner) lettersFrom(word string, parts []int, at int) int {
	isNumber := func(i int) bool {
		r, _ := utf8.DecodeRuneInString(word[parts[i]:])
		return unicode.IsNumber(r)
	}
	if s.a.rules == firstRules || isNumber(at) || at > 0 && !isNumber(at-1) {
		return 0
	}
	end := at + 1
	for end < len(parts)-1 && !isNumber(end) {
		end++
	}
	if end == at+1 || parts[end]-parts[at] == len(word) {
		return 0
	}
	return parts[end]
}

// term emits text[lo:hi] of a segment, folded and stemmed.
func (s *scanner) term(g *segment, lo, hi int) {
	var buf [MaxTermBytes]byte
	text := g.text[lo:hi]
	if s.voices[latinScript] == Turkish {
		text = turkishSmall().Replace(text)
	}
	word := s.fold(buf[:0], text)
	if !s.spend(1) {
		return
	}
	from, to := g.span(lo, hi)
	s.emit(s.a.words.lookup(word, s.voices.of(word)), from, to)
}

// isSimple reports whether a word is one that most words are like: small letters after the first one, or digits alone.
func isSimple(word string) bool {
	class := classes[word[0]]
	switch class {
	case digit:
	case upper, lower:
		class = lower
	default:
		return false
	}
	for i := 1; i < len(word); i++ {
		if classes[word[i]] != class {
			return false
		}
	}
	return true
}

// maxParts is how many parts a word may be split into by case and digits; a word with more is data, not a name.
const maxParts = 16

// splitCase appends to bounds where the parts of a word begin, and its end: before a capital that follows a small
// letter (get|User), before the last of several capitals (HTTP|Server), between letters and digits (gpt|4). A word
// without parts, or one that looks like data since most of its parts are single characters, yields nothing.
func splitCase(bounds []int, word string) []int {
	if len(word) > MaxTermBytes || isSimple(word) {
		return nil
	}
	var before, last rune // the two runes before r
	size := 0             // of last
	digits := false
	bounds = append(bounds, 0)
	for i, r := range word {
		at := 0
		switch {
		case i == 0 || unicode.Is(unicode.M, r):
		case unicode.IsNumber(r) != unicode.IsNumber(last):
			at, digits = i, true
		case unicode.IsUpper(r) && !unicode.IsUpper(last):
			at = i
		case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(before):
			at = i - size
		}
		if at > 0 {
			if len(bounds) == maxParts {
				return nil
			}
			bounds = append(bounds, at)
		}
		before, last, size = last, r, utf8.RuneLen(r)
	}
	parts := len(bounds)
	bounds = append(bounds, len(word))
	long := 0
	for i := range parts {
		if bounds[i+1]-bounds[i] > 1 {
			long++
		}
	}
	if parts == 1 || 2*long < parts && (parts != 2 || !digits) {
		return nil
	}
	return bounds
}
