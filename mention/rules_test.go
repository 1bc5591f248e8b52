package mention

import (
	"fmt"
	"strings"
	"testing"
)

// TestRules shows what the rules find, a line for each text.
func TestRules(t *testing.T) {
	for text, want := range map[string]string{
		"Ada works at Google.":                                                  "Ada:person Google:organization | Ada works_at Google",
		"I met Dr. Maria Lopez in Ghent last week":                              "Maria Lopez:person Ghent:location |",
		"Hey Caroline! Wow, that's great.":                                      "Caroline:person |",
		"My sister Anna studies at the University of Antwerp.":                  "Anna:person University of Antwerp:organization |",
		"We visited Rome and the Sonoma Valley with Bob's parents.":             "Rome:location Sonoma Valley:location Bob:concept |",
		"Thanks, Mel! On Monday I go home. Monday is fine.":                     "Mel:concept |",
		"Write to ada@example.org or @ada_l, see https://example.org/a?b=c.":    "https://example.org/a?b=c:concept ada@example.org:person @ada_l:person |",
		"On 7 May 2023, on May 8th, 2023 and 2023-06-09; in July 2024.":         "2023-06-09:event 2023-05-07:event 2024-07:event 2023-05-08:event |",
		"2023-13-01 and 99 May 2023 are no dates. Yes. No. Maybe. The end. It.": "|",
		"":  "|",
		"I": "|",
		"acme Acme Inc and Vincent van Gogh. gogh": "Acme Inc:organization Vincent van Gogh:concept |",
	} {
		f, err := Rules{}.Extract(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if why := f.Refusal(); why != "" {
			t.Error(why)
		}
		var got []string
		for _, e := range f.Entities {
			got = append(got, e.Name+":"+e.Type)
		}
		got = append(got, "|")
		for _, r := range f.Relations {
			got = append(got, fmt.Sprint(r.Source, " ", r.Relation, " ", r.Target))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestRulesAreBounded reads texts of bad shape.
func TestRulesAreBounded(t *testing.T) {
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, "so Ab%c%c%c met ", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	for _, text := range []string{
		many.String(), strings.Repeat("A", 2<<20), strings.Repeat("@a ", 1<<19), strings.Repeat("1 May 2020 ", 1<<17),
		"\xff\xfeAda \x00Bob", strings.Repeat("de la ", 1<<17), strings.Repeat("Ab-", 1<<18),
	} {
		f, err := Rules{}.Extract(t.Context(), Head(text))
		if err != nil || f.Refusal() != "" {
			t.Errorf("%.20q: %s, %v", text, f.Refusal(), err)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add("Ada met Bob's friend in Rome on 7 May 2023. @x_y a@b.cd https://e.f")
	f.Fuzz(func(t *testing.T, text string) {
		if found, err := (Rules{}).Extract(t.Context(), Head(text)); err != nil || found.Refusal() != "" {
			t.Error(err, found.Refusal())
		}
	})
}

// TestHead cuts a text between letters.
func TestHead(t *testing.T) {
	text := strings.Repeat("a", MaxText-1) + "é"
	if got := Head(text); got != text[:MaxText-1] {
		t.Errorf("%q", got[len(got)-3:])
	}
}

func BenchmarkRules(b *testing.B) {
	const text = "Hey Caroline! On 7 May 2023 I met Dr. Maria Lopez in Ghent, she works at the University of Antwerp; write to ada@example.org."
	for b.Loop() {
		if _, err := (Rules{}).Extract(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}
