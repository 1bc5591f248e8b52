// Package chart draws curves as SVG.
package chart

import (
	"cmp"
	"encoding/xml"
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

// A Chart has curves over a linear x axis, and a logarithmic y axis that begins
// and ends at a round number.
type Chart struct {
	Title, X, Y string
	From, To    float64 // of the x axis; what lies outside is left out
	Step        float64 // between marks of the x axis
	Series      []Series
}

// Where things are, in pixels.
const (
	width, height       = 760, 480
	left, right         = 80, 580
	top, bottom         = 50, 420
	legendX, legendLine = 600, 22
)

var colours = []string{"#0b6e4f", "#c1121f", "#1d4ed8", "#b45309", "#7c3aed", "#0e7490"}

// WriteSVG draws the chart.
func (c *Chart) WriteSVG(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(&b, left, 28, "start", c.Title)
	text(&b, (left+right)/2, bottom+42, "middle", c.X)
	text(&b, 8, top-12, "start", c.Y)
	low, high := c.marks(&b)
	for i, s := range c.Series {
		colour := colours[i%len(colours)]
		var path []string
		for _, p := range c.visible(s) {
			path = append(path, fmt.Sprintf("%.1f,%.1f", c.x(p.X), y(p.Y, low, high)))
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colour, strings.Join(path, " "))
		for _, p := range path {
			at := strings.Split(p, ",")
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", at[0], at[1], colour)
		}
		line := top + 10 + i*legendLine
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="3"/>`+"\n", legendX, legendX+18, line-4, line-4, colour)
		text(&b, legendX+24, float64(line), "start", s.Name)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// visible are the points of a series between the ends of the x axis, by x.
func (c *Chart) visible(s Series) []Point {
	points := slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
		return p.X < c.From || p.X > c.To || !(p.Y > 0)
	})
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	return points
}

// marks draws the axes and returns the ends of the y axis.
func (c *Chart) marks(b *strings.Builder) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, s := range c.Series {
		for _, p := range c.visible(s) {
			low, high = min(low, p.Y), max(high, p.Y)
		}
	}
	if high == 0 {
		low, high = 1, 10
	}
	low, high = roundDown(low), -roundDown(-high)
	for v := low; v <= high*1.001; v = next(v) {
		at := y(v, low, high)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", left, right, at, at)
		text(b, left-8, at+4, "end", fmt.Sprintf("%g", v))
	}
	for i := 0; c.From+float64(i)*c.Step <= c.To+c.Step/1000; i++ {
		v := c.From + float64(i)*c.Step
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`+"\n", c.x(v), c.x(v), top, bottom)
		text(b, c.x(v), bottom+18, "middle", fmt.Sprintf("%.4g", v))
	}
	return low, high
}

func (c *Chart) x(v float64) float64 { return left + (v-c.From)/(c.To-c.From)*(right-left) }

func y(v, low, high float64) float64 {
	return bottom - math.Log(v/low)/math.Log(high/low)*(bottom-top)
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

func text(b *strings.Builder, x, y float64, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	// A builder's writes don't fail.
	_ = xml.EscapeText(b, []byte(s))
	b.WriteString("</text>\n")
}
