//go:build !unix

package daemon

import "os"

// hangup: there are no such signals.
var hangup []os.Signal
