package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
)

// figuresHead is the head of README's table.
const figuresHead = "| work | memdb | beside it | command |\n|---|---|---|---|\n"

// A figure is a row of README's table: a metric of memdb, which a reader's own calls get, and of
// others.
type figure struct {
	work, workload, metric string
	contestant             func(name string) string // by the name of a system
	digits                 int
	unit                   string
	others                 []string
}

// itself is the name of a contestant that is called as its system.
func itself(name string) string { return name }

// figureRows are the rows of the table in README. A chart shows each of them, too.
var figureRows = []figure{
	{
		work: "evidence of LoCoMo among the first 10 hits, without a language model", workload: "locomo", metric: "r@10", digits: 3,
		contestant: func(name string) string {
			return map[string]string{"memdb": "memdb best", "bleve": "bleve text+fields", "fts5-modernc": "fts5-modernc text+fields"}[name]
		},
		others: []string{"bleve", "fts5-modernc"},
	},
	{
		work: "recall by words among an owner's 1,000 memories of 100,000, median", workload: "growth", metric: "recall_p50_ms", digits: 2, unit: " ms",
		contestant: func(name string) string { return growthName(name, 100_000) }, others: []string{"bleve", "fts5-modernc"},
	},
	{
		work: "durable stores of 1 KB and a vector, one writer", workload: "store", metric: storeMetric("stores_per_second", 1), unit: " a second",
		contestant: itself, others: []string{"pebble", "bbolt", "badger", "sqlite-modernc"},
	},
	{
		work: "the same, 64 writers", workload: "store", metric: storeMetric("stores_per_second", 64), unit: " a second",
		contestant: itself, others: []string{"pebble", "bbolt", "badger", "sqlite-modernc"},
	},
}

// figures is README's table of a report; a row that the report has nothing for is left out.
func figures(r *harness.Report) string {
	var b strings.Builder
	b.WriteString(figuresHead)
	for _, f := range figureRows {
		value := func(name string) (string, bool) {
			v := median(shown(r, f.workload, f.contestant(name)), f.metric)
			return harness.Number(v, f.digits) + f.unit, !math.IsNaN(v)
		}
		own, ok := value("memdb")
		if !ok {
			continue
		}
		var others []string
		for _, name := range f.others {
			if v, ok := value(name); ok {
				others = append(others, peerTitle(name)+" "+v)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `go -C bench run . %s` |\n", f.work, own, strings.Join(others, ", "), f.workload)
	}
	return b.String()
}

// printFigures is the verb: it prints README's table of a report. It returns the exit code.
func printFigures(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "bench: usage: figures REPORT.json")
		return 2
	}
	report, err := readReport(args[0])
	if err != nil {
		fmt.Fprintf(stderr, "bench: reading %s: %v\n", args[0], err)
		return 2
	}
	fmt.Fprint(stdout, figures(report))
	return 0
}
