package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what one run of the program showed, with where and of what.
type Report struct {
	Commit   string            `json:"commit,omitempty"`
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions,omitempty"`
	Command  string            `json:"command"`
	// Partial: the run was going on, or was interrupted, when the report was written.
	Partial bool `json:"partial,omitempty"`
	// MadeUp lists the data sets that stood in for real ones.
	MadeUp  []string `json:"made_up,omitempty"`
	Results []Shown  `json:"results"`
}

// Shown is what a contestant showed in a workload, round by round.
type Shown struct {
	Workload   string   `json:"workload"`
	Contestant string   `json:"contestant"`
	Skipped    string   `json:"skipped,omitempty"`
	Error      string   `json:"error,omitempty"`
	Rounds     []Sample `json:"rounds,omitempty"`
}

// Add adds the rounds of a workload to those that there are.
func (r *Report) Add(results []*Result) {
	for _, result := range results {
		s := Shown{Workload: result.Workload, Contestant: result.Contestant, Skipped: result.Skipped, Rounds: result.Rounds}
		if result.Err != nil {
			s.Error = result.Err.Error()
		}
		at := slices.IndexFunc(r.Results, func(o Shown) bool { return o.Workload == s.Workload && o.Contestant == s.Contestant })
		if at < 0 {
			r.Results = append(r.Results, s)
			continue
		}
		s.Rounds = slices.Concat(r.Results[at].Rounds, s.Rounds)
		r.Results[at] = s
	}
}

// With is a report that also has the rounds of a workload which still runs.
func (r *Report) With(results []*Result) *Report {
	partial := *r
	partial.Partial = true
	partial.Results = slices.Clone(r.Results)
	partial.Add(results)
	return &partial
}

// Continues reports whether rounds of one report may be added to those of another: they are of
// the same sources on the same machine.
func (r *Report) Continues(other *Report) bool {
	return r.Commit == other.Commit && r.Machine == other.Machine
}

// Write writes the report as JSON.
func (r *Report) Write(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", " ")
	return enc.Encode(r)
}

// ErrReport is wrapped by errors of a report that says nothing of speed.
var ErrReport = errors.New("no report")

// ReadReport reads what Write has written.
func ReadReport(in io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if len(r.Results) == 0 {
		return nil, fmt.Errorf("%w: it has no results", ErrReport)
	}
	return &r, nil
}

const (
	// leastRounds is how many rounds show what noise there is.
	leastRounds = 3
	// leastChange is the share by which a row differs at least before it is called slower or
	// faster: less is not worth a look, even where the rounds agree.
	leastChange = .05
)

// A Row is one metric of speed of memdb, in an old report and in a new one.
type Row struct {
	Name     string
	Old, New Rounds
	// Times is how many times as long it takes.
	Times   float64
	Verdict Verdict
}

// Verdict says what a row shows.
type Verdict string

// What a row may show.
const (
	Same    Verdict = ""        // within the noise of the rounds
	Slower  Verdict = "slower"  // by more than that
	Faster  Verdict = "faster"  // by more than that
	Gone    Verdict = "missing" // in the new report
	Unknown Verdict = "unknown" // too few rounds
)

// Compare sets the rows of two reports side by side, in the order of their names. Rows of peers
// and of what is no speed are left out.
func Compare(old, now *Report) []Row {
	before, after := old.rows(), now.rows()
	var rows []Row
	for _, name := range slices.Sorted(maps.Keys(before)) {
		b := before[name]
		r := Row{Name: name, Old: b, Verdict: Gone}
		if a, ok := after[name]; ok {
			r.New = a
			r.Times, r.Verdict = verdict(b, a)
		}
		rows = append(rows, r)
	}
	return rows
}

// Rounds are what the rounds showed of a metric.
type Rounds struct {
	values []float64
	rate   bool // more is faster
}

// rows are the metrics of speed of memdb.
func (r *Report) rows() map[string]Rounds {
	rows := map[string]Rounds{}
	for _, s := range r.Results {
		if !strings.HasPrefix(s.Contestant, "memdb") {
			continue
		}
		for _, round := range s.Rounds {
			for metric, value := range round {
				timed, rate := speed(metric)
				if !timed {
					continue
				}
				name := s.Workload + ", " + s.Contestant + ": " + metric
				rows[name] = Rounds{append(rows[name].values, value), rate}
			}
		}
	}
	return rows
}

// Names of metrics end with their unit, perhaps with a number behind it, or what they count.
var (
	durations = regexp.MustCompile(`(^|_)(us|ms|s)( |$)`)
	rates     = regexp.MustCompile(`(^|_)(per_s|per_second|per_cpu|qps|rate)( |$)`)
)

// speed reports whether a metric tells a speed, and whether more of it is faster.
func speed(metric string) (timed, rate bool) {
	if rates.MatchString(metric) {
		return true, true
	}
	return durations.MatchString(metric), false
}

// verdict compares one row. Noise is half of what lies between the fastest and the slowest
// round, of both together.
func verdict(before, after Rounds) (times float64, _ Verdict) {
	was, is := Median(before.values), Median(after.values)
	if was <= 0 || is <= 0 {
		return 0, Unknown
	}
	times = is / was
	change := is - was
	if before.rate {
		times, change = 1/times, -change
	}
	noise := max((before.width()+after.width())/2, leastChange*was)
	switch {
	case len(before.values) < leastRounds || len(after.values) < leastRounds:
		return times, Unknown
	case change > noise:
		return times, Slower
	case change < -noise:
		return times, Faster
	}
	return times, Same
}

// WriteComparison prints rows as a table, and what may spoil it.
func WriteComparison(out io.Writer, old, now *Report, rows []Row) error {
	fmt.Fprintf(out, "old: %s, %s\nnew: %s, %s\n", old.Commit, old.Machine, now.Commit, now.Machine)
	for i, r := range []*Report{old, now} {
		name := []string{"old", "new"}[i]
		if r.Partial {
			fmt.Fprintf(out, "the %s run was not at its end\n", name)
		}
		if len(r.MadeUp) > 0 {
			fmt.Fprintf(out, "the %s run was of sets that are made up: %s\n", name, strings.Join(r.MadeUp, ", "))
		}
	}
	if old.Machine != now.Machine {
		fmt.Fprintln(out, "the machines differ: run both versions on one, in turns")
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\told median [min–max]\tnew median [min–max]\ttimes\t")
	for _, r := range rows {
		if r.Verdict == Gone {
			fmt.Fprintf(tw, "%s\t%s\t–\t–\t%s\n", r.Name, r.Old, r.Verdict)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%s\n", r.Name, r.Old, r.New, r.Times, r.Verdict)
	}
	return tw.Flush()
}

// width is what lies between the fastest and the slowest round.
func (r Rounds) width() float64 {
	lo, hi := spread(r.values)
	return hi - lo
}

// String is the median, and the least and the greatest value.
func (r Rounds) String() string {
	lo, hi := spread(r.values)
	return fmt.Sprintf("%.4g [%.4g–%.4g]", Median(r.values), lo, hi)
}

// String is the machine in a few words.
func (m Machine) String() string {
	return fmt.Sprintf("%d × %s, %s/%s", m.Cores, m.CPU, m.OS, m.Arch)
}
