package recall

import (
	"slices"
	"strings"
	"unicode"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
)

// speakerField is the last word of the path of an indexed text that says who spoke.
const speakerField = "speaker"

// mostSpeakerNames bounds the names that are looked for in a question.
const mostSpeakerNames = 64

// askedAbout are the turns of the speaker that a question names, and the name: nil where it
// names none, or several. Only options with an indexed text "speaker" say who spoke.
func (r *recalling) askedAbout() (turns *roaring.Bitmap, name string, err error) {
	if r.q.AnySpeaker {
		return nil, "", nil
	}
	for _, f := range r.st.Words.Indexed {
		if f.Path != speakerField && !strings.HasSuffix(f.Path, "."+speakerField) {
			continue
		}
		num, ok := r.st.Fields.Number(f.Path)
		if !ok {
			continue
		}
		for _, n := range speakerNames(r.q.Text) {
			set, err := selection.WithValue(r.st, layout.FirstMetadataField+uint16(num), scalar.TextKey(n))
			if err != nil {
				return nil, "", err
			}
			set.And(r.set)
			switch {
			case set.IsEmpty():
			case turns != nil && !strings.Contains(name, n): // "Ann" within "Ann Lee" is no other
				return nil, "", nil
			case turns == nil:
				turns, name = set, n
			}
		}
	}
	return turns, name, nil
}

// questionVerbs begin questions; so the first word of a question is no name where it is one.
var questionVerbs = []string{
	"Am", "Are", "Can", "Could", "Did", "Do", "Does", "Had", "Has", "Have", "Is", "May", "Might", "Must", "Shall", "Should", "Was", "Were", "Will", "Would",
}

// monthNames are months that are names of people, too: after one of beforeMonths, or before a
// number, they are months.
var (
	monthNames   = []string{"April", "August", "June", "May"}
	beforeMonths = []string{"in", "of", "last", "next", "this", "since", "until", "during", "by", "early", "late", "mid"}
)

// speakerNames are the words of a question, one to three of them, that may be a name: they
// begin with a capital letter, or with one that has no case. Longer names come first.
func speakerNames(text string) []string {
	words := strings.FieldsFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '-' && c != '_' && c != '.'
	})
	for i, w := range words {
		words[i] = strings.Trim(w, ".-")
	}
	named := func(i int) bool {
		w := words[i]
		if w == "" || unicode.IsLower([]rune(w)[0]) || unicode.IsDigit([]rune(w)[0]) || i == 0 && slices.Contains(questionVerbs, w) {
			return false
		}
		if !slices.Contains(monthNames, w) {
			return true
		}
		dated := i+1 < len(words) && words[i+1] != "" && unicode.IsDigit([]rune(words[i+1])[0])
		return !dated && (i == 0 || !slices.Contains(beforeMonths, strings.ToLower(words[i-1])))
	}
	var names []string
	for n := 3; n >= 1; n-- {
		for i := 0; i+n <= len(words) && len(names) < mostSpeakerNames; i++ {
			if named(i) && named(i+n-1) {
				if name := strings.Join(words[i:i+n], " "); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
