package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// RunOn runs a verb for another process on the database of a folder, which stays open, and
// returns the exit code.
func RunOn(ctx context.Context, db *engine.DB, dir string, client *beside.Session) int {
	c := console{
		in: client.In, out: client.Out, err: client.Err, inTerminal: client.InTerminal,
		outWidth: client.OutWidth, errWidth: client.ErrWidth, styled: client.Styled,
		getenv: client.Getenv, now: db.Now, workDir: client.Dir,
	}
	a := &app{console: c, json: client.JSON, quiet: client.Quiet, shell: &shell{dir: dir, db: db, served: true}}
	return a.run(ctx, client.Args)
}

// readsInput reports whether the command line has the verb read its input: "-" stands for the
// input among arguments and values of flags, and a few verbs read it where nothing is given.
func readsInput(cmd *cobra.Command) bool {
	if cmd.Name() == "export" { // where it stands for the output
		return false
	}
	args := cmd.Flags().Args()
	if slices.Contains(args, "-") || len(args) == 0 && cmd.Annotations[inputWithout] != "" {
		return true
	}
	found := false
	cmd.Flags().Visit(func(f *pflag.Flag) { found = found || f.Value.String() == "-" })
	return found
}

// inputWithout marks a verb that reads the input where it has no argument.
const inputWithout = "reads the input"

// share looks up a variable of the environment for a verb that another program runs. A verb that
// calls models may have those of its configuration.
func (a *app) share(cmd *cobra.Command) func(name string) (value string, may bool) {
	models := cmd.Flags().Lookup("config") != nil && cmd.Annotations[ownModels] == ""
	return func(name string) (string, bool) {
		if !models || name != config.FileVariable && !config.Variable(name) {
			return "", false
		}
		return a.getenv(name), true
	}
}

// path is the name of a file as the process can open it. One that a verb runs for has a working
// folder of its own.
func (a *app) path(name string) (string, error) {
	switch {
	case a.remote != nil:
		return a.place(name)
	case a.workDir == "":
		return name, nil
	}
	name = filepath.Clean(filepath.Join(a.workDir, name))
	if filepath.IsAbs(name) {
		for _, own := range []string{"/dev/", "/proc/"} {
			if strings.HasPrefix(name, own) && name != os.DevNull {
				return "", &memory.Error{
					Kind: memory.ErrInvalid, What: "open " + name, Why: "another program runs the verb, for which that is another file",
					Do: "name a file, or - for the input or the output",
				}
			}
		}
	}
	return name, nil
}

// loadConfig reads the configuration of models in a file.
func (a *app) loadConfig(name string) (*config.Config, error) {
	if a.remote != nil {
		return a.sentConfig(name)
	}
	path, err := a.path(name)
	if err != nil {
		return nil, err
	}
	return config.Load(path)
}

// forward has the program that serves the database run the verb, if one does. done reports whether
// it was run, with which exit code.
func (a *app) forward(cmd *cobra.Command) (done bool, code int, err error) {
	switch lone := a.runsAlone(cmd); {
	case a.asks(cmd):
		return false, 0, nil
	case !beside.IsURL(a.dir):
	case !lone:
		code, err = a.runOnServer(cmd)
		a.everyone = err == nil && code == OfEveryone
		return !a.everyone, code, err
	case slices.Contains([]string{"demo", "restore"}, topVerb(cmd)):
		return false, 0, usagef(cmd, "it works on a folder, and --db %s is a server", a.dir)
	}
	// mcp finds who serves it by itself, again and again.
	if a.shell != nil && a.shell.db != nil || a.runsAlone(cmd) || topVerb(cmd) == "mcp" {
		return false, 0, nil
	}
	c, err := beside.Dial(cmd.Context(), a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, a.unserved(err)
	}
	defer func() { _ = c.Close() }() // the verb has ended
	r := a.request()
	if r.Dir, err = os.Getwd(); err != nil {
		return true, 0, fmt.Errorf("the working folder: %w", err)
	}
	terms := &beside.Terms{Out: a.out, Err: a.err, Getenv: a.share(cmd)}
	if readsInput(cmd) {
		terms.In = a.in
	}
	code, err = c.Run(cmd.Context(), r, terms)
	if err != nil {
		err = &memory.Error{
			Kind: memory.ErrFailed, What: "run the verb in the program that holds " + a.dir, Cause: err,
			Do: "look whether it was done, and try again",
		}
	}
	return true, code, err
}

// unserved is the error of a program that holds the database, and is not spoken with.
func (a *app) unserved(err error) error {
	told := &memory.Error{
		Kind: memory.ErrFailed, What: "reach the program that holds " + a.dir, Cause: err,
		Do: "see who made the folder; without memdb.sock and memdb.socket in it memdbctl opens the database itself",
	}
	if errors.Is(err, beside.ErrOld) {
		told.Cause, told.Why, told.Do = nil, err.Error(), "use the memdbctl of its version, or end the program"
	}
	return told
}

// topVerb is the first word of a verb.
func topVerb(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.Name()
}

// useServed is the database of the program that runs the verb, which it opened in its own way.
func (a *app) useServed(o *engine.Options) (*engine.DB, error) {
	switch {
	case o == nil:
	case o.IndexedText != nil:
		return nil, &memory.Error{Kind: memory.ErrMismatch, What: "open " + a.dir, Why: "the program that holds it has opened it with other indexed fields"}
	case o.Embedder != nil, o.Extractor != nil:
		return nil, &memory.Error{
			Kind: memory.ErrLocked, What: "open " + a.dir, Why: "a program holds it, and has opened it with its own models",
			Do: "have that program do it, or close the database there",
		}
	}
	return a.shell.db, nil
}
