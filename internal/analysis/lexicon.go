package analysis

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"github.com/blevesearch/snowballstem"
	stemmer "github.com/blevesearch/snowballstem/english"
	"github.com/zeebo/xxh3"
)

// lexiconSlots bounds the cache of words: at about 80 bytes a word, 22 MiB when full. With half of the slots 4 words of
// each KB of varied English are not found in it, with these 2; one that is not found takes as long as 50 that are.
const (
	lexiconBits  = 18
	lexiconSlots = 1 << lexiconBits
)

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
// a cache line, and most terms are cut from the key in it, so that finding a word and reading its term cost one miss.
type entry struct {
	key    wordKey // zero where the word is not cached
	hash   uint64  // of term
	prefix uint64  // the first eight bytes of term, big-endian: most comparisons of terms end there
	term   string  // empty for a stop word
	asking bool    // a word that English queries do without: one of askingWords
	hint   uint8   // 1 for a word that hints that the text is not English
	votes  uint32  // the languages whose function word it is, by a bit of each
}

// wordKey is a word of at most maxCached bytes, padded with zeros, the language that it is read in, and its length.
type wordKey [maxCached + 2]byte

const (
	// maxCached is the longest word that is cached, in bytes. Few are longer, and fewer of those come again.
	maxCached  = 22
	languageAt = maxCached
	lengthAt   = maxCached + 1
)

func keyOf(word []byte, in Language) (k wordKey) {
	k[lengthAt] = byte(copy(k[:maxCached], word))
	k[languageAt] = byte(in)
	return k
}

func (k *wordKey) word() []byte { return k[:k[lengthAt]] }

// parts returns the key as three numbers, which compare faster than bytes.
func (k *wordKey) parts() (x, y, z uint64) {
	return binary.LittleEndian.Uint64(k[:]), binary.LittleEndian.Uint64(k[8:]), binary.LittleEndian.Uint64(k[16:])
}

func (k *wordKey) equals(o *wordKey) bool {
	x, y, z := k.parts()
	u, v, w := o.parts()
	return x == u && y == v && z == w
}

// slot is the key's place in a lexicon.
func (k *wordKey) slot() uint64 {
	// Odd numbers without a pattern, of which the upper half of a product is well mixed.
	const m1, m2, m3 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9
	x, y, z := k.parts()
	h := (x*m1 ^ bits.RotateLeft64(y*m2, 32)) + z*m3
	return h * m1 >> (64 - lexiconBits)
}

// lexicon maps folded words to entries. It is a direct-mapped cache: a slot holds the word that came last, and
// readers and writers meet only in one atomic pointer.
type lexicon struct {
	english bool
	rules   int
	slots   [lexiconSlots]atomic.Pointer[entry]
}

// The lexicons of a program: what becomes of a word depends on nothing else.
var (
	englishWords = [...]func() *lexicon{
		sync.OnceValue(func() *lexicon { return &lexicon{english: true, rules: firstRules} }),
		sync.OnceValue(func() *lexicon { return &lexicon{english: true, rules: newestRules} }),
	}
	plainWords = sync.OnceValue(func() *lexicon { return new(lexicon) })
)

// lookup returns the entry of a folded word that is read in a language. The word may be reused after the call.
func (l *lexicon) lookup(word []byte, in Language) *entry {
	if len(word) > maxCached {
		e := new(entry)
		l.analyze(e, string(word), in)
		return e
	}
	k := keyOf(word, in)
	slot := &l.slots[k.slot()]
	if e := slot.Load(); e != nil && e.key.equals(&k) {
		return e
	}
	e := &entry{key: k}
	l.analyze(e, unsafe.String(&e.key[0], len(word)), in) // the key is not written again
	slot.Store(e)
	return e
}

// analyze decides what becomes of a folded word, which the entry keeps.
func (l *lexicon) analyze(e *entry, word string, in Language) {
	e.term = word
	if l.english {
		e.votes = bareVotes[word]
		if in != base {
			e.votes = bareVotes[Fold(word)]
		}
		if in == base && isForeign(word) {
			e.hint = 1
		}
	}
	switch {
	case in != base:
		e.asking = l.english && (stopWords[word] || askingWords[word])
		if l.rules > firstRules {
			word = regularIn(in, word)
		}
		e.term = termIn(in, word)
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
		if regular, ok := irregular[word]; ok && l.rules > firstRules {
			word = regular
		}
		e.term = englishStem(word)
	}
	e.settle()
}

// englishStem returns the stem of a word of small ASCII letters, as a part of it where it can.
func englishStem(word string) string {
	env := stemmers.Get().(*snowballstem.Env)
	env.SetCurrent(word)
	stemmer.Stem(env)
	stem := env.Current()
	if strings.HasPrefix(word, stem) {
		stem = word[:len(stem)]
	} else {
		stem = strings.Clone(stem) // it may be a part of a word that nothing else needs
	}
	env.SetCurrent("")
	stemmers.Put(env)
	return stem
}

var stemmers = sync.Pool{New: func() any { return snowballstem.NewEnv("") }}

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
