//go:build !linux

package harness

import "runtime"

// pinned tells what Pin does here.
const pinned = "on one processor of the runtime, which this system may move between cores"

// Pin gives the runtime one processor until undo is called. This system offers
// no way to keep a process on one core, so the figures are noisier here.
func Pin(int) (undo func(), err error) {
	procs := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(procs) }, nil
}
