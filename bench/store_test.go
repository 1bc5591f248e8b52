package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStore runs each engine for a moment.
func TestStore(t *testing.T) {
	code, stdout, stderr := bench(t, "store", "-rounds", "2", "-seconds", "0.1", "-pin=false", "-data", writeData(t), "-dir", t.TempDir())
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"1 writer ", "64 writers", "memdb", "pebble", "bbolt", "badger", "sqlite-modernc", "bytes a value"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, stdout)
		}
	}
}

// TestRecords: any two records differ, and are of the size that is asked for.
func TestRecords(t *testing.T) {
	source, err := newRecords(filepath.Join(writeData(t), filepath.FromSlash(corpusFile)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range uint64(6_000) {
		r := source.record(i)
		if seen[r.Text] || len(r.Text) > storeTextBytes || len(r.Text) < storeTextBytes-20 || len(r.Vector) != storeDims || r.Scope == "" {
			t.Fatalf("record %d: %+v", i, r)
		}
		seen[r.Text] = true
	}
}

// TestScale builds a small database, asks it, kills a process on it, and finds it
// again in a second run.
func TestScale(t *testing.T) {
	data, dir := writeData(t), t.TempDir()
	queries := filepath.Join(data, filepath.FromSlash(queriesFile))
	if err := os.WriteFile(queries, []byte("q\tpassage corpus\nq\tnumber\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		code, stdout, stderr := bench(t, "scale", "-rounds", "1", "-n", "2500", "-vectors", "-data", data, "-dir", dir)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		for _, want := range []string{"list, all owners", "50% p50 ms", "recall, an owner", "hybrid p50 ms", "after kill"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("stdout lacks %q:\n%s", want, stdout)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "scale-2500-vectors" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
