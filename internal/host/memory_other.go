//go:build !linux

package host

// Memory is the size of the machine's memory in bytes, 0 where it cannot be told.
func Memory() int64 { return 0 }
