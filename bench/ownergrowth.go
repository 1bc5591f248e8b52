package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/engine"
)

const (
	// growthOwner is how many memories an owner has, whatever the size.
	growthOwner = 1_000
	// growthAsked are asked in each round.
	growthAsked = 300
)

// ownerSizes are how many memories a database grows to; -n leaves larger ones out.
var ownerSizes = []int{1_000, 10_000, 100_000}

// ownerGrowth shows what a recall among the thousand memories of one owner costs as the memories of
// all others become more, beside engines of text.
func ownerGrowth() *harness.Workload {
	return &harness.Workload{
		Name:    "growth",
		Summary: "recall by words in an owner of 1,000 memories, as the database grows to 100,000 (-n: up to)",
		WarmUp:  1,
		Metrics: []harness.Metric{
			{Name: "recall_p50_ms", Head: "p50 ms", Digits: 3, Timed: true},
			{Name: "recall_p99_ms", Head: "p99 ms", Digits: 3, Timed: true},
			{Name: "cpu_us", Head: "CPU µs", Timed: true},
			{Name: "docs_per_second", Head: "stored/s", Table: "growing"},
			{Name: "disk_bytes", Head: "disk B/memory", Table: "growing"},
			{Name: "open_ms", Head: "open ms", Digits: 1, Table: "growing"},
		},
		Contestants: ownerContestants,
	}
}

func ownerContestants(env *harness.Env) ([]harness.Contestant, error) {
	path, err := env.Path(corpusFile)
	if err != nil {
		return nil, err
	}
	source, err := newRecords(path)
	if err != nil {
		return nil, err
	}
	queries, err := readQueries(env)
	if err != nil {
		return nil, err
	}
	var list []harness.Contestant
	for _, n := range ownerSizes {
		if env.N > 0 && n > max(env.N, ownerSizes[0]) {
			break
		}
		for _, o := range append([]peer.Opener{{Name: "memdb", Open: openMemdb}}, peer.Texts()...) {
			list = append(list, harness.Contestant{
				Name: growthName(o.Name, n), Baseline: len(list) == 0, Missing: o.Missing,
				Open: func(ctx context.Context) (harness.Runner, error) {
					return openGrowth(ctx, env, o, n, source, queries)
				},
			})
		}
	}
	return list, nil
}

// growthName is that of a contestant: the engine, and how many memories it has.
func growthName(engine string, n int) string {
	return engine + ", " + harness.Number(float64(n), 0)
}

// growthDB is a database of one size.
type growthDB struct {
	peer.Text
	owners  int
	queries []string
	once    harness.Sample // what the filling showed
}

// openGrowth fills a database, on one core if the run is on one.
func openGrowth(ctx context.Context, env *harness.Env, o peer.Opener, n int, source *records, queries []string) (_ harness.Runner, err error) {
	if env.Pin {
		undo, err := harness.Pin(env.Core)
		if err != nil {
			return nil, err
		}
		defer undo()
	}
	dir, err := env.Fresh("growth-" + o.Name)
	if err != nil {
		return nil, err
	}
	x, err := o.Open(dir)
	if err != nil {
		return nil, err
	}
	g := &growthDB{Text: x, owners: n / growthOwner, queries: queries, once: harness.Sample{"memories": float64(n)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	var took time.Duration
	for from := 0; from < n; from += scaleBatch {
		batch := make([]peer.Document, min(scaleBatch, n-from))
		for i := range batch {
			number := from + i
			text := cut(source.record(uint64(number)).Text, scaleTextBytes)
			batch[i] = peer.Document{ID: fmt.Sprint(number), Scope: fmt.Sprint("a", number%g.owners), Text: text}
		}
		began := time.Now()
		if err := g.Add(ctx, batch); err != nil {
			return nil, err
		}
		took += time.Since(began)
	}
	g.once["docs_per_second"] = float64(n) / took.Seconds()
	if m, ok := x.(*memdb); ok {
		if err := g.reopen(ctx, m, dir); err != nil {
			return nil, err
		}
	}
	size, err := harness.FolderSize(dir)
	g.once["disk_bytes"] = float64(size) / float64(n)
	return g, err
}

// reopen closes memdb and opens it again.
func (g *growthDB) reopen(ctx context.Context, m *memdb, dir string) (err error) {
	if err := errors.Join(m.db.WaitIndexed(ctx), m.db.Close()); err != nil {
		return err
	}
	began := time.Now()
	m.db, err = engine.Open(dir, nil)
	g.once["open_ms"] = float64(time.Since(began).Microseconds()) / 1e3
	return err
}

// Round asks within one owner after the other.
func (g *growthDB) Round(ctx context.Context) (harness.Sample, error) {
	sample := maps.Clone(g.once)
	rng := rand.New(rand.NewPCG(7, 7))
	var times harness.Latencies
	meter := harness.StartMeter()
	for i := range growthAsked {
		scope, query := fmt.Sprint("a", rng.IntN(g.owners)), strings.TrimSpace(g.queries[i%len(g.queries)])
		began := time.Now()
		if _, err := g.Search(ctx, scope, query, textDepth); err != nil {
			return nil, fmt.Errorf("%q: %w", query, err)
		}
		times.Add(time.Since(began))
	}
	meter.Record(sample, "cpu_us", growthAsked)
	sample["recall_p50_ms"] = times.Percentile(0.5) / 1e3
	sample["recall_p99_ms"] = times.Percentile(0.99) / 1e3
	return sample, nil
}
