package mention

import (
	"strings"
	"testing"
)

// TestLists reads the embedded lists: each is there, in its place, with names in the form by which
// they are looked for.
func TestLists(t *testing.T) {
	counts := map[listed]int{}
	for name, in := range listing() {
		if name != Fold(name) || name != Clean(name, MaxName) {
			t.Errorf("%q is not folded", name)
		}
		for _, list := range []listed{commonWord, givenName, placeName} {
			if in.is(list) {
				counts[list]++
			}
		}
		if in >= placeName<<1 {
			t.Errorf("%q is in a fourth list", name)
		}
	}
	if counts[commonWord] != 20446 || counts[givenName] != 5372 || counts[placeName] != 4668 {
		t.Errorf("counts %v", counts)
	}
	for name, want := range map[string]listed{
		"walk": commonWord, "mia": givenName, "new york city": placeName, "sydney": givenName | placeName, "grace": commonWord | givenName, "nice": commonWord | placeName,
	} {
		if got := listing()[name]; got != want {
			t.Errorf("%q is in %b, want %b", name, got, want)
		}
	}
	if len(lists) > 200<<10 {
		t.Errorf("the lists take %d bytes of every program", len(lists))
	}
	for name := range famous {
		if name != Fold(name) || strings.TrimSpace(name) == "" {
			t.Errorf("famous %q is not folded", name)
		}
	}
}
