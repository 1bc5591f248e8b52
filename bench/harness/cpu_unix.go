//go:build unix

package harness

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the processor time that this process has used so far, in all its
// threads. On a machine that others share, differences of it are steadier than
// those of the clock; they leave out what was spent waiting, for a disk as for a
// processor.
func CPUTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
