package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestScreen: a terminal gets text, its own styles, and nothing else that could steer it, however
// the text is cut into writes.
func TestScreen(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		progress       bool
	}{
		{name: "text", in: "Grüße, 東京 😀\tend\n", want: "Grüße, 東京 😀\tend\n"},
		{name: "styles", in: "\x1b[1mbold\x1b[0m \x1b[2mdim\x1b[0m", want: "\x1b[1mbold\x1b[0m \x1b[2mdim\x1b[0m"},
		{name: "a title", in: "\x1b]0;owned\x07x", want: `\x1b]0;owned\ax`},
		{name: "a colour", in: "\x1b[31mred", want: `\x1b[31mred`},
		{name: "a cursor", in: "\x1b[2J\x1b[Hx", want: `\x1b[2J\x1b[Hx`},
		{name: "C1", in: "a\u009b31mb\u0085", want: `a\u009b31mb\u0085`},
		{name: "directions", in: "a\u202eb\u2066c", want: `a\u202eb\u2066c`},
		{name: "a line over another", in: "good\rbad\r\n", want: `good\rbad` + "\r\n"},
		{name: "progress", in: "\r10 %\x1b[K", want: "\r10 %\x1b[K", progress: true},
		{name: "no text", in: "a\xff\x9bb", want: `a\xff\x9bb`},
		{name: "backspace", in: "safe\b\b\b\bevil\x7f", want: `safe\b\b\b\bevil\x7f`},
	} {
		for size := 1; size <= len(c.in); size++ {
			var out bytes.Buffer
			w := onScreen(&out, 80, c.progress)
			for in := c.in; in != ""; {
				n := min(size, len(in))
				if got, err := w.Write([]byte(in[:n])); err != nil || got != n {
					t.Fatalf("%s: wrote %d, %v", c.name, got, err)
				}
				in = in[n:]
			}
			if got := out.String(); got != c.want {
				t.Errorf("%s, %d bytes at a time: %q, want %q", c.name, size, got, c.want)
			}
		}
	}
	var out bytes.Buffer
	raw := "\x1b[31m\xff" + strings.Repeat("x", 10)
	if _, err := onScreen(&out, 0, false).Write([]byte(raw)); err != nil || out.String() != raw {
		t.Errorf("a pipe gets %q, %v", out.String(), err)
	}
}
