package engine

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/metrics"
)

// TestMetricsStages: each stage of a recall has a timer.
func TestMetricsStages(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "internal", "recall", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := []string{stageEmbed}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`stage\("([^"]+)"\)`).FindAllStringSubmatch(string(b), -1) {
			found = append(found, m[1])
		}
	}
	slices.Sort(found)
	want := slices.Sorted(slices.Values(stages[:]))
	equalSlices(t, "stages", slices.Compact(found), want)
	if len(stages) != len((&meters{}).stages) {
		t.Errorf("%d stages and %d timers", len(stages), len((&meters{}).stages))
	}
}

// TestMetrics: what was done is counted, by itself and in the figures of the database.
func TestMetrics(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{Embedder: newFakeEmbedder(4)})
	ctx, s := t.Context(), memory.Scope{User: "ada"}
	before := db.Metrics()
	for _, text := range []string{"tea", "coffee", "milk"} {
		mustStore(t, db.Memories(), memory.Memory{Scope: s, Text: text})
	}
	mustRecall(t, db.Memories(), memory.Query{Scope: s, Text: "tea"})
	if _, err := db.Memories().Recall(ctx, memory.Query{Scope: s, Text: "tea", AsOf: 1000}); err == nil {
		t.Fatal("a recall of what is to come")
	}
	if _, err := db.Evict(ctx, &EvictOptions{Scope: s, Cap: new(int64(2))}); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Memories().DeleteScope(ctx, s); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	m := db.Metrics()
	if n := m.Commits.Count - before.Commits.Count; n < 5 || m.Commits.Batches == 0 || m.Commits.Batches != m.Commits.Apply.Count || m.Commits.Sync.Count == 0 {
		t.Errorf("commits: %+v, of which %d here", m.Commits, n)
	}
	r := m.Recall
	if r.Total.Count != 2 || r.Failed != 1 || r.Stages["embed"].Count != 1 || r.Stages["fetch"].Count != 1 || r.Stages["vectors"].Count == 0 {
		t.Errorf("recalls: %+v", r)
	}
	if m.Evictions["evicted:cap"] != 1 || m.Evictions["scope"] != 2 || m.Evictions["merged"] != 0 {
		t.Errorf("evictions: %v", m.Evictions)
	}
	readers := 0
	for _, err := range db.Changes(ctx, 0, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if now := db.Metrics().Changes; readers == 0 && (now.Readers != 1 || now.Behind < 5) {
			t.Errorf("readers: %+v", now)
		}
		readers++
	}
	if now := db.Metrics().Changes; readers == 0 || now != (metrics.Changes{}) {
		t.Errorf("after the reader: %+v", now)
	}
	stats, err := db.Stats(ctx)
	if err != nil || stats.Metrics == nil || stats.Metrics.Recall.Total.Count != 2 {
		t.Fatalf("stats: %+v, %v", stats.Metrics, err)
	}
	b, err := json.Marshal(stats)
	if err != nil || !strings.Contains(string(b), `"metrics":{"lsn":`) {
		t.Errorf("%s, %v", b, err)
	}
	if err := metrics.WritePrometheus(&strings.Builder{}, m); err != nil {
		t.Error(err)
	}
}

// TestSlow: what takes long is warned of, with its stages; what does not is not.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{1, true}, {0, false}, {math.MaxInt64, false}} {
		logger, said := logged()
		db := openTest(t, vfs.NewMem(), Options{Logger: logger, SlowAfter: c.after})
		s := memory.Scope{User: "ada"}
		mustStore(t, db.Memories(), memory.Memory{Scope: s, Text: "tea"})
		err := db.Update(t.Context(), func(tx *Tx) error {
			return second(tx.Memories().Store(t.Context(), memory.Memory{Scope: s, Text: "milk"}, nil))
		})
		if err != nil {
			t.Fatal(err)
		}
		mustRecall(t, db.Memories(), memory.Query{Scope: s, Text: "tea"})
		for _, want := range []string{"what=write", "stages.durable=", "what=recall", "stages.fetch=", "what=sync"} {
			if strings.Contains(said(), want) != c.want {
				t.Errorf("after %d ns, %q is said: %v\n%s", c.after, want, !c.want, said())
			}
		}
	}
}
