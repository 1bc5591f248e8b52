package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestTourPage runs each line of docs/tour.md behind a $, one after the other, in one folder, and
// compares what it prints. An … of the page is anything within a line.
func TestTourPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("printf is that of Unix")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "tour.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := newCLI(t)
	t.Chdir(t.TempDir())
	lines := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for _, call := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			line, want, _ := strings.Cut(call, "\n")
			lines++
			got := c.tour(line)
			pattern := regexp.QuoteMeta(strings.TrimSpace(want))
			pattern = "^" + strings.ReplaceAll(pattern, "…", ".*") + "$"
			if !regexp.MustCompile(pattern).MatchString(strings.TrimSpace(got)) {
				t.Errorf("$ %s\n%s\nthe page has\n%s", line, got, want)
			}
		}
	}
	if lines < 25 {
		t.Errorf("the page has %d lines: its blocks are not found", lines)
	}
}

// tour runs a line of the page, and returns what a terminal shows.
func (c *cli) tour(line string) string {
	c.t.Helper()
	verb, ours := strings.CutPrefix(line, "memdbctl ")
	if !ours {
		return c.sh(line)
	}
	args, err := words(verb)
	if err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	r := c.bare(args...)
	return r.err + r.out
}

// sh runs a line of a page that is none of memdbctl's.
func (c *cli) sh(line string) string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "sh", "-c", line).CombinedOutput()
	if err != nil {
		c.t.Errorf("%s: %v: %s", line, err, out)
	}
	return string(out)
}
