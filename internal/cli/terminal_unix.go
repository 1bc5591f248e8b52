//go:build unix

package cli

import "os"

// enableStyles reports whether a terminal understands escape sequences.
func enableStyles(*os.File) bool { return true }
