package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// edited returns what reads the next line from the terminal, which a person edits; complete extends
// what stands before the cursor.
func (a *app) edited(complete func(line string) string) (func() (string, error), error) {
	const prompt, tab = "memdb> ", '\t'
	fd := int(os.Stdin.Fd())
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{a.in, a.keys}, prompt)
	editor.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != tab {
			return "", 0, false
		}
		begun := complete(line[:at])
		return begun + line[at:], len(begun), true
	}
	return func() (string, error) {
		// Only while a line is edited: the verbs print, and are interrupted, as usual.
		before, err := term.MakeRaw(fd)
		if err != nil {
			return "", err
		}
		line, err := editor.ReadLine()
		if failed := term.Restore(fd, before); err == nil {
			err = failed
		}
		return line, err
	}, nil
}
