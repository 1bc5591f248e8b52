// Memdbd serves a memdb database over HTTP: to programs in any language, by the dialects that they
// speak, and to memdbctl on another machine.
//
// The exit code is 0 when it was told to end, 1 when it failed, 2 for wrong usage, 3 for a key that
// there is not, 4 when another program holds the database, and 5 when the database is damaged.
package main

import (
	"os"

	"github.com/seed-7aedc3ff/memdb/internal/daemon"
)

func main() { os.Exit(daemon.Main(os.Args[1:], nil)) }
