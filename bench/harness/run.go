package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/bench/data"
)

// Env is what a run was asked to do, and with what.
type Env struct {
	Data   string // the folder of the data sets
	Dir    string // an empty folder for databases
	Out    string // the folder for what is to be kept, such as charts
	Made   string // the folder for sets that are made up; empty: none are
	Rounds int    // rounds that count
	N      int    // how many documents, where a workload has a choice; 0: its own
	// Seconds is how long a measurement by time lasts, where a workload has one;
	// 0: its own.
	Seconds float64
	Vectors bool           // give each memory a vector, where a workload has a choice
	Only    *regexp.Regexp // contestants to run; nil: all. The baseline always runs.
	Log     io.Writer      // progress and what was skipped; nil: none
	// Progress, where set, is called after each round that counts, with what there is so far.
	Progress func(results []*Result) error
	Pin      bool // keep measured rounds on one core
	Core     int  // which; below 0: the last

	madeUp map[string]bool // the sets that stand in for real ones
}

// Path is a file of a data set: of the data folder where that has all of the set, else of one
// that is made up. It is an error that wraps ErrMissing where nothing stands in.
func (e *Env) Path(name string) (string, error) {
	lacking := name + " is not at hand (set -data or MEMDB_DATA)"
	if e.Data != "" {
		lacking = fmt.Sprintf("%s is not in %s (set -data or MEMDB_DATA)", name, e.Data)
	}
	set := data.Of(name)
	switch {
	case set == nil:
		return "", Missing("%s: it is in no data set", lacking)
	case set.In(e.Data):
		return filepath.Join(e.Data, filepath.FromSlash(name)), nil
	case e.Made == "":
		return "", Missing("%s", lacking)
	}
	if !e.madeUp[set.Name] {
		e.Say("%s: the set %s is made up; what it shows of quality means nothing, see bench/data/README.md", lacking, set.Name)
	}
	folder, err := set.MakeUp(e.Made, e.N)
	if err != nil {
		return "", err
	}
	if e.madeUp == nil {
		e.madeUp = map[string]bool{}
	}
	e.madeUp[set.Name] = true
	return filepath.Join(folder, filepath.FromSlash(name)), nil
}

// MadeUp lists the sets that stand in for real ones so far.
func (e *Env) MadeUp() []string { return slices.Sorted(maps.Keys(e.madeUp)) }

// Fresh makes an empty folder for one database.
func (e *Env) Fresh(name string) (string, error) {
	return os.MkdirTemp(e.Dir, name+"-")
}

// entrant is a contestant that takes part.
type entrant struct {
	result *Result
	runner Runner
}

// Run puts the contestants of a workload through all rounds. What cannot take
// part is in the results as skipped, and what went wrong as an error; the other
// contestants go on. The error is one of the workload as a whole, and wraps
// ErrMissing where its data is not there; beside the one of a context that has ended are the
// results so far.
func Run(ctx context.Context, w *Workload, env *Env) ([]*Result, error) {
	contestants, err := w.Contestants(env)
	if err != nil {
		return nil, err
	}
	var results []*Result
	var entrants []*entrant
	for _, c := range contestants {
		if env.Only != nil && !c.Baseline && !env.Only.MatchString(c.Name) {
			continue
		}
		r := &Result{Workload: w.Name, Contestant: c.Name, Baseline: c.Baseline, Skipped: c.Missing}
		results = append(results, r)
		if r.Skipped != "" {
			env.Say("%s: %s skipped: %s", w.Name, c.Name, r.Skipped)
			continue
		}
		runner, err := open(ctx, w, env, &c)
		if err != nil {
			fail(env, r, err)
			continue
		}
		entrants = append(entrants, &entrant{result: r, runner: runner})
	}
	err = rounds(ctx, w, env, entrants, results)
	compare(results)
	for _, e := range entrants {
		if err := e.runner.Close(); err != nil && e.result.Err == nil {
			e.result.Err = fmt.Errorf("closing: %w", err)
		}
	}
	return results, errors.Join(err, ctx.Err())
}

// open sets a contestant up, in this process or in one for each round.
func open(ctx context.Context, w *Workload, env *Env, c *Contestant) (Runner, error) {
	if w.OwnProcess {
		return &childRunner{order{
			Workload: w.Name, Contestant: c.Name, Data: env.Data, Dir: env.Dir,
			Made: env.Made, N: env.N, Seconds: env.Seconds, Core: env.Core, Pin: env.Pin,
		}}, nil
	}
	env.Say("%s: setting up %s", w.Name, c.Name)
	return c.Open(ctx)
}

// fail takes a contestant out: what it lacks is a reason to skip it, not an
// error.
func fail(env *Env, r *Result, err error) {
	if errors.Is(err, ErrMissing) {
		r.Skipped = Lacking(err)
		env.Say("%s: %s skipped: %s", r.Workload, r.Contestant, r.Skipped)
		return
	}
	r.Err = err
	env.Say("%s: %s failed: %v", r.Workload, r.Contestant, err)
}

// rounds runs the entrants in turns. One that fails is left out from then on.
func rounds(ctx context.Context, w *Workload, env *Env, entrants []*entrant, results []*Result) error {
	for round := range w.WarmUp + env.Rounds {
		for _, e := range entrants {
			if e.result.Err != nil || e.result.Skipped != "" {
				continue
			}
			if ctx.Err() != nil {
				return nil // what there is so far counts
			}
			sample, err := oneRound(ctx, w, env, e.runner)
			switch {
			case err != nil && ctx.Err() != nil:
				return nil
			case err != nil:
				fail(env, e.result, err)
			case round >= w.WarmUp:
				e.result.Rounds = append(e.result.Rounds, sample)
				env.Say("%s: round %d of %d, %s: %s", w.Name, round-w.WarmUp+1, env.Rounds, e.result.Contestant, figures(w, sample))
				if env.Progress == nil {
					continue
				}
				if err := env.Progress(results); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// figures are what a round showed of the main metrics, in a line.
func figures(w *Workload, sample Sample) string {
	var list []string
	for _, m := range tables(w.Metrics)[0] {
		if v, ok := sample[m.Name]; ok {
			list = append(list, m.Head+" "+Number(v, m.Digits))
		}
	}
	return strings.Join(list, ", ")
}

// oneRound measures from a clean heap, pinned, so that no contestant pays for
// what another left behind.
func oneRound(ctx context.Context, w *Workload, env *Env, r Runner) (Sample, error) {
	runtime.GC()
	if env.Pin && !w.OwnProcess {
		undo, err := Pin(env.Core)
		if err != nil {
			return nil, err
		}
		defer undo()
	}
	return r.Round(ctx)
}

// compare gives every result the rounds of the baseline.
func compare(results []*Result) {
	for _, base := range results {
		if !base.Baseline {
			continue
		}
		for _, r := range results {
			r.Base = base.Rounds
		}
	}
}

// Say logs a line of progress, or of what is left out.
func (e *Env) Say(format string, args ...any) {
	if e.Log != nil {
		fmt.Fprintf(e.Log, format+"\n", args...)
	}
}
