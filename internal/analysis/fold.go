package analysis

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// folder is stateless, and so safe to share.
var folder = cases.Fold()

// appendFolded appends text in the form that ignores case.
func appendFolded(dst []byte, text string) []byte {
	for i, r := range text {
		switch {
		case r < utf8.RuneSelf:
			dst = append(dst, lowered[r])
		case isSettled(r):
			dst = utf8.AppendRune(dst, r)
		default:
			return append(dst, folder.String(text[i:])...)
		}
	}
	return dst
}

// accented are the scripts whose marks are removed.
var accented = []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Arabic, unicode.Hebrew}

// spellings are letters without a decomposition that people also type in another way, variants of the punctuation
// that segmentation knows, and what only stretches a word.
var spellings = map[rune]string{
	'ø': "o", 'Ø': "O", 'ł': "l", 'Ł': "L", 'đ': "d", 'Đ': "D", 'ħ': "h", 'Ħ': "H", 'ı': "i",
	'æ': "ae", 'Æ': "AE", 'œ': "oe", 'Œ': "OE", 'ð': "d", 'Ð': "D", 'þ': "th", 'Þ': "TH",
	'\u2018': "'", '\u2019': "'", '\u02bc': "'", // apostrophes
	'\u2010': "-", // hyphen, and by decomposition the non-breaking one
	'\u0640': "",  // tatweel
}

// normalize returns text in the form in which words are compared, but for case: compatibility forms replaced, accents
// and invisible characters removed, digits in ASCII. ASCII comes back as it is.
func normalize(text string) string {
	var buf [4 * MaxTermBytes]byte
	b := buf[:0]
	changed := false
	for _, r := range text {
		form := ""
		switch {
		case r < utf8.RuneSelf || isSettled(r):
			b = utf8.AppendRune(b, r)
			continue
		case r < latinEnd:
			form = latin()[r]
		case r == '\u2019':
			form = "'"
		default:
			return normalizeAny(text)
		}
		b = append(b, form...)
		changed = true
	}
	if !changed {
		return text
	}
	return string(b)
}

// isSettled reports whether normalization and folding leave r as it is, whatever other settled runes stand beside it.
// The ranges are those that whole texts are written in: small Cyrillic letters, Kana, ideographs, Korean syllables.
func isSettled(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3041 <= r && r <= 0x3096 || 0x30a1 <= r && r <= 0x30fa || r == 0x30fc ||
		0xac00 <= r && r <= 0xd7a3 || 0x0430 <= r && r <= 0x044f
}

// latinEnd is where the blocks of precomposed Latin letters end, from Latin-1 to Latin Extended-B.
const latinEnd = 0x250

// latin tabulates normalizeAny for single runes below latinEnd. Marks come later, so that none of them changes what a
// rune before it becomes.
var latin = sync.OnceValue(func() *[latinEnd]string {
	var forms [latinEnd]string
	for r := range rune(latinEnd) {
		forms[r] = normalizeAny(string(r))
	}
	return &forms
})

// normalizeAny is normalize by the rules.
func normalizeAny(text string) string {
	var b strings.Builder
	bare := false // marks on the current letter are removed
	for _, r := range norm.NFKD.String(text) {
		spelling, respelled := spellings[r]
		switch {
		case respelled:
			b.WriteString(spelling)
			bare = true
		case unicode.Is(unicode.Mn, r):
			if !bare && !unicode.Is(unicode.Variation_Selector, r) {
				b.WriteRune(r)
			}
		case unicode.In(r, unicode.Me, unicode.Cf):
			// Enclosing marks, soft hyphens, joiners.
		case unicode.Is(unicode.Nd, r):
			b.WriteByte(asciiDigit(r))
		default:
			b.WriteRune(r)
			// The dots of the Cyrillic yo are optional, the breve of the short i is not.
			bare = r == '\u0435' || r == '\u0415' || unicode.In(r, accented...)
		}
	}
	return norm.NFC.String(b.String())
}

// asciiDigit returns the ASCII digit of the same value as r, a decimal digit. Unicode assigns these in runs from zero
// to nine, which the tables merge into ranges.
func asciiDigit(r rune) byte {
	for _, rg := range unicode.Nd.R16 {
		if rune(rg.Lo) <= r && r <= rune(rg.Hi) {
			return '0' + byte((r-rune(rg.Lo))%10)
		}
	}
	for _, rg := range unicode.Nd.R32 {
		if rune(rg.Lo) <= r && r <= rune(rg.Hi) {
			return '0' + byte((r-rune(rg.Lo))%10)
		}
	}
	return '0'
}

// Fold returns text in the form in which words are compared before they are stemmed: normalised, and without case.
func Fold(text string) string { return string(appendFolded(nil, normalize(text))) }
