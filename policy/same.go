package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Two texts say the same where they differ only in how they are written: in the case of words, in spaces, in
// punctuation, in the spelling of function words. All else may change the meaning, whatever the language: a number, a
// name, a negation, one ending. So no likeness is measured. Each text is brought into one form, by rules that need no
// knowledge of its language, and the forms are equal or not. Where a rule cannot tell, it keeps what is written: two
// memories that say the same cost little, and one that is gone may be missed.

// Saying is the form of a text that is equal for texts that say the same. It is empty for a text that says nothing.
//
// Words are in small letters, but for those whose case may mean something: abbreviations and names with capitals
// inside, single letters but I, short words after a number (5 Mb, 5 mb), and words of [capitalMeans] within a sentence.
// Spaces and the punctuation of sentences are gone, but for question marks. What holds a sign that is no such
// punctuation stays as it is written: numbers, times, versions, addresses, file names, smileys, words with a hyphen.
func Saying(text string) string {
	text = norm.NFC.String(text)
	s := saying{shouts: shouts(text), begins: true}
	s.out.Grow(len(text))
	for chunk := range strings.FieldsFuncSeq(text, isSpace) {
		s.chunk(chunk)
	}
	return s.out.String()
}

// SaySame reports whether two texts say the same.
func SaySame(a, b string) bool {
	return a == b || Saying(a) == Saying(b)
}

// saying is a form that is made.
type saying struct {
	out    strings.Builder
	shouts bool // the whole text is in capitals, which say nothing then
	begins bool // the next word begins a sentence
	number bool // a number came last
	dash   bool // a dash came last, which may be a minus
}

// isSpace reports whether a character only separates: it is white, or is not seen and joins nothing.
func isSpace(r rune) bool {
	switch r {
	case '\u200b', '\u200e', '\u200f', '\u2060', '\ufeff': // of no width, or of a direction
		return true
	}
	return unicode.IsSpace(r)
}

// shouts reports whether a text has no small letters, and words enough for that to be a way of writing.
func shouts(text string) bool {
	const least = 3
	words, inWord := 0, false
	for _, r := range text {
		if unicode.IsLower(r) {
			return false
		}
		upper := unicode.IsUpper(r)
		if upper && !inWord {
			words++
		}
		inWord = upper || inWord && !isSpace(r)
	}
	return words >= least
}

// The punctuation of sentences, by where it may stand beside a word without being a part of it.
const (
	opening  = "\"'`(“„”«»‹›‘‚’「『《〈【（［[¿¡–—"
	closing  = "\"'`).,;:!…”“«»‹›’‘」』》〉】）］]。、，．；：！।؟،؛?？;–—"
	question = "?？؟\u037e"
	ends     = ".!?…。！？؟।" // of a sentence
)

// chunk appends what stands between two spaces.
func (s *saying) chunk(chunk string) {
	if onlyPunctuation(chunk) {
		if !oneSign(chunk) { // as :-( is
			s.put(chunk)
		}
		s.dash = chunk == "-" || chunk == "–" || chunk == "—"
		s.after(chunk)
		return
	}
	if first, _ := utf8.DecodeRuneInString(chunk); s.dash && isDigit(first) {
		s.put("-")
	}
	s.dash = false
	at := strings.IndexFunc(chunk, isInner)
	if at < 0 {
		s.word(chunk)
		return
	}
	from := 0 // commas and the like, and writing without spaces, divide a chunk
	runes := []rune(chunk)
	for i, r := range runes {
		if i > 0 && i < len(runes)-1 && divides(runes[i-1], r, runes[i+1]) {
			s.word(string(runes[from : i+1]))
			from = i + 1
		} else if isIdeograph(r) {
			if from < i {
				s.word(string(runes[from:i]))
			}
			s.word(string(r))
			from = i + 1
		}
	}
	if from < len(runes) {
		s.word(string(runes[from:]))
	}
}

// isInner reports whether a chunk may be divided beside a character.
func isInner(r rune) bool {
	return strings.ContainsRune(",;!—…，。、；：！？", r) || isIdeograph(r)
}

// divides reports whether a sign between two others ends a word, though no space follows.
func divides(before, r, after rune) bool {
	return strings.ContainsRune(",;!—…，。、；：！？", r) && !isDigit(before) && !isDigit(after) && isWordRune(before) && (isWordRune(after) || isIdeograph(after))
}

// isIdeograph reports whether a character is a word by itself in a writing without spaces.
func isIdeograph(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

func isDigit(r rune) bool    { return unicode.IsNumber(r) }
func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) }

func onlyPunctuation(chunk string) bool {
	return strings.IndexFunc(chunk, func(r rune) bool {
		return !strings.ContainsRune(opening, r) && !strings.ContainsRune(closing, r) && r != '-'
	}) < 0
}

// oneSign reports whether a run of punctuation is one sign, once or repeated, or an end of a sentence.
func oneSign(chunk string) bool {
	first, _ := utf8.DecodeRuneInString(chunk)
	return strings.Trim(chunk, string(first)) == "" || strings.Trim(chunk, ends) == ""
}

// word appends what may be a word with punctuation around it.
func (s *saying) word(chunk string) {
	if isSmiley(chunk) {
		s.put(chunk)
		return
	}
	word := trimOpening(chunk)
	rest := ""
	for word != "" {
		r, size := utf8.DecodeLastRuneInString(word)
		if !strings.ContainsRune(closing, r) {
			break
		}
		if before, _ := utf8.DecodeLastRuneInString(word[:len(word)-size]); isDigit(before) && (r == '\'' || r == '"' || r == '’' || r == '”') && word == chunk[:len(word)] {
			break // feet and inches, or minutes and seconds
		}
		word, rest = word[:len(word)-size], word[len(word)-size:]+rest
	}
	if word != "" {
		s.bare(word)
	}
	s.after(rest)
}

// isSmiley reports whether a chunk has a face that is made of punctuation.
func isSmiley(chunk string) bool {
	for _, eyes := range []string{":", ";"} {
		for _, mouth := range []string{"(", ")", "-(", "-)", "'("} {
			if strings.Contains(chunk, eyes+mouth) {
				return true
			}
		}
	}
	return false
}

// trimOpening drops the punctuation before a word.
func trimOpening(chunk string) string {
	for {
		r, size := utf8.DecodeRuneInString(chunk)
		if size == 0 || !strings.ContainsRune(opening, r) {
			return chunk
		}
		if next, _ := utf8.DecodeRuneInString(chunk[size:]); (r == '–' || r == '—') && isDigit(next) {
			return chunk // perhaps a minus
		}
		chunk = chunk[size:]
	}
}

// after notes what punctuation says.
func (s *saying) after(rest string) {
	if rest == "" {
		return
	}
	s.number = false
	if strings.ContainsAny(rest, question) {
		s.put("?")
	}
	if strings.ContainsAny(rest, ends) {
		s.begins = true
	}
}

// bare appends a word without its punctuation.
func (s *saying) bare(word string) {
	word = strings.Map(func(r rune) rune {
		switch r {
		case '’', 'ʼ', '＇':
			return '\''
		case '\u00ad', '\ufe0f': // a place to break a word at; how a sign is drawn
			return -1
		}
		return r
	}, word)
	begins, number := s.begins, s.number
	s.begins, s.number = false, false
	if strings.IndexFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\'' && r != '-' }) >= 0 {
		s.number = strings.IndexFunc(word, isDigit) >= 0
		s.put(functionWord(word))
		return
	}
	small := strings.ToLower(word)
	if s.shouts || small == word || foldable(word, small, begins, number) {
		word = functionWord(small)
	}
	s.put(word)
}

// foldable reports whether a word with capitals says what it says in small letters.
func foldable(word, small string, begins, number bool) bool {
	_, first := utf8.DecodeRuneInString(word)
	_, firstSmall := utf8.DecodeRuneInString(small)
	short := utf8.RuneCountInString(word)
	const unit = 3 // letters that one may have
	switch {
	case word == "I" || strings.HasPrefix(word, "I'"):
		return true
	case word[first:] != small[firstSmall:]: // a capital that is not the first letter
		return false
	case number && short <= unit:
		return false
	case begins:
		return true
	}
	return short > 1 && !capitalMeans[small]
}

// capitalMeans are words that mean something else with a capital, in English and German. Within a sentence they stay.
var capitalMeans = func() map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(`
		august bill bob china chuck dick don drew faith frank grace guy hope ivy jack jean job joy lily march mark may
		mercury nice olive pat polish pole ray reading rich rob rose ruby sandy santa smith sue summer teddy turkey violet wade
		will young it us who ai
		sie ihr ihre ihrem ihren ihrer ihres ihnen du euch`) {
		m[word] = true
	}
	return m
}()

// functionWord is the usual spelling of a word that has several. Only those stand here that say the same in every
// sentence: "can not" may permit what "cannot" forbids, and 'd and 's have two meanings each.
func functionWord(word string) string {
	if usual, ok := spellings[word]; ok {
		return usual
	}
	return word
}

var spellings = func() map[string]string {
	m := map[string]string{
		"can't": "cannot", "won't": "will not", "shan't": "shall not", "i'm": "i am", "&": "and", "okay": "ok",
		"whilst": "while", "amongst": "among", "towards": "toward", "daß": "dass", "muß": "muss",
	}
	for verb := range strings.FieldsSeq("do does did is are was were have has had could should would must need") {
		m[verb+"n't"] = verb + " not"
	}
	for who := range strings.FieldsSeq("you we they") {
		m[who+"'re"] = who + " are"
	}
	for who := range strings.FieldsSeq("i you we they") {
		m[who+"'ve"] = who + " have"
	}
	for who := range strings.FieldsSeq("i you he she it we they") {
		m[who+"'ll"] = who + " will"
	}
	return m
}()

// put appends a word.
func (s *saying) put(word string) {
	if s.out.Len() > 0 {
		s.out.WriteByte(' ')
	}
	s.out.WriteString(word)
}
