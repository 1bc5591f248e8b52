package analysis

import (
	"strings"
	"testing"
)

// TestIrregular: each form of the list needs it, and gets the term of its word.
func TestIrregular(t *testing.T) {
	a, first := NewEnglish(), FirstEnglish()
	term := func(a *Analyzer, word string) string {
		tokens := a.Tokens(nil, word)
		if len(tokens) != 1 {
			t.Fatalf("%q has the tokens %v", word, tokens)
		}
		return tokens[0].Term
	}
	groups := 0
	seen := map[string]bool{}
	for line := range strings.Lines(irregularForms) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		groups++
		want := term(a, words[0])
		for _, form := range words[1:] {
			if seen[form] {
				t.Errorf("%q is there twice", form)
			}
			seen[form] = true
			if got := term(a, form); got != want {
				t.Errorf("%q is %q, %q is %q", form, got, words[0], want)
			}
			if term(first, form) == want {
				t.Errorf("%q is %q without the list", form, want)
			}
			if again, ok := irregular[words[0]]; ok {
				t.Errorf("%q is a form of %q itself", words[0], again)
			}
		}
	}
	if groups < 200 {
		t.Errorf("%d groups", groups)
	}
}

// TestIrregularTexts: words that are as often another word keep their own term, and so do those of other languages.
func TestIrregularTexts(t *testing.T) {
	for text, want := range map[string]string{
		"a rose on the ground": "rose ground",
		"leaves and lives":     "leav(leaves) live(lives)",
		"He bought mice":       "he(He) buy(bought) mous(mice)",
		"people met children":  "person(people) meet(met) child(children)",
		"BOUGHT":               "buy(BOUGHT)",
	} {
		if got := show(text, NewEnglish().Tokens(nil, text)); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// TestBrokenPlurals: each plural of the list has the term of its singular, also behind the article and particles.
func TestBrokenPlurals(t *testing.T) {
	fields := strings.Fields(brokenPlurals)
	if len(fields)%2 != 0 || len(fields) < 200 {
		t.Fatalf("%d words", len(fields))
	}
	words := englishWords[newestRules-firstRules]()
	term := func(word string) string { return words.lookup([]byte(Fold(word)), Arabic).term }
	for i := 0; i < len(fields); i += 2 {
		many, one := fields[i], fields[i+1]
		for _, form := range []string{many, "ال" + many, "وال" + many} {
			if got, want := term(form), term(one); got != want {
				t.Errorf("%s is %s, %s is %s", form, got, one, want)
			}
		}
	}
}
