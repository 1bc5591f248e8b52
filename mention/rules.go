package mention

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/dates"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Rules finds entities without a model, by how English is written, and by lists of common words,
// given names and places (lists/README.md):
//
//   - names are runs of words with capital letters. A common word alone is none, nor is one word
//     at the beginning of a sentence, unless a list knows it as a name, or another place of the
//     text or the verb that follows says so; titles between quotes are names, too;
//   - a name is a person, a place, an organization, an event or a product by the lists, by the
//     words beside it and by those within it, and otherwise a concept;
//   - dates have the type date and the name 2023-05-07, 2023-05 or 2023, or May 7 where no year
//     is said. What is a date only by the day that it was said on, as yesterday, is none;
//   - @user and e-mail addresses are persons, and the address of a page is a concept;
//   - "A works at B", "A is B's sister" and a few like them are relations, which say what A and B
//     are, too.
//
// What it takes for a name is a guess, and made to be right rather than to find all: see
// TestLabels. It finds no names in languages without capitals.
type Rules struct{}

// Name is "rules".
func (Rules) Name() string { return "rules" }

// The types that rules give.
const (
	person   = "person"
	place    = "location"
	body     = "organization"
	event    = "event"
	product  = "product"
	date     = Date
	unknown  = "concept"
	mostRun  = 6       // words of a name
	mostRead = 1 << 17 // words that are read of one text
)

var (
	addresses = regexp.MustCompile(`https?://[^\s<>"'()\[\]{}]+`)
	emails    = regexp.MustCompile(`[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}`)
	handles   = regexp.MustCompile(`(?:^|[^\w@./-])(@[A-Za-z0-9_]{2,40})`)
)

// Extract finds the entities of a text. It never fails.
func (Rules) Extract(_ context.Context, text string) (Found, error) {
	f := finding{known: map[string]int{}, guessed: map[int]bool{}}
	f.addresses(text)
	words := split(text)
	f.dates(text)
	r := reading{text: text, words: words, listing: listing()}
	names := r.names()
	for _, n := range names {
		f.add(Entity{Name: n.text, Type: n.typ}, n.guessed)
	}
	f.relate(text, names)
	return f.Found, nil
}

// The years that people speak of.
const firstYear, lastYear = 1000, 2199

// dates adds the days, months and years that a text says: 2023-05-07, 2023-05, 2023, and May 7 where
// no year is said.
func (f *finding) dates(text string) {
	for _, d := range dates.Named(text) {
		name := ""
		switch {
		case d.Year != 0 && (d.Year < firstYear || d.Year > lastYear):
			continue
		case d.Month == 0:
			name = fmt.Sprintf("%04d", d.Year)
		case d.Year == 0:
			name = fmt.Sprintf("%s %d", time.Month(d.Month), d.Day)
		case d.Day == 0:
			name = fmt.Sprintf("%04d-%02d", d.Year, d.Month)
		default:
			name = fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day)
		}
		f.add(Entity{Name: name, Type: date}, false)
	}
}

// finding is what has been found so far.
type finding struct {
	Found
	known   map[string]int // places of the entities, by folded name
	guessed map[int]bool   // entities whose type nothing says
}

// add adds an entity, once by its name. A type that something says takes the place of a guess.
func (f *finding) add(e Entity, guessed bool) {
	if e.Name = Clean(e.Name, MaxName); e.Name == "" || valid.Word("", "", e.Name) != nil {
		return
	}
	i, known := f.known[Fold(e.Name)]
	switch {
	case known && !guessed:
		f.retype(i, e.Type)
	case !known && len(f.Entities) < MaxEntities:
		if guessed {
			f.guessed[len(f.Entities)] = true
		}
		f.known[Fold(e.Name)] = len(f.Entities)
		f.Entities = append(f.Entities, e)
	}
}

// addresses adds pages, e-mail addresses and handles.
func (f *finding) addresses(text string) {
	if strings.Contains(text, "://") {
		for _, m := range addresses.FindAllString(text, MaxEntities) {
			f.add(Entity{Name: strings.TrimRight(m, ".,;:!?"), Type: unknown}, false)
		}
	}
	if !strings.Contains(text, "@") {
		return
	}
	for _, m := range emails.FindAllString(text, MaxEntities) {
		f.add(Entity{Name: Fold(m), Type: person}, false)
	}
	for _, m := range handles.FindAllStringSubmatch(text, MaxEntities) {
		f.add(Entity{Name: m[1], Type: person}, false)
	}
}

// word is one of a text, without the punctuation around it.
type word struct {
	from, to int
	folded   string
	capital  bool // it begins with a capital letter
	first    bool // it begins a sentence
	joined   bool // only a blank lies between the word before and it
	comma    bool // a comma and a blank do
	owns     bool // 's follows
}

// digit reports whether the word begins with one.
func (w *word) digit() bool { return unicode.IsDigit(rune(w.folded[0])) }

// split are the words of a text.
func split(text string) (all []word) {
	last, sentence := 0, true
	for at := 0; at < len(text) && len(all) < mostRead; {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			at += size
			continue
		}
		end := wordEnd(text, at)
		between := text[last:at]
		w := word{from: at, to: end, capital: unicode.IsUpper(r), joined: between == " ", comma: between == ", "}
		initial := len(all) > 0 && w.capital && (between == ". " || between == ".") && abbreviates(&all[len(all)-1])
		w.joined = w.joined || initial
		w.first = sentence || !initial && begins(between)
		if s := text[at:end]; strings.HasSuffix(s, "'s") || strings.HasSuffix(s, "’s") {
			w.owns = true
			w.to -= len(s) - len(strings.TrimSuffix(strings.TrimSuffix(s, "'s"), "’s"))
		}
		w.folded = strings.ReplaceAll(Fold(text[w.from:w.to]), "’", "'")
		all = append(all, w)
		sentence, last, at = false, end, end
	}
	return all
}

// begins reports whether a sentence begins behind what lies between two words.
func begins(between string) bool {
	return between != " " && between != "" && (strings.ContainsAny(between, ".!?:;\n\"“(*•…") || between != "-" && strings.ContainsAny(between, "-–—"))
}

// abbreviates reports whether a point after a word ends no sentence: it is a title or an initial.
func abbreviates(w *word) bool {
	return titles[w.folded] || w.capital && w.to-w.from == 1 && w.folded != "i"
}

// wordEnd is where the word that begins at a place ends: letters and digits, and marks that
// stand between them.
func wordEnd(text string, at int) int {
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			at += size
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[at+size:])
		if !strings.ContainsRune("'’-&_", r) || !unicode.IsLetter(next) && !unicode.IsDigit(next) {
			return at
		}
		at += size
	}
	return at
}
