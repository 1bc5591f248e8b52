// Package chart draws curves, bars and sequences as SVG, in colours that can be read on a light and on a
// dark page.
package chart

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// Where things are, in pixels.
const (
	width       = 760
	left, right = 76, 716
	titleLine   = 28
	top         = 62
	legendLine  = 22
	noteLine    = 17
	margin      = 12
)

// colours are those of series on a light page and on a dark one.
var colours = []struct{ light, dark string }{
	{"#0b6e4f", "#4ade9f"},
	{"#1d4ed8", "#79b8ff"},
	{"#b45309", "#f0a94b"},
	{"#c1121f", "#ff7b72"},
	{"#7c3aed", "#c4a1ff"},
	{"#0e7490", "#5bd0e6"},
}

// A drawing is an SVG that grows.
type drawing struct{ strings.Builder }

// begin opens the SVG of a height, with the style of both pages, and the title.
func begin(height float64, title string) *drawing {
	d := &drawing{}
	height += margin
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%d" height="%.0f" role="img" font-family="system-ui, sans-serif" font-size="13">`+"\n", width, height, width, height)
	d.WriteString("<title>")
	d.escape(title)
	d.WriteString("</title>\n<style>\n")
	d.style("#ffffff", "#1f2328", "#59636e", "#d8dee4", func(i int) string { return colours[i].light })
	d.WriteString("@media (prefers-color-scheme: dark) {\n")
	d.style("#0d1117", "#e6edf3", "#9aa4af", "#30363d", func(i int) string { return colours[i].dark })
	d.WriteString("}\n</style>\n")
	fmt.Fprintf(d, `<rect class="page" width="%d" height="%.0f"/>`+"\n", width, height)
	d.text(margin, titleLine, "start", "title", title)
	return d
}

// style writes the colours of one kind of page.
func (d *drawing) style(page, ink, faint, grid string, colour func(int) string) {
	fmt.Fprintf(d, ".page { fill: %s } text { fill: %s } .note { fill: %s; font-size: 11px } .grid { stroke: %s }\n", page, ink, faint, grid)
	d.WriteString(".title { font-size: 15px; font-weight: 600 } .curve { fill: none; stroke-width: 2 } .mark { stroke: " + faint + "; stroke-dasharray: 4 3 } .over { paint-order: stroke; stroke: " + page + "; stroke-width: 4px }\n")
	for i := range colours {
		fmt.Fprintf(d, ".f%d { fill: %s } .s%d { stroke: %s }\n", i, colour(i), i, colour(i))
	}
}

// text writes a line of text; class may be empty.
func (d *drawing) text(x, y float64, anchor, class, s string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>`, x, y, anchor, class)
	d.escape(s)
	d.WriteString("</text>\n")
}

func (d *drawing) escape(s string) {
	// A builder's writes don't fail.
	_ = xml.EscapeText(d, []byte(s))
}

// grid draws a line of the grid.
func (d *drawing) grid(x1, y1, x2, y2 float64) {
	fmt.Fprintf(d, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", x1, y1, x2, y2)
}

// legend names the series, one a line, from a place on.
func (d *drawing) legend(x, y float64, names []string) {
	for i, name := range names {
		at := y + float64(i*legendLine)
		fmt.Fprintf(d, `<rect class="f%d" x="%.1f" y="%.1f" width="18" height="10"/>`+"\n", i%len(colours), x, at-9)
		d.text(x+26, at, "start", "", name)
	}
}

// end writes the notes from y on, closes the SVG and writes it.
func (d *drawing) end(out io.Writer, y float64, notes []string) error {
	for i, note := range notes {
		d.text(margin, y+float64(i*noteLine), "start", "note", note)
	}
	d.WriteString("</svg>\n")
	_, err := io.WriteString(out, d.String())
	return err
}

// roundDown returns the largest of … 1, 2, 5, 10, 20 … that is no larger than
// v; of a negative v, less the smallest no smaller than its magnitude.
func roundDown(v float64) float64 {
	if v < 0 {
		low := roundDown(-v)
		if low == -v {
			return v
		}
		return -next(low)
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{5, 2} {
		if v >= step*power {
			return step * power
		}
	}
	return power
}

// next is the round number after one.
func next(v float64) float64 {
	if lead := v / math.Pow(10, math.Floor(math.Log10(v)+1e-9)); lead > 1.5 && lead < 3 {
		return v * 2.5
	}
	return v * 2
}

// number prints a mark of an axis, with its thousands apart.
func number(v float64) string {
	s := fmt.Sprintf("%.4g", v)
	if v < 1000 || v >= 1e15 {
		return s
	}
	s = fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
