package analysis

import (
	"context"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// Language is a language whose words are stemmed. The zero Language stems English words and leaves all others as they
// are: what an analyzer does that knows no other language.
type Language uint8

// The languages besides English. Their numbers are in the keys of the cache alone, never on disk.
const (
	base Language = iota
	German
	French
	Spanish
	Italian
	Portuguese
	Dutch
	Danish
	Norwegian
	Swedish
	Finnish
	Hungarian
	Romanian
	Turkish
	Irish
	Polish
	Czech
	Russian
	Ukrainian
	Arabic
	Persian
	Urdu
	Hebrew
	Hindi
	Greek
	Tamil
	languageCount
)

// tongue is what is known of a language.
type tongue struct {
	code   string // ISO 639-1, which marks documents in the index
	name   string
	script writing
	stem   func(word string) string // of a word as normalizeIn and lower-casing leave it
}

// writing is a script whose words are stemmed.
type writing uint8

const (
	latinScript writing = iota
	cyrillicScript
	arabicScript
	hebrewScript
	devanagariScript
	greekScript
	tamilScript
	scriptCount
	noScript = scriptCount // words of it are left as they are
)

// tongues are the languages by number.
var tongues = [languageCount]tongue{
	base:       {"en", "English", latinScript, nil},
	German:     {"de", "German", latinScript, germanStem},
	French:     {"fr", "French", latinScript, frenchStem},
	Spanish:    {"es", "Spanish", latinScript, spanishStem},
	Italian:    {"it", "Italian", latinScript, italianStem},
	Portuguese: {"pt", "Portuguese", latinScript, portugueseStem},
	Dutch:      {"nl", "Dutch", latinScript, dutchStem},
	Danish:     {"da", "Danish", latinScript, danishStem},
	Norwegian:  {"no", "Norwegian", latinScript, norwegianStem},
	Swedish:    {"sv", "Swedish", latinScript, swedishStem},
	Finnish:    {"fi", "Finnish", latinScript, finnishStem},
	Hungarian:  {"hu", "Hungarian", latinScript, hungarianStem},
	Romanian:   {"ro", "Romanian", latinScript, romanianStem},
	Turkish:    {"tr", "Turkish", latinScript, turkishStem},
	Irish:      {"ga", "Irish", latinScript, irishStem},
	Polish:     {"pl", "Polish", latinScript, polishStem},
	Czech:      {"cs", "Czech", latinScript, czechStem},
	Russian:    {"ru", "Russian", cyrillicScript, russianStem},
	Ukrainian:  {"uk", "Ukrainian", cyrillicScript, ukrainianStem},
	Arabic:     {"ar", "Arabic", arabicScript, arabicStem},
	Persian:    {"fa", "Persian", arabicScript, persianStem},
	Urdu:       {"ur", "Urdu", arabicScript, urduStem},
	Hebrew:     {"he", "Hebrew", hebrewScript, hebrewStem},
	Hindi:      {"hi", "Hindi", devanagariScript, hindiStem},
	Greek:      {"el", "Greek", greekScript, greekStem},
	Tamil:      {"ta", "Tamil", tamilScript, tamilStem},
}

// Marked reports whether the documents in the language are marked with it: all but English.
func (l Language) Marked() bool { return l != base }

// String returns the English name of the language.
func (l Language) String() string { return tongues[l].name }

// Code returns the code of the language by ISO 639-1.
func (l Language) Code() string { return tongues[l].code }

// Languages is a set of languages besides English.
type Languages uint32

// All returns the languages of the set in their order, but Unsure.
func (s Languages) All() iter.Seq[Language] {
	return func(yield func(Language) bool) {
		for s &= 1<<languageCount - 1; s != 0; s &= s - 1 {
			if !yield(Language(bits.TrailingZeros32(uint32(s)))) {
				return
			}
		}
	}
}

// With returns the set with one language more.
func (s Languages) With(l Language) Languages { return s | 1<<l }

// String returns the codes of the languages, and "und" for Unsure.
func (s Languages) String() string {
	var codes []string
	for l := range s.All() {
		codes = append(codes, l.Code())
	}
	if s.Has(Unsure) {
		codes = append(codes, unsureCode)
	}
	return strings.Join(codes, " ")
}

// voices are the languages that a text is read in: for each script, that of its words. The zero voices read as an
// analyzer does that knows English alone.
type voices [scriptCount]Language

// set returns the languages of the voices besides English.
func (v *voices) set() (s Languages) {
	for _, l := range v {
		if l != base {
			s = s.With(l)
		}
	}
	return s
}

// of returns the language of a word, which is folded.
func (v *voices) of(word []byte) Language {
	if sc := scriptOfWord(word); sc != noScript {
		return v[sc]
	}
	return base
}

// rounds returns the voices in which a query is read so that each of its words is read in each of the languages: in
// the first round as by an analyzer of English, then in a language of each script.
func (s Languages) rounds() []voices {
	if s.Has(Unsure) {
		s |= latinLanguages
	}
	var by [scriptCount][]Language
	most := 0
	for l := range s.All() {
		sc := tongues[l].script
		by[sc] = append(by[sc], l)
		most = max(most, len(by[sc]))
	}
	rounds := make([]voices, 1+most)
	for sc, list := range by {
		for i, l := range list {
			rounds[1+i][sc] = l
		}
	}
	return rounds
}

// scriptOfWord returns the script of the first letter of a word.
func scriptOfWord[T string | []byte](word T) writing {
	if len(word) == 0 {
		return noScript
	}
	sc := scriptByLead[word[0]]
	if sc < scriptCount || word[0] != 0xe0 && word[0] != 0xe1 || len(word) < 2 {
		return sc
	}
	switch c := word[1]; {
	case word[0] == 0xe0 && (c == 0xa4 || c == 0xa5): // U+0900 to U+097F
		return devanagariScript
	case word[0] == 0xe0 && (c == 0xae || c == 0xaf): // U+0B80 to U+0BFF
		return tamilScript
	case word[0] == 0xe1 && 0xb8 <= c && c <= 0xbb: // U+1E00 to U+1EFF
		return latinScript
	}
	return noScript
}

// scriptByLead is the script of runes by their first byte in UTF-8, where that says it.
var scriptByLead = func() (t [256]writing) {
	for c := range 256 {
		switch {
		case isLetter(byte(c)), 0xc3 <= c && c <= 0xc9:
			t[c] = latinScript
		case 0xcd <= c && c <= 0xcf:
			t[c] = greekScript
		case 0xd0 <= c && c <= 0xd3:
			t[c] = cyrillicScript
		case c == 0xd6 || c == 0xd7:
			t[c] = hebrewScript
		case 0xd8 <= c && c <= 0xdb, c == 0xdd:
			t[c] = arabicScript
		default:
			t[c] = noScript
		}
	}
	return t
}()

// MarkPrefix begins the term that a document has of each of its languages. No text has such a term: its bytes are no
// letters. And no word of a query is near one.
const MarkPrefix = "\x01\x01\x01\x01"

// Readings returns the tokens of a text in each way in which a query of it is read: first as in English, then in the
// languages. It ends with the context.
func (a *Analyzer) Readings(ctx context.Context, text string, in Languages) ([][]Token, error) {
	var readings [][]Token
	for _, v := range in.rounds() {
		s := scanner{a: a, voices: v, meter: meter{ctx: ctx}}
		s.scan(text)
		if s.err != nil {
			return nil, s.err
		}
		readings = append(readings, s.tokens)
	}
	return readings, nil
}

// Mark returns the term by which the documents are found that were analysed in a language, or may be in any.
func (l Language) Mark() string {
	if l == Unsure {
		return MarkPrefix + unsureCode
	}
	return MarkPrefix + tongues[l].code
}

// MarkedLanguages returns all languages that documents are marked with, Unsure the last.
func MarkedLanguages() []Language {
	all := make([]Language, 0, languageCount)
	for l := base + 1; l < languageCount; l++ {
		all = append(all, l)
	}
	return append(all, Unsure)
}

// marks are the entries of the terms that mark documents.
var marks = func() (m [languageCount]*entry) {
	for l := range m {
		m[l] = &entry{term: Language(l).Mark()}
		m[l].settle()
	}
	return m
}()

// settle fills in what follows from the term.
func (e *entry) settle() {
	e.hash = xxh3.HashString(e.term)
	var b [8]byte
	copy(b[:], e.term)
	e.prefix = binary.BigEndian.Uint64(b[:])
}

// IsMark reports whether a term marks documents of a language, and is no word.
func IsMark(term string) bool { return strings.HasPrefix(term, MarkPrefix) }

// languageNamed returns the language of a code.
func languageNamed(code string) (Language, bool) {
	i := slices.IndexFunc(tongues[:], func(t tongue) bool { return t.code == code })
	return Language(max(i, 0)), i >= 0
}
