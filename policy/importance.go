package policy

import (
	"math"
	"math/bits"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/ascii"
)

// The importance of a memory is a weighted sum of three shares: who said it, how much was said, and whether the words
// ask to be remembered. The weights add up to 1. A text that says nothing, whatever its length ("ok thanks"), is held
// below the 0.2 at which old memories are evicted; one of a user that says something, however short it is ("My name is
// Ada"), above.
const (
	ImportanceRole     = 0.30
	ImportanceLength   = 0.35
	ImportanceKeywords = 0.35
)

// The shares of the roles.
const (
	ImportanceOfSystem    = 1.0
	ImportanceOfUser      = 0.6
	ImportanceOfAssistant = 0.4
	ImportanceOfTool      = 0.2
	ImportanceOfOther     = 0.4 // a role that is not known, or none
)

const (
	// ImportanceFullLength is the length in characters from which on a text has all of the share of length.
	ImportanceFullLength = 500
	// ImportanceFullKeywords is how many different keywords have all of the share of keywords.
	ImportanceFullKeywords = 3
	// ImportanceWithContent is the least that a text has which says something, unless an assistant or a tool says it.
	ImportanceWithContent = 0.25
	// ImportanceWithoutContent is the most that a text has which says nothing, unless the system says it.
	ImportanceWithoutContent = 0.15
)

// keywords are English words with which people mark what is worth keeping: requests to remember, preferences,
// obligations, decisions, dates that matter, health, and things going wrong. Each stands with the forms it takes.
var keywords = func() map[string]int {
	m := make(map[string]int)
	for i, forms := range []string{
		"remember remembers remembered reminder remind", "important importantly importance", "note noted",
		"always", "never", "prefer prefers preferred preference preferences", "favorite favourite favorites favourites",
		"love loves hate hates", "must", "need needs require requires required requirement requirements",
		"deadline deadlines due", "urgent urgently", "critical critically", "decide decides decided decision decisions",
		"agree agreed agreement", "promise promised promises", "plan plans planned", "goal goals",
		"birthday anniversary wedding", "married divorced engaged pregnant", "allergic allergy allergies",
		"diagnosed diagnosis", "password secret", "address phone email", "error errors failed failure", "bug bugs fix fixed",
		"warning warnings",
	} {
		for form := range strings.FieldsSeq(forms) {
			m[form] = i
		}
	}
	return m
}()

// Shorter and longer words are spared the look-up.
const (
	shortestKeyword = len("due")
	longestKeyword  = len("requirements")
)

// Importance returns how important a new memory is, from 0 to 1, by its text and the role of who said it ("user",
// "assistant", "system" or "tool").
func Importance(text, role string) float64 {
	length := 1.0
	if len(text) < ImportanceFullLength*utf8.UTFMax { // else it has as many characters
		length = min(1, float64(utf8.RuneCountInString(text))/ImportanceFullLength)
	}
	words := min(1, float64(countKeywords(text))/ImportanceFullKeywords)
	// Rounded before the sum, as in Weights.Parts.
	importance := float64(ImportanceRole * roleShare(role))
	importance += float64(ImportanceLength * length)
	importance += float64(ImportanceKeywords * words)
	switch says := hasContent(text); {
	case text == "": // it has a vector, of which nobody can tell
	case says && role != "assistant" && role != "tool":
		importance = max(importance, ImportanceWithContent)
	case !says && role != "system":
		importance = min(importance, ImportanceWithoutContent)
	}
	// Finer than the rule is, digits would only be noise to who reads them.
	const digits = 1e4
	return math.Round(importance*digits) / digits
}

func roleShare(role string) float64 {
	switch role {
	case "system":
		return ImportanceOfSystem
	case "user":
		return ImportanceOfUser
	case "assistant":
		return ImportanceOfAssistant
	case "tool":
		return ImportanceOfTool
	}
	return ImportanceOfOther
}

// countKeywords counts the different keywords in text, up to ImportanceFullKeywords. It runs over every text that is
// stored: of most words only the first three letters are looked at.
func countKeywords(text string) int {
	var c keywordCount
	begun := -1 // where the word begins that reaches into the block
	for at := 0; at < len(text) && c.n < ImportanceFullKeywords; {
		letters, beyond := ascii.Letters(text, at)
		if beyond != 0 {
			// A word may go on, or only begin, with a letter beyond ASCII.
			if begun < 0 {
				begun = at
			}
			at, begun = c.words(text, begun, at+ascii.Block), -1
			continue
		}
		starts := letters &^ (letters << 1)
		if begun >= 0 {
			starts &^= 1
		}
		if letters>>(ascii.Block-1) == 0 {
			begun = -1
		} else if starts != 0 {
			begun = at + bits.Len64(starts) - 1
		}
		for ; starts != 0 && c.n < ImportanceFullKeywords; starts &= starts - 1 {
			from := at + bits.TrailingZeros64(starts)
			if mayBegin(ascii.Eight(text, from)) {
				c.words(text, from, from+1)
			}
		}
		at += ascii.Block
	}
	return c.n
}

// keywordCount counts different keywords.
type keywordCount struct {
	seen uint64
	n    int
}

// words counts the words that begin in text[from:upto] and returns where they end. No word reaches over from.
func (c *keywordCount) words(text string, from, upto int) int {
	i := from
	for i < min(len(text), upto) && c.n < ImportanceFullKeywords {
		from := i
		for n := 8; n == 8; i += n {
			n = ascii.SmallLetters(ascii.Eight(text, i) | ascii.CaseBits)
		}
		word := text[from:i]
		if i < len(text) && text[i] >= utf8.RuneSelf {
			// The word may go on, or only now begin, with a letter beyond ASCII.
			i = from + wordEnd(text[from:])
			word = text[from:i]
			if word == "" {
				_, size := utf8.DecodeRuneInString(text[from:])
				i += size
			}
		} else {
			i++ // what follows a word of ASCII begins none
		}
		if k, ok := keyword(word); ok && c.seen>>k&1 == 0 {
			c.seen |= 1 << k
			c.n++
		}
	}
	return i
}

// wordEnd is the length of the letters that text begins with.
func wordEnd(text string) int {
	table := letterTable()
	for i, r := range text {
		if r < 1<<16 {
			if table[r/64]>>(r%64)&1 == 0 {
				return i
			}
		} else if !unicode.IsLetter(r) {
			return i
		}
	}
	return len(text)
}

// letterTable has a bit for each rune below 2¹⁶ that is a letter: to ask package unicode takes ten times as long, and a text
// may be one word of megabytes.
var letterTable = sync.OnceValue(func() *[1 << 10]uint64 {
	var table [1 << 10]uint64
	for r := range rune(1 << 16) {
		if unicode.IsLetter(r) {
			table[r/64] |= 1 << (r % 64)
		}
	}
	return &table
})

// beginnings has a bit for the hash of the first three letters of each keyword.
var beginnings = func() (bits [1 << (hashBits - 6)]uint64) {
	for form := range keywords {
		h := hashLetters(ascii.Eight(form, 0))
		bits[h/64] |= 1 << (h % 64)
	}
	return bits
}()

const hashBits = 11

// hashLetters is a hash of the first three letters, small and capital ones alike.
func hashLetters(w uint64) uint32 {
	const odd = 0x9e3779b1
	return (uint32(w) & 0x1f1f1f * odd) >> (32 - hashBits)
}

// mayBegin reports whether a keyword may begin with the three lowest bytes.
func mayBegin(w uint64) bool {
	h := hashLetters(w)
	return beginnings[h/64]>>(h%64)&1 != 0 || w&0x808080 != 0
}

// keywordLengths has, for the first two letters, the lengths of the keywords as bits; keywordEnds has them for the
// third letter and the last.
var keywordLengths, keywordEnds = func() (lengths, ends [letters * letters]uint16) {
	for form := range keywords {
		lengths[letterPair(form)] |= 1 << len(form)
		ends[endPair(form)] |= 1 << len(form)
	}
	return lengths, ends
}()

const letters = 32

// letterPair numbers the first two bytes of a word, small and capital letters alike.
func letterPair(word string) int { return int(word[0]%letters)*letters + int(word[1]%letters) }

// endPair numbers the third byte of a word and the last.
func endPair(word string) int {
	return int(word[2]%letters)*letters + int(word[len(word)-1]%letters)
}

// keyword is the number of the keyword that a word is a form of.
func keyword(word string) (int, bool) {
	if len(word) < shortestKeyword || len(word) > longestKeyword {
		return 0, false
	}
	ascii := word[0]|word[1]|word[2]|word[len(word)-1] < utf8.RuneSelf
	if ascii && (keywordLengths[letterPair(word)]&keywordEnds[endPair(word)])>>len(word)&1 == 0 {
		return 0, false
	}
	k, ok := keywords[strings.ToLower(word)]
	return k, ok
}
