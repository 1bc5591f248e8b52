package analysis

import "testing"

func TestFoldCase(t *testing.T) {
	for _, c := range [][2]string{{"Tea", "tEA"}, {"STRASSE", "straße"}, {"ΣΊΣΥΦΟΣ", "σίσυφος"}, {"", ""}} {
		if FoldCase(c[0]) != FoldCase(c[1]) {
			t.Errorf("%q and %q differ: %q, %q", c[0], c[1], FoldCase(c[0]), FoldCase(c[1]))
		}
	}
	if FoldCase("tea") == FoldCase("te") {
		t.Error("tea is te")
	}
}
