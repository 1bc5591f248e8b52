package analysis

import "strings"

// segment is a stretch of word characters between two word boundaries.
type segment struct {
	text   string // normalised, case kept
	joiner string // normalised; what stood between the segment before and this one
	lo, hi int    // in the input
	exact  bool   // text is the input's own bytes
}

// span returns where text[lo:hi] of the segment lies in the input.
func (g *segment) span(lo, hi int) (int, int) {
	if !g.exact {
		return g.lo, g.hi
	}
	return g.lo + lo, g.lo + hi
}

// chain is an identifier in the making: segments with single joiners between them, such as those of `src/auth.rs`,
// `alice@example.com` or `well-known`.
type chain struct {
	segments [maxChain]segment
	n        int
}

// joins reports whether a joiner holds two segments together. A double hyphen or an ellipsis is punctuation.
func joins(joiner string) bool {
	switch joiner {
	case "-", "/", "\\", "@", ".", ":", "#", "::", "://", ":\\":
		return true
	}
	return false
}

// segment takes the next segment of a chunk, and reports whether the scan goes on.
func (s *scanner) segment(g segment) bool {
	c := &s.chain
	if c.n > 0 && (c.n == maxChain || !joins(g.joiner)) {
		s.flushChain()
	}
	if text, ok := acronym(g.text); ok {
		g.text, g.exact = text, false
	} else if text, ok := ungroup(g.text); ok {
		g.text, g.exact = text, false
	}
	c.segments[c.n] = g
	c.n++
	return s.spend(1 + len(g.text)/bytesPerStep)
}

// flushChain emits the tokens of the chain: the whole, then each segment and its words.
func (s *scanner) flushChain() {
	segments := s.chain.segments[:s.chain.n]
	s.chain.n = 0
	if len(segments) > 1 && isIdentifier(segments) {
		s.whole(segments, "")
	}
	for i := range segments {
		g := &segments[i]
		if isIdentifier(segments[i : i+1]) {
			s.whole(segments[i:i+1], "")
		}
		if len(segments) == 1 && len(g.text) == 1 && isLetter(g.text[0]) {
			if suffix := sigil(s.text[g.hi:]); suffix != "" {
				s.whole(segments, suffix)
			}
		}
		s.segmentWords(g)
	}
}

// isIdentifier reports whether segments are also a term as a whole. Parts that are joined by hyphens, one slash,
// apostrophes or commas alone are prose or lists, unless digits stand among them (gpt-4, 2024-05-01).
func isIdentifier(segments []segment) bool {
	words, slashes := 0, 0
	strong, digits := false, false
	for i := range segments {
		g := &segments[i]
		if len(g.text) > maxWholeBytes {
			return false // and see whole
		}
		switch {
		case i == 0 || g.joiner == "-":
		case g.joiner == "/":
			slashes++
		default:
			strong = true
		}
		shape := shapeOf(g.text)
		words += shape.words
		strong = strong || shape.strong
		digits = digits || shape.digits
	}
	return words > 1 && (strong || slashes > 1 || digits && len(segments) > 1)
}

// shape is what isIdentifier wants to know of a segment.
type shape struct {
	words  int
	strong bool // words are joined by more than an apostrophe, comma or semicolon
	digits bool
}

func shapeOf(text string) shape {
	var s shape
	for lo, hi := nextWord(text, 0); lo < hi; {
		s.words++
		for _, c := range []byte(text[lo:hi]) {
			s.digits = s.digits || classes[c] == digit
		}
		from := hi
		lo, hi = nextWord(text, hi)
		if lo < hi {
			c := text[from]
			s.strong = s.strong || c != '\'' && c != ',' && c != ';'
		}
	}
	return s
}

// whole emits segments with what joins them, and a suffix, as one term.
func (s *scanner) whole(segments []segment, suffix string) {
	var buf [maxWholeBytes]byte
	whole := buf[:0]
	for i := range segments {
		g := &segments[i]
		if i > 0 {
			whole = append(whole, g.joiner...)
		}
		if len(whole)+len(g.text) > maxWholeBytes {
			return
		}
		whole = appendFolded(whole, s.bare(g.text))
	}
	if len(whole)+len(suffix) > maxWholeBytes {
		return
	}
	whole = append(whole, suffix...)
	s.emit(s.a.words.lookup(whole, base), segments[0].lo, segments[len(segments)-1].hi+len(suffix))
}

// sigil returns the signs at the start of text that make a name of the single letter before them: C++, C#, F#.
func sigil(text string) string {
	for _, signs := range [...]string{"++", "#"} {
		n := len(signs)
		if len(text) >= n && text[:n] == signs && (len(text) == n || !isSegmentByte(text[n]) && classes[text[n]] != beyond) {
			return signs
		}
	}
	return ""
}

// acronym takes the periods out of single letters: U.S.A is USA, e.g is eg.
func acronym(text string) (string, bool) {
	if len(text) < 3 || len(text)%2 == 0 {
		return "", false
	}
	for i := range len(text) {
		if i%2 == 0 && !isLetter(text[i]) || i%2 == 1 && text[i] != '.' {
			return "", false
		}
	}
	letters := make([]byte, 0, (len(text)+1)/2)
	for i := 0; i < len(text); i += 2 {
		letters = append(letters, text[i])
	}
	return string(letters), true
}

// ungroup takes the commas out of a number with grouped thousands: 10,000.50 is 10000.50.
func ungroup(text string) (string, bool) {
	if strings.IndexByte(text, ',') < 0 {
		return "", false
	}
	number := make([]byte, 0, MaxTermBytes)
	group, commas := 0, 0 // digits since the start or the last comma
	for i := range len(text) {
		switch c := text[i]; {
		case classes[c] == digit:
			number = append(number, c)
			group++
		case c == ',' && (commas == 0 && group <= 3 || group == 3):
			commas++
			group = 0
		case c == '.' && commas > 0 && group == 3:
			// The fraction has no groups.
			for _, c := range []byte(text[i+1:]) {
				if classes[c] != digit {
					return "", false
				}
			}
			return string(number) + text[i:], true
		default:
			return "", false
		}
	}
	return string(number), commas > 0 && group == 3
}
