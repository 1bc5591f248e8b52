package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The exit codes.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitNotFound
	exitLocked
	exitDamaged
)

// exitError ends the program with a code of its own. Without an error there is
// nothing left to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// errNoVerb: the help is already printed.
var errNoVerb = &exitError{code: exitUsage}

// ExitCode is the exit code for an error: its own, or by its kind.
func ExitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if own, ok := errors.AsType[*exitError](err); ok {
		return own.code
	}
	if _, ok := errors.AsType[exchange.LineError](err); ok {
		return exitFailed // what is wrong is the file, not the command line
	}
	for _, row := range []struct {
		kind error
		code int
	}{
		{memory.ErrCorrupt, exitDamaged},
		{memory.ErrLocked, exitLocked},
		{memory.ErrNotFound, exitNotFound},
		{memory.ErrInvalid, exitUsage},
		{memory.ErrScope, exitUsage},
	} {
		if errors.Is(err, row.kind) {
			return row.code
		}
	}
	return exitFailed
}

// printError says on the error stream what went wrong, in one line.
func (a *app) printError(ctx context.Context, verb *cobra.Command, err error) {
	if err == nil || err.Error() == "" {
		return
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if scope, ok := errors.AsType[*memory.Error](err); ok && errors.Is(scope, memory.ErrScope) && ExitCode(err) == exitUsage {
		scope.Do = "give --user, --agent or --run"
		if verb.Flags().Lookup("run") == nil {
			scope.Do = "give --user or --agent"
		}
		if verb.Flags().Lookup("all-scopes") != nil {
			scope.Do += ", or --all-scopes"
		}
		if verb.Flags().Lookup("admin") != nil {
			scope.Do += ", or --admin"
		}
	}
	if full, ok := errors.AsType[*memory.Error](err); ok && errors.Is(full, memory.ErrDiskFull) {
		full.Do = "make room on the disk; verbs that only read work meanwhile"
	}
	if only, ok := errors.AsType[*memory.Error](err); ok && errors.Is(only, memory.ErrReadOnly) && fsys.Unwritable(only.Cause) {
		only.Do = "verbs that only read work; to write, see who may write there, or copy it to another place"
	}
	a.warn("%s%s", cliWords.Replace(a.textOf(err)), pathHint(err))
}

// textOf is the text of an error. A client on another machine reads nothing of this one: names of its
// folder of files are as the client gave them.
func (a *app) textOf(err error) string {
	if a.remote == nil {
		return err.Error()
	}
	return fault.Outward(err, a.bounds.Files)
}

// pathHint is what to do about a path that the system refused and nobody has given
// advice on.
func pathHint(err error) string {
	if _, ok := errors.AsType[*fs.PathError](err); !ok || strings.Contains(err.Error(), "; ") {
		return ""
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "; check the path"
	case errors.Is(err, fs.ErrPermission):
		return "; check who may read and write there"
	case errors.Is(err, syscall.EROFS):
		return "; it must be a place that can be written"
	case errors.Is(err, syscall.ENOSPC):
		return "; make room on the disk"
	}
	return ""
}

// warn prints a line on the error stream.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.err, "memdbctl: %s\n", escape(fmt.Sprintf(format, args...)))
}

// note prints what is neither a result nor an error, unless --quiet.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.warn(format, args...)
	}
}

// usagef is an error of the command line, with a pointer to the verb's help.
func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf("%s; see %s --help",
		verbOf(cmd)+": "+fmt.Sprintf(format, args...), cmd.CommandPath())}
}

// verbOf names a verb in a message.
func verbOf(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return "command line"
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// usageError makes an error of the command line of one that the parser found.
func usageError(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return usagef(cmd, "%s", first)
}

// flagError says in plain words what is wrong with a flag. A misspelt verb has no
// flags, and is what is wrong then.
func flagError(cmd *cobra.Command, err error) error {
	if rest := cmd.Flags().Args(); namesVerbs(cmd) && len(rest) > 0 {
		return unknownVerb(cmd, rest[0])
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := bad.GetFlag()
		switch flag.Value.Type() {
		case "int", "uint64":
			return usagef(cmd, "--%s %q: it is no whole number", flag.Name, bad.GetValue())
		case "bool":
			return usagef(cmd, "--%s %q: it is neither true nor false", flag.Name, bad.GetValue())
		case "duration":
			return usagef(cmd, "--%s %q: it is no duration, as 5s or 2m", flag.Name, bad.GetValue())
		}
		return usagef(cmd, "--%s: %v", flag.Name, bad.Unwrap())
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef(cmd, "--%s: it needs a value", missing.GetSpecifiedName())
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return usagef(cmd, "there is no flag %s%s", dashes(unknown.GetSpecifiedName()), unknown.GetSpecifiedName())
	}
	return usagef(cmd, "%v", err)
}

func dashes(flag string) string {
	if len(flag) == 1 {
		return "-"
	}
	return "--"
}

// exactly is how many arguments a verb takes, by what they are called.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef(cmd, "it takes %s, and got %s", what, count(len(args), "argument", "arguments"))
		}
		return nil
	}
}

// outputError is a failed write of the results.
func outputError(err error) error {
	return fmt.Errorf("write the output: %w", err)
}

// inputError is a failed read of the input.
func inputError(name string, err error) error {
	return fmt.Errorf("read %s: %w", name, err)
}
