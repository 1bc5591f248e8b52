package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// growthSizes are the numbers of documents, about; they are rounded to whole
// chunks.
var growthSizes = []int{100_000, 300_000, 1_000_000, 3_000_000}

const (
	growthChunk = 1 << 16
	// growthRoom is how many documents the growing chunk lacks when it is nearly
	// full.
	growthRoom = 500
	// growthWords is of how many words a repeated passage has one changed.
	growthWords = 4
)

// textGrowth measures memdb's index alone, as it grows: with the newest chunk
// nearly full, in memory, and with all chunks just sealed.
func textGrowth() *harness.Workload {
	w := &harness.Workload{
		Name:        "text-growth",
		Summary:     "the text index at 100,000 to 3,000,000 documents (-n: up to), its newest chunk nearly full and just sealed",
		WarmUp:      1,
		Contestants: growthContestants,
	}
	for _, kind := range textKinds[:2] {
		w.Metrics = append(w.Metrics,
			harness.Metric{Name: kind.name + "_qps", Head: kind.name + " QPS", Timed: true},
			harness.Metric{Name: kind.name + "_cpu_us", Head: "CPU µs", Timed: true},
			harness.Metric{Name: kind.name + "_p50_ms", Head: "p50 ms", Digits: 3},
			harness.Metric{Name: kind.name + "_p99_ms", Head: "p99 ms", Digits: 3, Timed: true},
		)
	}
	w.Metrics = append(w.Metrics,
		harness.Metric{Name: "index_mb", Head: "index MB", Digits: 1},
		harness.Metric{Name: "memory_mb", Head: "in memory MB", Digits: 1})
	return w
}

func growthContestants(env *harness.Env) ([]harness.Contestant, error) {
	path, err := env.Path(corpusFile)
	if err != nil {
		return nil, err
	}
	queries, err := readQueries(env)
	if err != nil {
		return nil, err
	}
	var list []harness.Contestant
	for _, size := range growthSizes {
		if env.N > 0 && size > env.N && size > growthSizes[0] {
			break
		}
		g := &growth{env: env, path: path, queries: queries, chunks: (size + growthChunk/2) / growthChunk}
		list = append(list, g.contestant(false), g.contestant(true))
	}
	list[0].Baseline = true
	return list, nil
}

// growth is an index of some size, built once for the contestants that look at it
// as it was before its last chunk was sealed, and after.
type growth struct {
	env     *harness.Env
	path    string
	queries []string
	chunks  int
	index   *textIndex
	before  invindex.Snapshot
	memory  float64 // what the index held before
	users   int
}

func (g *growth) contestant(sealed bool) harness.Contestant {
	docs, state := g.chunks*growthChunk, "just sealed"
	if !sealed {
		docs, state = docs-growthRoom, "nearly full"
	}
	return harness.Contestant{
		Name: harness.Number(float64(docs), 0) + ", " + state,
		Open: func(ctx context.Context) (harness.Runner, error) {
			if err := g.build(ctx); err != nil {
				return nil, err
			}
			g.users++
			return &growthRun{growth: g, sealed: sealed}, nil
		},
	}
}

// build fills the index. The snapshot of before keeps the last chunk in memory.
func (g *growth) build(ctx context.Context) error {
	if g.index != nil {
		return nil
	}
	dir, err := g.env.Fresh("text-growth")
	if err != nil {
		return err
	}
	x, err := openTextIndex(dir)
	if err != nil {
		return err
	}
	x.noTexts = true
	g.index = x
	docs := g.chunks * growthChunk
	if err := addRepeated(ctx, x, g.path, docs-growthRoom, 0); err != nil {
		return errors.Join(err, x.Close())
	}
	x.pin()
	g.before, g.memory = x.snapshot, float64(x.index.Bytes())/1e6
	if err := addRepeated(ctx, x, g.path, growthRoom, docs); err != nil {
		return errors.Join(err, x.Close())
	}
	if err := x.Settle(ctx); err != nil {
		return errors.Join(err, x.Close())
	}
	return nil
}

// addRepeated adds n documents of an endless corpus: the passages again and again,
// each time with other words changed. Repeats are numbered from first.
func addRepeated(ctx context.Context, x *textIndex, path string, n, first int) error {
	for repeat := first; n > 0; repeat++ {
		added, err := addChanged(ctx, x, path, n, repeat)
		if err != nil {
			return err
		}
		if added == 0 {
			return harness.Missing("%s holds no passages", path)
		}
		n -= added
	}
	return nil
}

// addChanged adds up to n passages of one repeat, and says how many.
func addChanged(ctx context.Context, x *textIndex, path string, n, repeat int) (added int, err error) {
	c, err := openCorpus(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for added < n {
		batch, err := c.next(min(ingestBatch, n-added))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return added, err
		}
		for i := range batch {
			batch[i].Text = changed(batch[i].Text, repeat)
		}
		if err := x.Add(ctx, batch); err != nil {
			return added, err
		}
		added += len(batch)
	}
	return added, nil
}

// changed replaces some words by ones that only this repeat has.
func changed(text string, repeat int) string {
	if repeat == 0 {
		return text
	}
	words := strings.Fields(text)
	for i := repeat % growthWords; i < len(words); i += growthWords {
		words[i] += "x" + strconv.Itoa(repeat)
	}
	return strings.Join(words, " ")
}

// growthRun asks one state of an index.
type growthRun struct {
	*growth
	sealed bool
}

func (r *growthRun) Round(ctx context.Context) (harness.Sample, error) {
	size, err := r.index.Bytes()
	if err != nil {
		return nil, err
	}
	sample := harness.Sample{"index_mb": float64(size) / 1e6, "memory_mb": r.memory}
	if r.sealed {
		r.index.pin()
		sample["memory_mb"] = float64(r.index.index.Bytes()) / 1e6
	} else {
		r.index.snapshot = r.before
	}
	ask := textRun{index: r.index, stride: 1}
	for _, kind := range textKinds[:2] {
		if err := ask.ask(ctx, sample, kind, r.queries); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return sample, nil
}

// Close closes the index with its last user.
func (r *growthRun) Close() error {
	if r.users--; r.users > 0 {
		return nil
	}
	return r.index.Close()
}
