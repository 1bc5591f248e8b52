package analysis

import (
	"iter"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// folder is stateless, and so safe to share.
var folder = cases.Fold()

// foldPiece is how many bytes of a long word are folded between looks at the context. The folding of a rune does not
// depend on those beside it, so that a word can be folded in pieces.
const foldPiece = 1 << 16

// appendFolded appends text in the form that ignores case.
func appendFolded(dst []byte, text string) []byte {
	for i, r := range text {
		switch {
		case r < utf8.RuneSelf:
			dst = append(dst, lowered[r])
		case isSettled(r):
			dst = utf8.AppendRune(dst, r)
		case r < latinEnd:
			dst = append(dst, latinFolds()[r]...)
		default:
			return append(dst, folder.String(text[i:])...)
		}
	}
	return dst
}

// fold is appendFolded of a word of any length, which it leaves half-way where the context ends.
func (s *scanner) fold(dst []byte, word string) []byte {
	for len(word) > foldPiece && s.spend(stepsPerLook) {
		end := foldPiece
		for !utf8.RuneStart(word[end]) && end < foldPiece+utf8.UTFMax {
			end++
		}
		dst, word = appendFolded(dst, word[:end]), word[end:]
	}
	if s.err != nil {
		return dst
	}
	return appendFolded(dst, word)
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

// latinFolds tabulates the folding of single runes below latinEnd.
var latinFolds = sync.OnceValue(func() *[latinEnd]string {
	var forms [latinEnd]string
	for r := range rune(latinEnd) {
		forms[r] = folder.String(string(r))
	}
	return &forms
})

// normalizeAny is normalize by the rules.
func normalizeAny(text string) string {
	var b bareText
	b.add(norm.NFKD.String(text))
	return norm.NFC.String(string(b.text))
}

const (
	// normalPiece is how many bytes of a segment are normalised between looks at the context.
	normalPiece = 1 << 12
	// longestMarks is how many bytes of marks in a row are normalised together: no letter of any language has so many.
	longestMarks = 1 << 16
)

// normalize is the function of that name for a segment of any length, which it leaves half-way where the context ends:
// U+FDFA unfolds to 18 letters, so that a text of 8 MiB can become 92.
func (s *scanner) normalize(text string) string {
	if len(text) <= normalPiece {
		return normalize(text)
	}
	var b bareText
	for piece := range s.pieces(text) {
		b.add(norm.NFKD.String(piece))
	}
	var composed strings.Builder
	for piece := range s.pieces(string(b.text)) {
		composed.WriteString(norm.NFC.String(piece))
	}
	return composed.String()
}

// pieces are parts of a text that are normalised as they are within it, until the context ends: what one begins with
// does not join what is before it, but in a row of marks of more than longestMarks.
func (s *scanner) pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 && s.spend(stepsPerLook) {
			end := min(normalPiece, len(text))
			for end < len(text) && (end < longestMarks || !utf8.RuneStart(text[end])) {
				if utf8.RuneStart(text[end]) && norm.NFKC.PropertiesString(text[end:]).BoundaryBefore() {
					break
				}
				end++
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// bareText is decomposed text without what people leave out when they type.
type bareText struct {
	text    []byte
	bare    bool // marks on the current letter are removed
	accents bool // those of Latin letters stay
}

func (b *bareText) add(decomposed string) {
	for _, r := range decomposed {
		switch t := traitsOf(r); {
		case b.accents && t&letterOrNumber != 0 && t&decimal == 0 && unicode.Is(unicode.Latin, r):
			b.text = utf8.AppendRune(b.text, r)
			b.bare = false
		case t&respelled != 0:
			b.text = append(b.text, spellings[r]...)
			b.bare = true
		case t&nonspacing != 0:
			if !b.bare && t&variation == 0 {
				b.text = utf8.AppendRune(b.text, r)
			}
		case t&invisible != 0:
		case t&decimal != 0:
			b.text = append(b.text, asciiDigit(r))
		default:
			b.text = utf8.AppendRune(b.text, r)
			b.bare = t&bares != 0
		}
	}
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

// normalizeWord is normalize for a segment with words, which keeps the accents of Latin letters where the text is read
// in a language that is stemmed by them.
func (s *scanner) normalizeWord(raw string) string {
	if s.voices[latinScript] == base {
		return s.normalize(raw)
	}
	settled, curly := true, false
	for _, r := range raw {
		curly = curly || r == '\u2019'
		settled = settled && (r < utf8.RuneSelf || isSettled(r) || isPlainAccented(r) || r == '\u2019')
	}
	switch {
	case settled && curly:
		return strings.ReplaceAll(raw, "\u2019", "'")
	case settled:
		return raw
	}
	if len(raw) > normalPiece {
		return s.normalize(raw) // no word
	}
	b := bareText{accents: true}
	b.add(norm.NFKD.String(raw))
	return norm.NFC.String(string(b.text))
}

// isPlainAccented reports whether r is a Latin letter of the languages of Europe in its usual form.
func isPlainAccented(r rune) bool {
	switch r {
	case 0xd7, 0xf7, 0x132, 0x133, 0x13f, 0x140, 0x149, 0x17f: // signs, ligatures and the long s
		return false
	}
	return 0xc0 <= r && r < 0x180 || 0x218 <= r && r <= 0x21b
}

// bare returns a segment's text without the accents that normalizeWord keeps.
func (s *scanner) bare(text string) string {
	if s.voices[latinScript] == base {
		return text
	}
	return normalize(text)
}

// turkishSmall are the capital letters whose small ones are others in Turkish.
var turkishSmall = replacer("I", "ı", "İ", "i", "I\u0307", "i")

// beyondEnglish reports whether a word has letters that make it worth while to ask for its language.
func beyondEnglish(word string) bool {
	for i := 0; i < len(word); {
		if word[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(word[i:])
		if 0x300 <= r && r < 0x370 { // an accent behind its letter
			return true
		}
		if traitsOf(r)&letterOrNumber != 0 && scriptOfWord(word[i:i+size]) != noScript {
			return true
		}
		i += size
	}
	return false
}

// Fold returns text in the form in which words are compared before they are stemmed: normalised, and without case.
func Fold(text string) string { return string(appendFolded(nil, normalize(text))) }
