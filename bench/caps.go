package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/chart"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	// capsDefault is how many memories are stored unless -n says otherwise.
	capsDefault = 1_000_000
	// capsDays is how long that takes by the database's clock.
	capsDays = 30
	// capsParts is how many points each curve has, capsLooks how often in each the memories
	// are counted.
	capsParts, capsLooks = 100, 10
	capsBudget           = 64 << 20
)

// caps holds an agent at the policy's cap while it stores, with histories and a log of a day,
// and draws what that takes as it goes on.
func caps() *harness.Workload {
	return &harness.Workload{
		Name:    "caps",
		Summary: "an agent that is held at a cap of 10,000 while it stores many memories (-n, 1,000,000 if it is not given)",
		Metrics: []harness.Metric{
			{Name: "most", Head: "most memories"},
			{Name: "rate", Head: "stores a second"},
			{Name: "p99_half", Head: "store p99 µs, half way", Digits: 1},
			{Name: "p99_end", Head: "at the end", Digits: 1},
			{Name: "rss_half", Head: "resident MB, half way", Digits: 1, Table: "what it takes"},
			{Name: "rss_end", Head: "at the end", Digits: 1, Table: "what it takes"},
			{Name: "disk_half", Head: "disk MB, half way", Digits: 1, Table: "what it takes"},
			{Name: "disk_end", Head: "at the end", Digits: 1, Table: "what it takes"},
		},
		Contestants: func(env *harness.Env) ([]harness.Contestant, error) {
			return []harness.Contestant{{Name: "memdb", Baseline: true, Open: func(context.Context) (harness.Runner, error) {
				return &capsRun{env: env, n: cmp.Or(env.N, capsDefault)}, nil
			}}}, nil
		},
	}
}

type capsRun struct {
	env *harness.Env
	n   int
}

func (r *capsRun) Close() error { return nil }

// capsPoint is what one part of the stores showed.
type capsPoint struct {
	most           int
	p99            time.Duration
	resident, disk int64
}

func (r *capsRun) Round(ctx context.Context) (harness.Sample, error) {
	dir, err := r.env.Fresh("caps")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began, now := time.Now(), atomic.Int64{}
	now.Store(began.UnixMilli())
	db, err := engine.Open(dir, &engine.Options{
		KeepCaps: true, Durability: engine.Buffered, MemoryBudget: capsBudget,
		Clock: func() time.Time { return time.UnixMilli(now.Load()) },
	})
	if err != nil {
		return nil, err
	}
	points, err := r.store(ctx, db, &now)
	took := time.Since(began)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	half, end := points[len(points)/2], points[len(points)-1]
	sample := harness.Sample{
		"rate":     float64(r.n) / took.Seconds(),
		"p99_half": float64(half.p99.Nanoseconds()) / 1e3, "p99_end": float64(end.p99.Nanoseconds()) / 1e3,
		"rss_half": float64(half.resident) / 1e6, "rss_end": float64(end.resident) / 1e6,
		"disk_half": float64(half.disk) / 1e6, "disk_end": float64(end.disk) / 1e6,
	}
	for _, p := range points {
		sample["most"] = max(sample["most"], float64(p.most))
	}
	return sample, r.draw(points)
}

func (r *capsRun) store(ctx context.Context, db *engine.DB, now *atomic.Int64) ([]capsPoint, error) {
	p, err := db.Policies().Show(ctx)
	if err != nil {
		return nil, err
	}
	p.History, p.Log = policy.Span(24*time.Hour), policy.Span(24*time.Hour)
	if _, err := db.Policies().Set(ctx, p); err != nil {
		return nil, err
	}
	var points []capsPoint
	rng, scope := rand.New(rand.NewPCG(1, 1)), memory.Scope{Agent: "a"}
	part, step := max(r.n/capsParts, capsLooks), (capsDays*24*time.Hour).Milliseconds()/int64(r.n)
	took := make([]time.Duration, 0, part)
	var most int
	for i := range r.n {
		now.Add(step)
		var text []string
		for range 12 {
			text = append(text, decayWords[rng.IntN(len(decayWords))])
		}
		m := memory.Memory{Scope: scope, Text: fmt.Sprint(strings.Join(text, " "), " ", i), Importance: new(rng.Float64())}
		began := time.Now()
		if _, err := db.Memories().Store(ctx, m, nil); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		if (i+1)%(part/capsLooks) == 0 {
			n, err := db.Memories().Count(ctx, memory.ListQuery{Scope: scope})
			if err != nil {
				return nil, err
			}
			most = max(most, n)
		}
		if (i+1)%part == 0 {
			slices.Sort(took)
			stats, err := db.Stats(ctx)
			if err != nil {
				return nil, err
			}
			points = append(points, capsPoint{most: most, p99: took[len(took)*99/100], resident: resident(), disk: stats.DiskBytes})
			took, most = took[:0], 0
		}
	}
	return points, nil
}

// draw draws what the stores took, all curves over one axis.
func (r *capsRun) draw(points []capsPoint) error {
	c := chart.Chart{Title: "An agent held at a cap of 10,000", X: "thousand stores", Y: "see the names", From: 0, To: float64(r.n) / 1e3, Step: float64(r.n) / 1e4}
	for _, s := range []struct {
		name string
		of   func(capsPoint) float64
	}{
		{"hundred memories", func(p capsPoint) float64 { return float64(p.most) / 100 }},
		{"store p99, µs", func(p capsPoint) float64 { return float64(p.p99.Nanoseconds()) / 1e3 }},
		{"resident MB", func(p capsPoint) float64 { return float64(p.resident) / 1e6 }},
		{"disk MB", func(p capsPoint) float64 { return float64(p.disk) / 1e6 }},
	} {
		series := chart.Series{Name: s.name}
		for i, p := range points {
			series.Points = append(series.Points, chart.Point{X: float64(i+1) * float64(r.n) / float64(len(points)) / 1e3, Y: s.of(p)})
		}
		c.Series = append(c.Series, series)
	}
	f, err := os.Create(filepath.Join(r.env.Out, "caps.svg"))
	if err != nil {
		return err
	}
	return errors.Join(c.WriteSVG(f), f.Close())
}

// resident is how much memory the process holds, 0 where the system does not say.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
