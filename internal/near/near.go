// Package near says how near two words are to each other: alike in their letters, or one the
// beginning or the end of the other.
//
// Words are compared by their grams, the runs of three letters that they are made of; a border
// before the first letter and one behind the last count as letters. A word has as many grams
// as letters. That one word is near another takes some grams in common, the fewer the shorter
// the words ([Word.Needs]): so an index of words by their grams finds the near ones by a look
// at few words.
package near

import (
	"bytes"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MinLetters is how many letters a word has at least: shorter ones are near too many.
	MinLetters = 4
	// MaxLetters is how many it has at most: its grams are counted in the bits of a number.
	MaxLetters = 63

	// alike is how many of their grams two words share at least, by Dice's coefficient.
	alike = .5
	// part is how near a word is to one that begins or ends with it.
	part = .6
	// leastRest is how many letters stand before the end of a word that is another word, at least, for these to be a
	// word as well: fewer are a letter that was left out, or a particle.
	leastRest = 3
)

// Letters is how many letters a term has, 0 where it is near no other: a shorter or longer
// one, and one with digits or signs, which is that name or number or another.
func Letters(term []byte) int {
	n := 0
	for rest := term; len(rest) > 0; n++ {
		if c := rest[0]; c < utf8.RuneSelf {
			if c|0x20 < 'a' || c|0x20 > 'z' {
				return 0
			}
			rest = rest[1:]
			continue
		}
		r, size := utf8.DecodeRune(rest)
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			return 0
		}
		rest = rest[size:]
	}
	if n < MinLetters || n > MaxLetters {
		return 0
	}
	return n
}

// A Gram is three letters, 21 bits each; a border is 0.
type Gram uint64

// letterBits is what a code point takes.
const letterBits = 21

// EachGram calls visit for the grams of a word, in their order.
func EachGram(word []byte, visit func(Gram)) {
	const mask = 1<<(3*letterBits) - 1
	gram := Gram(0)
	for n := 0; len(word) > 0; n++ {
		r, size := utf8.DecodeRune(word)
		word = word[size:]
		gram = (gram<<letterBits | Gram(r)) & mask
		if n > 0 {
			visit(gram)
		}
	}
	visit(gram << letterBits & mask)
}

// Append appends the letters in UTF-8, a border as a zero byte.
func (g Gram) Append(dst []byte) []byte {
	const mask = 1<<letterBits - 1
	for shift := 2 * letterBits; shift >= 0; shift -= letterBits {
		dst = utf8.AppendRune(dst, rune(g>>shift&mask))
	}
	return dst
}

// Word is a word whose near ones are looked for.
type Word struct {
	text    []byte
	letters int
	grams   []Gram
}

// New takes a term as a word; not ok is one that is near no other.
func New(term string) (w Word, ok bool) {
	w.text = []byte(term)
	if w.letters = Letters(w.text); w.letters == 0 {
		return Word{}, false
	}
	EachGram(w.text, func(g Gram) { w.grams = append(w.grams, g) })
	return w, true
}

// Grams are the grams of the word, one as often as it is there. They are not to be changed.
func (w *Word) Grams() []Gram { return w.grams }

// Needs is how many grams a word of so many letters has in common with w at least to be near
// it, one that is there twice counted twice; more than it has where none is near.
func (w *Word) Needs(letters int) int {
	short, all := min(w.letters, letters), w.letters+letters
	needs := (all + 3) / 4 // half of all, of which a common one is two
	if letters != w.letters {
		needs = min(needs, short-1) // a part lacks the border at which it is continued
	}
	return needs
}

// Nearness says how near a term is, from 0 to 1; 0 is not at all.
func (w *Word) Nearness(term []byte) float64 {
	letters := Letters(term)
	if letters == 0 {
		return 0
	}
	if bytes.Equal(term, w.text) {
		return 1
	}
	nearness := w.dice(term, letters)
	if nearness < alike {
		nearness = 0
	}
	long, short := w.text, term
	if letters > w.letters {
		long, short = short, long
	}
	if letters != w.letters && (bytes.HasPrefix(long, short) || bytes.HasSuffix(long, short)) {
		nearness = max(nearness, part)
	}
	return nearness
}

// Rest is what stands before the shorter of the two words in the longer one, if that ends with the shorter one: the rest
// of a compound, which is a word itself. It is empty where there is none, or too little for a word.
func (w *Word) Rest(term string) string {
	long, short := string(w.text), term
	if len(term) > len(w.text) {
		long, short = short, long
	}
	rest, ok := strings.CutSuffix(long, short)
	if !ok || utf8.RuneCountInString(rest) < leastRest {
		return ""
	}
	return rest
}

// dice is Dice's coefficient of the grams of two words, or less than alike where that is.
func (w *Word) dice(term []byte, letters int) float64 {
	all := float64(w.letters + letters)
	if 2*float64(min(w.letters, letters)) < alike*all {
		return 0
	}
	used := uint64(0)
	EachGram(term, func(g Gram) {
		for i, own := range w.grams {
			if own == g && used>>i&1 == 0 {
				used |= 1 << i
				return
			}
		}
	})
	return 2 * float64(bits.OnesCount64(used)) / all
}
