// Package analysis turns text into the terms that the text index stores and looks up.
//
// One analyzer serves documents and queries, so a text always finds itself. What it does, in order:
//
//   - Segmentation by Unicode's word boundaries (UAX #29). A run of ASCII takes a table-driven path that yields the
//     same tokens; a test holds the two to each other.
//   - Normalisation: compatibility composition (NFKC), case folding, and the removal of accents from Latin, Greek,
//     Arabic and Hebrew letters, where people leave them out when they type. Marks of other scripts stay, because
//     there they tell words apart. Digits of every script become ASCII digits.
//   - English: 33 stop words are dropped, clitics go ("Alice's" is Alice, "they'll" is they), irregular forms become
//     their words ("bought" is buy), and words of letters are stemmed (Snowball English). With Language "none" nothing
//     of this happens. Queries do without the words that questions are put with; see Bag.AddQuery.
//   - Other languages, with Language "auto": each text is read in one language for each script of it, which its
//     script, function words and letters say; see detect. Its words are stemmed in that language, by Snowball or by a
//     light stemmer, from the word with its accents, and lose the accents after. A text that does not say its language
//     is read as English; one of one to three words in each language that it may be in. A document bears a mark of each
//     of its languages, so that a query can be read in those of its scope; see Analyzer.Asked and Bag.AddQueryIn.
//   - Identifiers yield the whole and its parts: `src/auth.rs` is found by itself, by "auth.rs", by "auth" and by
//     "rs"; `getUserID` by itself and by "user". Prose joined by hyphens or one slash ("well-known", "and/or")
//     yields its parts alone, so that the length of plain prose, and with it BM25, stays what it was.
//   - Scripts written without spaces yield overlapping pairs: Chinese and Japanese by character, Thai, Lao, Khmer and
//     Burmese by cluster, Korean by syllable within a word. Ideographs, and the first syllable of a Korean word,
//     are terms by themselves too, so that words of one character are found. Traditional ideographs are their
//     simplified forms.
//   - Numbers in groups ("555-867-5309") yield the whole of their digits as well.
//   - Emoji are terms, without skin tones; a joined sequence yields the whole and its parts.
//
// The package is pure: any bytes are valid input, invalid UTF-8 separates words, nothing panics, and the same
// configuration gives the same terms on every platform.
package analysis

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"
)

// Limits of the analyzer. Changing one changes terms: it takes another version of the rules.
const (
	// MaxTermBytes is the longest term. A longer word keeps its first bytes, up to a rune's end, and ends in "~" and
	// the hash of the whole word in hexadecimal, so that two long words stay two terms.
	MaxTermBytes = 64
	// maxChain is how many segments one identifier may have; what follows begins another one. It bounds the memory
	// that a scan needs: longer chains are data (base64, hex dumps), not names.
	maxChain = 32
	// maxWholeBytes is the longest identifier that is also a term as a whole; of longer ones only the parts are.
	maxWholeBytes = 256
)

// The versions of the rules, which are part of the fingerprint. An index that was made by the first ones is read by
// them until it is made anew: with every change of the rules comes a version, beside those that indexes on disks have.
const (
	firstRules = 1
	// newestRules have one term for the irregular forms of English words, for numbers whose groups are set apart, and
	// for simplified and traditional ideographs; more forms of Arabic plurals; and more readings of texts that are too
	// short to say their language.
	newestRules = 2
)

// Config chooses an analyzer.
type Config struct {
	// Language is "auto" (also the default, when empty): that of each text; "english": words of other languages stay
	// as they are; or "none": no stemming, no stop words. It is stored with the database.
	Language string
	// Index is the fingerprint of the index that is read, empty for a new one. That of older rules chooses these.
	Index string
}

// The settings that exist.
const (
	Auto    = "auto"
	English = "english"
	None    = "none"
)

// Analyzer turns text into terms. It is safe for concurrent use; its only state is a bounded cache of words,
// which it shares with the others of the program.
type Analyzer struct {
	name    string // of its setting
	english bool
	detects bool // the language of each text
	rules   int  // firstRules or newestRules
	words   *lexicon
}

// New returns the analyzer for cfg. An unknown language is an error that names the known ones.
func New(cfg Config) (*Analyzer, error) {
	name := cmp.Or(cfg.Language, Auto)
	switch name {
	case Auto, English, None:
	default:
		return nil, fmt.Errorf("analysis: unknown language %q: use %q, %q or %q", cfg.Language, Auto, English, None)
	}
	if strings.HasPrefix(cfg.Index, ruleName(name, firstRules)) {
		return newAnalyzer(name, firstRules), nil
	}
	return newAnalyzer(name, newestRules), nil
}

// NewAuto returns the default analyzer, which finds the language of each text.
func NewAuto() *Analyzer { return newAnalyzer(Auto, newestRules) }

// NewEnglish returns the analyzer of English.
func NewEnglish() *Analyzer { return newAnalyzer(English, newestRules) }

// FirstEnglish returns the analyzer of English of the first version, whose terms lexical vectors are made of.
func FirstEnglish() *Analyzer { return newAnalyzer(English, firstRules) }

func newAnalyzer(name string, rules int) *Analyzer {
	a := &Analyzer{name: name, english: name != None, detects: name == Auto, rules: rules}
	if a.english {
		a.words = englishWords[rules-firstRules]()
	} else {
		a.words = plainWords()
	}
	return a
}

// Older reports whether there are newer rules than those of the analyzer.
func (a *Analyzer) Older() bool { return a.rules < newestRules }

// fingerprints are those of the program by version of the rules and name: each is found once, since the probe takes
// longer than to open a small database.
var fingerprints = func() (all [newestRules - firstRules + 1]map[string]func() string) {
	for i := range all {
		all[i] = map[string]func() string{}
		for name, probe := range map[string]string{Auto: probeText + languageProbe, English: probeText, None: probeText} {
			all[i][name] = sync.OnceValue(func() string {
				return fmt.Sprintf("%s%016x", ruleName(name, firstRules+i), newAnalyzer(name, firstRules+i).probe(probe))
			})
		}
	}
	return all
}()

// ruleName is what fingerprints of a version begin with.
func ruleName(name string, rules int) string { return fmt.Sprintf("%s-%d-", name, rules) }

// Detects reports whether the analyzer finds the language of each text.
func (a *Analyzer) Detects() bool { return a.detects }

// Fingerprint names what the analyzer does: language, version of the rules, and a hash of the tokens of a probe text.
// An index built under another fingerprint must be rebuilt.
func (a *Analyzer) Fingerprint() string { return fingerprints[a.rules-firstRules][a.name]() }

// Token is one term and the bytes text[Start:End] it came from. Where normalisation changed the length of a word, the
// parts of that word span all of it.
type Token struct {
	Term       string
	Start, End int
}

// Tokens appends the tokens of text to dst, ordered by Start; a whole comes before its parts. Terms belong to the
// caller. It runs in time linear in len(text).
func (a *Analyzer) Tokens(dst []Token, text string) []Token {
	dst, _ = a.TokensContext(context.Background(), dst, text)
	return dst
}

// TokensContext is Tokens, which ends with the context: the tokens up to there and its error are returned.
func (a *Analyzer) TokensContext(ctx context.Context, dst []Token, text string) ([]Token, error) {
	s := scanner{a: a, tokens: dst, detects: a.detects, meter: meter{ctx: ctx}}
	s.scan(text)
	return s.tokens, s.err
}

// probeText touches every rule and every table that a dependency brings: the stemmer's suffixes, the Unicode
// properties of each script, composition, folding.
const probeText = `The generalizations of relational organizers were hopefully conditionally formalized; skies died, ` +
	`ponies cried, happily hopping and controlling, national effectiveness, adjustable arguments, vietnamization, ` +
	`Alice's dogs' they're can't o'clock U.S.A. e.g. 3.14 10,000.50 2024-05-01T10:30:00Z v1.2.3 gpt-4 10am 1960s ` +
	`src/auth.rs getUserID HTTPServer snake_case kebab-case well-known alice@example.com https://example.com/a?b=c ` +
	`std::vector C++ C# #tag a_.b __init__.py x86_64 ` +
	"caf\u00e9 cafe\u0301 na\u00efve \u00c5ngstr\u00f6m stra\u00dfe \u00d8re \u0141\u00f3d\u017a \u0130stanbul \ufb01ne \uff21\uff22\uff23 \u00bd \u33a1 \u2460 " +
	"\u0391\u03b8\u03ae\u03bd\u03b1\u03c2 \u0401\u043b\u043a\u0430 \u0439\u043e\u0434 \u0627\u0644\u0639\u0650\u0644\u0652\u0645 \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u0663\u0664 \u0915\u094d\u0937\u093f " +
	"\u4eca\u5929\u5929\u6c14\u5f88\u597d \u6771\u4eac\u90fd\u3067\u30c7\u30fc\u30bf\u3092\u98df\u3079\u308b \uff83\uff9e\uff70\uff80 \uc11c\uc6b8\uc5d0\uc11c \uc9d1\uc5d0 LG\uc804\uc790 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a \u0e99\u0e49\u0e33 \u1798\u17b7\u178f\u17d2\u178f " +
	"\U0001f600 \U0001f44d\U0001f3fd \U0001f469\u200d\U0001f4bb \U0001f1eb\U0001f1f7 \u2764\ufe0f 1\ufe0f\u20e3 don\u2019t \u201cquoted\u201d\u2014dash"

// languageProbe has a text of each language, one a line.
const languageProbe = `
Die Ärztin hat ihren Kindern die schönsten Geschichten über die Häuser am Fluss erzählt.
Les chevaux ont mangé toutes les pommes que nous avions achetées hier à l'épicerie.
Los niños cantaban las canciones que habían aprendido de sus abuelas en la montaña.
I ragazzi hanno comprato dei libri bellissimi per le sorelle che vivono nella città.
As crianças não queriam comer os legumes que a avó tinha cozinhado com muita paciência.
De kinderen hebben gisteren de mooiste bloemen voor hun grootouders geplukt.
Børnene har ikke læst bøgerne, som læreren havde købt til dem på biblioteket.
Barna har ikke lest bøkene som læreren hadde kjøpt til dem etter møtet med foreldrene.
Flickorna hade inte läst böckerna som läraren köpte till dem i affären vid sjön.
Lapset eivät olleet lukeneet kirjoja, jotka opettaja oli tuonut heille kaupungista.
A gyerekek nem olvasták el azokat a könyveket, amelyeket a tanár hozott nekik.
Copiii nu au citit cărțile pe care învățătoarea le-a adus pentru ei din orașele vecine.
Çocuklar öğretmenin onlara getirdiği kitapları okumadılar, çünkü ILIK havada oynadılar.
Tá na páistí ag léamh na leabhar agus níl aon duine eile sa teach leo anois.
Dzieci nie przeczytały książek, które nauczycielka przyniosła im z biblioteki w mieście.
Děti nečetly knihy, které jim učitelka přinesla z městské knihovny minulý týden.
Дети не читали книги, которые учительница принесла им из городской библиотеки.
Діти не читали книжки, які вчителька принесла їм із міської бібліотеки.
لم يقرأ الأطفال الكتب التي أحضرتها المعلمة من المكتبة وبالمدرسة للطلاب.
بچه` + "\u200c" + `ها کتاب` + "\u200c" + `هایی را که معلم از کتابخانهٔ شهر آورده بود نخواندند و می` + "\u200c" + `خندیدند.
بچوں نے وہ کتابیں نہیں پڑھیں جو استانی شہر کی لائبریری سے لائی تھیں۔
הילדים לא קראו את הספרים שהמורה הביאה להם מהספרייה העירונית.
बच्चों ने वे किताबें नहीं पढ़ीं जो अध्यापिका शहर के पुस्तकालय से लाई थीं।
Τα παιδιά δεν διάβασαν τα βιβλία που τους έφερε η δασκάλα από τη βιβλιοθήκη.
குழந்தைகள் ஆசிரியர் கொண்டு வந்த புத்தகங்களைப் படிக்கவில்லை.`

// probe hashes what the analyzer makes of texts, one a line.
func (a *Analyzer) probe(texts string) uint64 {
	var b strings.Builder
	for text := range strings.SplitSeq(texts, "\n") {
		for _, t := range a.Tokens(nil, text) {
			fmt.Fprintf(&b, "%s\x00%d\x00%d\x00", t.Term, t.Start, t.End)
		}
	}
	return xxh3.HashString(b.String())
}
