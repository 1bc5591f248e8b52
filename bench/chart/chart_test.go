package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestWriteSVG(t *testing.T) {
	c := Chart{
		Title: "a < b & c", X: "recall", Y: "QPS", From: 0.5, To: 1, Step: 0.1,
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
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not well formed: %v\n%s", err, svg)
		}
	}
	// The first series has two points within the axis, in the order of x.
	if got := strings.Count(svg, "<circle"); got != 2 {
		t.Errorf("%d points, want 2", got)
	}
	for _, want := range []string{"a &lt; b &amp; c", ">2000<", ">10000<", ">0.5<", ">1<", `points="180.0,74.2 480.0,326.8"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %q:\n%s", want, svg)
		}
	}
	if err := (&Chart{From: 0, To: 1, Step: 0.5}).WriteSVG(io.Discard); err != nil {
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
