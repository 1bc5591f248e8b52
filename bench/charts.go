package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/internal/chart"
)

// svg is a chart that can be drawn.
type svg interface{ WriteSVG(out io.Writer) error }

// chartKinds are the charts that a report may have, by the names of their files.
var chartKinds = []struct {
	file string
	of   func(r *harness.Report) svg // nil where the report has none of it
}{
	{"recall.svg", recallChart},
	{"stores.svg", storesChart},
	{"growth.svg", growthChart},
	{"vectors-mnist.svg", func(r *harness.Report) svg { return curvesChart(r, mnistTask) }},
	{"vectors-mixture.svg", func(r *harness.Report) svg { return curvesChart(r, mixtureTask) }},
}

// writeCharts draws what a report has into a folder, and returns the names of the files.
func writeCharts(r *harness.Report, folder string) (names []string, err error) {
	for _, kind := range chartKinds {
		c := kind.of(r)
		if c == nil {
			continue
		}
		f, err := os.Create(filepath.Join(folder, kind.file))
		if err != nil {
			return names, err
		}
		if err := errors.Join(c.WriteSVG(f), f.Close()); err != nil {
			return names, err
		}
		names = append(names, kind.file)
	}
	return names, nil
}

// drawCharts is the verb: it draws what a report has. It returns the exit code.
func drawCharts(args []string, stdout, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(stderr, "bench: usage: charts REPORT.json FOLDER")
		return 2
	}
	report, err := readReport(args[0])
	if err != nil {
		fmt.Fprintf(stderr, "bench: reading %s: %v\n", args[0], err)
		return 2
	}
	names, err := writeCharts(report, args[1])
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s has nothing that is drawn: run locomo, store, growth or vectors with -report", args[0])
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	for _, name := range names {
		fmt.Fprintln(stdout, filepath.Join(args[1], name))
	}
	return 0
}

// notes say of what, where and how a workload was measured.
func notes(r *harness.Report, workload string, more ...string) []string {
	commit, changed := strings.CutSuffix(cmp.Or(r.Commit, "unknown"), "+")
	commit = commit[:min(12, len(commit))]
	if changed {
		commit += " with changes"
	}
	list := append(more, fmt.Sprintf("go -C bench run . %s; commit %s; %s; %s", workload, commit, r.Machine, r.Versions["go"]))
	if len(r.MadeUp) > 0 {
		list = append(list, "Sets that are made up: "+strings.Join(r.MadeUp, ", "))
	}
	return list
}

// version is that of a module of a report, without what pseudo-versions add; "" where it is not known.
func version(r *harness.Report, module string) string {
	if v := r.Versions[module]; v != "" {
		return " " + v
	}
	return ""
}

// shown is what a contestant showed, or nil.
func shown(r *harness.Report, workload, contestant string) *harness.Shown {
	i := slices.IndexFunc(r.Results, func(s harness.Shown) bool { return s.Workload == workload && s.Contestant == contestant })
	if i < 0 {
		return nil
	}
	return &r.Results[i]
}

// median is a metric over the rounds of a contestant, or NaN.
func median(s *harness.Shown, metric string) float64 {
	var values []float64
	if s != nil {
		for _, round := range s.Rounds {
			if v, ok := round[metric]; ok {
				values = append(values, v)
			}
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	return harness.Median(values)
}

// recallChart is how much of what answers a question is among the first ten hits.
func recallChart(r *harness.Report) svg {
	c := &chart.Bars{
		Title:  "LoCoMo: evidence found among the first 10 hits, without a language model",
		X:      "recall@10, as a share of the evidence",
		Digits: 3, Series: []string{"recall@10"},
		Notes: notes(r, "locomo", fmt.Sprintf("bleve%s, SQLite FTS5 by modernc.org/sqlite%s; with fields: speaker, caption and date are indexed, too, as in memdb",
			version(r, "github.com/blevesearch/bleve/v2"), version(r, "modernc.org/sqlite"))),
	}
	for _, row := range []struct{ contestant, name string }{
		{"memdb best", "memdb, best (default)"},
		{"memdb text", "memdb, text"},
		{"bleve text+fields", "bleve, with fields"},
		{"bleve text", "bleve"},
		{"fts5-modernc text+fields", "SQLite FTS5, with fields"},
		{"fts5-modernc text", "SQLite FTS5"},
	} {
		if v := median(shown(r, "locomo", row.contestant), "r@10"); !math.IsNaN(v) {
			c.Rows = append(c.Rows, chart.Row{Name: row.name, Values: []float64{v}, Other: !strings.HasPrefix(row.name, "memdb")})
		}
	}
	if len(c.Rows) == 0 {
		return nil
	}
	return c
}

// storesChart is how many durable stores a second there are.
func storesChart(r *harness.Report) svg {
	c := &chart.Bars{
		Title: "Durable stores of 1 KB of text and a vector of 384 components, one by one",
		X:     "stores a second",
		Notes: notes(r, "store", "memdb and SQLite index the words; Pebble, bbolt and badger keep one value of as many bytes as memdb writes."),
	}
	for _, n := range storeWriters {
		c.Series = append(c.Series, fmt.Sprintf("%d writers", n))
	}
	c.Series[0] = "1 writer"
	for _, s := range r.Results {
		if s.Workload != "store" || len(s.Rounds) == 0 {
			continue
		}
		row := chart.Row{Name: peerTitle(s.Contestant)}
		for _, n := range storeWriters {
			row.Values = append(row.Values, median(&s, storeMetric("stores_per_second", n)))
		}
		c.Rows = append(c.Rows, row)
	}
	if len(c.Rows) == 0 {
		return nil
	}
	return c
}

// growthChart is what a recall takes as a database grows.
func growthChart(r *harness.Report) svg {
	c := &chart.Chart{
		Title: "Recall by words among an owner's 1,000 memories, as the database grows",
		X:     "memories in the database", Y: "median ms a recall (10 hits)",
		From: float64(ownerSizes[0]), To: float64(ownerSizes[0]),
		Notes: notes(r, "growth", fmt.Sprintf("bleve%s, SQLite FTS5 by modernc.org/sqlite%s; one core", version(r, "github.com/blevesearch/bleve/v2"), version(r, "modernc.org/sqlite"))),
	}
	at := map[string]int{}
	for _, s := range r.Results {
		if s.Workload != "growth" || len(s.Rounds) == 0 {
			continue
		}
		name, _, _ := strings.Cut(s.Contestant, ", ")
		i, ok := at[name]
		if !ok {
			i = len(c.Series)
			at[name] = i
			c.Series = append(c.Series, chart.Series{Name: peerTitle(name)})
		}
		p := chart.Point{X: median(&s, "memories"), Y: median(&s, "recall_p50_ms")}
		c.To = max(c.To, p.X)
		c.Series[i].Points = append(c.Series[i].Points, p)
	}
	if len(c.Series) == 0 || c.To == c.From {
		return nil
	}
	return c
}

// peerTitle is the name of a peer in a chart.
func peerTitle(name string) string {
	switch name {
	case "fts5-modernc":
		return "SQLite FTS5 (modernc)"
	case "fts5-mattn":
		return "SQLite FTS5 (mattn)"
	case "sqlite-modernc":
		return "SQLite (modernc)"
	case "sqlite-mattn":
		return "SQLite (mattn)"
	case "pebble":
		return "Pebble"
	}
	return name
}

// leastCurve is the recall from which on curves are drawn.
const leastCurve = .8

// curvesChart is the speed of each index over vectors at each recall: of those that have a curve
// there, which an exact search has not.
func curvesChart(r *harness.Report, task vectorTask) svg {
	rows := 0.0
	c := &chart.Chart{
		X: fmt.Sprintf("recall@%d", vectorK), Y: "queries a second, one thread", From: 1, To: 1,
		Notes: notes(r, "vectors", fmt.Sprintf("M %d, efConstruction %d; a point for each number of candidates that a search keeps", vectorM, vectorEfConstruction)),
	}
	for _, s := range r.Results {
		if s.Workload != "vectors" {
			continue
		}
		series := chart.Series{Name: s.Contestant}
		for _, ef := range vectorEfs {
			p := chart.Point{X: median(&s, curveMetric(task.key, ef, "recall")), Y: median(&s, curveMetric(task.key, ef, "qps"))}
			if p.X >= leastCurve { // not NaN
				series.Points = append(series.Points, p)
			}
		}
		if len(series.Points) > 1 {
			for _, p := range series.Points {
				c.From = min(c.From, math.Floor(p.X*20)/20)
			}
			c.Series = append(c.Series, series)
			rows = max(rows, median(&s, task.key+" rows"))
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	c.Step = (1 - c.From) / 5
	c.Title = fmt.Sprintf("Nearest neighbours: %s, %s rows", task.title, harness.Number(rows, 0))
	return c
}
