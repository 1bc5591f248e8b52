package main

import (
	"strings"
	"testing"
)

// TestSessions runs the workload for a moment.
func TestSessions(t *testing.T) {
	code, stdout, stderr := bench(t, "sessions", "-rounds", "1", "-seconds", "0.1", "-n", "1200", "-pin=false", "-dir", t.TempDir())
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"1 writer ", "64 writers", "memdb", "pebble", "window p50", "page p50", "save s", "longest append beside"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, stdout)
		}
	}
}
