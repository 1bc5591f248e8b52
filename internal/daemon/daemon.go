// Package daemon is the program memdbd: its flags and its configuration, the keys, and the database
// with all dialects that are spoken to it.
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// program is one run of memdbd.
type program struct {
	out, err io.Writer
	getenv   func(string) (string, bool)
	now      func() time.Time
	// clustering has it be a node of clusters; nil: it can be none.
	clustering *Clustering
	// listening hears the address once the server listens. nil: nobody does.
	listening func(address string)

	args []string
	dir  string
	json bool
	o    options
	// shown is the variable to set in place of a flag that has a password; empty for none.
	shown string
	// models are where the configuration goes.
	models []config.Endpoint
}

// options are the flags of the server.
type options struct {
	config, listen, files, log string
	cert, key                  string
	hosts, origins, dialects   []string
	schedule                   bool
	cluster                    clusterFlags
}

// Exit codes, as those of memdbctl.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitNotFound
	exitLocked
	exitDamaged
)

// Main does what the arguments of the process say, until a signal, and returns the exit code. clustering
// is nil for a program that can be no node of a cluster.
func Main(args []string, clustering *Clustering) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal ends the process at once
	p := &program{out: os.Stdout, err: os.Stderr, getenv: os.LookupEnv, now: time.Now, clustering: clustering}
	return p.run(ctx, args)
}

// usageError is a command line that is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitedWith ends a command that memdbctl has run, with its exit code.
type exitedWith int

func (e exitedWith) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func (p *program) run(ctx context.Context, args []string) int {
	p.args = args
	root := p.root()
	root.SetArgs(append([]string{}, args...)) // of nil, the library would take those of the process
	root.SetOut(p.out)
	root.SetErr(p.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitedWith](err); ok {
		return int(code) // which has said why
	}
	if p.json {
		p.logger("json").Error("memdbd has ended", "error", err)
		return exitCode(err)
	}
	fmt.Fprintf(p.err, "memdbd: %v\n", err)
	if _, wrong := errors.AsType[usageError](err); wrong {
		fmt.Fprintf(p.err, "see: %s --help\n", cmd.CommandPath())
	}
	return exitCode(err)
}

// exitCode is the code of an error.
func exitCode(err error) int {
	if _, wrong := errors.AsType[usageError](err); wrong {
		return exitUsage
	}
	for _, k := range []struct {
		kind error
		code int
	}{
		{memory.ErrScope, exitUsage},
		{memory.ErrNotFound, exitNotFound},
		{memory.ErrLocked, exitLocked},
		{memory.ErrCorrupt, exitDamaged},
	} {
		if errors.Is(err, k.kind) {
			return k.code
		}
	}
	return exitFailed
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "memdbd",
		Short: "Serve a memory database over HTTP",
		Long: `memdbd holds a memdb database open and serves it over HTTP: by its own REST interface,
and by the dialects that programs for the memory of agents speak already. memdbctl
works beside it, on this machine by --db DIR and on others by --db http://HOST:PORT.

Without keys it listens on a loopback address only, and whoever reaches it may do all.
"memdbd key add" makes the first key; from then on each request needs one.

With --cluster it is one node of many, which share their users: docs/cluster.md.

SIGTERM and Ctrl-C end it once the requests that run are answered.`,
		Example: `  memdbd --db memdb.data
  memdbd key add --user ada
  memdbd --db memdb.data --listen 0.0.0.0:7070 --tls-cert cert.pem --tls-key key.pem
  memdbd --db memdb.data --config memdbd.toml`,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no verb %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.Context()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	dir := "./memdb.data"
	if of, ok := p.getenv("MEMDB_DIR"); ok && of != "" {
		dir = of
	}
	root.PersistentFlags().StringVar(&p.dir, "db", dir, "the folder `DIR` of the database; $MEMDB_DIR names another default")
	root.PersistentFlags().BoolVar(&p.json, "json", false, "print one JSON object a line, and log in JSON")
	f := root.Flags()
	f.SortFlags = false
	f.StringVar(&p.o.config, "config", "", "a `FILE` of TOML or JSON: the models, and the table server (default $MEMDB_CONFIG)")
	f.StringVar(&p.o.listen, "listen", "", "the `ADDRESS` to listen on (default 127.0.0.1:7070)")
	f.StringVar(&p.o.cert, "tls-cert", "", "encrypt connections: the certificate, a `FILE` in PEM; SIGHUP reads it again")
	f.StringVar(&p.o.key, "tls-key", "", "its key, a `FILE` in PEM")
	f.StringSliceVar(&p.o.hosts, "host", nil, "a `NAME` by which it is reached over a loopback address, as behind a proxy")
	f.StringSliceVar(&p.o.origins, "origin", nil, "an `ORIGIN` of pages in browsers that may ask, as https://app.example")
	f.StringSliceVar(&p.o.dialects, "dialect", nil, "answer this dialect alone, and no other one; can be repeated (default all)")
	f.StringVar(&p.o.files, "files", "", "the `FOLDER` in which memdbctl of other machines keeps backups and archives")
	f.StringVar(&p.o.log, "log", "", "the form of the log: text, json or off (default text)")
	f.BoolVar(&p.o.schedule, "schedule", false, "have memories age at the times of the policy")
	p.clusterFlags(f)
	root.AddCommand(p.keyCmd())
	return root
}

// print writes a result.
func (p *program) print(v any, text string, args ...any) error {
	if !p.json {
		_, err := fmt.Fprintf(p.out, text, args...)
		return err
	}
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
