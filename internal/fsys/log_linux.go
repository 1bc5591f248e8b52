package fsys

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// setDirect has writes to a file go past the system's cache, or through it. False: they
// can't be told to.
func setDirect(fd uintptr, on bool) bool {
	if fd == vfs.InvalidFd {
		return false
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
	if errno != 0 {
		return false
	}
	flags &^= syscall.O_DIRECT
	if on {
		flags |= syscall.O_DIRECT
	}
	_, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETFL, flags)
	return errno == 0
}
