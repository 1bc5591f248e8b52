// Package languageset holds short memories in many languages, and for each a question that asks for it with other
// forms of its words, as people ask: in the plural for the singular, in another case, tense or person. It measures
// whether text search knows the language.
package languageset

import (
	_ "embed"
	"strings"
)

// Language is a language with its pairs.
type Language struct {
	Code string // ISO 639-1
	Name string // in English
	List []Pair
}

// Pair is a memory and a question whose answer it is.
type Pair struct{ Memory, Question string }

//go:embed languages.txt
var text string

//go:embed short.txt
var short string

// All returns the languages in the order of the file.
func All() []Language { return read(text) }

// Short returns ten languages with notes of one to three words, most of which have no word that says their language.
func Short() []Language { return read(short) }

func read(text string) []Language {
	var all []Language
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "# "); ok {
			code, name, _ := strings.Cut(head, " ")
			if len(code) != len("en") {
				continue // a remark
			}
			all = append(all, Language{Code: code, Name: name})
			continue
		}
		if memory, question, ok := strings.Cut(line, " | "); ok {
			l := &all[len(all)-1]
			l.List = append(l.List, Pair{memory, question})
		}
	}
	return all
}
