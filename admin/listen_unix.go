//go:build unix

package admin

import "syscall"

// private gives a socket its mode before it has a name, where the system can, as Linux does: so
// nobody can connect in between.
func private(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}
