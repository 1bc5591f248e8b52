package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
	"github.com/seed-7aedc3ff/memdb/hnsw"
)

const (
	hardRows    = 40_000
	hardQueries = 200
	// hardEf is the candidates that a recall of ten hits keeps.
	hardEf = 64
)

// hardEfs are the candidates kept, from which QPS is told.
var hardEfs = []int{10, 14, 20, 28, 40, 64, 96, 128, 192, 320, 640}

// vectorsHard searches sets of rows on which a graph over codes may fail.
func vectorsHard() *harness.Workload {
	w := &harness.Workload{
		Name: "vectors-hard",
		Summary: fmt.Sprintf("nearest neighbours among rows that are hard to walk: recall@%d with %d candidates and queries/s at .95; and as a recall asks, which looks at all rows where that is cheap: also the share of first hits that are right, and of searches that say they are unsure",
			vectorK, hardEf),
		Metrics: []harness.Metric{{Name: "rows", Head: "rows"}},
	}
	for _, side := range []string{"memdb", "hnswlib"} {
		w.Metrics = append(
			w.Metrics,
			harness.Metric{Name: side + "_recall", Head: side, Digits: 3},
			harness.Metric{Name: side + "_best", Head: "at best", Digits: 3},
			harness.Metric{Name: side + "_qps", Head: "QPS .95"},
		)
	}
	w.Metrics = append(
		w.Metrics,
		harness.Metric{Name: "default_recall", Head: "by default", Digits: 3},
		harness.Metric{Name: "default_first", Head: "first", Digits: 3},
		harness.Metric{Name: "default_unsure", Head: "unsure", Digits: 3},
		harness.Metric{Name: "default_us", Head: "µs", Digits: 1},
		harness.Metric{Name: "exact_us", Head: "exact µs", Digits: 1},
	)
	w.Contestants = func(env *harness.Env) ([]harness.Contestant, error) {
		b := &hardBench{env: env}
		var list []harness.Contestant
		for _, h := range vectorset.Hards() {
			for _, metric := range h.Metrics {
				list = append(list, harness.Contestant{
					Name: h.Name + ", " + metric,
					Open: func(context.Context) (harness.Runner, error) { return &hardRun{b, h, metric}, nil },
				})
			}
		}
		return list, nil
	}
	return w
}

// hardBench is what the sets share.
type hardBench struct {
	env       *harness.Env
	dir       string
	noHnswlib bool // it was said once that hnswlib is not there
}

// hardRun is one set under one metric.
type hardRun struct {
	bench  *hardBench
	kind   vectorset.Hard
	metric string
}

// Round builds and asks both indexes. The sets are many, so none stays beyond its round.
func (r *hardRun) Round(ctx context.Context) (_ harness.Sample, err error) {
	b, n := r.bench, hardRows
	if b.env.N > 0 {
		n = b.env.N
	}
	if b.dir == "" {
		if b.dir, err = b.env.Fresh("vectors-hard"); err != nil {
			return nil, err
		}
	}
	base, queries := r.kind.Sets(r.metric, n, min(hardQueries, max(1, n/50)))
	w := &peer.VectorWork{
		Base: base, Queries: queries, Dir: b.dir,
		BaseFile: filepath.Join(b.dir, "base"), QueryFile: filepath.Join(b.dir, "queries"),
		M: vectorM, EfConstruction: vectorEfConstruction, Metric: r.metric,
	}
	if err := errors.Join(base.Write(w.BaseFile), queries.Write(w.QueryFile)); err != nil {
		return nil, err
	}
	floors, sample := vectorset.NewFloors(r.metric, base, queries, vectorK, r.kind.Gone), harness.Sample{"rows": float64(n)}
	if err := r.memdb(ctx, w, floors, sample); err != nil || r.kind.Gone != nil {
		return sample, err // the program beside hnswlib removes nothing
	}
	return sample, r.hnswlib(ctx, w, floors, sample)
}

// fill has the index hold all rows but those that are gone, which it held before.
func (r *hardRun) fill(x *hnsw.Index, base *vectorset.Set) func(context.Context) (int64, error) {
	all := fillMemdb(x, base)
	return func(ctx context.Context) (int64, error) {
		if _, err := all(ctx); err != nil {
			return 0, err
		}
		for i := range base.Len() {
			if r.kind.Gone != nil && r.kind.Gone(i, base.Len()) {
				x.Remove(uint32(i))
			}
		}
		return x.Bytes(), x.Link(ctx, x.Len())
	}
}

// byDefault asks as a recall does.
func (r *hardRun) byDefault(ctx context.Context, in *peer.InProcess, x *hnsw.Index, floors judge, sample harness.Sample) error {
	unsure, asked := 0, 0
	in.Search = func(ctx context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error) {
		var told hnsw.Told
		hits, err := x.Search(ctx, query, hnsw.Search{K: k, Ef: ef, Slots: x.Len(), Sure: true, Told: &told})
		if asked++; told.Unsure {
			unsure++
		}
		for _, h := range hits {
			dst = append(dst, h.Slot)
		}
		return dst, err
	}
	var answers [vectorAskings]peer.VectorAnswers
	for i := range answers {
		var err error
		if answers[i], err = in.Ask(ctx, hardEf, vectorK); err != nil {
			return err
		}
	}
	p := judgeAnswers(floors, answers[:])
	sample["default_recall"], sample["default_us"] = p.recall, p.mean
	sample["default_unsure"] = float64(unsure) / float64(max(1, asked))
	first := make([][]uint32, len(answers[0].IDs))
	for q, ids := range answers[0].IDs {
		first[q] = ids[:min(1, len(ids))]
	}
	sample["default_first"] = vectorset.NewFloors(r.metric, in.Work.Base, in.Work.Queries, 1, r.kind.Gone).Judge(first)
	return nil
}

func (r *hardRun) memdb(ctx context.Context, w *peer.VectorWork, floors judge, sample harness.Sample) error {
	metric, err := hnsw.ParseMetric(r.metric)
	if err != nil {
		return err
	}
	cfg := indexConfig(w)
	cfg.Metric = metric
	x, err := hnsw.New(cfg)
	if err != nil {
		return err
	}
	in := &peer.InProcess{Work: w, Fill: r.fill(x, w.Base), Search: searchMemdb(x)}
	if err := askHard(ctx, in, "memdb", floors, sample); err != nil {
		return err
	}
	if err := r.byDefault(ctx, in, x, floors, sample); err != nil {
		return err
	}
	in.Search = func(ctx context.Context, query []float32, _, k int, dst []uint32) ([]uint32, error) {
		hits, err := x.Search(ctx, query, hnsw.Search{K: k, Slots: x.Len(), Exact: true})
		for _, h := range hits {
			dst = append(dst, h.Slot)
		}
		return dst, err
	}
	a, err := in.Ask(ctx, hardEf, vectorK)
	if err != nil {
		return err
	}
	p := judgeAnswers(floors, []peer.VectorAnswers{a})
	if p.recall < 1 {
		return fmt.Errorf("%s, %s: an exact search has recall %v", r.kind.Name, r.metric, p.recall)
	}
	sample["exact_us"] = p.mean
	return nil
}

func (r *hardRun) hnswlib(ctx context.Context, w *peer.VectorWork, floors judge, sample harness.Sample) error {
	all := peer.VectorIndexes()
	at := slices.IndexFunc(all, func(o peer.VectorOpener) bool { return o.Name == "hnswlib" })
	x, err := all[at].Open(ctx, w)
	if errors.Is(err, harness.ErrMissing) {
		if !r.bench.noHnswlib {
			r.bench.env.Say("vectors-hard: hnswlib is left out: %s", harness.Lacking(err))
			r.bench.noHnswlib = true
		}
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(askHard(ctx, x, "hnswlib", floors, sample), x.Close())
}

// askHard builds an index and fills in its columns.
func askHard(ctx context.Context, x peer.Vectors, side string, floors judge, sample harness.Sample) error {
	if _, err := x.Build(ctx); err != nil {
		return err
	}
	var curve []curvePoint
	best := 0.0
	for _, ef := range hardEfs {
		var answers [vectorAskings]peer.VectorAnswers
		for i := range answers {
			var err error
			if answers[i], err = x.Ask(ctx, ef, vectorK); err != nil {
				return err
			}
		}
		p := judgeAnswers(floors, answers[:])
		curve = append(curve, p)
		if best = max(best, p.recall); ef == hardEf {
			sample[side+"_recall"] = p.recall
		}
	}
	sample[side+"_best"] = best
	if p, ok := at(curve, 0.95); ok {
		sample[side+"_qps"] = 1e6 / p.mean
	}
	return nil
}

// Close has nothing to do: a round leaves nothing.
func (r *hardRun) Close() error { return nil }
