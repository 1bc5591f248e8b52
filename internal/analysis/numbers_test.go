package analysis

import (
	"strings"
	"testing"
)

// TestGroupedNumbers: a number whose groups are set apart is found as it is typed in one, and the other way.
func TestGroupedNumbers(t *testing.T) {
	a := NewAuto()
	for _, tc := range []struct{ text, want string }{
		{"555 867 5309", "5558675309"},
		{"555-867-5309", "5558675309"},
		{"call (555) 867-5309 now", "5558675309"},
		{"call 555.867.5309, please", "5558675309"},
		{"+1 555 867 5309", "15558675309 5558675309"},
		{"+49 30 901820", "4930901820 30901820"},
		{"06 12 34 56 78 and 06-12-34-56-78", "0612345678 0612345678"},
		{"4111 1111 1111 1111", "4111111111111111"},
		{"on 2024-05-01 or 01.05.2024", ""},
		{"12 3456 78", "12345678"},
		{"from 12 to 34", ""},
		{"12 34 56", ""},                // six digits
		{"11111 22222 33333 44444", ""}, // more than a number has
		{"555  867  5309", ""},          // columns of a table
		{"555 867 5309a", ""},           // the last group is none
		{"5558675309", ""},              // it is one already
		{"555,867,5309", ""},            // a list
		{"(", ""},
		{"+", ""},
		{"1 ", ""},
		{"(1) (2)", ""},
	} {
		var got []string
		for _, k := range a.Tokens(nil, tc.text) {
			if digits := strings.ReplaceAll(tc.text[k.Start:k.End], k.Term, ""); digits != "" && len(k.Term) >= leastGrouped && isDigits(k.Term) {
				got = append(got, k.Term)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%q has %q, want %q", tc.text, got, tc.want)
		}
	}
	long := strings.Repeat("12 ", 1<<20)
	if n := len(a.Tokens(nil, long)); n != 1<<20 {
		t.Errorf("%d tokens of a long table", n)
	}
}

// TestGroupedQuery: in a query the whole number counts for as much as its groups.
func TestGroupedQuery(t *testing.T) {
	var b Bag
	b.AddQuery(NewAuto(), "555 867 5309", 2)
	for _, k := range b.Terms() {
		if want := map[string]uint32{"5558675309": 6, "555": 2, "867": 2, "5309": 2}[k.Term]; k.Freq != want {
			t.Errorf("%s counts %d, want %d", k.Term, k.Freq, want)
		}
	}
}

func isDigits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}
