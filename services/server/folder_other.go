//go:build !unix

package server

// syncFolder has nothing to do where a folder cannot be opened.
func syncFolder(string) error { return nil }
