package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestRequestID runs commands twice with one ID: the second run prints the first result, and changes
// nothing.
func TestRequestID(t *testing.T) {
	c := newCLI(t)
	for i, args := range [][]string{
		{"usage", "add", "--agent", "a1", "--model", "m", "--prompt", "3", "--cost", "0.5"},
		{"store", "tea", "--user", "ada", "--no-dedup"},
		{"store", "-", "--user", "ada", "--session", "monday"},
		{"session", "append", "monday", "hello", "--user", "ada"},
		{"fact", "add", "I like tea", "--user", "bob"},
	} {
		args = append(args, "--json", "--request-id", "r"+string(rune('0'+i)))
		c.in = strings.NewReader("coffee\n")
		first := c.ok(args...)
		before := c.ok("export", "-")
		c.in = strings.NewReader("coffee\n")
		again := c.ok(append(slices.Clone(args), "--quiet")...)
		if !strings.Contains(again, `"repeated":true`) || strings.Replace(again, `,"repeated":true`, "", 1) != first {
			t.Errorf("%v again: %s, first %s", args, again, first)
		}
		if after := c.ok("export", "-"); after != before {
			t.Errorf("%v again has changed something:\n%s\nbefore\n%s", args, after, before)
		}
		c.in = strings.NewReader("another text\n")
		if args[1] != "-" {
			args = append(args, "--agent", "a2")
		}
		c.fails(exitFailed, "its ID was given to another request", args...)
	}
	c.fails(exitUsage, "its request ID is empty", "usage", "add", "--agent", "a1", "--model", "m", "--request-id", "")
	// For people: the first result, and a note.
	for i := range 2 {
		r := c.run("usage", "add", "--agent", "a1", "--model", "m", "--request-id", "p")
		if r.code != exitDone || r.out != "recorded 0 tokens for 0 dollars\n" || strings.Contains(r.err, "was done before") != (i > 0) {
			t.Errorf("%+v", r)
		}
	}
	if got := one(t, c.objects("usage", "total", "--agent", "a1")); got["records"] != 2.0 {
		t.Errorf("%v", got)
	}
	// What failed is run again.
	c.ok("store", "one", "--user", "ada", "--id", "x")
	other := []string{"store", "two", "--user", "ada", "--id", "x", "--request-id", "f"}
	c.fails(exitFailed, "other content", other...)
	c.ok("delete", "x", "--user", "ada")
	if out := c.ok(other...); out != "stored x\n" {
		t.Error(out)
	}
}
