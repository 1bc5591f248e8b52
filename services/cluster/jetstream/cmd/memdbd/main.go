// Memdbd is the server of memdb that can be a node of a cluster: that of the root module, with the
// client of NATS JetStream, and its server for a cluster on one machine.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-7aedc3ff/memdb/internal/daemon"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/jetstream"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == logsVerb {
		os.Exit(serveLogs(os.Args[2:]))
	}
	os.Exit(daemon.Main(os.Args[1:], &daemon.Clustering{Connect: connect, Dev: dev}))
}

// connect reaches the servers.
func connect(ctx context.Context, o daemon.ClusterOptions) (cluster.Backend, error) {
	return jetstream.Connect(ctx, jetstream.Options{
		URL: o.URL, SystemURL: cmp.Or(o.SystemURL, o.URL), Credentials: o.Credentials, CA: o.CA, Cert: o.Cert, Key: o.Key,
		Insecure: o.Insecure, Name: "memdbd", Logger: o.Logger,
	})
}

// logsVerb has this program be a server of logs, as dev starts it: NAME DIR LISTEN CLUSTER-LISTEN ROUTES…,
// with the password in the environment.
const (
	logsVerb         = "dev-logs"
	passwordVariable = "MEMDB_DEV_PASSWORD"
)

func serveLogs(args []string) int {
	const least = 4
	if len(args) < least {
		fmt.Fprintln(os.Stderr, "memdbd: "+logsVerb+" is for memdbd --cluster dev")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := jetstream.Serve(ctx, jetstream.ServerOptions{
		Name: args[0], Dir: args[1], Listen: args[2], ClusterListen: args[3], Routes: args[least:], Password: os.Getenv(passwordVariable),
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "memdbd: %v\n", err)
		return 1
	}
	return 0
}
