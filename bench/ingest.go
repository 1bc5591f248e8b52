package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
)

const (
	// ingestDefault is how many passages are stored unless -n says otherwise.
	ingestDefault = 100_000
	// ingestBatch is how many passages share one durable commit.
	ingestBatch = 1_000
)

// ingest stores passages in durable batches, each contestant in a process of its
// own, so that its memory is its own too. Each keeps the text beside its index;
// memdb keeps the record, its vector, its history and its log as well.
func ingest() *harness.Workload {
	return &harness.Workload{
		Name:       "ingest",
		Summary:    "store passages in durable batches of 1,000: rate, disk, memory",
		OwnProcess: true,
		Metrics: []harness.Metric{
			{Name: "docs_per_second", Head: "docs/s", Timed: true},
			{Name: "cpu_us", Head: "CPU µs/doc", Digits: 1, Timed: true},
			{Name: "batch_p50_ms", Head: "batch p50 ms", Digits: 1, Timed: true},
			{Name: "batch_p99_ms", Head: "batch p99 ms", Digits: 1, Timed: true},
			{Name: "close_s", Head: "close s", Digits: 2},
			{Name: "disk_mb", Head: "disk MB", Digits: 1},
			{Name: "disk_per_text", Head: "disk/text", Digits: 2},
			{Name: harness.MetricRSS, Head: "peak RSS MB", Timed: true},
		},
		Contestants: ingestContestants,
	}
}

func ingestContestants(env *harness.Env) ([]harness.Contestant, error) {
	path, err := env.Path(corpusFile)
	if err != nil {
		return nil, err
	}
	openers := append([]peer.Opener{{Name: "memdb", Open: openMemdb}}, peer.Texts()...)
	var list []harness.Contestant
	for i, o := range openers {
		list = append(list, harness.Contestant{
			Name: o.Name, Baseline: i == 0, Missing: o.Missing,
			Open: func(context.Context) (harness.Runner, error) {
				return &ingestRun{env: env, path: path, opener: o}, nil
			},
		})
	}
	return list, nil
}

// ingestRun fills one engine.
type ingestRun struct {
	env    *harness.Env
	path   string
	opener peer.Opener
}

// Round fills an empty engine, closes it, and weighs its folder. Only the adding
// counts as the rate: a batch is durable when it returns.
func (r *ingestRun) Round(ctx context.Context) (harness.Sample, error) {
	dir, err := r.env.Fresh("ingest-" + r.opener.Name)
	if err != nil {
		return nil, err
	}
	x, err := r.opener.Open(dir)
	if err != nil {
		return nil, err
	}
	sample, text, err := r.fill(ctx, x)
	began := time.Now()
	err = errors.Join(err, x.Close())
	if err != nil {
		return nil, err
	}
	sample["close_s"] = time.Since(began).Seconds()
	disk, err := harness.FolderSize(dir)
	if err != nil {
		return nil, err
	}
	sample["disk_mb"] = float64(disk) / 1e6
	sample["disk_per_text"] = float64(disk) / float64(text)
	return sample, os.RemoveAll(dir)
}

// fill adds the passages, and returns how many bytes of text they had.
func (r *ingestRun) fill(ctx context.Context, x peer.Text) (_ harness.Sample, text int64, err error) {
	c, err := openCorpus(r.path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var batches harness.Latencies
	docs := 0
	meter := harness.StartMeter()
	for n := cmp.Or(r.env.N, ingestDefault); docs < n; {
		batch, err := c.next(min(ingestBatch, n-docs))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		began := time.Now()
		if err := x.Add(ctx, batch); err != nil {
			return nil, 0, err
		}
		batches.Add(time.Since(began))
		docs += len(batch)
	}
	if docs == 0 {
		return nil, 0, harness.Missing("%s holds no passages", c.name)
	}
	sample := harness.Sample{
		"docs":            float64(docs),
		"docs_per_second": float64(docs) / batches.Sum().Seconds(),
		"batch_p50_ms":    batches.Percentile(0.5) / 1e3,
		"batch_p99_ms":    batches.Percentile(0.99) / 1e3,
	}
	// This counts the reading of the corpus too, the same for everyone.
	meter.Record(sample, "cpu_us", docs)
	return sample, c.bytes, nil
}

// Close has nothing to do: Round closes what it fills.
func (r *ingestRun) Close() error { return nil }
