package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// keyCmd has the commands about keys. Without --cluster they are those of memdbctl, which works beside a server that
// runs; with it they work on the keys of the cluster.
func (p *program) keyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "key", Short: "Make, list and revoke keys",
		Long: `Make, list and revoke the keys of a server. They are stored in the database, as hashes. A
running server goes by every change at once. Once there was a key, each request needs one,
also when all are revoked; only "key clear" opens the server again.

The keys of a cluster are stored with its logs, for all nodes: name these by --cluster URL,
from any machine that reaches them. Nodes go by changes within seconds; one that cannot ask
for them refuses all keys after 30 seconds.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("key takes one of add, list, revoke, rotate, clear and import")}
			}
			return usageError{fmt.Errorf("there is no command %q: there are add, list, revoke, rotate, clear and import", args[0])}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			p.fromEnvironment()
			if p.o.cluster.url != "" || cmd.Name() == "import" || !cmd.HasParent() {
				return nil
			}
			if isNode(p.dir) {
				return &memory.Error{
					Kind: memory.ErrInvalid, What: "look at the keys in " + p.dir, Why: "it is the folder of a node, and the keys of a cluster are stored with its logs",
					Do: "name these with --cluster URL, as for the node",
				}
			}
			return exitedWith(cli.Run(cmd.Context(), p.args, p.out, p.err, p.getenv, p.now))
		},
	}
	p.logFlags(cmd.PersistentFlags())
	for _, of := range cli.KeyCommands(cli.Keys{
		Use:   func(ctx context.Context, _ bool, fn func(*apikeys.Keys) error) error { return p.withKeys(ctx, fn) },
		Print: p.print, Now: p.now,
	}) {
		of.Args, of.RunE = asUsage(of.Args), asUsage(of.RunE)
		cmd.AddCommand(of)
	}
	cmd.AddCommand(p.importKeysCmd())
	return cmd
}

// asUsage has the command lines that memdbctl finds wrong be wrong for memdbd, too.
func asUsage[F ~func(*cobra.Command, []string) error](fn F) F {
	return func(cmd *cobra.Command, args []string) error {
		err := fn(cmd, args)
		if cli.ExitCode(err) == exitUsage {
			return usageError{err}
		}
		return err
	}
}

// withKeys calls fn with the keys of the cluster.
func (p *program) withKeys(ctx context.Context, fn func(*apikeys.Keys) error) (err error) {
	if p.o.cluster.url == devCluster {
		return usageError{errors.New("name the servers of the logs: $MEMDB_CLUSTER in the file " + DevFile + " in the folder of the cluster has them")}
	}
	if err := p.checkLogs(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keysWait)
	defer cancel()
	backend, err := p.connect(ctx, p.o.cluster.logs(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	of, err := cluster.OpenKeys(ctx, backend, cluster.KeysOptions{})
	if err != nil {
		return err
	}
	return fn(apikeys.Open(of, p.now))
}

const (
	// DevFile is the file with the variables of a cluster on one machine, see [Dev].
	DevFile = "cluster.env"
	// keysWait is how long a command about keys waits for the servers of the logs.
	keysWait = 20 * time.Second
)

func fileThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func (p *program) importKeysCmd() *cobra.Command {
	return &cobra.Command{
		Use: "import SRC", Short: "Import the keys of a server into a cluster",
		Long: `Import the keys of a server into a cluster, which is named by --cluster. SRC is the database of
the server, or a memdbd.keys of an earlier version. The keys go on to work; one that was
revoked here or there is revoked.`,
		Example: "  memdbd key import memdb.data --cluster nats://log-1:4222",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("it takes a database or a file of keys, and got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.o.cluster.url == "" {
				return usageError{errors.New("name the cluster with --cluster URL")}
			}
			lines, err := linesOf(args[0])
			if err != nil {
				return err
			}
			return p.withKeys(cmd.Context(), func(keys *apikeys.Keys) error {
				n, err := keys.Import(cmd.Context(), lines)
				if err != nil {
					return err
				}
				return p.print(map[string]int{"keys": n}, "%d keys\n", n)
			})
		},
	}
}

// linesOf reads the keys of a database, or of a file.
func linesOf(src string) (lines []byte, err error) {
	there, err := engine.Exists(src)
	if err != nil || !there {
		if lines, err = fsys.ReadSmall(src, apikeys.MaxOldFile); err != nil {
			err = &memory.Error{Kind: memory.ErrFailed, What: "import the keys of " + src, Cause: err}
		}
		return lines, err
	}
	db, err := engine.Open(src, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	lines, _, err = db.APIKeys().Lines()
	return lines, err
}
