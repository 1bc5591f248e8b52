package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// ChildVariable is the environment variable through which a process learns that
// it is the child of a run, and which round of which contestant it is to do.
const ChildVariable = "MEMDB_BENCH_CHILD"

// MetricRSS is the metric that the harness itself adds to a round in a process
// of its own: the most memory that the process held resident, in MB.
const MetricRSS = "peak_rss_mb"

// order is what a child is to do.
type order struct {
	Workload   string  `json:"workload"`
	Contestant string  `json:"contestant"`
	Data       string  `json:"data"`
	Dir        string  `json:"dir"`
	Made       string  `json:"made,omitempty"`
	N          int     `json:"n"`
	Seconds    float64 `json:"seconds"`
	Core       int     `json:"core"`
	Pin        bool    `json:"pin"`
}

// answer is what a child prints.
type answer struct {
	Sample  Sample `json:"sample,omitempty"`
	Missing string `json:"missing,omitempty"`
}

// childRunner does each round in a process of its own.
type childRunner struct{ order order }

// Round starts the process and waits for its answer.
func (c *childRunner) Round(ctx context.Context) (Sample, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(c.order)
	if err != nil {
		return nil, err
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), ChildVariable+"="+string(spec))
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("in its process: %w: %s", err, strings.TrimSpace(problems.String()))
	}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return nil, fmt.Errorf("reading the answer of its process: %w", err)
	}
	if a.Missing != "" {
		return nil, Missing("%s", a.Missing)
	}
	return a.Sample, nil
}

// Close has nothing to do: each process ended with its round.
func (c *childRunner) Close() error { return nil }

// Child does the one round that spec asks for and prints what it measured.
func Child(ctx context.Context, workloads []*Workload, spec string, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(spec), &o); err != nil {
		return fmt.Errorf("reading %s: %w", ChildVariable, err)
	}
	c, err := find(workloads, &o)
	if err != nil {
		return err
	}
	if o.Pin {
		undo, err := Pin(o.Core)
		if err != nil {
			return err
		}
		defer undo()
	}
	sample, err := once(ctx, c)
	if errors.Is(err, ErrMissing) {
		return json.NewEncoder(out).Encode(answer{Missing: Lacking(err)})
	}
	if err != nil {
		return err
	}
	rss, err := PeakRSS()
	switch {
	case err == nil:
		sample[MetricRSS] = float64(rss) / 1e6
	case !errors.Is(err, ErrMissing):
		return err
	}
	return json.NewEncoder(out).Encode(answer{Sample: sample})
}

// find is the contestant that an order names.
func find(workloads []*Workload, o *order) (*Contestant, error) {
	for _, w := range workloads {
		if w.Name != o.Workload {
			continue
		}
		contestants, err := w.Contestants(&Env{Data: o.Data, Dir: o.Dir, Made: o.Made, N: o.N, Seconds: o.Seconds, Rounds: 1})
		if err != nil {
			return nil, err
		}
		for _, c := range contestants {
			if c.Name == o.Contestant {
				return &c, nil
			}
		}
	}
	return nil, fmt.Errorf("no contestant %q of workload %q", o.Contestant, o.Workload)
}

// once sets a contestant up, does one round and closes it.
func once(ctx context.Context, c *Contestant) (sample Sample, err error) {
	r, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.Round(ctx)
}

// Lacking is what an error that wraps ErrMissing says is not there.
func Lacking(err error) string {
	return strings.TrimPrefix(err.Error(), ErrMissing.Error()+": ")
}
