package cli

import (
	"bufio"
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain — ünïcode 漢字 👩‍🚀": "plain — ünïcode 漢字 👩‍🚀",
		"a\tb\nc\r":              `a\tb\nc\r`,
		"\x1b]0;title\x07":       `\x1b]0;title\a`,
		"\u009b31m":              `\u009b31m`,
		"\u202etxt.exe":          `\u202etxt.exe`,
		"\x7f\u2028":             `\x7f\u2028`,
		`back\slash "quoted"`:    `back\slash "quoted"`,
	} {
		if got := escape(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		in      string
		columns int
		want    string
	}{
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{"漢字漢字", 8, "漢字漢字"},
		{"漢字漢字", 7, "漢字漢…"},
		{"漢字漢字", 6, "漢字…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"ab", 1, "…"},
		{"", 0, ""},
	} {
		got := cut(test.in, test.columns)
		if got != test.want || width(got) > test.columns {
			t.Errorf("%q to %d: %q, want %q", test.in, test.columns, got, test.want)
		}
	}
}

// On a terminal the columns stand below each other, wide characters or not.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, "1\t漢字\tfirst\\nline\tmore\n22\ta\tsecond\n"},
		{80, "N   NAME  TEXT\n1   漢字  first\\nline\n    more\n22  a     second\n"},
		{12, "N   NAME  TEXT\n1   漢字  first\\nline\n    more\n22  a     second\n"},
	} {
		out.Reset()
		a := &app{console: console{outWidth: test.width}, stdout: bufio.NewWriter(&out)}
		table := &table{header: []string{"N", "NAME", "TEXT"}}
		table.add("1", "漢字", "first\nline")
		table.note("more")
		table.add("22", "a", "second")
		a.printTable(table)
		a.stdout.Flush()
		if out.String() != test.want {
			t.Errorf("width %d:\n%q, want\n%q", test.width, out.String(), test.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[int]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := number(in); got != want {
			t.Errorf("%d: %s, want %s", in, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 memories", 1: "1 memory", 2: "2 memories", 2760: "2,760 memories"} {
		if got := count(n, "memory", "memories"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 811205: "792.2 KiB", 2 << 30: "2.0 GiB", math.MaxInt64: "8.0 EiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// On a terminal the statistics have units; in a pipe they are numbers. Each space has
// its rows.
func TestStatsForPeople(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "x", "--user", "u", "--embedding", "[1,2]")
	plain := c.ok("stats")
	for _, want := range []string{"memories\t1\n", "\nmemory.budget\t", "\nspaces.default.dim\t2\n", "\nspaces.default.metric\t\"cosine\"\n"} {
		if !strings.Contains(plain, want) {
			t.Errorf("%q is not in\n%s", want, plain)
		}
	}
	if strings.Contains(plain, "iB") {
		t.Errorf("units in a pipe:\n%s", plain)
	}
	c.outWidth = 80
	if wide := c.ok("stats"); !strings.Contains(wide, "iB\n") || strings.Contains(wide, "[") {
		t.Errorf("on a terminal:\n%s", wide)
	}
}

func TestPercentile(t *testing.T) {
	var sorted []time.Duration
	for i := range 200 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for _, test := range []struct{ n, p, want int }{{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {2, 99, 2}, {100, 50, 50}, {100, 99, 99}, {200, 99, 198}} {
		if got := percentile(sorted[:test.n], test.p); int(got) != test.want {
			t.Errorf("p%d of %d: %d, want %d", test.p, test.n, got, test.want)
		}
	}
}
