package analysis

import (
	"slices"
	"strings"
	"testing"
)

// TestShortTexts: what a short text is marked with: the language that it says, those few that it may be in, or that it
// may be in any.
func TestShortTexts(t *testing.T) {
	first, err := New(Config{Index: "auto-1-"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"Zahnarzt Montag":          "und", // nothing says that it is German
		"buy milk":                 "und",
		"Äpfel kaufen":             "de sv fi", // by its letters
		"Schlüssel für Garage":     "de",
		"Olga":                     "und",
		"the keys":                 "", // English
		"Clés chez Paul":           "fr",
		"I bought some milk today": "", // it is not short
		"Ich habe Milch gekauft":   "de",
		"src/auth.rs":              "",
		"42":                       "",
		"5 milk":                   "und",
		"今天 milk":                  "",
		"книги":                    "ru uk",
		"йод и ёлка":               "ru",
		"":                         "",
		strings.Repeat("x", 200):   "",
		"мой iPhone":               "ru",  // two scripts
		"see ya":                   "es",  // which has ya
		"Take care!":               "und", // care is Romanian as well
	} {
		var b Bag
		b.Add(NewAuto(), text, 1)
		var codes []string
		for _, l := range MarkedLanguages() {
			if b.Languages().Has(l) {
				codes = append(codes, strings.TrimPrefix(l.Mark(), MarkPrefix))
			}
		}
		if got := strings.Join(codes, " "); got != want {
			t.Errorf("%q is marked %q, want %q", text, got, want)
		}
		var older Bag
		older.Add(first, text, 1)
		if older.Languages().Has(Unsure) || older.Length() != b.Length() {
			t.Errorf("%q: length %d, by the first rules %d", text, b.Length(), older.Length())
		}
	}
}

// TestShortTokens: a short text has the terms of all of its readings, each once, at the word that they are of.
func TestShortTokens(t *testing.T) {
	a := NewAuto()
	const text = "Äpfel kaufen"
	tokens := a.Tokens(nil, text)
	if got := show(text, tokens); !strings.HasPrefix(got, "apfel(Äpfel)") || !strings.Contains(got, " kauf(kaufen)") || !strings.Contains(got, " kaufen") {
		t.Errorf("%s", got)
	}
	var b Bag
	b.Add(a, text, 1)
	for _, k := range tokens {
		if !slices.ContainsFunc(b.Terms(), func(f TermFreq) bool { return f.Term == k.Term && f.Freq == 1 }) {
			t.Errorf("%q is a token, and no term", k.Term)
		}
	}
	var field Bag
	if err := field.AddField(t.Context(), a, text, 1); err != nil || len(field.Terms()) != 2 || field.Languages() != 0 {
		t.Errorf("a field has the terms %v, %v", field.Terms(), err)
	}
}

// TestAsked: in which languages a query is read, and for how much, by what its scope has and what it says.
func TestAsked(t *testing.T) {
	a := NewAuto()
	shares := func(all, unsure int, in map[Language]int) *Shares {
		s := &Shares{All: all, Unsure: unsure}
		for l, docs := range in {
			s.Add(l, docs)
		}
		return s
	}
	for _, tc := range []struct {
		name   string
		text   string
		of     *Shares
		in     string
		weight float64 // of German
	}{
		{"an empty scope", "Äpfel", shares(0, 0, nil), "", 0},
		{"English texts", "roter Apfel", shares(10, 0, nil), "", 0},
		{"German texts", "roter Apfel", shares(10, 0, map[Language]int{German: 10}), "de", 1},
		{"English asks of German texts", "what did the man say", shares(10, 0, map[Language]int{German: 10}), "de", 1},
		{"English asks, few texts are German", "what did the man say", shares(1000, 0, map[Language]int{German: 10}), "", .01},
		{"English asks, some are", "what did the man say", shares(100, 0, map[Language]int{German: 10}), "de", .1},
		{"German asks, few texts are German", "wo ist der Mann", shares(1000, 0, map[Language]int{German: 10}), "de", 1},
		{"nobody says, half are German", "Apfel", shares(20, 0, map[Language]int{German: 10}), "de", 1},
		{"nobody says, few are German", "Apfel", shares(110, 0, map[Language]int{German: 10}), "de", .1},
		{"short texts, German asks", "wo ist der Apfel", shares(10, 10, nil), "de", 1},
		{"short texts beside German ones", "Apfel", shares(20, 10, map[Language]int{German: 10}), "de", 1},
		{"short texts beside English ones", "milk price", shares(20, 10, nil), "", 0},
	} {
		r := a.Asked(tc.text, tc.of)
		if got := r.In.String(); got != tc.in || r.weights[German] != tc.weight {
			t.Errorf("%s: %q is read in %q, German counts %v; want %q and %v", tc.name, tc.text, got, r.weights[German], tc.in, tc.weight)
		}
	}
	r := a.Asked("Apfel", shares(10, 10, nil))
	if !r.In.Has(Unsure) || r.Weight(Languages(0).With(Polish)) != unsureWeight || r.Weight(0) != 1 || r.Weight(Languages(0).With(base).With(Polish)) != 1 {
		t.Errorf("short texts alone: %v, Polish counts %v", r.In, r.weights[Polish])
	}
	if r := NewEnglish().Asked("wo ist der Apfel", shares(10, 0, map[Language]int{German: 10})); r.In != 0 {
		t.Errorf("an analyzer of English reads in %v", r.In)
	}
}
