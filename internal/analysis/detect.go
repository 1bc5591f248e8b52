package analysis

import (
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// detectBytes is how much of a text says its language. A text of other scripts, or with function words of other
// languages, is first read that far; so that finding the language takes a bounded time, and English none.
const detectBytes = 4096

// maxDetectWords bounds the words that are counted.
const maxDetectWords = 256

// letterVotes are the letters beyond ASCII that only some languages are written with.
var letterVotes = func() map[rune]uint32 {
	votes := map[rune]uint32{}
	for l, letters := range map[Language]string{
		German: "äöüß", French: "àâçéèêëîïôùûœ", Spanish: "áéíñóúü", Italian: "àèéìòù", Portuguese: "áâãàçéêíóôõú",
		Dutch: "éëï", Danish: "æøå", Norwegian: "æøå", Swedish: "åäö", Finnish: "äö", Hungarian: "áéíóöőúüű",
		Romanian: "ăâîșțşţ", Turkish: "çğıöşüâ", Irish: "áéíóú", Polish: "ąćęłńóśźż", Czech: "áčďéěíňóřšťúůýž",
		Ukrainian: "іїєґ", Russian: "ыэъё", Persian: "پچژگ", Urdu: "ٹڈڑںےہھ", Arabic: "ةىكيإأؤئ",
	} {
		for _, r := range letters {
			votes[r] |= 1 << l
		}
	}
	return votes
}()

// endingList are ends of words that other languages do not have, or seldom.
var endingList = [languageCount]string{
	German:    "ung ungen keit heit lich liche lichen isch ische ischen chen",
	Finnish:   "ssa ssä sta stä lla llä lta ltä ksi mme vat vät inen aan ään iin ista istä oita",
	Hungarian: "ban ben nak nek val vel ról ről ból ből tól től hoz hez ként ásban ésben",
	Turkish:   "lar ler lık lik yor larda lerde ların lerin ması mesi",
	Swedish:   "arna erna orna ningar ningen", Danish: "erne ninger elser", Norwegian: "ene ninger elser", Dutch: "heid lijk lijke tje tjes",
	Spanish: "ción ciones mente dad", Portuguese: "ção ções mente dade", Italian: "zione zioni mente tà", French: "tion eux euse ment elle",
	Polish: "ego owie ych ości ość ami ach", Czech: "ého ých ního ami ech ost", Romanian: "ului ilor ește ează", Irish: "acht eacht",
}

// endingLetters is how long the ends of words in endingList are at least and at most, in bytes.
const (
	shortestEnding = 3
	longestEnding  = 8
)

var endingSet = func() map[string]uint32 {
	set := map[string]uint32{}
	for l, list := range endingList {
		for end := range strings.FieldsSeq(list) {
			set[end] |= 1 << l
		}
	}
	return set
}()

// endingVotes are the languages that have the longest known end of a word, if it has one and more before it.
func endingVotes(word string) uint32 {
	const before = 3
	for n := min(longestEnding, len(word)-before); n >= shortestEnding; n-- {
		if votes := endingSet[word[len(word)-n:]]; votes != 0 {
			return votes
		}
	}
	return 0
}

// A wordFilter is a set of ASCII words by hashes: it has all that were added, and few others.
type wordFilter [1 << 10]uint64

// wordHash is made of the first two bytes of a word, the last, and its length.
func wordHash(word string) uint32 {
	n := len(word)
	return (uint32(word[0]) | uint32(word[min(1, n-1)])<<8 | uint32(word[n-1])<<16 | uint32(n)<<24) * 0x9e3779b1 >> 16
}

func (f *wordFilter) add(word string) {
	h := wordHash(word)
	f[h>>6] |= 1 << (h & 63)
}

func (f *wordFilter) has(word string) bool {
	h := wordHash(word)
	return f[h>>6]&(1<<(h&63)) != 0
}

// voters has the function words, and voterEnds the last three letters of the ends of words, that
// are ASCII.
var voters, voterEnds = func() (words, ends wordFilter) {
	for _, list := range []map[string]uint32{wordVotes, bareVotes} {
		for w := range list {
			words.add(w)
		}
	}
	for end := range endingSet {
		ends.add(end[len(end)-shortestEnding:])
	}
	return words, ends
}()

// silent reports that a word of small letters says nothing about its language: most words do.
func silent(word string) bool {
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			return false
		}
	}
	return !voters.has(word) && (len(word) <= shortestEnding || !voterEnds.has(word[len(word)-shortestEnding:]))
}

// tally is what speaks for each language in a text.
type tally struct {
	points  [languageCount]int
	words   [scriptCount]int
	kinds   [languageCount]int // different function words
	other   [languageCount]int // points for letters and ends of words
	seen    map[string]bool
	writing [scriptCount]bool
	hint    bool // something in Latin letters is not English
	english int  // function words of English alone
}

// detect returns the languages that a text is written in, one for each script of it. What does not say its language
// clearly is read as English, which changes nothing for names, code and numbers.
func detect(text string) (v voices) {
	t := tally{seen: map[string]bool{}}
	t.count(text)
	v[latinScript] = t.latin()
	if t.writing[cyrillicScript] {
		v[cyrillicScript] = t.best(Russian, Ukrainian)
	}
	if t.writing[arabicScript] {
		v[arabicScript] = t.best(Arabic, Persian, Urdu)
	}
	for _, l := range [...]Language{Hebrew, Hindi, Greek, Tamil} {
		if sc := tongues[l].script; t.writing[sc] {
			v[sc] = l
		}
	}
	return v
}

// count looks at the words of a text.
func (t *tally) count(text string) {
	if !norm.NFC.IsNormalString(text) {
		text = norm.NFC.String(text)
	}
	n := 0
	for lo, hi := nextWord(text, 0); lo < hi && n < maxDetectWords; lo, hi = nextWord(text, hi) {
		if hi-lo <= MaxTermBytes {
			t.word(lowerWord(text[lo:hi]))
			n++
		}
	}
}

// lowerWord is a word in small letters. That of a dotted capital I is the dotless one only in Turkish, whose function
// words have none.
func lowerWord(word string) string {
	small := strings.ToLower(word)
	if strings.IndexByte(small, 0xcc) >= 0 { // the first byte of the dot
		return strings.ReplaceAll(small, "i\u0307", "i")
	}
	return small
}

// word counts one word.
func (t *tally) word(word string) {
	sc := scriptOfWord(word)
	if sc == noScript {
		return
	}
	t.words[sc]++
	if utf8.RuneCountInString(word) > 1 { // π alone is no Greek
		t.writing[sc] = true
	}
	if silent(word) {
		return
	}
	votes := wordVotes[word]
	if !t.hint && sc == latinScript {
		t.hint = beyondEnglish(word) || isForeign(Fold(word))
	}
	switch {
	case votes == 0 && sc == latinScript:
		t.letter(endingVotes(word), 2)
	case len(word) == 1:
		t.vote(votes, 1)
	case bits.OnesCount32(votes) == 1:
		t.vote(votes, 3)
		t.english += int(votes & 1)
	default:
		t.vote(votes, 2)
		if alsoEnglish[word] {
			t.points[base]++
		}
	}
	if votes != 0 && len(word) > 1 && !t.seen[word] {
		t.seen[word] = true
		for ; votes != 0; votes &= votes - 1 {
			t.kinds[bits.TrailingZeros32(votes)]++
		}
	}
	t.letters(word)
}

// letters counts the letters of a word that few languages have: those languages that have all of them.
func (t *tally) letters(word string) {
	votes, any := ^uint32(0), false
	for _, r := range word {
		if r >= utf8.RuneSelf && unicode.IsLetter(r) {
			if v, ok := letterVotes[r]; ok {
				votes &= v
				any = true
			}
		}
	}
	switch {
	case !any:
	case bits.OnesCount32(votes) == 1:
		t.letter(votes, 3)
	default:
		t.letter(votes, 1)
	}
}

// letter gives languages points for what is no function word.
func (t *tally) letter(votes uint32, points int) {
	t.vote(votes, points)
	for ; votes != 0; votes &= votes - 1 {
		t.other[bits.TrailingZeros32(votes)] += points
	}
}

// vote gives languages points.
func (t *tally) vote(votes uint32, points int) {
	for ; votes != 0; votes &= votes - 1 {
		t.points[bits.TrailingZeros32(votes)] += points
	}
}

// latin decides between the languages of the Latin script. It takes more than a foreign name to leave English: two
// function words, or one and letters, and more than speaks for English.
func (t *tally) latin() Language {
	best := t.best(allLatin...)
	if best == base || !t.hint {
		return base
	}
	points, english, words := t.points[best], t.points[base], t.words[latinScript]
	switch {
	case 2*points <= 3*english:
	case t.kinds[best] == 0 && points < 4: // letters alone: a name
	case t.kinds[best] == 1 && t.other[best] == 0: // a word that is a name
	case t.kinds[best] == 0 && 2*points < words:
	case points >= 4 && 2*points >= words, words <= 6 && points >= 3:
		return best
	}
	return base
}

var allLatin = func() (list []Language) {
	for l, t := range tongues {
		if t.script == latinScript {
			list = append(list, Language(l))
		}
	}
	return list
}()

// best is the first of languages that none has more points than.
func (t *tally) best(languages ...Language) Language {
	best := languages[0]
	for _, l := range languages[1:] {
		if t.points[l] > t.points[best] {
			best = l
		}
	}
	return best
}

// asked returns the language of a query, which is one of those that a scope has, or English. A question is short, and
// one word may say what language it is in.
func asked(text string, in Languages) Language {
	t := tally{seen: map[string]bool{}}
	t.count(text[:headOf(text)])
	best := base
	for l := range in.All() {
		if t.points[l] > t.points[best] {
			best = l
		}
	}
	return best
}

// headOf returns the end of what is read of a text before its language is known: at white space, across which no rule
// of segmentation reaches. It is 0 where there is none in time.
func headOf(text string) int {
	if len(text) <= detectBytes {
		return len(text)
	}
	for i := detectBytes; i < 2*detectBytes && i < len(text); i++ {
		if classes[text[i]] == space {
			return i
		}
	}
	return 0
}

// voicesOf returns the languages of the beginning of a text.
func voicesOf(text string) voices {
	head := headOf(text)
	if head == 0 && text != "" {
		for head = detectBytes; head > 0 && !utf8.RuneStart(text[head]); head-- {
		}
	}
	return detect(text[:head])
}

// Languages returns the languages that the words of a text are stemmed in, in the order of their scripts. English is
// among them where the text has words with Latin letters and is in no other language of that script.
func (a *Analyzer) Languages(text string) []Language {
	var v voices
	if a.detects {
		v = voicesOf(text)
	}
	var list []Language
	if a.english && v[latinScript] == base && strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Latin, r) }) {
		list = append(list, base)
	}
	for _, l := range v {
		if l != base {
			list = append(list, l)
		}
	}
	return list
}
