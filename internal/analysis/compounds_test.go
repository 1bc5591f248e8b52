package analysis

import (
	"strings"
	"testing"
)

// TestJoined: neighbouring words of a query that texts may have as one.
func TestJoined(t *testing.T) {
	a := NewAuto()
	german := Reading{In: Languages(0).With(German)}
	german.weights[German] = 1
	for _, tc := range []struct {
		text string
		r    *Reading
		want string
	}{
		{"smart watch", &Reading{}, "smartwatch"},
		{"Smart Watches", &Reading{}, "smartwatch"},
		{"where is my smart watch band", &Reading{}, "smartwatch watchband"},
		{"smart, watch", &Reading{}, ""},
		{"smart  watch", &Reading{}, ""},
		{"the watch of my", &Reading{}, ""},
		{"watch 42 bands", &Reading{}, ""},
		{"a watch", &Reading{}, ""},
		{"", &Reading{}, ""},
		{"Zahnarzt Termine", &german, "zahnarzttermin"},
		{"Zahnarzt Termine", &Reading{}, "zahnarzttermin"},
		{"Versicherungs Nummern", &german, "versicherungsnummern versicherungsnumm"},
		{strings.Repeat("book shelf ", 100), &Reading{}, "bookshelf shelfbook"},
	} {
		if got := strings.Join(a.Joined(tc.text, tc.r), " "); got != tc.want {
			t.Errorf("%.40q: %q, want %q", tc.text, got, tc.want)
		}
	}
	if n := len(a.Joined("one1 "+strings.Repeat("abc def ghi jkl mno pqr stu vwx yza ", 9), &Reading{})); n != mostJoined {
		t.Errorf("%d terms", n)
	}
}

// TestEnds: what a word is at the end of a compound, where a stemmer takes more off.
func TestEnds(t *testing.T) {
	german := Reading{In: Languages(0).With(German)}
	german.weights[German] = 1
	few := Reading{In: Languages(0).With(German)}
	few.weights[German] = .1
	for _, tc := range []struct {
		term string
		r    *Reading
		want string
	}{
		{"rechnung", &german, "rechn"},
		{"termin", &german, ""},
		{"rechnung", &few, ""}, // German is a small part of the scope
		{"rechnung", &Reading{}, ""},
		{"", &german, ""},
	} {
		if got := strings.Join(tc.r.Ends(tc.term), " "); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.term, got, tc.want)
		}
	}
	if !german.Compounds() || few.Compounds() || new(Reading).Compounds() {
		t.Error("which readings write words together")
	}
}
