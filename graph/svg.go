package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// PictureOptions changes what Picture draws.
type PictureOptions struct {
	// Depth is how many relations away from the middle. 0: 1.
	Depth int
	// Entities bounds those that are drawn, up to MaxPicture. 0: 40.
	Entities int
	State
}

const (
	// MaxPicture bounds the entities of a picture.
	MaxPicture = 500
	// usualPicture is how many entities a person can read.
	usualPicture = 40
)

// Drawn is what a picture shows.
type Drawn struct {
	// Entities and Relations are how many were drawn.
	Entities  int
	Relations int
	Plan      Plan // Limit is "results" where there are more entities than are drawn
}

// Picture writes the neighbourhood of an entity as SVG: the entity in the middle, those
// around it on rings by their depth, each in the sector of the one through which it was
// found, as in a radial tree (Eades 1992). Entities of a type have a colour, and the
// relations between two entities are one line with their types. ErrNotFound: the entity is
// not there.
func (g Graph) Picture(ctx context.Context, o scope.Owner, id string, w io.Writer, opts PictureOptions) (Drawn, error) {
	doing := fmt.Sprintf("draw the neighbourhood of %q", valid.Short(id))
	if err := checkID(doing, "entity ID", id); err != nil {
		return Drawn{}, err
	}
	if opts.Depth < 0 || opts.Entities < 0 || opts.Entities > MaxPicture {
		return Drawn{}, fault.Invalid(doing, fmt.Sprintf("the depth is %d, and the limit of entities %d", opts.Depth, opts.Entities), fmt.Sprintf("give a depth of 0 or more, and up to %d entities", MaxPicture))
	}
	p := &picture{most: cmp.Or(opts.Entities, usualPicture), at: map[uint32]*spot{}, lines: map[pair]*line{}}
	plan, err := g.walk(ctx, doing, o, opts.State, func(w *walk) error {
		p.walk = w
		start, err := w.start(id)
		if err != nil || start == 0 {
			return err
		}
		return p.read(start, cmp.Or(opts.Depth, 1))
	})
	if err == nil && len(p.spots) == 0 {
		err = notFound(doing, id)
	}
	if err != nil {
		return Drawn{}, err
	}
	p.place()
	out := &output{w: w}
	p.draw(out)
	return Drawn{len(p.spots), p.relations, plan}, out.err
}

// picture is a neighbourhood that is drawn.
type picture struct {
	*walk
	most      int
	spots     []*spot // in the order of their discovery
	at        map[uint32]*spot
	lines     map[pair]*line
	order     []*line
	relations int
	types     []string // those of the entities, in the order of their discovery
}

// spot is an entity in a picture.
type spot struct {
	num        uint32
	depth      int
	parent     *spot
	children   []*spot
	id         string
	label, typ string
	leaves     float64 // what it needs of its ring, in pixels
	from, to   float64 // its sector, in radians
	x, y       float64
}

// line is the relations between two entities. Its types are those that go from a to b, and
// those that go back.
type line struct {
	a, b        *spot
	there, back []string
}

// read gathers entities and the relations between them.
func (p *picture) read(start uint32, depth int) error {
	err := p.spot(start, nil)
	for head := 0; err == nil && head < len(p.spots); head++ {
		if at := p.spots[head]; at.depth < depth {
			err = p.grow(at)
		}
	}
	if err != nil && !errors.Is(err, kv.ErrStop) {
		return err
	}
	for _, s := range p.spots {
		edges, rerr := p.next(s.num, Out, 0)
		if rerr != nil {
			return rerr
		}
		for _, e := range edges {
			if rerr := p.line(s, p.at[e.other], e.typ); rerr != nil {
				return rerr
			}
		}
	}
	return err
}

// grow adds the entities around one.
func (p *picture) grow(at *spot) error {
	for _, dir := range []Direction{Out, In} {
		edges, err := p.next(at.num, dir, 0)
		if err != nil {
			return err
		}
		for _, e := range slices.Clone(edges) {
			_, there, err := p.is(e.other)
			if err == nil && there && p.at[e.other] == nil {
				err = p.spot(e.other, at)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// spot adds an entity.
func (p *picture) spot(num uint32, parent *spot) error {
	if len(p.spots) == p.most {
		return p.stop("results")
	}
	if err := p.walk.node(); err != nil {
		return err
	}
	n, err := p.reader.node(num)
	if err != nil || n == nil {
		return cmp.Or(err, missing("entity", num, entityKey(p.reader, p.reader.owner, num)))
	}
	s := &spot{num: num, parent: parent, id: n.id, label: cut(cmp.Or(n.calledBy(), n.id), mostLabel)}
	if s.typ, err = p.reader.typeName(classEntity, n.typ); err != nil {
		return err
	}
	if parent != nil {
		s.depth = parent.depth + 1
		parent.children = append(parent.children, s)
	}
	if !slices.Contains(p.types, s.typ) {
		p.types = append(p.types, s.typ)
	}
	p.spots = append(p.spots, s)
	p.at[num] = s
	return nil
}

// line adds a relation between two that are drawn.
func (p *picture) line(from, to *spot, typ uint32) error {
	if to == nil {
		return nil
	}
	name, err := p.reader.typeName(classRelation, typ)
	if err != nil {
		return err
	}
	p.relations++
	ends := pair{min(from.num, to.num), max(from.num, to.num)}
	l := p.lines[ends]
	if l == nil {
		l = &line{a: from, b: to}
		p.lines[ends] = l
		p.order = append(p.order, l)
	}
	if name = cut(name, mostLabel); l.a == from {
		l.there = append(l.there, name)
	} else {
		l.back = append(l.back, name)
	}
	return nil
}

// The measures of a picture, in pixels.
const (
	mostLabel  = 26   // characters of a label
	letter     = 7.0  // the width of a character, about
	boxHeight  = 28.0 // of an entity
	boxPadding = 12.0
	boxGap     = 50.0  // between entities of a ring
	lineRoom   = 120.0 // for a line with its label, beside a box
	ringGap    = 120.0 // above and below
	margin     = 30.0
	rowHeight  = 22.0 // of the legend
)

// cut is a text of at most so many characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// textWidth is about the width of a text. Characters of East Asia are twice as wide.
func textWidth(s string) float64 {
	n := 0.0
	for _, r := range s {
		if n++; r >= 0x1100 {
			n++
		}
	}
	return n * letter
}

func (s *spot) width() float64 { return textWidth(s.label) + 2*boxPadding }

// place gives each entity its place. A ring is as wide as its entities need.
func (p *picture) place() {
	for _, s := range slices.Backward(p.spots) {
		s.leaves = s.width() + boxGap
		below := 0.0
		for _, c := range s.children {
			below += c.leaves
		}
		// What lies further out has a longer ring.
		s.leaves = max(s.leaves, below*float64(s.depth+1)/float64(s.depth+2))
	}
	rings := p.rings()
	p.spots[0].from, p.spots[0].to = -math.Pi/2, 1.5*math.Pi
	for _, s := range p.spots {
		middle := (s.from + s.to) / 2
		s.x, s.y = rings[s.depth].x*math.Cos(middle), rings[s.depth].y*math.Sin(middle)
		total, from := 0.0, s.from
		for _, c := range s.children {
			total += c.leaves
		}
		for _, c := range s.children {
			c.from = from
			c.to = from + (s.to-s.from)*c.leaves/total
			from = c.to
		}
	}
}

// ring is an ellipse: boxes are wider than high, so that it is, too.
type ring struct{ x, y float64 }

// rings are the rings of the depths. Each lies outside the one before with its boxes, and
// is as long as its entities need.
func (p *picture) rings() []ring {
	deepest := p.spots[len(p.spots)-1].depth
	needs, widest := make([]float64, deepest+1), make([]float64, deepest+1)
	for _, s := range p.spots {
		needs[s.depth] += s.leaves
		widest[s.depth] = max(widest[s.depth], s.width())
	}
	rings := make([]ring, deepest+1)
	for d := 1; d <= deepest; d++ {
		r := ring{rings[d-1].x + (widest[d-1]+widest[d])/2 + lineRoom, rings[d-1].y + ringGap}
		if length := math.Pi * (r.x + r.y); length < needs[d] { // of an ellipse, about
			r.x, r.y = r.x*needs[d]/length, r.y*needs[d]/length
		}
		rings[d] = r
	}
	return rings
}

// colours are those of types, light enough for black text and apart from each other; the
// last one is for the types beyond.
var colours = []string{"#cfe3f7", "#fbdcc0", "#d3ecd0", "#f6cfd8", "#e2d6f2", "#f7edbd", "#c9ecec", "#e6d8cb", "#e4e4e4"}

func (p *picture) colour(typ string) string {
	return colours[min(slices.Index(p.types, typ), len(colours)-1)]
}

// draw writes the picture: lines first, so that entities lie over them.
func (p *picture) draw(out *output) {
	left, top, right, bottom := 0.0, 0.0, 0.0, 0.0
	for _, s := range p.spots {
		left, right = min(left, s.x-s.width()/2), max(right, s.x+s.width()/2)
		top, bottom = min(top, s.y-boxHeight/2), max(bottom, s.y+boxHeight/2)
	}
	legend := p.legend()
	width := max(right-left, textWidth(strings.Join(legend, ""))/2) + 2*margin
	height := bottom - top + 3*margin + rowHeight*float64(len(legend))
	out.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="%.1f %.1f %.1f %.1f" font-family="sans-serif" font-size="12">`+"\n",
		width, height, left-margin, top-margin, width, height)
	out.printf("<title>%s</title>\n", xmlString(p.spots[0].label))
	out.printf(`<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>` + "\n")
	out.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="white"/>`+"\n", left-margin, top-margin, width, height)
	for _, l := range p.order {
		p.drawLine(out, l)
	}
	for i, l := range p.order {
		p.drawLabel(out, l, labelPlaces[i%len(labelPlaces)])
	}
	for i, s := range p.spots {
		stroke := "1"
		if i == 0 {
			stroke = "2.5"
		}
		out.printf(`<g><title>%s</title><rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="8" fill="%s" stroke="#444" stroke-width="%s"/>`,
			xmlString(s.id), s.x-s.width()/2, s.y-boxHeight/2, s.width(), boxHeight, p.colour(s.typ), stroke)
		out.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text></g>`+"\n", s.x, s.y+4, xmlString(s.label))
	}
	for i, row := range legend {
		y := bottom + margin + rowHeight*float64(i)
		if i < len(p.types) && i < len(colours) {
			out.printf(`<rect x="%.1f" y="%.1f" width="14" height="14" rx="3" fill="%s" stroke="#444"/>`, left, y, colours[i])
		}
		out.printf(`<text x="%.1f" y="%.1f">%s</text>`+"\n", left+22, y+11, xmlString(row))
	}
	out.printf("</svg>\n")
}

// legend are the types with their colours, and whether there is more.
func (p *picture) legend() (rows []string) {
	for i, typ := range p.types {
		switch {
		case i == len(colours)-1 && len(p.types) > len(colours):
			rows = append(rows, fmt.Sprintf("%d other types", len(p.types)-i))
		case i < len(colours):
			rows = append(rows, cut(cmp.Or(typ, "(no type)"), 2*mostLabel))
		}
	}
	if p.plan.Limit != "" {
		rows = append(rows, fmt.Sprintf("There are more than the %d entities that are drawn.", len(p.spots)))
	}
	return rows
}

// edgeOf is where the line from the middle of an entity towards a point leaves its box.
func (s *spot) edgeOf(x, y float64) (float64, float64) {
	dx, dy := x-s.x, y-s.y
	share := min(1, min(s.width()/2/math.Max(math.Abs(dx), 1e-9), boxHeight/2/math.Max(math.Abs(dy), 1e-9)))
	return s.x + dx*share, s.y + dy*share
}

func (p *picture) drawLine(out *output, l *line) {
	if l.a == l.b {
		x, y := l.a.x+l.a.width()/2-10, l.a.y-boxHeight/2
		out.printf(`<path d="M%.1f,%.1f c-6,-26 26,-26 10,8" fill="none" stroke="#777" marker-end="url(#end)"/>`+"\n", x, y)
		return
	}
	x1, y1 := l.a.edgeOf(l.b.x, l.b.y)
	x2, y2 := l.b.edgeOf(l.a.x, l.a.y)
	ends := ""
	if len(l.there) > 0 {
		ends += ` marker-end="url(#end)"`
	}
	if len(l.back) > 0 {
		ends += ` marker-start="url(#end)"`
	}
	out.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#777"%s/>`+"\n", x1, y1, x2, y2, ends)
}

// mostTypes bounds the types in the label of a line.
const mostTypes = 3

// labelPlaces are the shares of a line's length, from its inner end, at which its label is:
// lines that lie beside each other have theirs at different ones, and in the outer half,
// where there is more room.
var labelPlaces = []float64{0.5, 0.64, 0.78}

// drawLabel writes the types of a line.
func (p *picture) drawLabel(out *output, l *line, share float64) {
	names := slices.Concat(l.there, l.back)
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - mostTypes; more > 0 {
		names = append(names[:mostTypes:mostTypes], fmt.Sprintf("%d more", more))
	}
	inner, outer := l.a, l.b
	switch {
	case inner.depth > outer.depth:
		inner, outer = outer, inner
	case inner.depth == outer.depth:
		share = 0.5
	}
	x1, y1 := inner.edgeOf(outer.x, outer.y)
	x2, y2 := outer.edgeOf(inner.x, inner.y)
	x, y := x1+(x2-x1)*share, y1+(y2-y1)*share
	if l.a == l.b {
		x, y = l.a.x+l.a.width()/2, l.a.y-boxHeight/2-18
	}
	out.printf(`<text x="%.1f" y="%.1f" text-anchor="middle" font-size="10" fill="#333" stroke="white" stroke-width="3" paint-order="stroke">%s</text>`+"\n",
		x, y+3, xmlString(strings.Join(names, ", ")))
}
