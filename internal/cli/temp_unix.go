//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// claim locks a temporary file for the program that writes it, and reports whether nobody else has: then a file that is
// there already is one that a killed program left. Where there are no locks, nothing is known to be left.
func claim(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
