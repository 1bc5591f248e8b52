package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
)

// readRecord reads what a run wrote with -json, by workload and contestant.
func readRecord(t *testing.T, path string) map[string]map[string]harness.Summary {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[string]map[string]harness.Summary{}
	for d := json.NewDecoder(f); ; {
		var l struct {
			Workload, Contestant, Skipped, Error string
			Metrics                              map[string]harness.Summary
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if l.Error != "" {
			t.Errorf("%s, %s: %s", l.Workload, l.Contestant, l.Error)
		}
		if l.Skipped == "" {
			found[l.Workload+", "+l.Contestant] = l.Metrics
		}
	}
}

// TestVectors runs the workload on a few vectors, with images that are made up, and with the peers that this machine has.
func TestVectors(t *testing.T) {
	dir, record := t.TempDir(), filepath.Join(t.TempDir(), "results.jsonl")
	code, stdout, stderr := bench(t, "vectors", "-rounds", "1", "-n", "1500", "-data", t.TempDir(), "-dir", dir, "-json", record)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if !strings.Contains(stderr, mnistBase+" is not in ") {
		t.Errorf("nothing is said of the set that is made up: %s", stderr)
	}
	results := readRecord(t, record)
	for _, name := range []string{"memdb, rows in memory", "memdb, rows in a file", "memdb, rows in Pebble, kept when read (as in the engine)"} {
		m := results["vectors, "+name]
		if m["mixture best_recall"].Median < 0.99 || m["mixture qps .99"].Median <= 0 {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if ram, file := results["vectors, memdb, rows in memory"]["mixture mb"].Median, results["vectors, memdb, rows in a file"]["mixture mb"].Median; ram < 2*file {
		t.Errorf("%v MB with the rows in memory, %v without", ram, file)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := "made-up"
	if results["vectors, hnswlib"] != nil { // so few rows are a curve by a walk alone
		want += " vectors-mixture.svg vectors-mnist.svg"
	}
	if got := strings.Join(left, " "); err != nil || got != want {
		t.Errorf("left behind: %s, %v\n%s", got, err, stdout)
	}
}

func TestAt(t *testing.T) {
	curve := []curvePoint{{0.90, 10, 20}, {0.94, 20, 40}, {0.98, 40, 60}}
	for _, c := range []struct {
		recall float64
		want   curvePoint
		ok     bool
	}{
		{0.5, curvePoint{0.90, 10, 20}, true}, // no ef is small enough
		{0.94, curvePoint{0.94, 20, 40}, true},
		{0.96, curvePoint{0.96, 30, 50}, true},
		{0.99, curvePoint{}, false},
	} {
		got, ok := at(curve, c.recall)
		if ok != c.ok || !near(got.recall, c.want.recall) || !near(got.mean, c.want.mean) || !near(got.p99, c.want.p99) {
			t.Errorf("at %v: %+v, %v; want %+v", c.recall, got, ok, c.want)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func TestJudgeAnswers(t *testing.T) {
	truth := vectorset.Truth{{1, 2}, {3, 4}, {5, 6}}
	ids := [][]uint32{{1, 2}, {9, 3}} // the third is not asked
	askings := []peer.VectorAnswers{
		{IDs: ids, Times: []time.Duration{1000, 9000}},
		{IDs: ids, Times: []time.Duration{2000, 5000}},
		{IDs: ids, Times: []time.Duration{9000, 4000}},
	}
	if got, want := judgeAnswers(truth, askings), (curvePoint{0.75, 3.5, 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestVectorGrowth(t *testing.T) {
	record := filepath.Join(t.TempDir(), "results.jsonl")
	code, _, stderr := bench(t, "vector-growth", "-rounds", "1", "-n", "12000", "-dir", t.TempDir(), "-json", record)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	results := readRecord(t, record)
	m := results["vector-growth, 12,000"]
	for _, name := range []string{"qps .95", "qps .99", "best_recall", "build_s", "mb", "snapshot_mb", "write_s", "open_s"} {
		if len(results) != 1 || m[name].Median <= 0 {
			t.Errorf("%s is %v, in results %v", name, m[name].Median, results)
		}
	}
}
