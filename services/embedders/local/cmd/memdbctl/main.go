// Memdbctl is the memdbctl of cmd/memdbctl with the provider local: it embeds texts by a transformer that
// runs in the program.
package main

import (
	"io"
	"os"

	"github.com/seed-7aedc3ff/memdb/admin"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/embedders/local"
)

func main() {
	config.Register(&local.Provider)
	os.Exit(cli.Main(os.Args[1:], func(db *engine.DB) (io.Closer, error) { return admin.Serve(db, "") }))
}
