package policy

import (
	"os"
	"strings"
	"testing"
)

// TestMatters verifies on a list of texts in ten languages that at least nine of ten that matter count as important
// enough to be kept, and that as many of small talk do not.
func TestMatters(t *testing.T) {
	b, err := os.ReadFile("testdata/kept.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := Default()
	var n, right [2]int
	for line := range strings.Lines(string(b)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			continue
		}
		role, text, kind := fields[0], fields[2], 0
		if fields[1] == "keep" {
			kind = 1
		}
		n[kind]++
		if keeps := Importance(text, role) >= p.MinImportance || p.ReadsTexts() && Matters(text); keeps == (kind == 1) {
			right[kind]++
		} else {
			t.Logf("%s: %q is kept: %v", role, text, keeps)
		}
	}
	t.Logf("kept %d of %d that matter, let go %d of %d of small talk", right[1], n[1], right[0], n[0])
	if n[1] < 40 || n[0] < 25 || right[1]*10 < n[1]*9 || right[0]*10 < n[0]*9 {
		t.Error("the rule is wrong about too many")
	}
}
