package main

import (
	"bufio"
	"bytes"
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
