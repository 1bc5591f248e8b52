package graph_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func TestGraphPath(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "", "x>b", "x>gone")
	w.put("b", "")
	w.put("c", "", "y>b", "z>d")
	w.put("d", "", "x>d")
	w.put("far", "", "x>gone")
	path := func(from, to string) string {
		t.Helper()
		p, err := w.g.Path(t.Context(), w.o, from, to, graph.State{})
		w.must(err)
		var b strings.Builder
		fmt.Fprint(&b, p.Found)
		for _, h := range p.Hops {
			fmt.Fprint(&b, " ", h.From, "-", h.Type, ">", h.To)
		}
		return b.String()
	}
	expectGraph(t, "a way both ways", path("a", "d"), "true a-x>b b-inverse:y>c c-z>d")
	expectGraph(t, "to itself", path("a", "a"), "true")
	expectGraph(t, "through what is not there", path("a", "far"), "false")
	expectGraph(t, "from nobody", path("nobody", "a"), "false")
}

// The components, the lengths of paths and the ranks are those that plain algorithms find.
func TestGraphWaysAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	const n = 40
	w := newGraphWorld(t)
	var adjacent [n][n]float64
	var b graph.Batch
	for i := range n {
		b.Entities = append(b.Entities, graph.Entity{ID: fmt.Sprint(i)})
	}
	for range 35 {
		from, to := rng.IntN(n), rng.IntN(n)
		b.Relations = append(b.Relations, graph.Relation{ID: fmt.Sprint("r", len(b.Relations)), From: fmt.Sprint(from), Type: "x", To: fmt.Sprint(to)})
		adjacent[from][to]++
		adjacent[to][from]++
	}
	_, err := w.g.Write(t.Context(), w.o, b, nil)
	w.must(err)
	distance := shortest(&adjacent)

	c, err := w.g.Components(t.Context(), w.o, graph.State{})
	w.must(err)
	sum := 0
	for _, part := range c.Components {
		var first, size int
		_, _ = fmt.Sscan(part.First, &first)
		for to := range n {
			if !math.IsInf(distance[first][to], 1) {
				size++
			}
		}
		if size != part.Size {
			t.Errorf("the component of %s has %d, not %d", part.First, size, part.Size)
		}
		sum += part.Size
	}
	if sum != n {
		t.Errorf("the components have %d entities", sum)
	}
	for to := range n {
		p, err := w.g.Path(t.Context(), w.o, "0", fmt.Sprint(to), graph.State{})
		w.must(err)
		if p.Found != !math.IsInf(distance[0][to], 1) || p.Found && float64(len(p.Hops)) != distance[0][to] {
			t.Errorf("from 0 to %d: %+v, want %v", to, p, distance[0][to])
		}
	}
	r, err := w.g.Rank(t.Context(), w.o, []string{"0", "1", "nobody"}, graph.RankOptions{Limit: n})
	w.must(err)
	want, total := pageRank(&adjacent, 0, 1), 0.0
	for i, e := range r.Ranked {
		var num int
		_, _ = fmt.Sscan(e.ID, &num)
		if math.Abs(e.Rank-want[num]) > 1e-3 || i > 0 && e.Rank > r.Ranked[i-1].Rank {
			t.Errorf("rank of %s: %v, want %v", e.ID, e.Rank, want[num])
		}
		total += e.Rank
	}
	if math.Abs(total-1) > 1e-9 {
		t.Errorf("the ranks add up to %v", total)
	}
}

// shortest are the lengths of all shortest ways (Floyd and Warshall).
func shortest(adjacent *[40][40]float64) (d [40][40]float64) {
	for i := range d {
		for j := range d {
			switch {
			case i == j:
			case adjacent[i][j] > 0:
				d[i][j] = 1
			default:
				d[i][j] = math.Inf(1)
			}
		}
	}
	for k := range d {
		for i := range d {
			for j := range d {
				d[i][j] = min(d[i][j], d[i][k]+d[k][j])
			}
		}
	}
	return d
}

// pageRank is the rank of each entity after many rounds over the whole matrix.
func pageRank(adjacent *[40][40]float64, seeds ...int) (now [40]float64) {
	for _, s := range seeds {
		now[s] = 1 / float64(len(seeds))
	}
	for range 500 {
		var next [40]float64
		for i := range now {
			degree := 0.0
			for _, a := range adjacent[i] {
				degree += a
			}
			for j, a := range adjacent[i] {
				if degree > 0 {
					next[j] += 0.85 * now[i] * a / degree
				}
			}
			for _, s := range seeds {
				lost := 0.15
				if degree == 0 {
					lost = 1
				}
				next[s] += lost * now[i] / float64(len(seeds))
			}
		}
		now = next
	}
	return now
}

// A name is found by itself, by an alias, by its words, its beginning, and with a slip.
func TestGraphLookup(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	for _, e := range []graph.Entity{
		{ID: "1", Type: "person", Name: "Alice Johnson", Aliases: []string{"Ally"}},
		{ID: "2", Type: "person", Name: "Alicia Johnson"},
		{ID: "3", Type: "place", Name: "Alice Springs"},
		{ID: "4", Name: "Zoë"},
		{ID: "5"},
	} {
		_, err := w.g.Put(ctx, w.o, e, nil, nil)
		w.must(err)
	}
	lookup := func(name string, o graph.LookupOptions) string {
		t.Helper()
		l, err := w.g.Lookup(ctx, w.o, name, o)
		w.must(err)
		var all []string
		for _, n := range l.Named {
			all = append(all, fmt.Sprintf("%s:%.2f", n.ID, n.Score))
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct {
		name string
		o    graph.LookupOptions
		want string
	}{
		{"ALICE JOHNSON", graph.LookupOptions{}, "1:1.00 2:0.86"},
		{"johnson alice", graph.LookupOptions{}, "1:0.95"},
		{"Aliec Jonhson", graph.LookupOptions{}, "1:0.85"},
		{"ally", graph.LookupOptions{}, "1:1.00"},
		{"alice", graph.LookupOptions{}, "1:0.90 3:0.90"},
		{"alice", graph.LookupOptions{Type: "place"}, "3:0.90"},
		{"alice", graph.LookupOptions{Type: "none"}, ""},
		{"johnson", graph.LookupOptions{Limit: 1}, "1:0.80"},
		{"zoe", graph.LookupOptions{}, "4:1.00"},
		{"zoa", graph.LookupOptions{}, ""}, // short names have no slips
		{"nobody at all", graph.LookupOptions{}, ""},
	} {
		expectGraph(t, c.name, lookup(c.name, c.o), c.want)
	}
	if l, err := w.g.Lookup(ctx, w.o, "alice", graph.LookupOptions{MaxNodes: 1}); err != nil || l.Plan.Limit != "nodes" {
		t.Errorf("limited: %+v, %v", l.Plan, err)
	}
	for _, name := range []string{"", strings.Repeat("x", 1<<20), "\xff"} {
		if _, err := w.g.Lookup(ctx, w.o, name, graph.LookupOptions{}); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%.9q: %v", name, err)
		}
	}
}

// Degrees and counts are of what is there, in memory and by keys.
func TestGraphDegrees(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	w.put("a", "person", "knows>b", "knows>a", "likes>b", "knows>later")
	w.put("b", "person", "knows>a")
	w.put("c", "place")
	for _, s := range []graph.State{{}, {AsOf: w.db.LSN()}} {
		d, err := w.g.Degrees(ctx, w.o, graph.DegreeOptions{State: s})
		w.must(err)
		expectGraph(t, "degrees", fmt.Sprint(d.Degrees), "[{a 3 2} {b 1 2}]")
		d, err = w.g.Degrees(ctx, w.o, graph.DegreeOptions{Relation: "likes", Type: "person", Limit: 1, State: s})
		w.must(err)
		expectGraph(t, "degrees of a type", fmt.Sprint(d.Degrees), "[{a 1 0}]")
		c, err := w.g.Counts(ctx, w.o, s)
		w.must(err)
		expectGraph(t, "counts", fmt.Sprint(c.Entities, c.Relations), "[{person 2} {place 1}] [{knows 3} {likes 1}]")
	}
	if d, err := w.g.Degrees(ctx, w.o, graph.DegreeOptions{Relation: "none"}); err != nil || len(d.Degrees) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := w.g.Degrees(ctx, w.o, graph.DegreeOptions{State: graph.State{MaxEdges: 2}}); err != nil || d.Plan.Limit != "edges" {
		t.Errorf("limited: %+v, %v", d, err)
	}
}

// A picture is well-formed, shows each entity once without two over each other, and says
// where there is more.
func TestGraphPicture(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	b := graph.Batch{Entities: []graph.Entity{{ID: "hub", Name: `<Hub> & "co"`, Type: "t<"}}}
	for i := range 60 {
		b.Entities = append(b.Entities, graph.Entity{ID: fmt.Sprint("e", i), Name: strings.Repeat("名 ", i), Type: fmt.Sprint("t", i%12)})
		b.Relations = append(b.Relations, graph.Relation{From: "hub", Type: "has & holds", To: fmt.Sprint("e", i)},
			graph.Relation{From: fmt.Sprint("e", i), Type: "next", To: fmt.Sprint("e", (i*7+1)%60)})
	}
	b.Relations = append(b.Relations, graph.Relation{From: "hub", Type: "is", To: "hub"}, graph.Relation{From: "hub", Type: "has", To: "nobody"})
	_, err := w.g.Write(ctx, w.o, b, nil)
	w.must(err)
	for _, c := range []struct {
		id    string
		opts  graph.PictureOptions
		drawn int
	}{{"hub", graph.PictureOptions{}, 40}, {"hub", graph.PictureOptions{Entities: 61}, 61}, {"e5", graph.PictureOptions{Depth: 1_000_000, Entities: 500}, 61}, {"e5", graph.PictureOptions{Entities: 1}, 1}} {
		var out strings.Builder
		d, err := w.g.Picture(ctx, w.o, c.id, &out, c.opts)
		if err != nil || d.Entities != c.drawn || (d.Plan.Limit == "results") != (c.drawn < 61) {
			t.Errorf("%s: %+v, %v", c.id, d, err)
		}
		boxes := picturedBoxes(t, out.String())
		if len(boxes) != c.drawn {
			t.Errorf("%s: %d boxes for %d entities", c.id, len(boxes), c.drawn)
		}
		for i, x := range boxes {
			for _, y := range boxes[:i] {
				if x.X < y.X+y.Width && y.X < x.X+x.Width && x.Y < y.Y+y.Height && y.Y < x.Y+x.Height {
					t.Errorf("%s, %+v: one entity lies over another: %+v, %+v", c.id, c.opts, x, y)
				}
			}
		}
	}
	for id, kind := range map[string]error{"nobody": memory.ErrNotFound, "": memory.ErrInvalid} {
		if _, err := w.g.Picture(ctx, w.o, id, io.Discard, graph.PictureOptions{}); !errors.Is(err, kind) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := w.g.Picture(ctx, w.o, "hub", io.Discard, graph.PictureOptions{Depth: -1}); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
}

type pictureBox struct {
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"`
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
}

// picturedBoxes reads where the entities of a picture are.
func picturedBoxes(t *testing.T, svg string) (boxes []pictureBox) {
	t.Helper()
	var read struct {
		Entities []struct {
			Box pictureBox `xml:"rect"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal([]byte(svg), &read); err != nil {
		t.Fatal(err)
	}
	for _, e := range read.Entities {
		boxes = append(boxes, e.Box)
	}
	return boxes
}
