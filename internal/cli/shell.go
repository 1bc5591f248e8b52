package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
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
out. exit or quit ends the shell, as the end of the input does (Ctrl-D). Ctrl-C drops the
line that is being typed.

In a terminal the arrow keys bring lines back, and the tab key completes verbs, flags,
IDs and names; after a line that fails the next one is read. Otherwise the first line
that fails ends the shell, with the exit code of its verb.`
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
	next, err := a.lines(cmd, s)
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
	code = verb.run(filter.WithWorkAgain(ctx), args)
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
func (a *app) lines(cmd *cobra.Command, s *shell) (func() (string, error), error) {
	if a.inTerminal {
		return a.edited(func(line string) string {
			if more := completed(cmd.Root(), line); more != line {
				return more
			}
			return a.extended(cmd.Context(), s, line)
		})
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

// extended extends the word that a line ends with as a shell of the system would: by flags, and by
// the users, agents, runs, IDs and names that the database has.
func (a *app) extended(ctx context.Context, s *shell, line string) string {
	at := strings.LastIndexAny(line, " \t") + 1
	args, err := words(line[:at])
	if err != nil || len(args) == 0 {
		return line
	}
	var out bytes.Buffer
	asked := &app{console: a.console, shell: s}
	asked.in, asked.out, asked.err, asked.inTerminal, asked.outWidth, asked.errWidth = usedInput{}, &out, io.Discard, false, 0, 0
	if asked.run(ctx, slices.Concat([]string{"__complete"}, args, []string{line[at:]})) != exitDone {
		return line
	}
	var offered []string
	for word := range strings.Lines(out.String()) {
		word, _, _ = strings.Cut(strings.TrimSuffix(word, "\n"), "\t")
		if strings.HasPrefix(word, line[at:]) && !strings.ContainsAny(word, " '\"\\") && !strings.HasPrefix(word, ":") {
			offered = append(offered, word)
		}
	}
	return line[:at] + common(offered, line[at:])
}

// common is what all words begin with, and a blank behind it where there is but one; without any
// word, what was begun.
func common(words []string, begun string) string {
	if len(words) == 0 {
		return begun
	}
	with := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, with) {
			_, n := utf8.DecodeLastRuneInString(with)
			with = with[:len(with)-n]
		}
	}
	if len(words) == 1 {
		with += " "
	}
	return with
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
	var names []string
	for _, c := range parent.Commands() {
		if strings.HasPrefix(c.Name(), line[at:]) && !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return line[:at] + common(names, line[at:])
}
