package chart

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Point is a point of a curve.
type Point struct{ X, Y float64 }

// A Series is a curve with a name.
type Series struct {
	Name   string
	Points []Point
}

// Mark is a place on the x axis that has a name.
type Mark struct {
	X    float64
	Name string
}

// A Chart has curves over an x axis, and a y axis that is logarithmic and begins and ends at a round
// number, or linear from 0 on.
type Chart struct {
	Title, X, Y string
	Notes       []string // below: of what, where, how
	From, To    float64  // of the x axis; what lies outside is left out
	Step        float64  // between marks of the x axis; 0: it is logarithmic, with a mark for each power of ten
	Marks       []Mark   // in the place of those of Step; the x axis is linear then
	Linear      bool     // the y axis begins at 0
	Series      []Series
}

// mostCircles is how many points of a curve have a circle: of more, the line alone is drawn.
const mostCircles = 60

const bottom = 400 // of the curves

// WriteSVG draws the chart.
func (c *Chart) WriteSVG(out io.Writer) error {
	legend := float64(bottom + 74)
	notes := legend + float64(len(c.Series)*legendLine)
	d := begin(notes+float64(len(c.Notes)*noteLine), c.Title)
	d.text((left+right)/2, bottom+42, "middle", "", c.X)
	d.text(margin, top-12, "start", "", c.Y)
	low, high := c.marks(d)
	var names []string
	for i, s := range c.Series {
		names = append(names, s.Name)
		var path []string
		for _, p := range c.visible(s) {
			path = append(path, fmt.Sprintf("%.1f,%.1f", c.x(p.X), c.y(p.Y, low, high)))
		}
		colour := i % len(colours)
		fmt.Fprintf(d, `<polyline class="curve s%d" points="%s"/>`+"\n", colour, strings.Join(path, " "))
		if len(path) > mostCircles {
			continue
		}
		for _, p := range path {
			x, y, _ := strings.Cut(p, ",")
			fmt.Fprintf(d, `<circle class="f%d" cx="%s" cy="%s" r="3"/>`+"\n", colour, x, y)
		}
	}
	d.legend(left, legend, names)
	return d.end(out, notes, c.Notes)
}

// visible are the points of a series between the ends of the x axis, by x.
func (c *Chart) visible(s Series) []Point {
	points := slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
		return p.X < c.From || p.X > c.To || !(p.Y > 0) && !(c.Linear && p.Y == 0)
	})
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	return points
}

// marks draws the axes and returns the ends of the y axis.
func (c *Chart) marks(d *drawing) (from, to float64) {
	low, high := math.Inf(1), 0.0
	for _, s := range c.Series {
		for _, p := range c.visible(s) {
			low, high = min(low, p.Y), max(high, p.Y)
		}
	}
	if high == 0 {
		low, high = 1, 10
	}
	low, high, values := c.values(low, high)
	for _, v := range values {
		at := c.y(v, low, high)
		d.grid(left, at, right, at)
		d.text(left-8, at+4, "end", "", number(v))
	}
	marks := c.Marks
	if marks == nil {
		for v := c.From; v <= c.To*1.0001; v = c.after(v) {
			marks = append(marks, Mark{v, number(v)})
		}
	}
	for _, m := range marks {
		d.grid(c.x(m.X), top, c.x(m.X), bottom)
		d.text(c.x(m.X), bottom+18, "middle", "", m.Name)
	}
	return low, high
}

// values are the marks of the y axis, and its ends.
func (c *Chart) values(low, high float64) (from, to float64, marks []float64) {
	if c.Linear {
		step := roundDown(high / 4)
		if step < 1 && high >= 1 { // what is counted has no halves
			step = 1
		}
		to = math.Ceil(high/step-1e-9) * step
		for i := range int(math.Round(to/step)) + 1 {
			marks = append(marks, float64(i)*step)
		}
		return 0, to, marks
	}
	from, to = roundDown(low), -roundDown(-high)
	if from == to {
		to = next(to)
	}
	for v := from; v <= to*1.001; v = next(v) {
		marks = append(marks, v)
	}
	return from, to, marks
}

// after is the mark of the x axis behind one.
func (c *Chart) after(v float64) float64 {
	if c.Step == 0 {
		return v * 10
	}
	return c.From + (math.Round((v-c.From)/c.Step)+1)*c.Step
}

func (c *Chart) x(v float64) float64 {
	share := (v - c.From) / (c.To - c.From)
	if c.Step == 0 && c.Marks == nil {
		share = math.Log(v/c.From) / math.Log(c.To/c.From)
	}
	return left + share*(right-left)
}

func (c *Chart) y(v, low, high float64) float64 {
	if c.Linear {
		return bottom - (v-low)/(high-low)*(bottom-top)
	}
	return bottom - math.Log(v/low)/math.Log(high/low)*(bottom-top)
}
