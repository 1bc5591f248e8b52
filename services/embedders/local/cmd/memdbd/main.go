// Memdbd is the memdbd of cmd/memdbd with the provider local: it embeds texts by a transformer that runs
// in the program.
package main

import (
	"os"

	"github.com/seed-7aedc3ff/memdb/internal/daemon"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/embedders/local"
)

func main() {
	config.Register(&local.Provider)
	os.Exit(daemon.Main(os.Args[1:], nil))
}
