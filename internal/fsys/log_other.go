//go:build !linux

package fsys

func setDirect(uintptr, bool) bool { return false }
