package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
)

// hardMissed is the least recall of the sets that fall short of .95 where a walk keeps no more
// than 64 candidates: queries that are not like the rows, in the first place. As a recall asks,
// all are found.
var hardMissed = map[string]float64{
	"one-hot, cosine": .9, "one-hot, dot": .9, "one-hot, l2": .9,
	"unseen topics, 384 components, cosine": .4, "unseen topics, 384 components, dot": .3,
	"unseen topics, 96 components, cosine": .5, "unseen topics, 96 components, l2": .5,
	"the opposite half-space, dot": .15,
	"rare rows first, cosine":      .8, "rare rows first, dot": .8, "rare rows first, l2": .8,
}

// TestVectorsHard runs each set in its short form.
func TestVectorsHard(t *testing.T) {
	record := filepath.Join(t.TempDir(), "results.jsonl")
	code, _, stderr := bench(t, "vectors-hard", "-rounds", "1", "-n", "4200", "-dir", t.TempDir(), "-json", record)
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
		if r := m["default_recall"].Median + m["default_unsure"].Median; r < .99 {
			t.Errorf("%s, by default: %v", name, m)
		}
		if m["exact_us"].Median <= 0 || m["rows"].Median != 4200 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
