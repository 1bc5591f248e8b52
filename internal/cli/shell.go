package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// shell is a database that many verbs use, one after the other.
type shell struct {
	dir string
	db  *engine.DB // nil until a verb opens it
	// served: the database is that of the program that runs the verb, and stays open.
	served bool
}

const shellExample = `
memdbctl shell
memdbctl shell --json`

func (a *app) shellCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "shell", "Keep the database open over many verbs, one a line", shellExample)
	cmd.Long = `Reads verbs, one a line, as memdbctl takes them, without the name of the program.
The first verb that needs the database opens it, and the end of the shell closes
it. --json, --quiet and --wait hold for every line.

Words are separated by blanks. Quotes, '…' and "…", keep the blanks in a word; a
backslash outside '…' keeps the next character. Lines that begin with # are left
out. exit or quit ends the shell, as the end of the input does.

In a terminal the arrow keys bring lines back, and the tab key completes verbs;
after a line that fails the next one is read. Otherwise the first line that fails
ends the shell, with the exit code of its verb.`
	cmd.Args = exactly(0, "no argument")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.shell != nil && !a.shell.served {
			return usagef(cmd, "there is a shell already")
		}
		return a.runShell(cmd)
	}
	return cmd
}

// runShell runs the lines of the input.
func (a *app) runShell(cmd *cobra.Command) (err error) {
	s := &shell{dir: a.dir}
	defer func() {
		if failed := s.close(); err == nil {
			err = failed
		}
	}()
	next, err := a.lines(cmd.Root())
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		line, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if cmd.Context().Err() != nil {
			return cmd.Context().Err()
		}
		code, done := a.runLine(cmd.Context(), s, line)
		if done {
			return nil
		}
		if code != exitDone && !a.inTerminal {
			return &exitError{code: code, err: fmt.Errorf("line %d of the shell's input failed: the lines after it did not run", n)}
		}
	}
}

// runLine runs one line, and reports whether it ends the shell.
func (a *app) runLine(ctx context.Context, s *shell, line string) (code int, done bool) {
	if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
		return exitDone, false
	}
	args, err := words(line)
	switch {
	case err != nil:
		a.warn("%v", err)
		return exitUsage, false
	case len(args) == 1 && (args[0] == "exit" || args[0] == "quit"):
		return exitDone, true
	}
	verb := &app{console: a.console, json: a.json, quiet: a.quiet, wait: a.wait, waits: a.waits, salvage: a.salvage, shell: s}
	verb.in, verb.inTerminal = usedInput{}, false
	code = verb.run(ctx, args)
	if s.db != nil && s.db.Failed() != nil { // the next verb opens it again
		_ = s.close() // what failed it was told
	}
	return code, false
}

// usedInput is the input of a verb whose shell reads verbs of it.
type usedInput struct{}

func (usedInput) Read([]byte) (int, error) {
	return 0, errors.New("the input holds the verbs of the shell: name a file, or give the text")
}

// lines returns what reads the next line of the input.
func (a *app) lines(root *cobra.Command) (func() (string, error), error) {
	if a.inTerminal {
		return a.edited(root)
	}
	input := bufio.NewReader(a.in)
	return func() (string, error) {
		line, err := input.ReadString('\n')
		if line != "" {
			err = nil
		}
		return strings.TrimRight(line, "\r\n"), err
	}, nil
}

// check refuses a verb that names another database than the shell's.
func (s *shell) check(cmd *cobra.Command, dir string) error {
	if s.served || dir == "" || filepath.Clean(dir) == filepath.Clean(s.dir) {
		return nil
	}
	return usagef(cmd, "--db %s: the shell works on %s; leave the shell, and begin one with --db %s", dir, s.dir, dir)
}

// keeps reports whether a database is the shell's.
func (s *shell) keeps(db *engine.DB) bool { return s.db != nil && s.db == db }

func (s *shell) close() error {
	if s.served {
		return nil
	}
	db := s.db
	if s.db = nil; db == nil {
		return nil
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}

// words are the words of a line.
func words(line string) ([]string, error) {
	var found []string
	var word strings.Builder
	in, quote, escaped := false, rune(0), false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, in = true, true
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				found = append(found, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("the quote %c is not closed", quote)
	case escaped:
		return nil, errors.New("nothing follows the backslash at the end")
	case in:
		found = append(found, word.String())
	}
	return found, nil
}

// completed extends the verb that a line ends with by what all verbs that begin so have in
// common, and a blank where there is but one.
func completed(root *cobra.Command, line string) string {
	at := strings.LastIndexAny(line, " \t") + 1
	parent := root
	for w := range strings.FieldsSeq(line[:at]) {
		i := slices.IndexFunc(parent.Commands(), func(c *cobra.Command) bool { return c.Name() == w })
		if i < 0 {
			return line
		}
		parent = parent.Commands()[i]
	}
	common, n := "", 0
	for _, c := range parent.Commands() {
		switch name := c.Name(); {
		case !strings.HasPrefix(name, line[at:]) || c.Hidden:
		case n == 0:
			common, n = name, 1
		default:
			n++
			for !strings.HasPrefix(name, common) {
				common = common[:len(common)-1]
			}
		}
	}
	switch n {
	case 0:
		return line
	case 1:
		common += " "
	}
	return line[:at] + common
}
