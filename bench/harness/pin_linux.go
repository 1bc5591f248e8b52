package harness

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// pinned tells what Pin does here.
const pinned = "on one core"

// Pin keeps this process, all its threads and those to come, on one core until
// undo is called, and gives the runtime one processor to match. A core below 0
// stands for the last one that the process may use: the first serves most of the
// machine's interrupts.
func Pin(core int) (undo func(), err error) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("reading the cores of this process: %w", err)
	}
	if core < 0 {
		for i := range len(before) * 64 {
			if before.IsSet(i) {
				core = i
			}
		}
	}
	if core < 0 || !before.IsSet(core) {
		return nil, fmt.Errorf("pinning: this process may not use core %d", core)
	}
	var one unix.CPUSet
	one.Set(core)
	if err := setThreads(&one); err != nil {
		return nil, err
	}
	procs := runtime.GOMAXPROCS(1)
	return func() {
		runtime.GOMAXPROCS(procs)
		// What could not be unpinned stays slower, not wrong.
		_ = setThreads(&before)
	}, nil
}

// setThreads sets the cores of every thread. A thread inherits the cores of the
// one that starts it, so the list is read until it holds no thread unseen.
func setThreads(set *unix.CPUSet) error {
	seen := map[int]bool{}
	for {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("listing the threads of this process: %w", err)
		}
		fresh := false
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil || seen[id] {
				continue
			}
			seen[id], fresh = true, true
			if err := unix.SchedSetaffinity(id, set); err != nil && err != unix.ESRCH {
				return fmt.Errorf("pinning thread %d: %w", id, err)
			}
		}
		if !fresh {
			return nil
		}
	}
}
