package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
	"github.com/seed-7aedc3ff/memdb/hnsw"
)

// vectorSizes are how many vectors an index grows to; -n leaves larger ones out.
var vectorSizes = []int{200_000, 1_000_000, 2_000_000}

const (
	vectorGrowthQueries = 500
	// vectorPart is how many vectors are made at a time.
	vectorPart = 10_000
)

// vectorGrowth shows what more vectors cost, with the float32 rows in a file.
// Each size has a process of its own, so that its memory is its own too.
func vectorGrowth() *harness.Workload {
	w := &harness.Workload{
		Name:       "vector-growth",
		Summary:    fmt.Sprintf("memdb's vector index as it grows, %d dimensions, rows in a file", mixtureDim),
		OwnProcess: true,
	}
	for _, target := range vectorTargets {
		w.Metrics = append(w.Metrics, harness.Metric{Name: "qps " + target.name, Head: "QPS " + target.name},
			harness.Metric{Name: "mean_us " + target.name, Head: "mean µs", Digits: 1})
	}
	w.Metrics = append(w.Metrics,
		harness.Metric{Name: "best_recall", Head: "best", Digits: 4},
		harness.Metric{Name: "build_s", Head: "build s", Digits: 1},
		harness.Metric{Name: "build_us", Head: "µs/row", Digits: 1},
		harness.Metric{Name: "mb", Head: "index MB"},
		harness.Metric{Name: harness.MetricRSS, Head: "peak RSS MB"},
		harness.Metric{Name: "snapshot_mb", Head: "snapshot MB"},
		harness.Metric{Name: "write_s", Head: "write s", Digits: 2},
		harness.Metric{Name: "open_s", Head: "open s", Digits: 2})
	w.Contestants = func(env *harness.Env) ([]harness.Contestant, error) {
		var list []harness.Contestant
		for _, n := range vectorSizes {
			if env.N > 0 {
				n = min(n, env.N)
			}
			list = append(list, harness.Contestant{
				Name: harness.Number(float64(n), 0),
				Open: func(context.Context) (harness.Runner, error) { return &vectorGrowthRun{env: env, n: n}, nil },
			})
			if n == env.N {
				break
			}
		}
		return list, nil
	}
	return w
}

// vectorGrowthRun fills one index.
type vectorGrowthRun struct {
	env *harness.Env
	n   int
}

// Round builds the index, asks it, writes its snapshot and opens that.
func (r *vectorGrowthRun) Round(ctx context.Context) (_ harness.Sample, err error) {
	dir, err := r.env.Fresh("growth")
	if err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "rows"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.RemoveAll(dir)) }()
	cfg := hnsw.Config{Dim: mixtureDim, M: vectorM, EfConstruction: vectorEfConstruction, Truth: rowsOf(f, mixtureDim)}
	x, err := hnsw.New(cfg)
	if err != nil {
		return nil, err
	}
	mixture := vectorset.NewMixture(mixtureDim, mixtureSeed)
	queries := mixture.Set(math.MaxInt32, vectorGrowthQueries)
	truth, took, err := r.fill(ctx, x, f, mixture, queries)
	if err != nil {
		return nil, err
	}
	sample := harness.Sample{
		"build_s": took.Seconds(), "build_us": float64(took.Microseconds()) / float64(r.n), "mb": float64(x.Bytes()) / 1e6,
	}
	if err := r.search(ctx, x, queries, truth, sample); err != nil {
		return nil, err
	}
	return sample, r.reopen(x, cfg, filepath.Join(dir, "snapshot"), sample)
}

// Close has nothing to do: Round closes what it fills.
func (r *vectorGrowthRun) Close() error { return nil }

// fill makes, stores and links the vectors, and returns the processor time of
// the index.
func (r *vectorGrowthRun) fill(ctx context.Context, x *hnsw.Index, f *os.File, m *vectorset.Mixture, queries *vectorset.Set) (vectorset.Truth, time.Duration, error) {
	finder := vectorset.NewFinder(queries, vectorK)
	var took time.Duration
	for first := 0; first < r.n; first += vectorPart {
		part := m.Set(first, min(vectorPart, r.n-first))
		finder.Add(part, first, nil)
		if err := part.WriteRows(f); err != nil {
			return nil, 0, err
		}
		began := harness.Processor()
		_, err := fillMemdb(x, part)(ctx)
		took += harness.Processor() - began
		if err != nil {
			return nil, 0, err
		}
	}
	return finder.Truth(), took, nil
}

func (r *vectorGrowthRun) search(ctx context.Context, x *hnsw.Index, queries *vectorset.Set, truth vectorset.Truth, sample harness.Sample) error {
	in := &peer.InProcess{Work: &peer.VectorWork{Queries: queries}, Search: searchMemdb(x)}
	curve, err := askCurve(ctx, in, truth, func(int, curvePoint) {})
	if err != nil {
		return err
	}
	for _, p := range curve {
		sample["best_recall"] = max(sample["best_recall"], p.recall)
	}
	for _, target := range vectorTargets {
		if p, ok := at(curve, target.recall); ok {
			sample["qps "+target.name] = 1e6 / p.mean
			sample["mean_us "+target.name] = p.mean
		}
	}
	return nil
}

// reopen writes the snapshot to the disk and reads it again.
func (r *vectorGrowthRun) reopen(x *hnsw.Index, cfg hnsw.Config, path string, sample harness.Sample) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	began := time.Now()
	s := x.Snapshot()
	size, err := s.WriteTo(f)
	s.Close()
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	sample["write_s"] = time.Since(began).Seconds()
	sample["snapshot_mb"] = float64(size) / 1e6
	if f, err = os.Open(path); err != nil {
		return err
	}
	began = time.Now()
	again, err := hnsw.ReadSnapshot(f, cfg)
	sample["open_s"] = time.Since(began).Seconds()
	if err == nil && again.Len() != x.Len() {
		err = fmt.Errorf("the snapshot of %d rows holds %d", x.Len(), again.Len())
	}
	return errors.Join(err, f.Close())
}
