//go:build unix

package fsys

import "syscall"

// noFollow has no link followed and no pipe waited for.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
