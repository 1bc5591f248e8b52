// Package metrics counts what a database does and how long it takes, and writes that for Prometheus.
// Counting takes a few atomic additions and no lock.
package metrics

import (
	"sync/atomic"
	"time"
)

// bounds are the upper bounds of the buckets of a Timer: 10 µs to 10 s, in steps of 2 to 2.5.
var bounds = [...]time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Timer counts durations by buckets. It is safe for concurrent use, and the zero Timer is ready.
type Timer struct {
	buckets [len(bounds) + 1]atomic.Uint64
	nanos   atomic.Int64
}

// Observe counts a duration; one below 0, of a clock that was set back, as 0.
func (t *Timer) Observe(d time.Duration) {
	i, n := 0, len(bounds)
	for i < n { // a binary search
		if mid := (i + n) / 2; d <= bounds[mid] {
			n = mid
		} else {
			i = mid + 1
		}
	}
	t.buckets[i].Add(1)
	t.nanos.Add(max(int64(d), 0))
}

// Read is what was counted so far.
func (t *Timer) Read() Durations {
	var d Durations
	for i := range t.buckets {
		d.Count += t.buckets[i].Load()
		if i < len(bounds) {
			d.Buckets = append(d.Buckets, Bucket{bounds[i].Seconds(), d.Count})
		}
	}
	d.Seconds = time.Duration(t.nanos.Load()).Seconds()
	return d
}

// Durations are how often something was done, and how long it took.
type Durations struct {
	// Count is how often, Seconds the sum of how long.
	Count   uint64  `json:"count"`
	Seconds float64 `json:"seconds"`
	// Buckets are cumulative, in the order of their bounds; those above the last bound are in Count.
	Buckets []Bucket `json:"buckets"`
}

// Bucket is how many took no longer than a bound.
type Bucket struct {
	// Seconds is the bound, Count how many.
	Seconds float64 `json:"le"`
	Count   uint64  `json:"count"`
}

// Metrics are those of a database since it was opened. Where nothing else is said they count up.
type Metrics struct {
	// LSN is that of the newest commit that is durable and can be read. A gauge.
	LSN       uint64            `json:"lsn"`
	Commits   Commits           `json:"commits"`
	Recall    Recall            `json:"recall"`
	Evictions map[string]uint64 `json:"evictions"` // by reason, of memories; scope: deleted by scope or filter
	Index     Index             `json:"index"`
	Store     Store             `json:"store"`
	Caches    Caches            `json:"caches"`
	Changes   Changes           `json:"changes"`
	// Archives are those that the database sends to, by their names.
	Archives map[string]Archive `json:"archives,omitempty"`
}

// Commits are what was written.
type Commits struct {
	// Count is how many commits there were, Batches in how many batches, which several writers share.
	Count   uint64 `json:"count"`
	Batches uint64 `json:"batches"`
	// Apply is how long batches took from the store to the tables, under the writer lock; Sync how
	// long each sync of the log took.
	Apply Durations `json:"apply"`
	Sync  Durations `json:"sync"`
}

// Recall is what was asked.
type Recall struct {
	// Total is each recall, with what it waited for an embedder; also one that failed.
	Total  Durations `json:"total"`
	Failed uint64    `json:"failed"`
	// Stages are parts of recalls that were answered, by the names of Plan.Stages; "embed" is the
	// embedder. One that no recall has had is left out.
	Stages map[string]Durations `json:"stages"`
}

// Index is what indexes have still to do. Gauges.
type Index struct {
	// UnlinkedVectors wait for the vector graph, and are searched one by one. Dying are memories that
	// are gone, and still take room.
	UnlinkedVectors int64 `json:"unlinked_vectors"`
	Dying           int64 `json:"dying"`
}

// Store is what the key-value store does behind the calls.
type Store struct {
	// Flushes are those of memtables to tables, Compactions those of tables to others.
	Flushes     int64 `json:"flushes"`
	Compactions int64 `json:"compactions"`
	// CompactionDebtBytes are those that compactions have still to rewrite, and LogBytes those of the
	// logs that are not flushed. Gauges.
	CompactionDebtBytes uint64 `json:"compaction_debt_bytes"`
	LogBytes            uint64 `json:"log_bytes"`
	// ReadAmplification is how many tables a read may have to look into. A gauge.
	ReadAmplification int `json:"read_amplification"`
}

// Caches are what was kept of what was read.
type Caches struct {
	// BlockHits and BlockMisses are reads of blocks of tables.
	BlockHits   int64 `json:"block_hits"`
	BlockMisses int64 `json:"block_misses"`
	// BlockBytes, ScopeBytes, VectorBytes and EmbeddingBytes are what the caches of blocks, of scopes, of
	// vectors that were read and of texts that were embedded hold. Gauges.
	BlockBytes     int64 `json:"block_bytes"`
	ScopeBytes     int64 `json:"scope_bytes"`
	VectorBytes    int64 `json:"vector_bytes"`
	EmbeddingBytes int64 `json:"embedding_bytes"`
}

// Changes are the readers of the log. Gauges.
type Changes struct {
	// Readers is how many run, and Behind how many commits the slowest has still to read.
	Readers int    `json:"readers"`
	Behind  uint64 `json:"behind"`
}

// Archive is how an archive keeps up. All but Segments are gauges.
type Archive struct {
	// LSN is that of the newest commit that the archive has.
	LSN uint64 `json:"lsn"`
	// LagSeconds is how long the oldest of the UnsentBytes, which wait in RAM, has waited at least.
	LagSeconds  float64 `json:"lag_seconds"`
	UnsentBytes int64   `json:"unsent_bytes"`
	// Segments is how many were appended.
	Segments int64 `json:"segments"`
	// Failing is 1 while the archive fails, else 0.
	Failing int `json:"failing"`
}
