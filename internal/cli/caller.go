package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/api/client"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A caller runs operations: on a database that this process has open, or by asking the program or the server that has it.
type caller struct {
	a       *app
	op      *api.Operation
	db      *engine.DB
	client  *client.Client // nil: db is there
	details client.Details
}

// runOp runs an operation with one reply.
func runOp[Q, R any](ctx context.Context, c *caller, op *api.Op[Q, R], q *Q) (R, error) {
	if c.client == nil {
		call := op.Call(q)
		return call.Run(ctx, c.db)
	}
	r, err := client.Do(ctx, c.client, op, q, &c.details)
	return r, c.heard(ctx, err)
}

// runList runs an operation that answers a list.
func runList[Q, L any](ctx context.Context, c *caller, op *api.List[Q, L], q *Q, yield func(L) error) (api.End, error) {
	if c.client == nil {
		call := op.Call(q)
		return call.Run(ctx, c.db, yield)
	}
	end, err := client.List(ctx, c.client, op, q, &c.details, yield)
	return end, c.heard(ctx, err)
}

// runStream runs an operation that writes its reply.
func runStream[Q, R any](ctx context.Context, c *caller, op *api.Stream[Q, R], q *Q, w io.Writer) (R, error) {
	if c.client == nil {
		call := op.Call(q)
		return call.Run(ctx, c.db, w)
	}
	r, err := client.Stream(ctx, c.client, op, q, &c.details, w)
	return r, c.heard(ctx, err)
}

// askable marks the command of an operation, which is asked of a program that holds the database by its request.
const askable = "an operation"

// asks reports whether a program that has the database is asked by a request. One with an ID runs there as a command:
// the ID is then known whichever program has the database when it comes again.
func (a *app) asks(cmd *cobra.Command) bool {
	return cmd.Annotations[askable] != "" && a.requestID == ""
}

// isWhole reports whether a request has all that its operation needs: no file, no model, and nothing that its caller sets.
func isWhole(fields []api.Field, q any, open withDB) bool {
	_, tolerant := q.(api.Tolerant)
	_, asking := q.(api.Asking)
	reads := slices.ContainsFunc(fields, func(f api.Field) bool { return f.Kind == api.File })
	return open == nil && !tolerant && !asking && !reads
}

// server is a client of the program or the server that has the database, nil where the command opens it itself.
func (a *app) server(ctx context.Context) (*client.Client, error) {
	switch {
	case a.shell != nil && a.shell.db != nil:
		return nil, nil
	case beside.IsURL(a.dir):
		roots, err := a.roots()
		if err != nil {
			return nil, err
		}
		a.warnPlain()
		return client.New(a.dir, &client.Options{Key: a.getenv(keyVariable), TLS: roots})
	}
	found, err := beside.Connect(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, a.unserved(err)
	}
	var first atomic.Pointer[net.Conn]
	first.Store(&found)
	return client.New("http://localhost", &client.Options{Name: "the program that holds " + a.dir, Dial: func(context.Context) (net.Conn, error) {
		if c := first.Swap(nil); c != nil {
			return *c, nil
		}
		return beside.Connect(a.dir)
	}})
}

// ask runs a command by a client.
func (a *app) ask(ctx context.Context, op *api.Operation, by *client.Client, run func(ctx context.Context, c *caller) error) error {
	defer by.Close()
	a.unreadable.reads = op.Access == api.Reads
	return run(ctx, &caller{a: a, op: op, client: by})
}

// heard notes what an answer says beside its value, and says an error in the words of the command line.
func (c *caller) heard(ctx context.Context, err error) error {
	a := c.a
	if c.details.Unreadable > 0 {
		a.unreadable.ofServer(c.details.Unreadable)
		a.unreadable.reads = c.op.Access == api.Reads
	}
	if c.details.Stale > 0 {
		a.warn("the answer may be old by %s: its node cannot ask whether it has the newest", c.details.Stale)
	}
	if errors.As(err, new(*client.NoAnswerError)) && !beside.IsURL(a.dir) && beside.IsOld(ctx, a.dir) {
		return a.unserved(beside.ErrOld)
	}
	of, ok := errors.AsType[*client.Refusal](err)
	switch {
	case !ok:
	case of.Code == "one_shard":
		of.Err.Why = "the server is a cluster, whose shards each have some users: name one with --user, or as an administrator a shard, as --db http://HOST:PORT/shards/0"
	case of.Status == http.StatusUnauthorized, of.Status == http.StatusForbidden:
		of.Err.Do = "set " + keyVariable + " to a key of this server"
	case errors.Is(err, memory.ErrScope):
		return noOwner(c.op)
	}
	return err
}

// noOwner is the error of a request that names nobody.
func noOwner(op *api.Operation) error { return &memory.Error{Kind: memory.ErrScope, What: op.Doing} }

// namedInJSON matches the name of a field with several words.
var namedInJSON = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)

// named is an error of an operation: the fields that it names are flags here.
func named(err error, fields []api.Field) error {
	own, ok := errors.AsType[*memory.Error](err)
	if !ok {
		return err
	}
	for _, text := range []*string{&own.Why, &own.Do} {
		*text = namedInJSON.ReplaceAllStringFunc(*text, func(name string) string {
			for i := range fields {
				if f := &fields[i]; f.Name == name && f.Flag != "" {
					return "--" + f.Flag
				}
			}
			return name
		})
	}
	return err
}

// warnPlain warns of a key that is sent without encryption.
func (a *app) warnPlain() {
	if a.getenv(keyVariable) != "" && !a.toldPlain && beside.Plain(a.dir) {
		a.toldPlain = true
		a.warn("the key in %s and all data go to %s without encryption; use https://", keyVariable, a.dir)
	}
}

// setNone says of a request which of the user and the agent were given as none.
func setNone(cmd *cobra.Command, o *api.Owner) {
	lack := lackOf(cmd)
	o.NoUser, o.NoAgent = lack.User, lack.Agent
}
