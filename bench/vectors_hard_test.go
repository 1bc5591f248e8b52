package main

import (
	"path/filepath"
	"testing"

	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
)

// TestVectorsHard runs each set in its short form.
func TestVectorsHard(t *testing.T) {
	record := filepath.Join(t.TempDir(), "results.jsonl")
	code, _, stderr := bench(t, "vectors-hard", "-rounds", "1", "-n", "5000", "-dir", t.TempDir(), "-json", record)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	results := readRecord(t, record)
	want := 0
	for _, h := range vectorset.Hards() {
		want += len(h.Metrics)
	}
	if len(results) != want {
		t.Errorf("%d sets, want %d", len(results), want)
	}
	for name, m := range results {
		if r := m["memdb_recall"].Median; r < .95 {
			t.Errorf("%s: recall %.3f, least .95", name, r)
		}
		if m["exact_qps"].Median <= 0 || m["rows"].Median != 5000 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
