//go:build unix

package harness

import (
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	before, err := CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	for sum, began := 0, time.Now(); time.Since(began) < 50*time.Millisecond; {
		sum++
	}
	after, err := CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	// The machine may have run something else meanwhile, but not for all of it.
	if used := after - before; used <= 0 || used > time.Second {
		t.Errorf("50 ms of work took %v of processor time", used)
	}
}
