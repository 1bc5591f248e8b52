package cli

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// isSVG fails for a picture that is none, or that loads anything.
func isSVG(t *testing.T, svg string) {
	t.Helper()
	if !strings.HasPrefix(svg, "<svg ") || strings.Contains(svg, "<script") || strings.Contains(svg, "href") || strings.Contains(svg, "url(") {
		t.Errorf("no picture of its own:\n%.300s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not well formed: %v\n%s", err, svg)
		}
	}
}

// plotted is a database with memories of all ages, an entity and a session, of which the names are
// what could break a picture.
func plotted(t *testing.T) *cli {
	t.Helper()
	c := newCLI(t)
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	c.now = func() time.Time { return now }
	var lines strings.Builder
	for i := range 40 {
		at := now.Add(-time.Duration(i*i) * 6 * time.Hour)
		fmt.Fprintf(&lines, `{"type":"memory","id":"m%d","user":"ada","agent":"a","kind":%q,"text":"text number %d","importance":0.1,"created_at":%q}`+"\n", i, []string{"message", "fact"}[i%2], i, at.Format(time.RFC3339))
	}
	c.ok("import", c.file("m.jsonl", lines.String()))
	c.ok("graph", "add", `{"id":"<e>","type":"a & b","name":"<script>alert(1)</script>"}`, "--agent", "a")
	for range 4 {
		c.ok("session", "append", `<"run'>`, "--agent", "a", "--role", "user", "some text")
	}
	c.ok("session", "compact", `<"run'>`, "--agent", "a", "--threshold", "3", "--keep-recent", "1")
	return c
}

// TestPlot draws each picture into a file, to the output, and prints its figures.
func TestPlot(t *testing.T) {
	c := plotted(t)
	before := c.ok("export", "-")
	for _, p := range []struct {
		args  []string
		has   []string // of the picture
		lines int      // of the figures
	}{
		{[]string{"growth"}, []string{"all: ", "fact: 20", "2026-11-26"}, grownRows + 1},
		{[]string{"growth", "--user", "nobody"}, []string{"all: 0"}, 0},
		{[]string{"growth", "--by", "stored"}, []string{"all: ", "by the log"}, storedPoints + 1},
		{[]string{"latency", "--queries", "20"}, []string{"20 queries", "median"}, 2},
		{[]string{"ageing"}, []string{"would go by the policy", "go: age", "90 to 365 days"}, 6},
		{[]string{"graph", "<e>", "--agent", "a"}, []string{"&lt;script&gt;"}, 1},
		{[]string{"session", `<"run'>`, "--agent", "a"}, []string{"Session &lt;", ">user<", "3 messages", `class="mark"`}, 5},
	} {
		name := strings.Join(p.args, " ")
		svg := c.ok(append(append([]string{"plot"}, p.args...), "--svg", "-")...)
		isSVG(t, svg)
		for _, want := range p.has {
			if !strings.Contains(svg, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		file := filepath.Join(t.TempDir(), "p.svg")
		c.ok(append(append([]string{"plot"}, p.args...), "--svg", file)...)
		if b, err := os.ReadFile(file); err != nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		c.fails(1, "the file is there", append(append([]string{"plot"}, p.args...), "--svg", file)...)
		if rows := c.objects(append([]string{"plot"}, p.args...)...); len(rows) != p.lines {
			t.Errorf("%s prints %d rows, want %d: %v", name, len(rows), p.lines, rows)
		}
	}
	if after := c.ok("export", "-"); after != before {
		t.Error("a picture has changed the database")
	}
	if rows := c.objects("plot", "growth", "--by", "stored"); rows[len(rows)-1]["memories"] != 42.0 {
		t.Errorf("of 42 memories the log has %v", rows)
	}
	goes := 0.0
	for _, row := range c.objects("plot", "ageing") {
		goes += row["go"].(float64)
	}
	evicted := c.objects("evict", "--dry-run")
	if last := evicted[len(evicted)-1]; last["evicted"] != goes || goes == 0 {
		t.Errorf("%v go, and an eviction takes %v", goes, last["evicted"])
	}
}

// TestPlotBadInput refuses what cannot be drawn.
func TestPlotBadInput(t *testing.T) {
	c := newCLI(t)
	c.fails(1, "no database", "plot", "growth")
	c.ok("store", "--user", "ada", "--agent", "a", "one")
	c.fails(2, "it takes one of growth", "plot")
	c.fails(2, "there is no verb \"nothing\"", "plot", "nothing")
	c.fails(2, "give created or stored", "plot", "growth", "--by", "size")
	c.fails(2, "whole database", "plot", "growth", "--by", "stored", "--user", "ada")
	c.fails(2, "--queries is 1 to", "plot", "latency", "--queries", "0")
	c.fails(2, "--queries is 1 to", "plot", "latency", "--queries", "100000")
	c.fails(2, "--depth is at least 1", "plot", "graph", "x", "--agent", "a", "--depth", "0")
	c.fails(2, "--limit 1 to", "plot", "graph", "x", "--agent", "a", "--limit", "501")
	c.fails(3, "no such session", "plot", "session", "none", "--agent", "a")
	c.fails(2, "it is a folder", "plot", "growth", "--svg", t.TempDir())
}
