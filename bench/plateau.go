package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	// plateauDefault is how many memories are stored unless -n says otherwise.
	plateauDefault = 1_000_000
	// plateauLive is how many live at once: each store deletes the one before so many.
	plateauLive = 1_000
	// plateauStep is the time between two stores by the database's clock: all take 30 days.
	plateauStep  = 2592 * time.Millisecond
	plateauKept  = time.Hour // what history, log and trash keep
	plateauBatch = 100
	plateauParts = 10
	// plateauWords is how many words texts are of, beside a number that is in one alone.
	plateauWords  = 5_000
	plateauBudget = 16 << 20
)

// plateau stores and deletes for long, and shows whether what that takes stays the same.
func plateau() *harness.Workload {
	return &harness.Workload{
		Name:    "plateau",
		Summary: "stores and deletes with 1,000 memories alive and an hour of history (-n, 1,000,000 if it is not given)",
		Metrics: []harness.Metric{
			{Name: "rate", Head: "stores a second"},
			{Name: "rss_first", Head: "resident MB after a tenth", Digits: 1, Table: "what it takes"},
			{Name: "rss_half", Head: "half way", Digits: 1, Table: "what it takes"},
			{Name: "rss_end", Head: "at the end", Digits: 1, Table: "what it takes"},
			{Name: "disk_first", Head: "disk MB after a tenth", Digits: 1, Table: "what it takes"},
			{Name: "disk_half", Head: "half way", Digits: 1, Table: "what it takes"},
			{Name: "disk_end", Head: "at the end", Digits: 1, Table: "what it takes"},
			{Name: "disk_compacted", Head: "compacted", Digits: 1, Table: "what it takes"},
		},
		Contestants: func(env *harness.Env) ([]harness.Contestant, error) {
			return []harness.Contestant{{Name: "memdb", Baseline: true, Open: func(context.Context) (harness.Runner, error) {
				return &plateauRun{env: env, n: cmp.Or(env.N, plateauDefault)}, nil
			}}}, nil
		},
	}
}

type plateauRun struct {
	env *harness.Env
	n   int
}

func (r *plateauRun) Close() error { return nil }

// plateauPoint is what one part of the stores showed.
type plateauPoint struct {
	resident, disk, documents, terms int64
}

func (r *plateauRun) Round(ctx context.Context) (harness.Sample, error) {
	dir, err := r.env.Fresh("plateau")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began, now := time.Now(), atomic.Int64{}
	now.Store(began.UnixMilli())
	db, err := engine.Open(dir, &engine.Options{
		Durability: engine.Buffered, MemoryBudget: plateauBudget,
		Clock: func() time.Time { return time.UnixMilli(now.Load()) },
	})
	if err != nil {
		return nil, err
	}
	points, err := r.store(ctx, db, dir, &now)
	took := time.Since(began)
	var c engine.Compacted
	if err == nil {
		c, err = db.Compact(ctx)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	sample := harness.Sample{"rate": float64(r.n) / took.Seconds(), "disk_compacted": float64(c.DiskBytesAfter) / 1e6}
	for name, p := range map[string]plateauPoint{"first": points[0], "half": points[len(points)/2-1], "end": points[len(points)-1]} {
		sample["rss_"+name], sample["disk_"+name] = float64(p.resident)/1e6, float64(p.disk)/1e6
	}
	return sample, nil
}

func (r *plateauRun) store(ctx context.Context, db *engine.DB, dir string, now *atomic.Int64) ([]plateauPoint, error) {
	p, err := db.Policies().Show(ctx)
	if err != nil {
		return nil, err
	}
	p.History, p.Log, p.Trash = policy.Span(plateauKept), policy.Span(plateauKept), policy.Span(plateauKept)
	if _, err := db.Policies().Set(ctx, p); err != nil {
		return nil, err
	}
	var points []plateauPoint
	rng, part := rand.New(rand.NewPCG(1, 1)), max(r.n/plateauParts/plateauBatch, 1)
	for batch := range r.n / plateauBatch {
		now.Add(plateauBatch * plateauStep.Milliseconds())
		if err := db.Update(ctx, func(tx *engine.Tx) error { return plateauStores(ctx, tx, rng, batch*plateauBatch) }); err != nil {
			return nil, err
		}
		if (batch+1)%part != 0 {
			continue
		}
		stats, err := db.Stats(ctx)
		if err != nil {
			return nil, err
		}
		debug.FreeOSMemory() // what is resident is what is in use
		point := plateauPoint{resident: resident(), disk: sizeOf(dir), documents: stats.Memory.Documents, terms: stats.Terms}
		points = append(points, point)
		fmt.Fprintf(r.env.Log, "%d stores: %d memories, %.1f MB resident, %.1f MB on disk, %d KB of rows, %d terms\n",
			(batch+1)*plateauBatch, stats.Memories, float64(point.resident)/1e6, float64(point.disk)/1e6, point.documents>>10, point.terms)
	}
	return points, nil
}

// plateauStores stores a batch, and deletes as many of before.
func plateauStores(ctx context.Context, tx *engine.Tx, rng *rand.Rand, first int) error {
	scope := memory.Scope{User: "u"}
	word := func() string { return fmt.Sprint("word", rng.IntN(plateauWords)) }
	for i := first; i < first+plateauBatch; i++ {
		m := memory.Memory{
			ID: fmt.Sprint("m", i), Scope: scope, Text: fmt.Sprintf("%s %s %s note about thing %d", word(), word(), word(), i),
			Embedding: []float32{rng.Float32(), rng.Float32(), rng.Float32(), 1},
		}
		if _, err := tx.Memories().Store(ctx, m, nil); err != nil {
			return err
		}
		if i >= plateauLive {
			if err := tx.Memories().Delete(ctx, scope, fmt.Sprint("m", i-plateauLive)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeOf is how many bytes the files of a folder have. One that goes meanwhile has none.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
