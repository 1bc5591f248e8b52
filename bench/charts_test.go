package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
)

const (
	publishedReport = "reports/charts.json"
	publishedCharts = "../docs/charts"
)

// TestPublishedCharts holds the charts of the docs to the committed report.
func TestPublishedCharts(t *testing.T) {
	report, err := readReport(publishedReport)
	if err != nil {
		t.Fatal(err)
	}
	if report.Partial || len(report.MadeUp) > 0 || len(report.Commit) != 40 || report.Machine.Cores == 0 || report.Versions["go"] == "" || report.Command == "" {
		t.Errorf("the report is to be of whole runs, of a commit as it is, of real data, and to say where: %q, %+v, partial %v, made up %v",
			report.Commit, report.Machine, report.Partial, report.MadeUp)
	}
	dir := t.TempDir()
	code := drawCharts([]string{publishedReport, dir}, io.Discard, os.Stderr)
	if code != 0 {
		t.Fatalf("exit %d", code)
	}
	published, err := os.ReadDir(publishedCharts)
	if err != nil || len(published) != len(chartKinds) {
		t.Errorf("%s has %d charts, and bench draws %d: %v", publishedCharts, len(published), len(chartKinds), err)
	}
	for _, kind := range chartKinds {
		drawn, err := os.ReadFile(filepath.Join(dir, kind.file))
		if err != nil {
			t.Errorf("the report has nothing for %s", kind.file)
			continue
		}
		got, err := os.ReadFile(filepath.Join(publishedCharts, kind.file))
		if err != nil || !bytes.Equal(got, drawn) {
			t.Errorf("%s/%s is not what the report shows (%v): go -C bench run . charts %s %s", publishedCharts, kind.file, err, publishedReport, publishedCharts)
		}
	}
}

func TestDrawCharts(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.json")
	if err := os.WriteFile(empty, []byte(`{"results":[{"workload":"ir","contestant":"memdb text"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "usage: charts"},
		{[]string{filepath.Join(dir, "none.json"), dir}, 2, "none.json"},
		{[]string{empty, dir}, 1, "nothing that is drawn"},
		{[]string{publishedReport, filepath.Join(dir, "none")}, 1, "none"},
	} {
		var stderr bytes.Buffer
		if code := drawCharts(c.args, io.Discard, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("charts %v: exit %d, %s; want exit %d, %q", c.args, code, &stderr, c.code, c.want)
		}
	}
}

// pages are the texts of README and the docs by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no docs: %v", err)
	}
	all := map[string]string{}
	for _, name := range append(names, "../README.md", "../CONTRIBUTING.md", "reports/README.md", "data/README.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

var (
	benchCommand = regexp.MustCompile("go\\s+-C\\s+\\S*bench\\s+run(?:\\s+-tags\\s+\\S+)?\\s+\\.\\s+([^`#]*)")
	chartLink    = regexp.MustCompile(`\((?:docs/)?charts/([a-z-]+\.svg)\)`)
	testCommand  = regexp.MustCompile(`go\s+(?:-C\s+\S+\s+)?(?:test|run)\s`)
	shellWord    = regexp.MustCompile(`'[^']*'|\S+`)
	manyNumbers  = regexp.MustCompile(`\d[\d,]{3,}|\d*\.\d+`)
)

// TestCommandsOfPages parses each command of the docs that runs bench: a page may not name a
// workload or a flag that there is not.
func TestCommandsOfPages(t *testing.T) {
	found := 0
	for name, text := range pages(t) {
		for _, m := range benchCommand.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(m[1], "\n\n")
			if !strings.Contains(text, "`"+m[0]+"`") { // in a block, a command ends with its line
				line, _, _ = strings.Cut(line, "\n")
			}
			args := shellWord.FindAllString(line, -1)
			for i := range args {
				args[i] = strings.Trim(args[i], "'")
			}
			found++
			if len(args) == 0 || verbs[args[0]] != nil {
				continue
			}
			if _, err := parse(args, io.Discard); err != nil {
				t.Errorf("%s: %s: %v", name, m[0], err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands are found", found)
	}
}

// TestTablesHaveCommands asks each table of the docs that is of measured figures for the command that
// shows them: in its section, before it or after it.
func TestTablesHaveCommands(t *testing.T) {
	tables := 0
	for name, text := range pages(t) {
		if !strings.HasPrefix(name, "../docs/") {
			continue
		}
		for section := range strings.SplitSeq(text, "\n## ") {
			if !measured(section) {
				continue
			}
			tables++
			if !testCommand.MatchString(section) && !strings.Contains(section, "memdbctl ") {
				title, _, _ := strings.Cut(section, "\n")
				t.Errorf("%s: %q has a table of figures and no command", name, title)
			}
		}
	}
	if tables < 8 {
		t.Errorf("only %d sections with figures are found", tables)
	}
}

// measured reports whether a section has a table of which most cells, but for the first column, are
// figures with a point or of four digits and more.
func measured(section string) bool {
	cells, figures := 0, 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, cell := range strings.Split(strings.Trim(line, "| \n"), "|")[1:] {
			cells++
			if manyNumbers.MatchString(cell) && len(strings.Fields(cell)) <= 4 {
				figures++
			}
		}
	}
	return figures > 5 && 3*figures > cells
}

// TestChartsAreShown finds each chart on a page.
func TestChartsAreShown(t *testing.T) {
	shownOn := map[string]int{}
	for name, text := range pages(t) {
		for _, m := range chartLink.FindAllStringSubmatch(text, -1) {
			shownOn[m[1]]++
			if _, err := os.Stat(filepath.Join(publishedCharts, m[1])); err != nil {
				t.Errorf("%s shows a chart that is not there: %v", name, err)
			}
		}
	}
	for _, kind := range chartKinds {
		if shownOn[kind.file] == 0 {
			t.Errorf("no page shows %s", kind.file)
		}
	}
}

// TestChartsOfNothing draws none of an empty report, and of one that has a workload without rounds.
func TestChartsOfNothing(t *testing.T) {
	r := &harness.Report{Results: []harness.Shown{{Workload: "store", Contestant: "memdb"}, {Workload: "growth", Contestant: growthName("memdb", 1_000)}}}
	for _, kind := range chartKinds {
		if c := kind.of(r); c != nil {
			t.Errorf("%s is drawn of nothing: %s", kind.file, fmt.Sprint(c))
		}
	}
}

// TestFiguresOfReadme holds the table of README to the report that its charts are drawn of: the same
// rows with the same figures, and no others.
func TestFiguresOfReadme(t *testing.T) {
	report, err := readReport(publishedReport)
	if err != nil {
		t.Fatal(err)
	}
	readme := pages(t)["../README.md"]
	_, section, ok := strings.Cut(readme, "\n## Figures\n")
	if !ok {
		t.Fatal("README has no section Figures")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var table, prose strings.Builder
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|") {
			table.WriteString(line)
		} else {
			prose.WriteString(line)
		}
	}
	want := figures(report)
	if table.String() != want || strings.Count(want, "\n") != len(figureRows)+2 {
		t.Errorf("README has\n%s\nand the report\n%s\nmake it with: go -C bench run . figures %s", table.String(), want, publishedReport)
	}
	// What is said beside the table has no figures of its own.
	if n := regexp.MustCompile(`\d*\.\d+|\d+(?:\.\d+)?x\b|\d,\d{3}`).FindString(prose.String()); n != "" {
		t.Errorf("README says %s beside its table, which no report holds", n)
	}
	for _, f := range figureRows {
		if v := median(shown(report, f.workload, f.contestant("memdb")), f.metric); math.IsNaN(v) {
			t.Errorf("the report has nothing for %q", f.work)
		}
	}
}
