//go:build unix

package main

import "syscall"

// apart has a process not get the Ctrl-C of the terminal: it is told to end in its turn.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
