package mcp

import (
	"strings"
	"testing"
)

// TestLower holds lower against what V8 answers.
func TestLower(t *testing.T) {
	long := strings.Repeat("ΟΔΟΣ Σ", 300)
	for s, want := range map[string]string{
		"":               "",
		"Ada Ǆ ẞ K 𐐀":    "ada ǆ ß k 𐐨",
		"İI":             "i\u0307i",
		"Σ ":             "σ ",
		"ΟΔΟΣ ΣΟΔΟΣ":     "οδος σοδος",
		"ΟΔΟΣ.":          "οδος.",
		"Σ'Α":            "σ'α",
		"ΑΣ'Σ":           "ασ'ς",
		"1\u0345Σ":       "1\u0345σ", // cased and case-ignorable
		"ʰΣ":             "ʰσ",
		"aΣ\u00ad\u00ad": "aς\u00ad\u00ad",
		long:             "οδος σ" + strings.Repeat("οδος σ", 299),
	} {
		if got := lower(s); got != want {
			t.Errorf("%q: %q, not %q", s, got, want)
		}
	}
}
