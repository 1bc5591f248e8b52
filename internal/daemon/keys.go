package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// keyJSON is a key as it is told of.
type keyJSON struct {
	ID string `json:"id"`
	// Key is the key itself, where it has just been made.
	Key string `json:"key,omitempty"`
	// Scope is what it sees, null for an administrator; Scopes are all where there are several.
	Scope     *memory.Scope  `json:"scope"`
	Scopes    []memory.Scope `json:"scopes,omitempty"`
	Admin     bool           `json:"admin,omitempty"`
	CreatedAt exchange.Time  `json:"created_at"`
	RevokedAt *exchange.Time `json:"revoked_at,omitempty"`
}

func toldOf(k *server.Key, secret string) keyJSON {
	told := keyJSON{ID: k.ID, Key: secret, Admin: k.Admin, CreatedAt: exchange.Time{Time: k.CreatedAt}}
	if len(k.Scopes) > 0 {
		told.Scope = &k.Scopes[0]
	}
	if len(k.Scopes) > 1 {
		told.Scopes = k.Scopes
	}
	if k.RevokedAt != nil {
		told.RevokedAt = &exchange.Time{Time: *k.RevokedAt}
	}
	return told
}

func (p *program) keyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "key", Short: "Make, list and revoke keys",
		Long: `Make, list and revoke the keys of a server. They lie as hashes in memdbd.keys in the
folder of the database. A server that runs takes changes up at once.

The keys of a cluster lie with its logs, for all nodes: name these by --cluster URL, from
any machine that reaches them. Nodes take changes up within seconds; one that cannot ask
for them refuses all keys after 30 seconds.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("key takes one of add, list, revoke and import")}
			}
			return usageError{fmt.Errorf("there is no verb %q: there are add, list, revoke and import", args[0])}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	p.logFlags(cmd.PersistentFlags())
	cmd.AddCommand(p.addKeyCmd(), p.listKeysCmd(), p.revokeKeyCmd(), p.importKeysCmd())
	return cmd
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("it takes no argument, and got %q", args[0])}
	}
	return nil
}

func (p *program) addKeyCmd() *cobra.Command {
	var s memory.Scope
	var more []string
	var admin bool
	cmd := &cobra.Command{
		Use: "add", Short: "Make a key, which is shown this once",
		Long: `Make a key. It sees the memories of a user, an agent or a run, and what belongs to
them, or with --admin everything. --scope gives it further scopes.`,
		Example: `  memdbd key add --user ada
  memdbd key add --agent planner --json
  memdbd key add --scope '{"user":"ada"}' --scope '{"agent":"planner"}'
  memdbd key add --admin`,
		Args: noArgs,
	}
	cmd.Flags().StringVar(&s.User, "user", "", "of this user")
	cmd.Flags().StringVar(&s.Agent, "agent", "", "of this agent")
	cmd.Flags().StringVar(&s.Run, "run", "", "of this run")
	cmd.Flags().StringArrayVar(&more, "scope", nil, "of this scope, a `JSON` object; can be repeated")
	cmd.Flags().BoolVar(&admin, "admin", false, "of an administrator, who sees everything")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"user", "agent", "run"} {
			if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
				return usageError{fmt.Errorf("--%s is empty", name)}
			}
		}
		var scopes []memory.Scope
		if s != (memory.Scope{}) {
			scopes = append(scopes, s)
		}
		for _, text := range more {
			var s memory.Scope
			if err := exchange.DecodeStrict([]byte(text), &s); err != nil {
				return usageError{fmt.Errorf("--scope %s: %w", text, err)}
			}
			scopes = append(scopes, s)
		}
		if err := server.CheckScopes(scopes, admin); err != nil { // before a database is made
			return usageError{err}
		}
		return p.withKeys(cmd.Context(), true, func(keys *server.Keys) error {
			secret, key, err := keys.Add(scopes, admin)
			if err != nil {
				return err
			}
			return p.print(toldOf(&key, secret), "%s sees %s\n%s\n", key.ID, key.Sees(), secret)
		})
	}
	return cmd
}

// withKeys calls fn with the keys of the cluster, where one was named, or of the database. create has that made where
// it is missing.
func (p *program) withKeys(ctx context.Context, create bool, fn func(*server.Keys) error) (err error) {
	if p.o.cluster.url == "" {
		keys, err := p.keys(create)
		if err != nil {
			return err
		}
		return fn(keys)
	}
	if p.o.cluster.url == devCluster {
		return usageError{errors.New("name the servers of the logs: they are in the command lines of the nodes that it has started")}
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
	keys, err := server.SharedKeys(of, p.now)
	if err != nil {
		return err
	}
	return fn(keys)
}

// keysWait is how long the servers of the logs are waited for by who changes keys.
const keysWait = 20 * time.Second

// keys are those of the database. create has it made where it is missing.
func (p *program) keys(create bool) (*server.Keys, error) {
	if isNode(p.dir) {
		return nil, &memory.Error{
			Kind: memory.ErrInvalid, What: "look at the keys in " + p.dir, Why: "it is the folder of a node, and the keys of a cluster lie with its logs",
			Do: "name these with --cluster URL, as for the node",
		}
	}
	there, err := engine.Exists(p.dir)
	switch {
	case err != nil:
		return nil, err
	case !there && !create:
		return nil, &memory.Error{Kind: memory.ErrNotDatabase, What: "open " + p.dir, Why: "there is no database in this folder", Do: "name another one, or begin it with memdbd --db"}
	case !there:
		db, err := engine.Open(p.dir, nil)
		if err != nil {
			return nil, err
		}
		if err := db.Close(); err != nil {
			return nil, err
		}
	}
	return server.OpenKeys(p.keysPath(), p.now)
}

// keysPath is the file of the keys: in the folder of the database, or beside its one file.
func (p *program) keysPath() string {
	info, err := os.Stat(p.dir)
	if err == nil && !info.IsDir() || err != nil && strings.HasSuffix(p.dir, engine.FileSuffix) {
		return p.dir + keysSuffix
	}
	return filepath.Join(p.dir, server.KeysName)
}

// keysSuffix ends the name of the file of keys beside a database in one file.
const keysSuffix = ".keys"

func (p *program) listKeysCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the keys, also those that were revoked", Args: noArgs,
		Example: "  memdbd key list\n  memdbd key list --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.withKeys(cmd.Context(), false, p.listKeys) },
	}
}

func (p *program) listKeys(keys *server.Keys) error {
	all, err := keys.List()
	if err != nil {
		return err
	}
	for _, k := range all {
		state := ""
		if k.RevokedAt != nil {
			state = ", revoked " + k.RevokedAt.Format("2006-01-02 15:04:05Z")
		}
		if err := p.print(toldOf(&k, ""), "%s  made %s, sees %s%s\n", k.ID, k.CreatedAt.Format("2006-01-02 15:04:05Z"), k.Sees(), state); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) importKeysCmd() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Bring the keys of a server into a cluster",
		Long: `Bring the keys in the memdbd.keys of a server into a cluster, which is named by --cluster.
They go on to hold there; one that was revoked here or there is revoked.`,
		Example: "  memdbd key import memdb.data/memdbd.keys --cluster nats://log-1:4222",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("it takes a file of keys, and got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.o.cluster.url == "" {
				return usageError{errors.New("name the cluster with --cluster URL")}
			}
			return p.withKeys(cmd.Context(), false, func(keys *server.Keys) error {
				n, err := keys.Import(args[0])
				if err != nil {
					return err
				}
				return p.print(map[string]int{"keys": n}, "%d keys\n", n)
			})
		},
	}
}

func (p *program) revokeKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a key", Example: "  memdbd key revoke key_0123456789ab",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("it takes the ID of a key, and got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withKeys(cmd.Context(), false, func(keys *server.Keys) error {
				key, err := keys.Revoke(args[0])
				if err != nil {
					return err
				}
				return p.print(toldOf(&key, ""), "%s is revoked\n", key.ID)
			})
		},
	}
}
