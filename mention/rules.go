package mention

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Rules finds entities without a model, by how English is written:
//
//   - names are runs of words with capital letters; one word at the beginning of a sentence
//     is a name where a word that follows it, or another place of the text, says so;
//   - a name is a person, a place or an organization by the words beside it and within it,
//     and otherwise a concept;
//   - dates with a year become events by the name 2023-05-07 or 2023-05;
//   - @user and e-mail addresses are persons, and the address of a page is a concept;
//   - "A works at B" and a few like it are relations, which say what A and B are, too.
//
// What it takes for a name is a guess: it finds no names in languages without capitals.
type Rules struct{}

// Name is "rules".
func (Rules) Name() string { return "rules" }

// The types that rules give.
const (
	person   = "person"
	place    = "location"
	body     = "organization"
	event    = "event"
	unknown  = "concept"
	mostRun  = 5       // words of a name
	mostRead = 1 << 17 // words that are read of one text
)

var (
	addresses = regexp.MustCompile(`https?://[^\s<>"'()\[\]{}]+`)
	emails    = regexp.MustCompile(`[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}`)
	handles   = regexp.MustCompile(`(?:^|[^\w@./-])(@[A-Za-z0-9_]{2,40})`)
	isoDates  = regexp.MustCompile(`\b(\d{4})-(\d{2})(?:-(\d{2}))?\b`)
	dayFirst  = regexp.MustCompile(`(?i)\b(?:(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(` + monthWords + `)\.?,?\s+(\d{4})\b`)
	dayAfter  = regexp.MustCompile(`(?i)\b(` + monthWords + `)\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})\b`)
)

const monthWords = `january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec`

// Extract finds the entities of a text. It never fails.
func (Rules) Extract(_ context.Context, text string) (Found, error) {
	f := finding{known: map[string]int{}}
	f.addresses(text)
	f.dates(text)
	words := split(text)
	names := namesOf(text, words)
	for _, n := range names {
		f.add(Entity{Name: n.text, Type: n.typ})
	}
	f.relate(text, names)
	return f.Found, nil
}

// finding is what has been found so far.
type finding struct {
	Found
	known map[string]int // places of the entities, by folded name
}

// add adds an entity, once by its name. A type that says more takes the place of concept.
func (f *finding) add(e Entity) {
	if e.Name = Clean(e.Name, MaxName); e.Name == "" || valid.Word("", "", e.Name) != nil {
		return
	}
	i, known := f.known[Fold(e.Name)]
	switch {
	case known && f.Entities[i].Type == unknown:
		f.Entities[i].Type = e.Type
	case !known && len(f.Entities) < MaxEntities:
		f.known[Fold(e.Name)] = len(f.Entities)
		f.Entities = append(f.Entities, e)
	}
}

// addresses adds pages, e-mail addresses and handles.
func (f *finding) addresses(text string) {
	if strings.Contains(text, "://") {
		for _, m := range addresses.FindAllString(text, MaxEntities) {
			f.add(Entity{Name: strings.TrimRight(m, ".,;:!?"), Type: unknown})
		}
	}
	if !strings.Contains(text, "@") {
		return
	}
	for _, m := range emails.FindAllString(text, MaxEntities) {
		f.add(Entity{Name: Fold(m), Type: person})
	}
	for _, m := range handles.FindAllStringSubmatch(text, MaxEntities) {
		f.add(Entity{Name: m[1], Type: person})
	}
}

// dates adds dates that have a year.
func (f *finding) dates(text string) {
	if !hasYear(text) {
		return
	}
	for _, m := range isoDates.FindAllStringSubmatch(text, MaxEntities) {
		f.date(m[1], m[2], m[3])
	}
	for _, m := range dayFirst.FindAllStringSubmatch(text, MaxEntities) {
		f.date(m[3], monthOf(m[2]), m[1])
	}
	for _, m := range dayAfter.FindAllStringSubmatch(text, MaxEntities) {
		f.date(m[3], monthOf(m[1]), m[2])
	}
}

// hasYear reports whether a text has four digits in a row. Most have not, and are not looked
// through for dates.
func hasYear(text string) bool {
	digits := 0
	for i := range len(text) {
		if digits++; text[i] < '0' || text[i] > '9' {
			digits = 0
		}
		if digits == 4 {
			return true
		}
	}
	return false
}

func (f *finding) date(year, month, day string) {
	if len(day) == 1 {
		day = "0" + day
	}
	if month < "01" || month > "12" || day != "" && (day < "01" || day > "31") {
		return
	}
	name := year + "-" + month
	if day != "" {
		name += "-" + day
	}
	f.add(Entity{Name: name, Type: event})
}

// monthOf is the number of a month, of two digits.
func monthOf(word string) string {
	const months = "janfebmaraprmayjunjulaugsepoctnovdec"
	n := strings.Index(months, Fold(word)[:3])/3 + 1
	return string([]byte{byte('0' + n/10), byte('0' + n%10)})
}

// word is one of a text, without the punctuation around it.
type word struct {
	from, to int
	folded   string
	capital  bool // it begins with a capital letter
	first    bool // it begins a sentence
	joined   bool // only a blank lies between the word before and it
	owns     bool // 's follows
}

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
		w := word{from: at, to: end, capital: unicode.IsUpper(r), joined: between == " "}
		abbreviated := len(all) > 0 && between == ". " && (titles[all[len(all)-1].folded] || all[len(all)-1].to-all[len(all)-1].from == 1)
		w.joined = w.joined || abbreviated
		w.first = sentence || !abbreviated && strings.ContainsAny(between, ".!?:;\n\"“(*•")
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

// name is one that a text has.
type name struct {
	text, typ string
	from, to  int // where it stands
	owns      bool
}

// namesOf are the names of a text, in their order.
func namesOf(text string, words []word) (names []name) {
	inside := map[string]bool{} // words with a capital within sentences
	for i := range words {
		if words[i].capital && !words[i].first {
			inside[words[i].folded] = true
		}
	}
	for i := 0; i < len(words); i++ {
		if !words[i].capital {
			continue
		}
		from, to := i, runEnd(words, i)
		i = to - 1
		for from < to && notNames[words[from].folded] || from < to && titles[words[from].folded] {
			from++
		}
		for from < to && notNames[words[to-1].folded] {
			to--
		}
		if from == to || from+1 == to && !alone(words, from, inside) {
			continue
		}
		names = append(names, name{
			text: text[words[from].from:words[to-1].to], typ: typeOf(words, from, to),
			from: words[from].from, to: words[to-1].to, owns: words[to-1].owns,
		})
	}
	return names
}

// runEnd is where the run of capitals ends that begins at a word: small words may join two.
func runEnd(words []word, i int) int {
	end := i + 1
	for end < len(words) && end-i < mostRun && words[end].joined && !words[end-1].owns {
		switch {
		case words[end].capital && !words[end].first:
			end++
		case joints[words[end].folded] && end+1 < len(words) && words[end+1].joined && words[end+1].capital:
			end += 2
		default:
			return end
		}
	}
	return end
}

// alone reports whether one word with a capital is a name.
func alone(words []word, i int, inside map[string]bool) bool {
	w := &words[i]
	if utf8.RuneCountInString(w.folded) < 2 {
		return false
	}
	if !w.first || inside[w.folded] || w.owns {
		return true
	}
	return i+1 < len(words) && words[i+1].joined && tells[words[i+1].folded]
}

// typeOf guesses what a name names.
func typeOf(words []word, from, to int) string {
	last := words[to-1].folded
	before, after := "", ""
	if from > 0 && words[from].joined {
		before = words[from-1].folded
	}
	if to < len(words) && words[to].joined {
		after = words[to].folded
	}
	switch {
	case bodies[last] || bodies[words[from].folded] && to-from > 1:
		return body
	case places[last] && to-from > 1:
		return place
	case titles[before] || greetings[before] || kin[before]:
		return person
	case within[before]:
		return place
	case tells[after]:
		return person
	case from >= 2 && before == "the" && within[words[from-2].folded]:
		return place
	case words[to-1].owns && to-from <= 2 && kin[after]:
		return person
	}
	return unknown
}

// phrase is what relates two names that it stands between: the kind of relation, and what the
// names are, empty where it does not say.
type phrase struct{ kind, source, target string }

// phrases are the words between two names that relate them.
var phrases = map[string]phrase{
	"works at": {"works_at", person, body}, "works for": {"works_for", person, body}, "worked at": {"worked_at", person, body},
	"worked for": {"worked_for", person, body}, "works with": {"works_with", person, ""}, "works on": {"works_on", person, ""},
	"studies at": {"studies_at", person, body}, "founded": {"founded", person, body}, "lives in": {"lives_in", person, place},
	"lived in": {"lived_in", person, place}, "moved to": {"moved_to", person, place}, "was born in": {"born_in", person, place},
	"is from": {"is_from", person, ""}, "knows": {"knows", person, person}, "met": {"met", person, person},
	"married": {"married_to", person, person}, "is married to": {"married_to", person, person}, "uses": {"uses", "", ""},
}

// mostBetween bounds the text between two names that are related.
const mostBetween = 20

// relate adds the relations of names that follow each other.
func (f *finding) relate(text string, names []name) {
	for i := 1; i < len(names) && len(f.Relations) < MaxRelations; i++ {
		a, b := &names[i-1], &names[i]
		if a.owns || b.from-a.to > mostBetween || Fold(a.text) == Fold(b.text) {
			continue
		}
		p, relates := phrases[strings.TrimSpace(text[a.to:b.from])]
		from, to := f.place(a.text), f.place(b.text)
		if !relates || from < 0 || to < 0 {
			continue
		}
		f.retype(from, p.source)
		f.retype(to, p.target)
		r := Relation{Source: f.Entities[from].Name, Relation: p.kind, Target: f.Entities[to].Name}
		if !slices.Contains(f.Relations, r) {
			f.Relations = append(f.Relations, r)
		}
	}
}

// place is where an entity of a name stands among those found, -1 for none.
func (f *finding) place(name string) int {
	if i, known := f.known[Fold(Clean(name, MaxName))]; known {
		return i
	}
	return -1
}

// retype gives an entity the type that a relation says, where nothing else has said one.
func (f *finding) retype(i int, typ string) {
	if typ != "" && f.Entities[i].Type == unknown {
		f.Entities[i].Type = typ
	}
}
