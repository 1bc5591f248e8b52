package harness

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPin(t *testing.T) {
	before := cores(t)
	procs := runtime.GOMAXPROCS(0)
	undo, err := Pin(-1)
	if err != nil {
		t.Fatal(err)
	}
	for id, n := range cores(t) {
		if n != 1 {
			t.Errorf("thread %d may use %d cores while pinned", id, n)
		}
	}
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("%d processors while pinned", n)
	}
	undo()
	after := cores(t)
	for id, n := range before {
		if m, ok := after[id]; ok && m != n {
			t.Errorf("thread %d had %d cores, and has %d after", id, n, m)
		}
	}
	if n := runtime.GOMAXPROCS(0); n != procs {
		t.Errorf("%d processors before, %d after", procs, n)
	}
	if _, err := Pin(1 << 14); err == nil {
		t.Error("pinned to a core that does not exist")
	}
}

// cores counts the cores of each thread.
func cores(t *testing.T) map[int]int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	n := map[int]int{}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		var set unix.CPUSet
		if unix.SchedGetaffinity(id, &set) == nil {
			n[id] = set.Count()
		}
	}
	return n
}
