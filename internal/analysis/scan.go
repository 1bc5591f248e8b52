package analysis

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/ascii"
)

// scanner turns one text into tokens, which go to bag where there is one, else to tokens.
type scanner struct {
	meter
	a      *Analyzer
	text   string
	bag    *Bag
	weight uint32
	tokens []Token
	query  bool // leave out what questions are put with
	added  bool // bag has got a token

	detects bool     // the language of the text
	field   bool     // the text is none of its own; see readShort
	voices  voices   // the languages that it is read in
	ask     Language // whose function words a query leaves out, but in English
	heard   uint8    // not 0: something that is not English
	past    int      // the end of what was read as a number in groups

	chain chain // the identifier being read
	run   run   // the stretch of text without spaces being read

	// plain are words that were read and are still to be looked up, nplain of them.
	plain  [plainBatch]plainWord
	nplain int
}

// plainBatch is how many words are looked up together: each look-up waits for the memory, several at a time wait as
// long as one.
const plainBatch = 16

type plainWord struct {
	key    wordKey
	lo, hi int
}

// emit passes on what became of text[lo:hi]. Words without a term end here.
func (s *scanner) emit(e *entry, lo, hi int) {
	s.heard |= e.hint
	switch {
	case e.term == "" || s.query && s.asks(e):
	case s.bag != nil:
		s.bag.add(e, s.weight)
		s.added = true
	default:
		s.tokens = append(s.tokens, Token{Term: e.term, Start: lo, End: hi})
	}
}

// asks reports whether an entry is a word that queries do without.
func (s *scanner) asks(e *entry) bool {
	if s.ask == base {
		return e.asking
	}
	return e.votes>>s.ask&1 != 0
}

// Classes of bytes. Segmentation of ASCII needs no more than these and the punctuation in segmentEnd.
const (
	other byte = iota
	space
	lower
	upper
	digit
	underscore
	beyond // a byte of a rune beyond ASCII
)

// classes and lowered are the tables of the ASCII path.
var classes, lowered = func() (class, low [256]byte) {
	for c := range 256 {
		low[c] = byte(c)
		switch {
		case c >= 0x80:
			class[c] = beyond
		case 'a' <= c && c <= 'z':
			class[c] = lower
		case 'A' <= c && c <= 'Z':
			class[c] = upper
			low[c] = byte(c) + 'a' - 'A'
		case '0' <= c && c <= '9':
			class[c] = digit
		case c == '_':
			class[c] = underscore
		case c == ' ' || '\t' <= c && c <= '\r':
			class[c] = space
		}
	}
	return class, low
}()

func isLetter(c byte) bool { return classes[c] == lower || classes[c] == upper }
func isAlnum(c byte) bool  { return isLetter(c) || classes[c] == digit }

func areLetters(x, y byte) bool { return isLetter(x) && isLetter(y) }
func areDigits(x, y byte) bool  { return classes[x] == digit && classes[y] == digit }

// isSegmentByte reports whether c may begin a segment that holds a word.
func isSegmentByte(c byte) bool { return isAlnum(c) || c == '_' }

// scan reads text, and marks the bag with its languages where it finds them.
//
// Most text is English. So the head of a text is read as such, and only where words or letters of other languages come
// up is the language looked for; if it is another one, what was read is taken back.
func (s *scanner) scan(text string) {
	s.text = text
	if !s.look() { // also a text of few words is not read for a context that has ended
		return
	}
	if !s.detects {
		s.read(0, len(text))
		return
	}
	head := headOf(text)
	before := s.here()
	s.read(0, head)
	if s.err != nil {
		return
	}
	if s.heard != 0 || head == 0 && len(text) > 0 {
		head = s.listen(before, head)
	}
	if head < len(text) {
		s.read(head, len(text))
	}
	if s.err == nil && len(text) <= shortBytes && !s.field && s.a.rules > firstRules {
		s.readShort(before)
	}
}

// listen looks for the languages of the text. Where it is in others than English, what was read since a place is taken
// back, and it returns that the text is to be read from its beginning.
func (s *scanner) listen(before place, head int) int {
	if s.voices = voicesOf(s.text); s.voices == (voices{}) {
		return head
	}
	s.back(before)
	s.past = 0
	if s.bag != nil {
		for l := range s.voices.set().All() {
			s.bag.mark(l)
		}
	}
	return 0
}

// place is how far a scan has come.
type place struct {
	tokens int
	bag    bagPlace
	added  bool
}

func (s *scanner) here() place {
	p := place{tokens: len(s.tokens), added: s.added}
	if s.bag != nil {
		p.bag = s.bag.here()
	}
	return p
}

// back takes back what was emitted since a place.
func (s *scanner) back(p place) {
	clear(s.tokens[p.tokens:])
	s.tokens, s.added = s.tokens[:p.tokens], p.added
	if s.bag != nil {
		s.bag.back(p.bag)
	}
}

// read reads s.text[lo:hi] chunk by chunk. A chunk ends at ASCII white space, across which no rule of segmentation
// reaches, so that one curly quote does not take a whole text off the fast path.
func (s *scanner) read(lo, hi int) {
	text := s.text[:hi]
	for i := lo; i < len(text) && s.err == nil; {
		if classes[text[i]] == space {
			i++
			continue
		}
		if end := s.plainWord(i); end > i {
			i = end
			continue
		}
		s.flushPlain()
		if c := text[i]; i >= s.past && (classes[c] == digit || c == '(' || c == '+') && s.a.rules > firstRules {
			s.grouped(i, hi)
		}
		end, plain := chunkEnd(text, i)
		switch {
		case !s.spend((end - i) / bytesPerStep):
		case plain:
			s.scanASCII(i, end)
		default:
			s.scanUnicode(i, end)
		}
		i = end
	}
	s.flushPlain()
}

// chunkEnd returns the end of the chunk that begins at lo, and whether it is ASCII.
func chunkEnd(text string, lo int) (end int, plain bool) {
	var all byte
	for end = lo; end < len(text) && classes[text[end]] != space; end++ {
		all |= text[end]
	}
	return end, all < 0x80
}

// plainWord handles what most text is made of: a chunk of lower-case letters, perhaps with a capital in front, within
// punctuation. It returns the end of the chunk, or its beginning if it is anything else.
func (s *scanner) plainWord(begin int) int {
	text, lo := s.text, begin
	for lo < len(text) && classes[text[lo]] == other {
		lo++
	}
	if lo == len(text) || !isLetter(text[lo]) || text[lo] == 'I' && s.voices[latinScript] == Turkish {
		return begin
	}
	if s.nplain == plainBatch {
		s.flushPlain()
	}
	// Written where it is to stay: to copy what was written just now in smaller parts would wait for it.
	word := &s.plain[s.nplain]
	word.key, word.lo = wordKey{}, lo
	key := &word.key
	i := lo
	for at, fold := 0, uint64(ascii.CaseBit); at < len(key); at, fold = at+8, 0 {
		w := ascii.Eight(text, i) | fold // of the first letter
		n := ascii.SmallLetters(w)
		binary.LittleEndian.PutUint64(key[at:], w&^(^uint64(0)<<(8*n)))
		if i += n; n < 8 {
			break
		}
	}
	end := i
	if end-lo > maxCached {
		return begin
	}
	key[languageAt], key[lengthAt] = byte(s.voices[latinScript]), byte(end-lo)
	for ; i < len(text) && classes[text[i]] != space; i++ {
		if classes[text[i]] != other {
			return begin
		}
	}
	if end-lo == 1 && end < len(text) && sigil(text[end:]) != "" {
		return begin
	}
	word.hi = end
	s.nplain++
	return i
}

// flushPlain looks up the plain words that wait, and emits them.
func (s *scanner) flushPlain() {
	words := s.plain[:s.nplain]
	s.nplain = 0
	s.spend(len(words))
	l := s.a.words
	var entries [plainBatch]*entry
	for i := range words {
		entries[i] = l.slots[words[i].key.slot()].Load()
	}
	for i := range words {
		if e, k := entries[i], &words[i].key; e == nil || !e.key.equals(k) {
			entries[i] = l.lookup(k.word(), s.voices[latinScript])
		}
	}
	for i, w := range words {
		s.emit(entries[i], w.lo, w.hi)
	}
}

// scanASCII reads the chunk text[lo:hi], which is ASCII.
func (s *scanner) scanASCII(lo, hi int) {
	text := s.text
	for i, last := lo, -1; ; {
		for i < hi && !isSegmentByte(text[i]) {
			i++
		}
		if i == hi {
			break
		}
		end, word := segmentEnd(text, i, hi)
		if word {
			joiner := ""
			if last >= 0 {
				joiner = text[last:i]
			}
			if !s.segment(segment{text: text[i:end], lo: i, hi: end, exact: true, joiner: joiner}) {
				return
			}
			last = end
		}
		i = end
	}
	s.flushChain()
}

// segmentEnd returns the end of the segment of word characters that begins at lo, by UAX #29 restricted to ASCII, and
// whether it holds a letter or digit. A period, colon or apostrophe joins letters; a period, comma, semicolon or
// apostrophe joins digits.
func segmentEnd(text string, lo, hi int) (end int, word bool) {
	for i := lo; ; i++ {
		for i < hi && isSegmentByte(text[i]) {
			word = word || text[i] != '_'
			i++
		}
		if i+1 >= hi || i == lo {
			return i, word
		}
		before, after := text[i-1], text[i+1]
		switch text[i] {
		case '.', '\'':
			if !areLetters(before, after) && !areDigits(before, after) {
				return i, word
			}
		case ':':
			if !areLetters(before, after) {
				return i, word
			}
		case ',', ';':
			if !areDigits(before, after) {
				return i, word
			}
		default:
			return i, word
		}
	}
}
