package admin

import "syscall"

// private does nothing: a socket has the rights of its folder.
func private(_, _ string, _ syscall.RawConn) error { return nil }
