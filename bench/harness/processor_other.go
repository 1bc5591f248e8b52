//go:build !linux

package harness

import "time"

var started = time.Now()

// Processor is the clock, where processor time is not told finely enough. Only
// differences mean something.
func Processor() time.Duration { return time.Since(started) }
