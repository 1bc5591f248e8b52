package policy

import (
	"os"
	"strings"
	"testing"
)

// saidLines are the lines of a list, and those that were held back while the rule was written.
func saidLines(t *testing.T, name string) (seen, held []string) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if n++; n%4 == 0 {
			held = append(held, line)
		} else {
			seen = append(seen, line)
		}
	}
	return seen, held
}

// TestFactsAreImportant: no short fact is below the importance at which the default policy evicts, and no phrase without
// content is above. When the rule was tried first on the lines that were held back, it was right about all 50 facts and 47
// of 50 phrases.
func TestFactsAreImportant(t *testing.T) {
	least := Default().MinImportance
	wrong := func(lines []string, fact bool) (n int) {
		for _, line := range lines {
			if got := Importance(line, "user"); got >= least != fact {
				n++
				t.Logf("%q has the importance %v", line, got)
			}
		}
		return n
	}
	facts, heldFacts := saidLines(t, "facts.txt")
	phrases, heldPhrases := saidLines(t, "phrases.txt")
	if n := len(facts) + len(heldFacts); n != 200 {
		t.Errorf("%d facts", n)
	}
	if n := len(phrases) + len(heldPhrases); n != 200 {
		t.Errorf("%d phrases", n)
	}
	lost, lostHeld := wrong(facts, true), wrong(heldFacts, true)
	kept, keptHeld := wrong(phrases, false), wrong(heldPhrases, false)
	t.Logf("facts: %d of %d below, held back %d of %d; phrases: %d of %d above, held back %d of %d",
		lost, len(facts), lostHeld, len(heldFacts), kept, len(phrases), keptHeld, len(heldPhrases))
	if lost+lostHeld+kept+keptHeld > 0 {
		t.Error("facts are below, or phrases above")
	}
}

func BenchmarkHasContent(b *testing.B) {
	for name, text := range map[string]string{"fact": "I moved from Porto to Lisbon in spring", "phrase": "thank you so much, that is great"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				hasContent(text)
			}
		})
	}
}
