package mcp

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lower is the text in lower case as String.prototype.toLowerCase has it: Unicode's full mapping without a language.
// It differs from strings.ToLower in two letters: İ becomes i with a dot above, and Σ at the end of a word ς.
func lower(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && casedBefore(s[:i]) && !casedAfter(s[i+len("Σ"):]):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// casedBefore reports whether the last character that is not case-ignorable is cased (Unicode, Final_Sigma in 3.13).
func casedBefore(s string) bool {
	s = strings.TrimRightFunc(s, caseIgnorable)
	r, _ := utf8.DecodeLastRuneInString(s)
	return cased(r)
}

// casedAfter reports whether the first character that is not case-ignorable is cased.
func casedAfter(s string) bool {
	s = strings.TrimLeftFunc(s, caseIgnorable)
	r, _ := utf8.DecodeRuneInString(s)
	return cased(r)
}

// cased is Unicode's property Cased.
func cased(r rune) bool {
	return unicode.In(r, unicode.Lower, unicode.Upper, unicode.Title, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// caseIgnorable is Unicode's property Case_Ignorable: marks, formats, modifiers, and the punctuation within words.
func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}
