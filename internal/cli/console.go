package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// console is what the program sees of the world. Tests make their own.
type console struct {
	in       io.Reader
	out, err io.Writer
	// inTerminal: a person would have to type the input.
	inTerminal bool
	// outWidth and errWidth are the columns of the terminal that the stream goes
	// to, 0 where it is none.
	outWidth, errWidth int
	// styled allows bold and dim text on out.
	styled bool
	getenv func(string) string
	now    clock.Clock
	// workDir is the folder from which relative names of files go, empty for the process's own.
	workDir string
	// lend lets other processes in to a database that the verb holds, nil for nobody.
	lend Lend
	// remote is the client on another machine that the verb runs for, nil for none: files are its.
	remote *beside.Session
}

func system() console {
	_, typed := terminal(os.Stdin)
	c := console{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTerminal: typed,
		getenv:     os.Getenv, now: clock.System,
	}
	if width, ok := terminal(os.Stdout); ok {
		c.outWidth = width
		c.styled = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && enableStyles(os.Stdout)
	}
	if width, ok := terminal(os.Stderr); ok {
		c.errWidth = width
	}
	return c
}

// usualWidth stands for the width of a terminal that does not tell it.
const usualWidth = 80

// terminal reports whether a file is a terminal, and its width in columns.
func terminal(f *os.File) (int, bool) {
	if !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width, true
	}
	return usualWidth, true
}
