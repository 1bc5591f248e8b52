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
		"We visited Rome and the Sonoma Valley with Bob's parents.":             "Rome:location Sonoma Valley:location Bob:person |",
		"Thanks, Mel! On Monday I go home. Monday is fine.":                     "Mel:person |",
		"Write to ada@example.org or @ada_l, see https://example.org/a?b=c.":    "https://example.org/a?b=c:concept ada@example.org:person @ada_l:person |",
		"On 7 May 2023, on May 8th, 2023 and 2023-06-09; in July 2024.":         "2023-05-07:date 2023-05-08:date 2023-06-09:date 2024-07:date |",
		"2023-13-01 and 99 May 2023 are no dates. Yes. No. Maybe. The end. It.": "|",
		"":  "|",
		"I": "|",
		"acme Acme Inc and Vincent van Gogh. gogh":                                           "Acme Inc:organization Vincent van Gogh:person |",
		"Back in 2016, on May 7th or 3rd of June, I may 5 times. March 2020!":                "2016:date May 7:date June 3:date 2020-03:date |",
		"You've met Everyone. Here's Friday, Fri and Tues. WOW, BTW, It's INTENSE!":          "|",
		"Last Friday I saw Ada. Glad Max came. Woah Joanna, thanks. Adding NYC!":             "Ada:person Max:person Joanna:person NYC:location |",
		"J.K. Rowling wrote it, and George R. R. Martin did. So did I. That was it.":         "J.K. Rowling:person George R. R. Martin:person |",
		"I read \"The Long Way Home\" and 'Small Gods', played “Go West”, and said \"Yes\".": "The Long Way Home:product Small Gods:product Go West:product |",
		"For Christmas we flew to Austin; Austin flew back. I study German in Berlin.":       "Christmas:event Austin:location German:concept Berlin:location |",
		"Nora is Ada's sister. Ada's brother Tom grew up in Ghent.":                          "Nora:person Ada:person Tom:person Ghent:location | Nora sister_of Ada Tom brother_of Ada Tom grew_up_in Ghent",
		"Ada works at Zorblax, and Zorblax hired me. Ada doesn't live in Rome.":              "Ada:person Zorblax:organization Rome:location | Ada works_at Zorblax",
		"Berlin works at Ada. Rome met Ada.":                                                 "Berlin:location Ada:person Rome:location |",
		"Her name is Shadow, his dog's name's Coco, and a cat named Pepper.":                 "Shadow:person Coco:person Pepper:person |",
		"Bob moved. Persona works at Firma, and Rob met Grace. Mark my words.":               "Bob:person Persona:person Firma:organization Rob:person Grace:person | Persona works_at Firma Rob met Grace",
		"LeBron, the NBA and Lake Placid":                                                    "LeBron:person NBA:organization Lake Placid:location |",
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
