package graph

import (
	"slices"
	"testing"
)

// TestLessOneLetter: a name whose bytes are damaged has letters, too.
func TestLessOneLetter(t *testing.T) {
	for name, want := range map[string][]string{
		"":      {""},
		"ab":    {"a", "ab", "b"},
		"aß":    {"a", "aß", "ß"},
		"a\xff": {"a", "a\xff", "\xff"},
		"a\xe4": {"a", "a\xe4", "\xe4"},
	} {
		if got := lessOneLetter(name); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
