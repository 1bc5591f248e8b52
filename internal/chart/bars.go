package chart

import (
	"fmt"
	"io"
	"math"
)

// A Row is a group of bars, one for each series.
type Row struct {
	Name   string
	Values []float64 // NaN: there is none
	Other  bool      // of a chart of one series: drawn in the second colour
}

// Bars has groups of bars that lie, over a linear x axis from 0 on. The value stands behind each.
type Bars struct {
	Title, X string
	Notes    []string
	Digits   int      // of the values, behind the point
	Series   []string // one alone is not named
	Rows     []Row
}

const (
	barHeight = 16
	barGap    = 14 // between groups
	barLeft   = 210
	barRight  = 680 // leaves room for the value
)

// WriteSVG draws the chart.
func (c *Bars) WriteSVG(out io.Writer) error {
	group := float64(len(c.Series)*barHeight + barGap)
	end := top - 20 + float64(len(c.Rows))*group
	legend := end + 66
	notes := legend
	if len(c.Series) > 1 {
		notes += float64(len(c.Series) * legendLine)
	}
	d := begin(notes+float64(len(c.Notes)*noteLine), c.Title)
	high := c.marks(d, end)
	d.text((barLeft+barRight)/2, end+42, "middle", "", c.X)
	for i, row := range c.Rows {
		y := top - 20 + float64(i)*group + barGap/2
		d.text(barLeft-10, y+float64(len(c.Series)*barHeight)/2+4, "end", "", row.Name)
		for j, v := range row.Values {
			if math.IsNaN(v) {
				continue
			}
			at := y + float64(j*barHeight)
			long := v / high * (barRight - barLeft)
			colour := j % len(colours)
			if row.Other {
				colour = 1
			}
			fmt.Fprintf(d, `<rect class="f%d" x="%d" y="%.1f" width="%.1f" height="%d"/>`+"\n", colour, barLeft, at+1, long, barHeight-2)
			label := number(math.Round(v))
			if c.Digits > 0 {
				label = fmt.Sprintf("%.*f", c.Digits, v)
			}
			d.text(barLeft+long+6, at+12.5, "start", "", label)
		}
	}
	if len(c.Series) > 1 {
		d.legend(barLeft, legend, c.Series)
	}
	return d.end(out, notes, c.Notes)
}

// marks draws the x axis and returns its end.
func (c *Bars) marks(d *drawing, end float64) (high float64) {
	for _, row := range c.Rows {
		for _, v := range row.Values {
			if v > high { // not NaN
				high = v
			}
		}
	}
	if high == 0 {
		high = 1
	}
	step := roundDown(high / 4)
	high = math.Ceil(high/step-1e-9) * step
	for i := range int(math.Round(high/step)) + 1 {
		v := float64(i) * step
		x := barLeft + v/high*(barRight-barLeft)
		d.grid(x, top-20, x, end)
		d.text(x, end+18, "middle", "", number(v))
	}
	return high
}
