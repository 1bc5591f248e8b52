package policy

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// readPairs reads a list of pairs of texts.
func readPairs(t *testing.T, name string) (pairs [][2]string) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.Trim(line, "\n"); line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		var pair [2]string
		a, b, _ := strings.Cut(line, "\t")
		for i, text := range []string{a, b} {
			if pair[i], err = strconv.Unquote("\"" + strings.ReplaceAll(text, "\"", "\\\"") + "\""); err != nil {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
		}
		pairs = append(pairs, pair)
	}
	return pairs
}

// TestSaySame verifies that texts which differ only in how they are written say the same.
func TestSaySame(t *testing.T) {
	pairs := readPairs(t, "same.txt")
	if len(pairs) < 60 {
		t.Errorf("%d pairs", len(pairs))
	}
	for _, pair := range pairs {
		if Saying(pair[0]) != Saying(pair[1]) {
			t.Errorf("%q and %q say the same: %q, %q", pair[0], pair[1], Saying(pair[0]), Saying(pair[1]))
		}
	}
}

// TestSayOther verifies that texts are kept apart where one sign may change the meaning.
func TestSayOther(t *testing.T) {
	pairs := readPairs(t, "other.txt")
	if len(pairs) < 120 {
		t.Errorf("%d pairs", len(pairs))
	}
	for _, pair := range pairs {
		if Saying(pair[0]) == Saying(pair[1]) {
			t.Errorf("%q and %q are taken for the same: %q", pair[0], pair[1], Saying(pair[0]))
		}
	}
}

// TestSayingOfAnything: no text makes it fail, and the form of a form is the form.
func FuzzSaying(f *testing.F) {
	for _, seed := range []string{"", "I'm 5'", "— 5", ":-(", "a,b", "\xff", "東京,tea"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		form := Saying(text)
		if Saying(text+" ") != form || Saying("\n"+text) != form {
			t.Errorf("spaces around %q change its form %q", text, form)
		}
		if strings.TrimSpace(form) != form {
			t.Errorf("the form %q of %q has spaces around it", form, text)
		}
	})
}

func BenchmarkSaying(b *testing.B) {
	text := "The user prefers dark mode in the editor and in the terminal, and doesn't like notifications after 6 pm."
	for b.Loop() {
		Saying(text)
	}
}
