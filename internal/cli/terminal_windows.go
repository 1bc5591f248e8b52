package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// usualWidth stands for the width of a terminal that does not tell it.
const usualWidth = 80

// terminal reports whether a file is a terminal, and its width in columns.
func terminal(f *os.File) (int, bool) {
	var mode uint32
	if windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) != nil {
		return 0, false
	}
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return usualWidth, true // a console that is read from has no width
	}
	return int(info.Window.Right-info.Window.Left) + 1, true
}

// enableStyles reports whether a terminal understands escape sequences, which a
// Windows console does when it is asked to.
func enableStyles(f *os.File) bool {
	var mode uint32
	if windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(windows.Handle(f.Fd()), mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
