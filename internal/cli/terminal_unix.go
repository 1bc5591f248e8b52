//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// usualWidth stands for the width of a terminal that does not tell it.
const usualWidth = 80

// terminal reports whether a file is a terminal, and its width in columns.
func terminal(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	if size.Col == 0 {
		return usualWidth, true
	}
	return int(size.Col), true
}

// enableStyles reports whether a terminal understands escape sequences.
func enableStyles(*os.File) bool { return true }
