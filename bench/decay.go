package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	// decayDefault is how many memories there are unless -n says otherwise; every tenth is
	// evicted.
	decayDefault = 1_000_000
	decayEvicted = 10
	// decayOwner is how many of them an owner has.
	decayOwner = 10_000
	// decayMerged is how many memories with vectors are looked at for near duplicates; every
	// second one is one.
	decayMerged = 20_000
	decayDim    = 384
	// decayAsked is how many recalls are timed before an eviction.
	decayAsked = 300
)

// decay ages a large database: consolidation, eviction and the clean-up after it beside recalls
// and puts, and merging.
func decay() *harness.Workload {
	return &harness.Workload{
		Name:    "decay",
		Summary: "consolidation, eviction and merging of many memories (-n, 1,000,000 if it is not given)",
		Metrics: []harness.Metric{
			{Name: "consolidate_s", Head: "consolidate s", Digits: 3},
			{Name: "consolidate_kb", Head: "KB written", Digits: 1},
			{Name: "dry_s", Head: "evict --dry-run s", Digits: 3},
			{Name: "evict_s", Head: "evict s", Digits: 3},
			{Name: "put_ms", Head: "longest put ms before", Digits: 1, Table: "beside the eviction"},
			{Name: "put_evict_ms", Head: "in its midst", Digits: 1, Table: "beside the eviction"},
			{Name: "clean_per_s", Head: "cleaned up a second", Table: "beside the eviction"},
			{Name: "recall_ms", Head: "hybrid p50 ms before", Digits: 2, Table: "beside the eviction"},
			{Name: "recall_clean_ms", Head: "in the clean-up", Digits: 2, Table: "beside the eviction"},
			{Name: "recall_after_ms", Head: "after it", Digits: 2, Table: "beside the eviction"},
			{Name: "merge_per_s", Head: "compared a second", Table: "merging, 384 dimensions"},
			{Name: "merged", Head: "merged", Table: "merging, 384 dimensions"},
		},
		Contestants: func(env *harness.Env) ([]harness.Contestant, error) {
			return []harness.Contestant{{Name: "memdb", Baseline: true, Open: func(context.Context) (harness.Runner, error) {
				return &decayRun{env: env, n: cmp.Or(env.N, decayDefault)}, nil
			}}}, nil
		},
	}
}

type decayRun struct {
	env *harness.Env
	n   int
}

func (r *decayRun) Close() error { return nil }

// Round fills two databases, whose filling is not timed, and ages them.
func (r *decayRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{}
	if err := r.with("decay", func(db *engine.DB) error { return r.age(ctx, db, sample) }); err != nil {
		return nil, err
	}
	err := r.with("merge", func(db *engine.DB) error { return r.merge(ctx, db, sample) })
	return sample, err
}

func (r *decayRun) with(name string, fn func(*engine.DB) error) error {
	dir, err := r.env.Fresh(name)
	if err != nil {
		return err
	}
	db, err := engine.Open(dir, nil)
	if err != nil {
		return err
	}
	err = fn(db)
	return errors.Join(err, db.Close(), os.RemoveAll(dir))
}

var decayWords = strings.Fields("tea coffee river house garden train book music winter summer blue green quiet loud old new")

func (r *decayRun) fill(ctx context.Context, db *engine.DB) error {
	now, rng := time.Now(), rand.New(rand.NewPCG(1, 1))
	owners := max(r.n/decayOwner, 1)
	for from := 0; from < r.n; from += scaleBatch {
		batch := make([]memory.Memory, min(scaleBatch, r.n-from))
		for i := range batch {
			n := from + i
			m := memory.Memory{Scope: memory.Scope{Agent: fmt.Sprint("a", n%owners)}, Importance: new(.5), CreatedAt: now.Add(-8 * 24 * time.Hour)}
			var text []string
			for range 8 {
				text = append(text, decayWords[rng.IntN(len(decayWords))])
			}
			m.Text = fmt.Sprint(strings.Join(text, " "), " ", n)
			if rng.IntN(decayEvicted) == 0 {
				m.Importance, m.CreatedAt = new(.1), now.Add(-40*24*time.Hour)
			}
			batch[i] = m
		}
		if _, err := db.Memories().StoreBatch(ctx, batch, &memory.StoreOptions{NoDedup: true}); err != nil {
			return err
		}
	}
	return nil
}

func (r *decayRun) age(ctx context.Context, db *engine.DB, sample harness.Sample) error {
	if err := r.fill(ctx, db); err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // what the filling has left to do in the background
	best, least := time.Hour, int64(1<<62)
	for range 3 {
		before, began := written(), time.Now()
		got, err := db.Consolidate(ctx, &engine.ConsolidateOptions{Merge: new(false)})
		if err != nil {
			return err
		}
		if best = min(best, time.Since(began)); got.Decayed != r.n {
			return fmt.Errorf("%d of %d memories decayed", got.Decayed, r.n)
		}
		least = min(least, written()-before)
	}
	sample["consolidate_s"], sample["consolidate_kb"] = best.Seconds(), float64(least)/1e3
	began := time.Now()
	dry, err := db.Evict(ctx, &engine.EvictOptions{DryRun: true})
	if err != nil {
		return err
	}
	sample["dry_s"] = time.Since(began).Seconds()
	return r.evict(ctx, db, sample, dry.Evicted)
}

// evict evicts beside puts, and cleans up beside recalls.
func (r *decayRun) evict(ctx context.Context, db *engine.DB, sample harness.Sample, want int) error {
	rng := rand.New(rand.NewPCG(2, 2))
	before, err := r.recalls(ctx, db, rng, func(n int) bool { return n < decayAsked })
	if err != nil {
		return err
	}
	sample["recall_ms"] = before
	stop := make(chan struct{})
	quiet, err := longestPut(ctx, db, after(time.Second))
	if err != nil {
		return err
	}
	puts := make(chan error, 1)
	var midst time.Duration
	go func() {
		var err error
		midst, err = longestPut(ctx, db, stop)
		puts <- err
	}()
	began := time.Now()
	got, err := db.Evict(ctx, nil)
	evicted := time.Now()
	close(stop)
	if err = errors.Join(err, <-puts); err != nil {
		return err
	}
	if got.Evicted != want || want == 0 {
		return fmt.Errorf("%d were evicted, %d were planned", got.Evicted, want)
	}
	sample["evict_s"], sample["put_ms"], sample["put_evict_ms"] = evicted.Sub(began).Seconds(), quiet.Seconds()*1e3, midst.Seconds()*1e3
	var left int64
	sample["recall_clean_ms"], err = r.recalls(ctx, db, rng, func(n int) bool {
		const look = 50 // Stats counts the rows of all, which are no longer in the caches then
		if n%look != 0 {
			return true
		}
		var stats engine.Stats
		stats, err = db.Stats(ctx)
		left = stats.Dying
		return err == nil && left > 0
	})
	sample["clean_per_s"] = float64(want) / time.Since(evicted).Seconds()
	if err != nil {
		return err
	}
	sample["recall_after_ms"], err = r.recalls(ctx, db, rng, func(n int) bool { return n < decayAsked })
	return err
}

func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// longestPut puts an entry every millisecond until stop, and returns the longest time of one.
func longestPut(ctx context.Context, db *engine.DB, stop <-chan struct{}) (longest time.Duration, err error) {
	for {
		select {
		case <-stop:
			return longest, nil
		case <-time.After(time.Millisecond):
		}
		began := time.Now()
		if _, err := db.KV().Put(ctx, memory.Owner{Agent: "a0"}, "beat", 1, &entries.PutOptions{}); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(began))
	}
}

// recalls asks while a condition holds, and returns the median time in milliseconds.
func (r *decayRun) recalls(ctx context.Context, db *engine.DB, rng *rand.Rand, more func(n int) bool) (float64, error) {
	var took []time.Duration
	for n := 0; more(n) || n == 0; n++ {
		q := memory.Query{
			Scope: memory.Scope{Agent: "a0"}, Profile: memory.ProfileHybrid, NoTouch: true,
			Text: decayWords[rng.IntN(len(decayWords))] + " " + decayWords[rng.IntN(len(decayWords))],
		}
		began := time.Now()
		if _, err := db.Memories().Recall(ctx, q); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Seconds() * 1e3, nil
}

// merge merges near duplicates by vectors, of one agent.
func (r *decayRun) merge(ctx context.Context, db *engine.DB, sample harness.Sample) error {
	n, rng := min(decayMerged, r.n), rand.New(rand.NewPCG(3, 3))
	var base []float32
	for from := 0; from < n; from += scaleBatch {
		batch := make([]memory.Memory, min(scaleBatch, n-from))
		for i := range batch {
			v := make([]float32, decayDim)
			if i%2 == 1 { // near the one before it
				for j := range v {
					v[j] = base[j] + float32(rng.NormFloat64())*.1
				}
			} else {
				for j := range v {
					v[j] = float32(rng.NormFloat64())
				}
				base = v
			}
			batch[i] = memory.Memory{Scope: memory.Scope{Agent: "a"}, Text: fmt.Sprint("memory ", from+i), Embedding: v}
		}
		if _, err := db.Memories().StoreBatch(ctx, batch, nil); err != nil {
			return err
		}
	}
	if err := db.WaitIndexed(ctx); err != nil {
		return err
	}
	// By vectors only the preset substrate merges.
	p, err := policy.Preset(policy.PresetSubstrate)
	if err != nil {
		return err
	}
	p.PruneBelow = 0
	if _, err := db.Policies().Set(ctx, p); err != nil {
		return err
	}
	began := time.Now()
	got, err := db.Consolidate(ctx, nil)
	if err != nil {
		return err
	}
	sample["merge_per_s"], sample["merged"] = float64(n)/time.Since(began).Seconds(), float64(got.Merged)
	return nil
}

// written is how many bytes the process has written so far, 0 where the system does not say.
func written() int64 {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var n int64
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	return 0
}
