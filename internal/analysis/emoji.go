package analysis

import (
	"strings"
	"unicode/utf8"
)

// isPictograph reports whether r begins an emoji.
func isPictograph(r rune) bool {
	switch {
	case r < 0x231a:
		return false
	case r <= 0x23ff, 0x2600 <= r && r <= 0x27bf, 0x2b05 <= r && r <= 0x2b55, 0x1f000 <= r && r <= 0x1faff:
		return true
	}
	return false
}

const zeroWidthJoiner = "\u200d"

// emoji emits an emoji without what varies its looks, and the parts of a joined one.
func (s *scanner) emoji(raw string, lo, hi int) {
	bare := strings.Map(func(r rune) rune {
		if 0x1f3fb <= r && r <= 0x1f3ff || r == 0xfe0e || r == 0xfe0f {
			return -1 // skin tones and variation selectors
		}
		return r
	}, raw)
	bare = strings.TrimSuffix(bare, zeroWidthJoiner)
	if bare == "" || !utf8.ValidString(bare) {
		return
	}
	s.pair(bare, "", lo, hi)
	if !strings.Contains(bare, zeroWidthJoiner) {
		return
	}
	for part := range strings.SplitSeq(bare, zeroWidthJoiner) {
		if s.err != nil {
			return
		}
		if r, _ := utf8.DecodeRuneInString(part); isPictograph(r) && r != '♀' && r != '♂' {
			s.pair(part, "", lo, hi)
		}
	}
}
