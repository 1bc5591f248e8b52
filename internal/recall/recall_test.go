package recall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestFirstBytes: a text is cut between letters.
func TestFirstBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"éé", 1, ""}, {"", 0, ""}, {"a", 0, ""}} {
		if got := firstBytes(c.text, c.n); got != c.want {
			t.Errorf("%q within %d: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// TestIsNamed: which words of a question may be names by themselves.
func TestIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"Is Ann with Dr. Who?":          "Ann with Dr Who",
		"Jean-Luc's ship":               "Jean-Luc ship",
		"what did will buy":             "what buy will",
		"will she come":                 "she come",
		"Will the ship sail?":           "the ship sail",
		"Will likes ships":              "likes ships",
		"will's ship":                   "will ship",
		"Where is O'Neil's house?":      "Where O'Neil house",
		"mark my words":                 "my words",
		"is there hope":                 "there",
		"what does hope like":           "what hope like",
		"Hope is lost":                  "Hope lost",
		"May I ask?":                    "I ask",
		"seen on 3 May 2023 by Anna":    "seen on by Anna",
		"what did May say in May":       "what May say in",
		"the .Dots. and -Dashes- of Xi": "the Dots and Dashes of Xi",
	} {
		var got []string
		words := namedWords(text)
		for i := range words {
			if isNamed(words, i) {
				got = append(got, words[i].text)
			}
		}
		slices.Sort(got)
		wanted := strings.Fields(want)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%q: %q, want %q", text, got, wanted)
		}
	}
}

// TestRoleAskedAbout: whose turns a question without a name is about.
func TestRoleAskedAbout(t *testing.T) {
	german := analysis.Languages(0).With(analysis.German)
	for _, c := range []struct {
		text string
		in   analysis.Languages
		want memory.Role
	}{
		{"What did I buy?", 0, memory.RoleUser},
		{"what's my name", 0, memory.RoleUser},
		{"When did we move?", 0, memory.RoleUser},
		{"Can you remind me where I parked?", 0, memory.RoleUser},
		{"Do you remember my sister's name?", 0, memory.RoleUser},
		{"Did I tell you about Ghent?", 0, memory.RoleUser},
		{"What did you recommend?", 0, memory.RoleAssistant},
		{"Can you remind me of the hotel you suggested for my trip?", 0, memory.RoleAssistant},
		{"which book did you tell me about", 0, memory.RoleAssistant},
		{"Tell me about Paris", 0, ""},
		{"Could you please tell me when Ada was born?", 0, ""},
		{"Who painted the lighthouse?", 0, ""},
		{"the US economy", 0, ""},
		{"Wo habe ich geparkt?", 0, ""},
		{"Wo habe ich geparkt?", german, memory.RoleUser},
		{"Was hast du empfohlen?", german, memory.RoleAssistant},
		{"我去了哪里", 0, memory.RoleUser},
		{"", 0, ""},
	} {
		if got := roleAskedAbout(c.text, c.in); got != c.want {
			t.Errorf("%q is about the turns of %q, want %q", c.text, got, c.want)
		}
	}
}

// TestAsksWhen: which questions ask for a time.
func TestAsksWhen(t *testing.T) {
	for text, want := range map[string]bool{
		"When did Ada move?": true, "when": true, "What year was it?": true, "In which month did she go?": true, "How long ago was that?": true,
		"When I was in Rome, what did I eat?": false, "How long is it?": false, "What was her best year?": false, "": false, "Wann war das?": true,
		"What day trips did she make?": true,
	} {
		if got := asksWhen(wordsOf(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestWorkHasALimit: the error of a query that takes too many steps says so.
func TestWorkHasALimit(t *testing.T) {
	err := matchError(fmt.Errorf("%w: 7", query.ErrSteps))
	if !errors.Is(err, memory.ErrInvalid) || !errors.Is(err, query.ErrSteps) || !strings.Contains(err.Error(), "fewer phrases") {
		t.Error(err)
	}
	if err := matchError(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzQuestion: no question makes the readers of who and when fail.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{"What did Will's mother say in May?", "张伟说了什么", "ユーザー名は", "' ’s s' -", "can you tell me", "when", "\xff 3 May"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := namedWords(text)
		for i := range words {
			isNamed(words, i)
			for _, part := range cjkParts(words[i].text) {
				if part == "" {
					t.Error("an empty part")
				}
			}
		}
		roleAskedAbout(text, 0)
		asksWhen(wordsOf(text))
	})
}
