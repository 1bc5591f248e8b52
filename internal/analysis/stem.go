package analysis

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
)

// maxStemmed is the longest word that is stemmed, in bytes. Longer ones are compounds at most, whose ends say little,
// and some rules of Snowball take time that grows faster than the word.
const maxStemmed = MaxTermBytes

// termIn returns the term of a word in a language: its stem, without accents. The word is folded, and has its accents
// where the language is written with Latin letters.
func termIn(l Language, word string) string {
	if len(word) > maxStemmed {
		return shortened(Fold(word))
	}
	stem := tongues[l].stem(word)
	if tongues[l].script == latinScript {
		stem = Fold(stem)
	}
	if stem == "" {
		stem = word
	}
	return shortened(stem)
}

// shortened applies the rule of MaxTermBytes where it holds.
func shortened(word string) string {
	if len(word) > MaxTermBytes {
		return shorten(word)
	}
	return strings.Clone(word)
}

// snowball stems by one of the algorithms of Snowball (Porter, 2001).
func snowball(stem func(*snowballstem.Env) bool, word string) string {
	env := stemmers.Get().(*snowballstem.Env)
	env.SetCurrent(word)
	stem(env)
	word = env.Current()
	env.SetCurrent("")
	stemmers.Put(env)
	return word
}

func germanStem(w string) string     { return snowball(german.Stem, w) }
func frenchStem(w string) string     { return snowball(french.Stem, w) }
func spanishStem(w string) string    { return snowball(spanish.Stem, w) }
func italianStem(w string) string    { return snowball(italian.Stem, w) }
func portugueseStem(w string) string { return snowball(portuguese.Stem, w) }
func dutchStem(w string) string      { return snowball(dutch.Stem, w) }
func danishStem(w string) string     { return snowball(danish.Stem, w) }
func norwegianStem(w string) string  { return snowball(norwegian.Stem, w) }
func swedishStem(w string) string    { return snowball(swedish.Stem, w) }
func finnishStem(w string) string    { return snowball(finnish.Stem, w) }
func hungarianStem(w string) string  { return snowball(hungarian.Stem, w) }
func irishStem(w string) string      { return snowball(irish.Stem, w) }
func russianStem(w string) string    { return snowball(russian.Stem, w) }
func tamilStem(w string) string      { return snowball(tamil.Stem, w) }
func turkishStem(w string) string    { return snowball(turkish.Stem, w) }

// romanianStem writes the letters with commas below as the ones with cedillas, which the algorithm knows.
func romanianStem(w string) string { return snowball(romanian.Stem, romanianLetters().Replace(w)) }

var romanianLetters = sync.OnceValue(func() *strings.Replacer { return strings.NewReplacer("ș", "ş", "ț", "ţ") })

// endings is a light stemmer: a list of endings, of which the longest is cut off as often as one fits and enough of
// the word stays. A word and the same word with one more ending get the same stem.
type endings struct {
	list  []string
	least int // runes that stay
	once  bool
}

func (e *endings) cut(word string) string {
	for {
		longest := ""
		for _, end := range e.list {
			if len(end) > len(longest) && strings.HasSuffix(word, end) && utf8.RuneCountInString(word)-utf8.RuneCountInString(end) >= e.least {
				longest = end
			}
		}
		if longest == "" {
			return word
		}
		word = word[:len(word)-len(longest)]
		if e.once {
			return word
		}
	}
}

// cutFront cuts prefixes off as cut does endings.
func (e *endings) cutFront(word string) string {
	for {
		longest := ""
		for _, front := range e.list {
			if len(front) > len(longest) && strings.HasPrefix(word, front) && utf8.RuneCountInString(word)-utf8.RuneCountInString(front) >= e.least {
				longest = front
			}
		}
		if longest == "" {
			return word
		}
		word = word[len(longest):]
		if e.once {
			return word
		}
	}
}
