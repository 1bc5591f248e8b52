package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestOperatingPage runs each line of each block of docs/operating.md, one after the other, in one
// folder. All of them end with exit code 0.
func TestOperatingPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("cp and rm are those of Unix")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := newCLI(t)
	t.Chdir(t.TempDir())
	verbs := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			verb, ours := strings.CutPrefix(line, "memdbctl ")
			if !ours {
				c.sh(line)
				continue
			}
			args, err := words(verb)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			verbs++
			if r := c.bare(args...); r.code != exitDone {
				t.Errorf("%s: exit %d: %s", line, r.code, r.err)
			}
		}
	}
	if verbs < 20 {
		t.Errorf("the page has %d verbs: its blocks are not found", verbs)
	}
	// What the page has erased and moved is where it says.
	if r := c.bare("user", "list"); strings.Contains(r.out, "bob") || !strings.Contains(r.out, "ada") {
		t.Errorf("after the page: %s", r.out)
	}
	if r := c.bare("--db", "other.data", "list", "--user", "ada"); !strings.Contains(r.out, "Prefers tea") {
		t.Errorf("ada was not moved: %s", r.out)
	}
}
