package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestFiltered runs the workload on so few rows that most ways end flat.
func TestFiltered(t *testing.T) {
	record := filepath.Join(t.TempDir(), "results.jsonl")
	code, _, stderr := bench(t, "filtered", "-rounds", "1", "-n", "5000", "-dir", t.TempDir(), "-json", record)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	results := readRecord(t, record)
	if want := 3 * len(filteredShares); len(results) != want {
		t.Errorf("%d filters, want %d", len(results), want)
	}
	for name, m := range results {
		if m["default_recall"].Median < filteredRecall || m["flat_us"].Median <= 0 || m["of_best"].Median <= 0 {
			t.Errorf("%s: %+v", name, m)
		}
		if rows := m["rows"].Median; strings.HasSuffix(name, " 20%") != (rows == 1000) {
			t.Errorf("%s: %v rows", name, rows)
		}
	}
}

// TestFilterSets: sets on opposite sides have opposite ends, and the queries for
// the far one lie on the other side.
func TestFilterSets(t *testing.T) {
	b := &filteredBench{along: []float32{3, 1, 2, 0}, queriesAlong: make([]float32, 1000)}
	if got := b.set("one side", 0.5); got.Len() != 2 || !got.Has(0) || !got.Has(2) {
		t.Errorf("one side: %v", got)
	}
	if got := b.set("far side", 0.5); got.Len() != 2 || !got.Has(1) || !got.Has(3) {
		t.Errorf("far side: %v", got)
	}
	if got := b.set("random", 0.0001).Len(); got != 1 {
		t.Errorf("a tiny share: %d rows, want one", got)
	}
}
