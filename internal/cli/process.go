// Package cli has the verbs of memdbctl. A process of its own runs them, or the program that
// holds the database, for another process.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// Main does what the arguments of the process say, until a signal, and returns the exit code. lend
// lets others in beside a verb that holds the database for long; nil: nobody.
func Main(args []string, lend Lend) int {
	ordered()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// The first signal ends the work cleanly; the next one, with the default
	// behaviour back, ends the process. But a terminal that closes may send two.
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	c := system()
	c.lend = lend
	return run(ctx, args, c)
}

// Run runs a command for a program that is another one than memdbctl, and returns the exit code.
func Run(ctx context.Context, args []string, out, errs io.Writer, getenv func(string) (string, bool), now clock.Clock) int {
	c := system()
	c.out, c.err, c.outWidth, c.errWidth, c.styled, c.now = out, errs, 0, 0, false, now
	c.getenv = func(name string) string { value, _ := getenv(name); return value }
	return run(ctx, args, c)
}

// ordered has help list verbs in the order of root, not by name. It sets what the library has
// for the whole process, so a program that serves verbs is left alone.
func ordered() { cobra.EnableCommandSorting = false }
