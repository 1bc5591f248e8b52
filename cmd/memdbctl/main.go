// Memdbctl works on a memdb database from the command line: it stores, finds,
// changes and deletes memories, imports them, and says how the database is.
//
// Every verb prints for people, or with --json one JSON object a line. The exit
// code is 0 when it is done, 1 when it failed, 2 for wrong usage, 3 when there is
// no such memory, 4 when another program holds the database, and 5 when the
// database is damaged.
package main

import (
	"io"
	"os"

	"github.com/seed-7aedc3ff/memdb/admin"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], func(db *engine.DB) (io.Closer, error) { return admin.Serve(db, "") }))
}
