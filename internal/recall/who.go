package recall

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// mostSpeakerNames bounds the names that are looked for in a question.
const mostSpeakerNames = 64

// askedAbout is whose turns the question is about, nil for everybody's: those of the one speaker
// that it names, or those in the role that its person says. docs are the matches in ascending
// order. Only options with an indexed text "speaker" say who spoke.
func (r *recalling) askedAbout(ctx context.Context, docs []uint32) (*leaning, error) {
	if r.q.Ranking.AnySpeaker || r.q.Text == "" {
		return nil, nil
	}
	in, err := r.languages(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.st.Words.Indexed, state.TextField.Speaks) {
		l, several, err := r.speakerAsked(ctx, docs, in)
		if l != nil || several || err != nil {
			return l, err
		}
	}
	if role := roleAskedAbout(r.q.Text, in); role != "" {
		r.plan.Role = role
		return &leaning{role: role}, nil
	}
	return nil, nil
}

// speakerAsked is the one speaker that the question names, or whether it names several.
func (r *recalling) speakerAsked(ctx context.Context, docs []uint32, in analysis.Languages) (l *leaning, several bool, err error) {
	names, err := r.speakerNames(ctx, in)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		if l != nil && within(l.speaker, name) {
			continue // "Ann" within "Ann Lee" is no other
		}
		said, err := r.having(ctx, docs, invindex.Value{Field: layout.FieldSpeaker, Key: name})
		if err != nil {
			return nil, false, err
		}
		at := slices.Index(said, true)
		switch {
		case at < 0:
		case l != nil:
			r.plan.Speaker = ""
			return nil, true, nil
		default:
			l = &leaning{speaker: name}
			if r.plan.Speaker, err = r.speakerOf(docs[at], name); err != nil {
				return nil, false, err
			}
		}
	}
	return l, false, nil
}

// within reports whether a name is some of the words of another one, in which a script without
// spaces has no words.
func within(whole, name string) bool {
	return whole != name && (strings.Contains(" "+whole+" ", " "+name+" ") || isCJK(name) && strings.Contains(whole, name))
}

// speakerOf is how the speaker of a document is written.
func (r *recalling) speakerOf(doc uint32, key string) (string, error) {
	if !r.q.Explain {
		return key, nil
	}
	rec, err := r.st.Record(r.st.Docs.Row(doc).Version)
	if err != nil {
		return key, r.st.Without(err)
	}
	meta, err := metadata.Decode(rec.Metadata)
	if err != nil {
		return key, err
	}
	for _, f := range r.st.Words.Indexed {
		if f.Speaks() && state.SpeakerKey(f.Value(rec, meta)) == key {
			return f.Value(rec, meta), nil
		}
	}
	return key, nil
}

// monthNames are months that are names of people, too: after one of beforeMonths, or before a
// number, they are months.
var (
	monthNames   = setOf(`april august june may`)
	beforeMonths = setOf(`in of last next this since until during by early late mid`)
)

// nameWords are words of every day that are names of people, too. They are names by what stands
// beside them.
var nameWords = setOf(`ace amber angel april art august autumn basil baker bill bishop bob brook brooke buck bud buddy carter cash chance chase chip
	christian clay cliff colt cooper crystal daisy dale dawn dean destiny dick don drew duke earl eve faith finn forest frank gene genesis ginger
	glen grace grant guy harmony harper hazel heath heaven herb holly honor hope hunter iris ivy jack jade jasper jay jean jewel joy june justice
	ken king lane lily love luke major mark mary mason max may melody mercy miles mike miller nat nick norm olive oscar parker pat patience pearl
	penny precious prince queen ray reed rich rob robin rocky roman rose rosemary ruby rusty sage sandy savannah sky skye star stone stormy
	summer sunday sunny sue taylor ted terry trinity tucker victor violet wade ward will willow winter wren young`)

// speakerNames are the words of a question, one to three of them, that may be a name, as keys of
// speakers. Longer names come first.
func (r *recalling) speakerNames(ctx context.Context, in analysis.Languages) ([]string, error) {
	words := namedWords(r.q.Text)
	var names []string
	add := func(name string) {
		if key := state.SpeakerKey(name); key != "" && len(names) < mostSpeakerNames && !slices.Contains(names, key) {
			names = append(names, key)
		}
	}
	for n := 3; n >= 1; n-- {
		for i := 0; i+n <= len(words); i++ {
			if n > 1 || isNamed(words, i) {
				add(join(words[i : i+n]))
			}
		}
	}
	for _, w := range words {
		for _, part := range cjkParts(w.text) {
			add(part)
		}
	}
	if in == 0 {
		return names, nil
	}
	for i, w := range words { // as the stemmers of the scope's languages have them
		if !isNamed(words, i) || len(names) == mostSpeakerNames {
			continue
		}
		readings, err := r.st.Words.Analyzer.Load().Readings(ctx, w.text, in)
		if err != nil {
			return nil, err
		}
		for _, tokens := range readings {
			if len(tokens) == 1 {
				add(tokens[0].Term)
			}
		}
	}
	return names, nil
}

// namedWord is a word of a question that may be part of a name.
type namedWord struct {
	text       string // without what shows possession
	possessive bool
	first      bool // of the question
}

// namedWords are the words of a question, with the hyphens and apostrophes that names have.
func namedWords(text string) []namedWord {
	var words []namedWord
	for field := range strings.FieldsFuncSeq(strings.ReplaceAll(text, "’", "'"), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsMark(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.'", c)
	}) {
		w := namedWord{text: strings.Trim(field, "-.'"), first: len(words) == 0}
		if s, ok := strings.CutSuffix(w.text, "'s"); ok {
			w.text, w.possessive = s, true
		} else if strings.HasSuffix(field, "s'") {
			w.possessive = true // of a name that ends with s
		}
		if w.text != "" {
			words = append(words, w)
		}
	}
	return words
}

func join(words []namedWord) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

// isNamed reports whether the i-th word may be a name by itself, by how it is written and by what
// stands beside it: "what did will buy", "Will's boat", not "will she", "mark my words", "in May".
func isNamed(words []namedWord, i int) bool {
	w := &words[i]
	lower := strings.ToLower(w.text)
	c := []rune(w.text)[0]
	if unicode.IsDigit(c) {
		return false
	}
	word := func(i int) string {
		if i < 0 || i >= len(words) {
			return ""
		}
		return strings.ToLower(words[i].text)
	}
	if w.possessive {
		return true
	}
	if monthNames[lower] {
		next := word(i + 1)
		if next != "" && unicode.IsDigit([]rune(next)[0]) || beforeMonths[word(i-1)] {
			return false
		}
	}
	written := !unicode.IsLower(c) && !w.first
	switch {
	case !nameWords[lower] && !auxiliaries[lower]:
		return true
	case written:
		return true
	case auxiliaries[word(i-1)]: // the subject of a question
		return !auxiliaries[lower] || word(i+1) != "" && !isDeterminer[word(i+1)]
	case w.first && !unicode.IsLower(c): // a sentence that begins with a name goes on with its verb
		return auxiliaries[word(i+1)] && !auxiliaries[lower]
	}
	return false
}

// isDeterminer are words that begin what a verb is about.
var isDeterminer = setOf(`a an the my your his her its our their this that these those there it he she we they you i`)

// isCJK reports whether a text begins with a letter of a script without spaces.
func isCJK(text string) bool {
	for _, c := range text {
		return unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana)
	}
	return false
}

// cjkParts are the parts of two to four letters of a word in a script without spaces, which may
// be names, and of Katakana the whole runs.
func cjkParts(word string) []string {
	if !isCJK(word) {
		return nil
	}
	letters := []rune(word)
	var parts []string
	for n := 4; n >= 2; n-- {
		for i := 0; i+n <= len(letters) && len(parts) < mostSpeakerNames; i++ {
			parts = append(parts, string(letters[i:i+n]))
		}
	}
	for run := range strings.FieldsFuncSeq(word, func(c rune) bool { return !unicode.Is(unicode.Katakana, c) && c != 'ー' }) {
		parts = append(parts, run)
	}
	return parts
}
