// Memdbctl works on a memdb database from the command line: it stores, finds,
// changes and deletes memories, imports them, and says how the database is.
//
// Every verb prints for people, or with --json one JSON object a line. The exit
// code is 0 when it is done, 1 when it failed, 2 for wrong usage, 3 when there is
// no such memory, 4 when another program holds the database, and 5 when the
// database is damaged.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
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
	os.Exit(run(ctx, os.Args[1:], system()))
}
