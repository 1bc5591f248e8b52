package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableStyles reports whether a terminal understands escape sequences, which a
// Windows console does when it is asked to.
func enableStyles(f *os.File) bool {
	var mode uint32
	if windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(windows.Handle(f.Fd()), mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
