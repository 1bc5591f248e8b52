//go:build unix

package fsys

import "syscall"

// noFollow has no link followed and no pipe waited for.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// hasModes is that the mode of a file says who may read it.
const hasModes = true
