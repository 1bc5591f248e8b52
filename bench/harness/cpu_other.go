//go:build !unix

package harness

import "time"

// CPUTime is known on Unix only.
func CPUTime() (time.Duration, error) { return 0, Missing("processor time is measured on Unix") }
