package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// oneFileDefault is how many memories the file has unless -n says otherwise.
	oneFileDefault = 10_000
	oneFileBatch   = 500
	// oneFileCommits are stored one by one, each of which is appended to the file.
	oneFileCommits = 200
	oneFileOpens   = 9
)

// oneFile fills a database in one file, commits to it one by one, and opens it; the form in a
// folder takes part with the same memories.
func oneFile() *harness.Workload {
	return &harness.Workload{
		Name:    "onefile",
		Summary: "a database in one file: commits one by one, openings, its size (-n, 10,000 memories of 1 KB if it is not given)",
		Metrics: []harness.Metric{
			{Name: "fill_per_second", Head: "stores/s in batches", Timed: true},
			{Name: "commit_p50_ms", Head: "commit p50 ms", Digits: 2, Timed: true},
			{Name: "commit_p99_ms", Head: "p99 ms", Digits: 2, Timed: true},
			{Name: "open_ms", Head: "open p50 ms", Digits: 1, Timed: true},
			{Name: "bytes", Head: "bytes on disk"},
			{Name: "ratio", Head: "of the texts", Digits: 2},
		},
		OwnProcess: true,
		Contestants: func(env *harness.Env) ([]harness.Contestant, error) {
			path, err := env.Path(corpusFile)
			if err != nil {
				return nil, err
			}
			var list []harness.Contestant
			for i, c := range []struct{ name, file string }{{"one file", "db" + engine.FileSuffix}, {"folder", "db"}} {
				list = append(list, harness.Contestant{Name: c.name, Baseline: i == 0, Open: func(context.Context) (harness.Runner, error) {
					return &oneFileRun{env: env, corpus: path, file: c.file, n: cmp.Or(env.N, oneFileDefault)}, nil
				}})
			}
			return list, nil
		},
	}
}

type oneFileRun struct {
	env          *harness.Env
	corpus, file string
	n            int
}

func (r *oneFileRun) Close() error { return nil }

// Round makes the database anew.
func (r *oneFileRun) Round(ctx context.Context) (_ harness.Sample, err error) {
	source, err := newRecords(r.corpus)
	if err != nil {
		return nil, err
	}
	dir, err := r.env.Fresh("onefile")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, r.file)
	sample := harness.Sample{}
	texts, err := r.fill(ctx, path, source, sample)
	if err != nil {
		return nil, err
	}
	opens := harness.Latencies{}
	for range oneFileOpens {
		began := time.Now()
		db, err := engine.Open(path, nil)
		opens.Add(time.Since(began))
		if err != nil {
			return nil, err
		}
		n, err := db.Memories().Count(ctx, memory.ListQuery{AllScopes: true})
		if err == nil && n != r.n {
			err = fmt.Errorf("it has %d memories, not %d", n, r.n)
		}
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
	}
	size := sizeOf(path)
	sample["open_ms"] = opens.Percentile(0.5) / 1000
	sample["bytes"], sample["ratio"] = float64(size), float64(size)/float64(texts)
	return sample, nil
}

// fill stores all memories, the last of them one by one, and returns the bytes of their texts.
func (r *oneFileRun) fill(ctx context.Context, path string, source *records, sample harness.Sample) (texts int, err error) {
	db, err := engine.Open(path, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	next := func(number int) memory.Memory {
		record := source.record(uint64(number))
		texts += len(record.Text)
		return memory.Memory{Scope: memory.Scope{Agent: record.Scope}, Text: record.Text}
	}
	commits := min(oneFileCommits, r.n)
	began := time.Now()
	for from := 0; from < r.n-commits; from += oneFileBatch {
		var batch []memory.Memory
		for i := from; i < min(from+oneFileBatch, r.n-commits); i++ {
			batch = append(batch, next(i))
		}
		if _, err := db.Memories().StoreBatch(ctx, batch, nil); err != nil {
			return 0, err
		}
	}
	sample["fill_per_second"] = float64(r.n-commits) / time.Since(began).Seconds()
	times := harness.Latencies{}
	for i := r.n - commits; i < r.n; i++ {
		m := next(i)
		began := time.Now()
		if _, err := db.Memories().Store(ctx, m, nil); err != nil {
			return 0, err
		}
		times.Add(time.Since(began))
	}
	sample["commit_p50_ms"], sample["commit_p99_ms"] = times.Percentile(0.5)/1000, times.Percentile(0.99)/1000
	return texts, nil
}
