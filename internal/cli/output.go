package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// printJSON prints a value as a line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return outputError(err)
	}
	return nil
}

// printf prints for people. A failed write is found when stdout is flushed.
func (a *app) printf(format string, args ...any) {
	fmt.Fprintf(a.stdout, format, args...)
}

// table is a list for people: columns under a header on a terminal, and
// elsewhere the bare cells with a tab between, which a program can cut apart.
type table struct {
	header []string
	rows   [][]string
	notes  map[int]string // more about a row: a line below it, or one cell more
	whole  bool           // the last column is not cut to the terminal's width
}

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = escape(c)
	}
	t.rows = append(t.rows, cells)
}

// note adds to the row that was added last.
func (t *table) note(s string) {
	if t.notes == nil {
		t.notes = map[int]string{}
	}
	t.notes[len(t.rows)-1] = escape(s)
}

// gap separates columns on a terminal.
const gap = 2

// minLast is what the last column gets on the narrowest terminal.
const minLast = 20

func (a *app) printTable(t *table) {
	if a.outWidth == 0 {
		for i, row := range t.rows {
			a.printf("%s", strings.Join(row, "\t"))
			if note, ok := t.notes[i]; ok {
				a.printf("\t%s", note)
			}
			a.printf("\n")
		}
		return
	}
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], width(cell))
		}
	}
	before := 0
	for _, w := range widths[:len(widths)-1] {
		before += w + gap
	}
	room := max(a.outWidth-before, minLast)
	if strings.Join(t.header, "") != "" {
		a.printf("%s\n", a.dim(align(t.header, widths)))
	}
	for i, row := range t.rows {
		if !t.whole {
			row[len(row)-1] = cut(row[len(row)-1], room)
		}
		a.printf("%s\n", align(row, widths))
		if note, ok := t.notes[i]; ok {
			a.printf("    %s\n", a.dim(note))
		}
	}
}

// align pads all cells but the last.
func align(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(cell)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-width(cell)+gap))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func (a *app) bold(s string) string { return a.style("1", s) }
func (a *app) dim(s string) string  { return a.style("2", s) }

func (a *app) style(code, s string) string {
	if !a.styled || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// escape shows control characters, and those that turn the direction of what
// follows, as Go escapes: a memory's text must not steer a terminal.
func escape(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// width is how many columns a text takes on a terminal: two for a character of
// the Chinese, Japanese or Korean scripts and for a pictogram, none for a mark
// that combines with the one before.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0x3000 && r <= 0x303e, r >= 0xff01 && r <= 0xff60, // their punctuation and full forms
		r >= 0x1f300 && r <= 0x1faff:
		return 2
	}
	return 1
}

// cut shortens a text to a number of columns, with an ellipsis for what is gone.
func cut(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > columns-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// number writes a count with its thousands apart.
func number[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is a number of things: 1 memory, 2,760 memories.
func count[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// size writes a number of bytes with a unit.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/unit, "KMGTPE"
	for f >= unit && len(units) > 1 {
		f, units = f/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}
