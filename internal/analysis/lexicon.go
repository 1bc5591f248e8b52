package analysis

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	stemmer "github.com/blevesearch/snowballstem/english"
	"github.com/zeebo/xxh3"
)

// lexiconSlots bounds the cache of words: at about 80 bytes a word, 11 MiB when full. With a quarter of the slots 12
// words of each KB of English books are not found in it, with these 4.
const lexiconSlots = 1 << 17

// stopWords are the 33 English words that Lucene and bleve drop as well.
var stopWords = wordSet(`a an and are as at be but by for if in into is it no not of on or such that the their then
	there these they this to was will with`)

// askingWords are what English questions are put with: they say what is wanted, not what it is about. They are terms
// like others, and left out of queries alone. Not among them are words that are names as well, such as may and us.
var askingWords = wordSet(`what when where who whom whose which how why do does did done doing have has had having
	been being am can could would should might i me my mine you your yours he him his she her hers its we our ours
	them`)

func wordSet(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// entry is what becomes of one folded word or whole. Entries never change, so that scans share them freely. One fills
// a cache line, so that finding a word costs one miss.
type entry struct {
	key    [maxCached]byte // the word, padded; empty where it is not cached
	length uint8           // of the word
	asking bool            // one of askingWords
	hash   uint64          // of term
	prefix uint64          // the first eight bytes of term, big-endian: most comparisons of terms end there
	term   string          // empty for a stop word
}

// maxCached is the longest word that is cached, in bytes. Few are longer, and fewer of those come again.
const maxCached = 22

// lexicon maps folded words to entries. It is a direct-mapped cache: a slot holds the word that came last, and
// readers and writers meet only in one atomic pointer.
type lexicon struct {
	english bool
	slots   [lexiconSlots]atomic.Pointer[entry]
}

// Slots are chosen by this hash (FNV-1a's step), which the scan of a plain word computes as it folds.
const (
	hashInit  uint64 = 0xcbf29ce484222325
	hashPrime uint64 = 0x100000001b3
)

func hashWord(word []byte) uint64 {
	h := hashInit
	for _, c := range word {
		h = (h ^ uint64(c)) * hashPrime
	}
	return h
}

// lookup returns the entry of a folded word whose hashWord is h. The word may be reused after the call.
func (l *lexicon) lookup(word []byte, h uint64) *entry {
	if len(word) > maxCached {
		return l.analyze(string(word))
	}
	slot := &l.slots[(h^h>>32)%lexiconSlots]
	if e := slot.Load(); e != nil && string(e.key[:e.length]) == string(word) {
		return e
	}
	e := l.analyze(string(word))
	e.length = uint8(copy(e.key[:], word))
	slot.Store(e)
	return e
}

// analyze decides what becomes of a folded word.
func (l *lexicon) analyze(word string) *entry {
	e := &entry{term: word}
	switch {
	case len(word) > MaxTermBytes:
		e.term = shorten(word)
	case len(word) == 2 && word[0] == '0' && '0' <= word[1] && word[1] <= '9':
		// The day or month 05 is also written 5.
		e.term = word[1:]
	case !l.english:
	case stopWords[word]:
		e.term = ""
	case isLowerASCII(word):
		e.asking = askingWords[word]
		env := snowballstem.NewEnv(word)
		stemmer.Stem(env)
		// Cloned where it is shorter, since the stem is then a slice of a word that nothing else needs.
		if stem := env.Current(); stem != word {
			e.term = strings.Clone(stem)
		}
	}
	e.hash = xxh3.HashString(e.term)
	var b [8]byte
	copy(b[:], e.term)
	e.prefix = binary.BigEndian.Uint64(b[:])
	return e
}

func isLowerASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}

// shorten applies the rule of MaxTermBytes.
func shorten(word string) string {
	const hexDigits = 16
	end := MaxTermBytes - 1 - hexDigits
	for end > 0 && !utf8.RuneStart(word[end]) {
		end--
	}
	b := append(make([]byte, 0, MaxTermBytes), word[:end]...)
	b = append(b, '~')
	h := xxh3.HashString(word)
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[h>>shift&15])
	}
	return string(b)
}
