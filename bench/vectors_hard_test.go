package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
)

// hardMissed is the least recall of the sets that fall short of .95 in their short form. Of
// 10,000 one-hot rows the walks find nearly all.
var hardMissed = map[string]float64{"one-hot, cosine": .9, "one-hot, dot": .9, "one-hot, l2": .9}

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
		least, missed := hardMissed[strings.TrimPrefix(name, "vectors-hard, ")]
		if !missed {
			least = .95
		}
		if r := m["memdb_recall"].Median; r < least {
			t.Errorf("%s: recall %.3f, least %.2f", name, r, least)
		}
		if m["exact_qps"].Median <= 0 || m["rows"].Median != 5000 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
