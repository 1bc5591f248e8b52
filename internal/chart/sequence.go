package chart

import (
	"fmt"
	"io"
	"math"
)

// Piece is a piece of a sequence: a bar of a series, as high as its value, or where Mark is set a
// line with that name between the pieces around it.
type Piece struct {
	Series int
	Value  float64
	Mark   string
}

// A Sequence has bars that stand side by side in their order, with marks between them. The height is
// logarithmic, so that short ones beside long ones can be seen.
type Sequence struct {
	Title, X, Y string
	Notes       []string
	Series      []string // bars of each have a colour of their own
	Pieces      []Piece
}

// mostWide is how many pixels a bar takes at most.
const mostWide = 18

// markRows is in how many rows the names of marks stand, so that those of neighbours can be read.
const markRows = 4

// WriteSVG draws the sequence.
func (c *Sequence) WriteSVG(out io.Writer) error {
	legend := float64(bottom + 74)
	notes := legend + float64(len(c.Series)*legendLine)
	d := begin(notes+float64(len(c.Notes)*noteLine), c.Title)
	d.text((left+right)/2, bottom+42, "middle", "", c.X)
	d.text(margin, top-12, "start", "", c.Y)
	bars, high := 0, 10.0
	for _, p := range c.Pieces {
		if p.Mark == "" {
			bars, high = bars+1, max(high, p.Value)
		}
	}
	decades := math.Ceil(math.Log10(high) - 1e-9)
	height := func(v float64) float64 { return math.Log10(max(v, 1)) / decades * (bottom - top) }
	for e := 0.0; e <= decades; e++ {
		at := bottom - height(math.Pow(10, e))
		d.grid(left, at, right, at)
		d.text(left-8, at+4, "end", "", number(math.Pow(10, e)))
	}
	slot := float64(right-left) / float64(max(bars, 1))
	wide := min(max(slot*.8, 1), mostWide)
	x, n := left+0.0, 0
	var marks []Mark
	for _, p := range c.Pieces {
		if p.Mark != "" {
			marks = append(marks, Mark{x, p.Mark})
			continue
		}
		tall := max(height(p.Value), 2)
		fmt.Fprintf(d, `<rect class="f%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", p.Series%len(colours), x+(slot-wide)/2, bottom-tall, wide, tall)
		x += slot
		if n++; n == 1 || n == bars {
			d.text(x-slot/2, bottom+18, "middle", "", number(float64(n)))
		}
	}
	for i, m := range marks { // over the bars
		fmt.Fprintf(d, `<line class="mark" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", m.X, top-4, m.X, bottom)
		anchor, at := "start", m.X+4
		if m.X > (left+right)/2 {
			anchor, at = "end", m.X-4
		}
		d.text(at, float64(top+8+i%markRows*14), anchor, "note over", m.Name)
	}
	d.legend(left, legend, c.Series)
	return d.end(out, notes, c.Notes)
}
