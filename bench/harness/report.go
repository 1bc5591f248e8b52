package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable prints the results as plain tables: one of the main metrics, and
// one for each Metric.Table.
func WriteTable(out io.Writer, w *Workload, env *Env, results []*Result) error {
	where := "on all cores"
	if env.Pin {
		where = pinned
	}
	if _, err := fmt.Fprintf(out, "%s: %s\nrounds: %d, in turns, %s; median [min–max]; x: times memdb's value in the same round\n",
		w.Name, w.Summary, env.Rounds, where); err != nil {
		return err
	}
	if made := env.MadeUp(); len(made) > 0 {
		if _, err := fmt.Fprintf(out, "data: made up, so that quality means nothing: %s\n", strings.Join(made, ", ")); err != nil {
			return err
		}
	}
	for i, metrics := range tables(w.Metrics) {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if err := writeOne(out, metrics, results); err != nil {
			return err
		}
	}
	for _, r := range results {
		var err error
		switch {
		case r.Skipped != "":
			_, err = fmt.Fprintf(out, "skipped %s: %s\n", r.Contestant, r.Skipped)
		case r.Err != nil:
			_, err = fmt.Fprintf(out, "FAILED %s: %v\n", r.Contestant, r.Err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tables groups metrics by their table, in the order of the first of each.
func tables(metrics []Metric) [][]Metric {
	var groups [][]Metric
	at := map[string]int{}
	for _, m := range metrics {
		i, ok := at[m.Table]
		if !ok {
			i = len(groups)
			at[m.Table] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	return groups
}

// writeOne prints the table of some metrics of one group.
func writeOne(out io.Writer, metrics []Metric, results []*Result) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := []string{"", cmp.Or(metrics[0].Table, "contestant")}
	for _, m := range metrics {
		head = append(head, m.Head)
		if m.Timed {
			head = append(head, "x")
		}
	}
	writeRow(tw, head)
	for _, r := range results {
		if len(r.Rounds) == 0 {
			continue
		}
		row := []string{"", r.Contestant}
		for _, m := range metrics {
			row = append(row, cells(r, m)...)
		}
		writeRow(tw, row)
	}
	return tw.Flush()
}

// writeRow leaves the errors of the writer below to Flush.
func writeRow(tw *tabwriter.Writer, cells []string) {
	fmt.Fprintln(tw, strings.Join(cells, "\t"))
}

func cells(r *Result, m Metric) []string {
	s, ok := r.Summary(m.Name)
	if !ok {
		if m.Timed {
			return []string{"–", ""}
		}
		return []string{"–"}
	}
	text := Number(s.Median, m.Digits)
	if !m.Timed {
		return []string{text}
	}
	if len(r.Rounds) > 1 {
		text += " [" + Number(s.Min, m.Digits) + "–" + Number(s.Max, m.Digits) + "]"
	}
	ratio := ""
	if s.Ratio != 0 && !r.Baseline {
		ratio = Number(s.Ratio, 2)
		if len(r.Rounds) > 1 {
			ratio += " [" + Number(s.RatioMin, 2) + "–" + Number(s.RatioMax, 2) + "]"
		}
	}
	return []string{text, ratio}
}

// Number prints a value with that many digits after the point and its thousands
// apart.
func Number(v float64, digits int) string {
	text := strconv.FormatFloat(math.Abs(v), 'f', digits, 64)
	whole, rest, hasRest := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if v < 0 {
		whole = "-" + whole
	}
	if hasRest {
		whole += "." + rest
	}
	return whole
}

// line is a result as one line of JSON.
type line struct {
	Workload   string             `json:"workload"`
	Contestant string             `json:"contestant"`
	Baseline   bool               `json:"baseline,omitempty"`
	Skipped    string             `json:"skipped,omitempty"`
	Error      string             `json:"error,omitempty"`
	Rounds     int                `json:"rounds"`
	Metrics    map[string]Summary `json:"metrics,omitempty"`
	Go         string             `json:"go"`
	OS         string             `json:"os"`
	Arch       string             `json:"arch"`
}

// WriteJSON prints each result as a line of JSON.
func WriteJSON(out io.Writer, w *Workload, results []*Result) error {
	enc := json.NewEncoder(out)
	for _, r := range results {
		l := line{
			Workload: r.Workload, Contestant: r.Contestant, Baseline: r.Baseline,
			Skipped: r.Skipped, Rounds: len(r.Rounds), Metrics: map[string]Summary{},
			Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		}
		if r.Err != nil {
			l.Error = r.Err.Error()
		}
		for _, m := range w.Metrics {
			if s, ok := r.Summary(m.Name); ok {
				l.Metrics[m.Name] = s
			}
		}
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
