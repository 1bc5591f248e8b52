// Package harness runs workloads: it puts memdb and its peers through the same
// work in one process, in turns, on one core, and compares what they show.
//
// A shared machine is never quiet, and a figure taken yesterday proves nothing
// today. So the contestants of a workload run interleaved (A B C, A B C, …), each
// round of one is compared with the same round of memdb, and what is reported is
// the median over the rounds with its spread.
package harness

import (
	"context"
	"errors"
	"fmt"
)

// A Workload is one question put to memdb and its peers.
type Workload struct {
	Name    string
	Summary string // one line, for -list
	// Metrics are the columns of the table, in order.
	Metrics []Metric
	// WarmUp rounds are run and thrown away before those that count.
	WarmUp int
	// OwnProcess: contestants start a process for each round and need not be
	// pinned here, see [Env.Child].
	OwnProcess bool
	// Contestants names who takes part. It returns an error that wraps
	// ErrMissing where the workload's data is not there.
	Contestants func(env *Env) ([]Contestant, error)
}

// A Contestant is memdb or a peer, set up in one way.
type Contestant struct {
	Name string
	// Baseline marks the one that the others are compared with.
	Baseline bool
	// Missing says why it cannot take part, and is empty where it can.
	Missing string
	// Open sets it up: its time is not part of any round.
	Open func(ctx context.Context) (Runner, error)
}

// A Runner does the work of one contestant.
type Runner interface {
	// Round does all of the work once, and returns what was measured by the
	// names of the workload's metrics.
	Round(ctx context.Context) (Sample, error)
	Close() error
}

// A Sample is what one round showed, by the name of the metric.
type Sample map[string]float64

// ErrMissing is wrapped by errors that say which data or peer is not there.
var ErrMissing = errors.New("missing")

// Missing makes an error that wraps ErrMissing.
func Missing(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMissing, fmt.Sprintf(format, args...))
}

// A Metric is a column.
type Metric struct {
	Name string // as in Sample, and in JSON
	Head string // the column's head, with the unit
	// Digits after the point.
	Digits int
	// Timed metrics vary from round to round: the table shows their spread, and
	// how many times memdb's the value is.
	Timed bool
	// Table puts the metric into a table of its own, with that title.
	Table string
}

// Result is what a contestant showed in all rounds of a workload.
type Result struct {
	Workload   string
	Contestant string
	Baseline   bool
	// Skipped says why it did not take part. Err is what went wrong.
	Skipped string
	Err     error
	Rounds  []Sample
	// Base holds the same rounds of the baseline; nil if it has none.
	Base []Sample
}

// Summary is a metric over the rounds.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Ratio is the median over the rounds of this contestant's value divided
	// by memdb's value in the same round; 0 where there is none. RatioMin and
	// RatioMax are the smallest and the largest.
	Ratio    float64 `json:"ratio,omitempty"`
	RatioMin float64 `json:"ratio_min,omitempty"`
	RatioMax float64 `json:"ratio_max,omitempty"`
}

// Summary computes a metric over the rounds, and reports whether it was measured.
func (r *Result) Summary(metric string) (Summary, bool) {
	var values, ratios []float64
	for i, s := range r.Rounds {
		v, ok := s[metric]
		if !ok {
			continue
		}
		values = append(values, v)
		if i < len(r.Base) && r.Base[i][metric] != 0 {
			ratios = append(ratios, v/r.Base[i][metric])
		}
	}
	if len(values) == 0 {
		return Summary{}, false
	}
	s := Summary{Median: Median(values), Ratio: Median(ratios)}
	s.Min, s.Max = spread(values)
	if len(ratios) > 0 {
		s.RatioMin, s.RatioMax = spread(ratios)
	}
	return s, true
}
