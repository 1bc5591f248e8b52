package engine

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/metrics"
)

// stageEmbed is the stage in which a query waits for its vector.
const stageEmbed = "embed"

// stages are those of recalls: each has a timer of its own.
var stages = [...]string{
	stageEmbed, "scope", "statistics", "conditions", "text", "vectors", "graph", "neighbours", "terms", "turns", "second look", "trust", "rank", "near words", "fetch", "rerank",
}

// meters count what the database does since it was opened.
type meters struct {
	commits, batches atomic.Uint64
	apply, sync      metrics.Timer
	recall           metrics.Timer
	recallFailed     atomic.Uint64
	stages           [len(stages)]metrics.Timer // in the order of their names
	gone             [layout.Reasons]atomic.Uint64
}

// stage counts how long a stage took. One without a timer is an error of a test, see
// TestMetricsStages.
func (m *meters) stage(name string, took time.Duration) {
	if i := slices.Index(stages[:], name); i >= 0 {
		m.stages[i].Observe(took)
	}
}

// Metrics are what the database has counted since it was opened, and gauges of now. It reads no
// file. metrics.WritePrometheus writes them for Prometheus.
func (db *DB) Metrics() metrics.Metrics {
	c, s := &db.meters, db.store.Metrics()
	out := metrics.Metrics{
		LSN:       db.LSN(),
		Commits:   metrics.Commits{Count: c.commits.Load(), Batches: c.batches.Load(), Apply: c.apply.Read(), Sync: c.sync.Read()},
		Recall:    metrics.Recall{Total: c.recall.Read(), Failed: c.recallFailed.Load(), Stages: map[string]metrics.Durations{}},
		Evictions: map[string]uint64{},
		Index:     metrics.Index{Dying: max(0, db.janitor.dying.Load())},
		Store: metrics.Store{
			Flushes: s.Flush.Count, Compactions: s.Compact.Count, CompactionDebtBytes: s.Compact.EstimatedDebt, LogBytes: s.WAL.Size, ReadAmplification: s.ReadAmp(),
		},
		Caches: metrics.Caches{
			BlockHits: s.BlockCache.Hits, BlockMisses: s.BlockCache.Misses, BlockBytes: s.BlockCache.Size, ScopeBytes: db.scopes.Size(), VectorBytes: db.spaces.RowBytes(),
		},
	}
	for i, name := range stages {
		if d := c.stages[i].Read(); d.Count > 0 {
			out.Recall.Stages[name] = d
		}
	}
	for i, reason := range state.Reasons {
		if reason != "" {
			out.Evictions[string(reason)] = c.gone[i].Load()
		}
	}
	for _, sp := range db.spaces.All() {
		out.Index.UnlinkedVectors += spaceInfo(sp).Unlinked
	}
	out.Caches.EmbeddingBytes, _ = db.memoryShares()
	out.Changes = db.program.feeds.Metrics(out.LSN)
	for _, a := range db.Archives() {
		of := metrics.Archive{LSN: a.LSN, LagSeconds: (time.Duration(a.LagMS) * time.Millisecond).Seconds(), UnsentBytes: a.UnsentBytes, Segments: a.Segments}
		if a.Failing != nil {
			of.Failing = 1
		}
		if out.Archives == nil {
			out.Archives = map[string]metrics.Archive{}
		}
		out.Archives[a.Name] = of
	}
	return out
}

// wentFor counts memories that a commit takes, once it is applied.
func (tx *Tx) wentFor(why layout.Reason, n int) {
	gone := &tx.db.meters.gone[why]
	tx.onApplied(func(uint64) error {
		gone.Add(uint64(n))
		return nil
	})
}

// synced counts a sync of the log that began at a time.
func (db *DB) synced(began time.Time) {
	took := clock.System().Sub(began)
	db.meters.sync.Observe(took)
	db.slow("sync", took)
}

// slow warns of what took longer than Options.SlowAfter.
func (db *DB) slow(what string, took time.Duration, stages ...slog.Attr) {
	if db.slowAfter <= 0 || took < db.slowAfter {
		return
	}
	args := []any{"what", what, "took", took}
	if len(stages) > 0 {
		args = append(args, slog.Attr{Key: "stages", Value: slog.GroupValue(stages...)})
	}
	db.logger.Warn("slow", args...)
}

// wrote warns of a write that was slow: how long it took to be applied, with what it waited for,
// and then to be durable.
func (db *DB) wrote(began, applied time.Time) {
	if db.slowAfter > 0 {
		now := clock.System()
		db.slow("write", now.Sub(began), slog.Duration("apply", applied.Sub(began)), slog.Duration("durable", now.Sub(applied)))
	}
}

// recalled counts a recall that began at a time and was embedded at another.
func (db *DB) recalled(began, embedded time.Time, of []memory.Stage, err error) {
	c := &db.meters
	took := clock.System().Sub(began)
	c.recall.Observe(took)
	if err != nil {
		c.recallFailed.Add(1)
		return
	}
	c.stage(stageEmbed, embedded.Sub(began))
	for i := range of {
		c.stage(of[i].Name, time.Duration(of[i].Micros)*time.Microsecond)
	}
	if db.slowAfter <= 0 || took < db.slowAfter {
		return
	}
	parts := []slog.Attr{slog.Duration(stageEmbed, embedded.Sub(began))}
	for i := range of {
		parts = append(parts, slog.Duration(of[i].Name, time.Duration(of[i].Micros)*time.Microsecond))
	}
	db.slow(doingRecall, took, parts...)
}
