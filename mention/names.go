package mention

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/dates"
)

// name is one that a text has.
type name struct {
	text, typ string
	guessed   bool // nothing says the type
	from, to  int  // where it stands
	owns      bool
}

// reading is a text whose names are looked for.
type reading struct {
	text    string
	words   []word
	listing map[string]listed
	inside  map[string]bool // words with a capital within sentences
}

// in is in which lists a word is.
func (r *reading) in(folded string) listed { return r.listing[folded] }

// common reports whether a word is one of English, with its ending or without.
func (r *reading) common(folded string) bool {
	if notNames[folded] || r.in(folded).is(commonWord) {
		return true
	}
	if head, _, cut := strings.Cut(folded, "'"); cut { // you've, here's
		return notNames[head] || r.in(head).is(commonWord)
	}
	if first, rest, cut := strings.Cut(folded, "-"); cut {
		return r.common(first) && r.common(rest)
	}
	for _, end := range []string{"s", "ing", "ed", "er", "ly"} {
		if stem, cut := strings.CutSuffix(folded, end); cut && len(stem) > 2 {
			if r.in(stem).is(commonWord) || r.in(stem+"e").is(commonWord) {
				return true
			}
		}
	}
	return false
}

// isName reports whether a list knows a folded name, which is no common word, as one.
func (r *reading) isName(folded string) bool {
	return (r.in(folded).is(givenName|placeName) || famous[folded] != "") && !r.common(folded)
}

// names are the names of a text, in their order.
func (r *reading) names() (names []name) {
	for i := range r.words {
		if w := &r.words[i]; w.capital && !w.first {
			if r.inside == nil {
				r.inside = map[string]bool{}
			}
			r.inside[w.folded] = true
		}
	}
	for i := 0; i < len(r.words); i++ {
		if title, ok := r.quoted(i); ok {
			names = append(names, title.name)
			i = title.last
			continue
		}
		if !r.words[i].capital {
			continue
		}
		from, to := i, r.runEnd(i)
		i = to - 1
		if from, to = r.trimmed(from, to); from == to {
			continue
		}
		if from+1 == to && !r.alone(from) {
			continue
		}
		typ, guessed := r.typeOf(from, to)
		names = append(names, name{
			text: r.span(from, to), typ: typ, guessed: guessed,
			from: r.words[from].from, to: r.words[to-1].to, owns: r.words[to-1].owns,
		})
	}
	return names
}

// span is the text of some words.
func (r *reading) span(from, to int) string { return r.text[r.words[from].from:r.words[to-1].to] }

// runEnd is where the run of capitals ends that begins at a word: small words may join two.
func (r *reading) runEnd(i int) int {
	words := r.words
	end := i + 1
	for end < len(words) && end-i < mostRun && words[end].joined && !words[end-1].owns {
		next := end
		for next < len(words) && next < end+2 && joints[words[next].folded] && words[next].joined {
			next++
		}
		if next >= len(words) || !words[next].joined || !words[next].capital || words[next].first || next > end && notNames[words[end-1].folded] {
			break
		}
		end = next + 1
	}
	return end
}

// trimmed is a run without the words around a name: "Hey Ada", "Last Friday", "Glad Max".
func (r *reading) trimmed(from, to int) (int, int) {
	words := r.words
	outside := func(i int) bool {
		w := &words[i]
		return notNames[w.folded] || strings.Contains(w.folded, "'") && r.common(w.folded) || dates.Month(w.folded) != 0 && (i+1 == len(words) || to-from == 1)
	}
	for from < to && (outside(from) || titles[words[from].folded] || relatives[words[from].folded]) {
		from++
	}
	for from < to && outside(to-1) {
		to--
	}
	for from+1 < to && words[from].first && !r.in(words[from].folded).is(givenName) && r.leads(from, to) {
		from++
	}
	return from, to
}

// leads reports whether the word that begins a sentence is no part of the name behind it: it is a
// common word and the next one is none, or a cry and a given name follows.
func (r *reading) leads(from, to int) bool {
	next := r.words[from+1].folded
	if r.common(r.words[from].folded) {
		return !r.common(next) || r.in(next).is(givenName) && from+2 == to
	}
	return r.in(next).is(givenName) && from+2 == to && !r.in(r.words[from].folded).is(placeName)
}

// alone reports whether one word with a capital is a name.
func (r *reading) alone(i int) bool {
	w := &r.words[i]
	s := r.text[w.from:w.to]
	if utf8.RuneCountInString(s) < 2 || strings.Contains(w.folded, "'") && r.common(w.folded) || acronyms[w.folded] {
		return false
	}
	if nations[w.folded] {
		return r.noun(i)
	}
	if r.common(w.folded) {
		return r.commonName(i, s) || r.isCalled(i)
	}
	switch {
	case !w.first:
		return true
	case r.isName(w.folded), r.inside[w.folded], camel(s):
		return true
	case shouted(s):
		return false
	}
	return i+1 < len(r.words) && r.words[i+1].joined && tells[r.words[i+1].folded] && !strings.HasSuffix(w.folded, "ing")
}

// commonName reports whether a common word with a capital, which stands as s in the text, is a name
// by the lists: of a person, or of a place that something is in.
func (r *reading) commonName(i int, s string) bool {
	w := &r.words[i]
	lists := r.in(w.folded)
	given := lists.is(givenName) && !strongWords[w.folded]
	if w.first {
		return !notNames[w.folded] && (given && tells[r.after(i+1)] || r.relates(i))
	}
	return given && !shouted(s) || lists.is(placeName) && within[r.before(i)]
}

// relates reports whether the words behind a word relate persons, and a name follows them: "works
// at Acme" says that the word before is a name.
func (r *reading) relates(i int) bool {
	words := ""
	for j := i + 1; j < min(i+5, len(r.words)) && r.words[j].joined; j++ {
		if r.words[j].capital {
			return phrases[words].source == person
		}
		words = strings.TrimPrefix(words+" "+r.words[j].folded, " ")
	}
	return false
}

// before is the word before another one, empty where something else than a blank lies between.
func (r *reading) before(i int) string {
	if i == 0 || !r.words[i].joined {
		return ""
	}
	return r.words[i-1].folded
}

// after is the word behind the word before i.
func (r *reading) after(i int) string {
	if i >= len(r.words) || !r.words[i].joined {
		return ""
	}
	return r.words[i].folded
}

// noun reports whether the name of a nation is that of its language: a verb of learning stands
// before it, or no noun behind it.
func (r *reading) noun(i int) bool { return languageVerbs[r.before(i)] }

// isCalled reports whether the words before a name say that it is one: "a dog named Shadow".
func (r *reading) isCalled(i int) bool {
	switch r.before(i) {
	case "named", "called":
		return true
	case "is":
		return i > 1 && r.words[i-2].folded == "name"
	case "name":
		return r.words[i-1].owns // her name's Coco
	}
	return false
}

// shouted reports whether a word has capitals alone.
func shouted(s string) bool {
	return strings.IndexFunc(s, unicode.IsLower) < 0
}

// camel reports whether a word has a capital within it, behind a small letter.
func camel(s string) bool {
	small := false
	for _, c := range s {
		if small && unicode.IsUpper(c) {
			return true
		}
		small = unicode.IsLower(c)
	}
	return false
}

const (
	// mostTitle bounds a title between quotes, in bytes, and mostTitleWords its words.
	mostTitle      = 80
	mostTitleWords = 9
)

// title is a name between quotes, and the last word of it.
type title struct {
	name
	last int
}

// quoted is the title that begins at a word: it stands between quotes, and its words but for small
// ones have capitals.
func (r *reading) quoted(i int) (t title, ok bool) {
	w := &r.words[i]
	text := r.betweenQuotes(i)
	if text == "" {
		return t, false
	}
	last := i
	for last+1 < len(r.words) && r.words[last+1].from < w.from+len(text) {
		last++
		if v := &r.words[last]; !v.capital && !joints[v.folded] && !smallWords[v.folded] && !v.digit() {
			return t, false
		}
	}
	alone := last == i
	switch end := &r.words[last]; {
	case last-i >= mostTitleWords:
		return t, false
	case alone && (notNames[w.folded] || shouted(text)):
		return t, false
	case !alone && !end.capital && !end.digit():
		return t, false
	}
	typ := product
	if known := famous[Fold(text)]; known != "" {
		typ = known
	} else if alone && r.isName(w.folded) && r.in(w.folded).is(givenName) && !workWords[r.wordsBefore(i)] {
		typ = person
	}
	return title{name{text: text, typ: typ, from: w.from, to: w.from + len(text)}, last}, true
}

// betweenQuotes is what stands between quotes from a word on that may begin a title, empty for
// nothing.
func (r *reading) betweenQuotes(i int) string {
	w := &r.words[i]
	before, size := utf8.DecodeLastRuneInString(r.text[:w.from])
	closing := quotes[before]
	if closing == 0 || !w.capital && !w.digit() {
		return ""
	}
	if before == '\'' && w.from > size {
		if c, _ := utf8.DecodeLastRuneInString(r.text[:w.from-size]); c != ' ' && c != '(' && c != '-' {
			return "" // an apostrophe
		}
	}
	rest := r.text[w.from:min(len(r.text), w.from+mostTitle)]
	n := strings.IndexRune(rest, closing)
	for n >= 0 && closing == '\'' && n+1 < len(rest) && unicode.IsLetter(rune(rest[n+1])) {
		m := strings.IndexRune(rest[n+1:], closing)
		if m < 0 {
			return ""
		}
		n += 1 + m
	}
	if n <= 0 {
		return ""
	}
	return strings.TrimRight(rest[:n], " .,!?")
}

// wordsBefore is the last word before a quote.
func (r *reading) wordsBefore(i int) string {
	if i == 0 {
		return ""
	}
	return r.words[i-1].folded
}

var quotes = map[rune]rune{'"': '"', '“': '”', '‘': '’', '\'': '\'', '«': '»', '„': '“'}
