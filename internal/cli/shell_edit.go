package cli

import (
	"bytes"
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
	}{&promptKeys{in: a.in}, a.keys}, prompt)
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

// promptKeys reads the keys of a person for the editor, which takes Ctrl-C for the end of the input
// as it takes Ctrl-D. Here Ctrl-C drops the line, and a new prompt follows.
type promptKeys struct {
	in   io.Reader
	rest []byte
}

// The keys of the editor: Ctrl-C, and those that drop a line.
const (
	interruptKey = "\x03"
	dropLineKeys = "\x05\x15\r" // to its end, clear to its beginning, Enter
)

func (k *promptKeys) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		n, err := k.in.Read(p)
		if !bytes.Contains(p[:n], []byte(interruptKey)) {
			return n, err
		}
		k.rest = bytes.ReplaceAll(p[:n], []byte(interruptKey), []byte(dropLineKeys))
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}
