package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
)

// TestCompareCommand: the exit code says whether a row became slower.
func TestCompareCommand(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, ms ...float64) string {
		r := &harness.Report{Machine: harness.ThisMachine()}
		for _, v := range ms {
			r.Add([]*harness.Result{{Workload: "toy", Contestant: "memdb", Rounds: []harness.Sample{{"p50_ms": v}}}})
		}
		out, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(out); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Name()
	}
	old, slow, same, short := file("old", 1, 1.1, 1.2), file("slow", 2, 2.1, 2.2), file("same", 1.1, 1.2, 1.3), file("short", 9)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{old, slow}, 1, "1 slower"},
		{[]string{old, same}, 0, "0 slower"},
		{[]string{slow, old}, 0, "1 faster"},
		{[]string{old, short}, 2, "three rounds"},
		{[]string{old}, 2, "usage"},
		{[]string{old, filepath.Join(dir, "absent")}, 2, "absent"},
	} {
		code, stdout, stderr := bench(t, append([]string{"compare"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%v: exit %d, want %d and %q\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}

// TestReportIsAdded: a second run adds its rounds, and what is no report is not overwritten.
func TestReportIsAdded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	c := &command{report: name}
	for range 2 {
		r, err := c.openReport()
		if err != nil {
			t.Fatal(err)
		}
		r.Add([]*harness.Result{{Workload: "toy", Contestant: "memdb", Rounds: []harness.Sample{{"p50_ms": 1}}}})
		if err := c.writeReport(r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := readReport(name)
	if err != nil || len(r.Results) != 1 || len(r.Results[0].Rounds) != 2 {
		t.Errorf("%+v, error %v", r, err)
	}
	if err := os.WriteFile(name, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.openReport(); err == nil {
		t.Error("a file that is no report is taken for one")
	}
}
