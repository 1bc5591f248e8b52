package cli

import (
	"bufio"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// TestCheckReportsErasure verifies that check says in words that an erasure has begun and is not done.
func TestCheckReportsErasure(t *testing.T) {
	for _, erasing := range []bool{true, false} {
		var out strings.Builder
		a := &app{stdout: bufio.NewWriter(&out)}
		if err := a.printCheck(engine.Report{OK: true, Memories: 1, Erasing: erasing}); err != nil {
			t.Fatal(err)
		}
		if err := a.stdout.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, "an erasure has begun") != erasing || !strings.HasSuffix(got, "ok, 1 memory\n") {
			t.Errorf("erasing %v: %q", erasing, got)
		}
	}
}
