//go:build !unix

package main

import "syscall"

// apart: there are no groups of processes.
func apart() *syscall.SysProcAttr { return nil }
