package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// wellFormed fails for what is no XML.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not well formed: %v\n%s", err, svg)
		}
	}
}

func TestCurves(t *testing.T) {
	c := Chart{
		Title: "a < b & c", X: "recall", Y: "QPS", From: 0.5, To: 1, Step: 0.1, Notes: []string{"one core"},
		Series: []Series{
			{"one", []Point{{0.9, 3000}, {0.6, 9000}, {0.1, 50_000}}},
			{"none", nil},
			{"zero", []Point{{0.7, 0}}},
		},
	}
	var b strings.Builder
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	wellFormed(t, svg)
	// The first series has two points within the axis, in the order of x.
	if got := strings.Count(svg, "<circle"); got != 2 {
		t.Errorf("%d points, want 2", got)
	}
	for _, want := range []string{"a &lt; b &amp; c", ">2,000<", ">10,000<", ">0.5<", ">1<", ">one core<", "prefers-color-scheme: dark", `points="204.0,84.1 588.0,314.8"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %q:\n%s", want, svg)
		}
	}
	if err := (&Chart{From: 0, To: 1, Step: 0.5}).WriteSVG(io.Discard); err != nil {
		t.Error(err)
	}
}

// TestLogarithmic has a mark for each power of ten, as far apart as the next.
func TestLogarithmic(t *testing.T) {
	c := Chart{From: 1_000, To: 100_000, Series: []Series{{"one", []Point{{1_000, 2}, {10_000, 2}, {100_000, 2}}}}}
	var b strings.Builder
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	for _, want := range []string{">1,000<", ">10,000<", ">100,000<", `cx="76.0"`, `cx="396.0"`, `cx="716.0"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
}

// TestLinear has an axis from 0 on, marks with names, and no circles where there are many points.
func TestLinear(t *testing.T) {
	c := Chart{From: 0, To: 100, Linear: true, Marks: []Mark{{0, "1 <May>"}, {100, "2 May"}}, Series: []Series{{"few", []Point{{0, 0}, {100, 7}}}, {"many", nil}}}
	for i := range mostCircles + 1 {
		c.Series[1].Points = append(c.Series[1].Points, Point{float64(i), 3})
	}
	var b strings.Builder
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	wellFormed(t, svg)
	for _, want := range []string{">0<", ">7<", ">2<", ">1 &lt;May&gt;<", ">2 May<", `points="76.0,400.0 716.0,62.0"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %q:\n%s", want, svg)
		}
	}
	if got := strings.Count(svg, "<circle"); got != 2 {
		t.Errorf("%d circles, want 2", got)
	}
}

// TestSequence has a bar for each piece, and marks between them.
func TestSequence(t *testing.T) {
	c := Sequence{Title: "a <b>", Series: []string{"one", "two"}, Pieces: []Piece{{Value: 10}, {Mark: "here & now"}, {Series: 1, Value: 1000}, {Series: 1}}}
	var b strings.Builder
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	wellFormed(t, svg)
	for _, want := range []string{"a &lt;b&gt;", "here &amp; now", `class="mark" x1="289.3"`, `height="338.0"`, `height="112.7"`, `height="2.0"`, ">1,000<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %q:\n%s", want, svg)
		}
	}
	if err := (&Sequence{}).WriteSVG(io.Discard); err != nil {
		t.Error(err)
	}
}

func TestBars(t *testing.T) {
	c := Bars{
		Title: "stores", X: "stores a second", Series: []string{"1 writer", "64 writers"},
		Rows: []Row{{Name: "a <b>", Values: []float64{400, 8000}}, {Name: "c", Values: []float64{math.NaN(), 2000}}},
	}
	var b strings.Builder
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	wellFormed(t, svg)
	for _, want := range []string{"a &lt;b&gt;", ">8,000<", `width="470.0"`, `width="117.5"`, ">stores a second<", ">64 writers<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %q:\n%s", want, svg)
		}
	}
	if got := strings.Count(svg, `height="14"`); got != 3 {
		t.Errorf("%d bars, want 3", got)
	}
	one := Bars{Digits: 2, Series: []string{"share"}, Rows: []Row{{Name: "ours", Values: []float64{.5}}, {Name: "theirs", Values: []float64{.25}, Other: true}}}
	b.Reset()
	if err := one.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	if svg := b.String(); !strings.Contains(svg, `class="f1"`) || !strings.Contains(svg, ">0.25<") || strings.Contains(svg, ">share<") {
		t.Errorf("of one series:\n%s", svg)
	}
	if err := (&Bars{}).WriteSVG(io.Discard); err != nil {
		t.Error(err)
	}
}

func TestRoundNumbers(t *testing.T) {
	for _, c := range []struct{ v, down, next float64 }{
		{1, 1, 2}, {3, 2, 5}, {7, 5, 10}, {10, 10, 20}, {4999, 2000, 5000}, {0.3, 0.2, 0.5},
	} {
		if got := roundDown(c.v); math.Abs(got-c.down) > 1e-12 {
			t.Errorf("roundDown(%v) = %v, want %v", c.v, got, c.down)
		}
		if got := next(c.down); math.Abs(got/c.next-1) > 1e-9 {
			t.Errorf("next(%v) = %v, want %v", c.down, got, c.next)
		}
	}
	if got := -roundDown(-7); got != 10 {
		t.Errorf("7 rounds up to %v", got)
	}
}
