//go:build unix

package daemon

import (
	"os"
	"syscall"
)

// hangup are the signals that have files read again.
var hangup = []os.Signal{syscall.SIGHUP}
