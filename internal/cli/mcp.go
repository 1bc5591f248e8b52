package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
)

const mcpExample = `
memdbctl mcp --user ada
memdbctl mcp --agent planner --tools reference
memdbctl mcp --user ada --db http://127.0.0.1:7070`

// Lend lets other processes in to a database until it is closed. Main is given it, since what does
// that runs verbs of this package.
type Lend func(db *engine.DB) (io.Closer, error)

// takeOverWait is how long a client of a program that has ended tries to go on by itself.
const takeOverWait = 10 * time.Second

func (a *app) mcpCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "mcp", "Have a model work with the database, over the Model Context Protocol", mcpExample)
	cmd.Long = `Speaks the Model Context Protocol on the input and the output, for a program that has
a model: name memdbctl, mcp and the flags as the command of a server in its configuration.
--user, --agent and --run say whose memories the model works with; it cannot name another.

--tools memdb has remember, recall, forget, facts, notes, graph and session. --tools reference
has the nine tools of the protocol's reference memory server with its results; graph import
takes that server's file. --tools anthropic has one tool, memory, with six commands on notes
as files below /memories.

Several programs may do so at once, with one database: the first opens it, and lets the others
and memdbctl in. When it ends, one of the others goes on.`
	cmd.Annotations = map[string]string{inputWithout: "yes"}
	cmd.Args = exactly(0, "no argument")
	var o mcp.Options
	var models modelFlags
	scopeFlags(cmd, &o.Scope)
	cmd.Flags().StringVar((*string)(&o.Tools), "tools", string(mcp.Memdb), "memdb, reference or anthropic")
	complete(cmd, "tools", string(mcp.Memdb), string(mcp.Reference), string(mcp.Anthropic))
	models.embedderFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Now = a.now
		// A key that is bound to a run has the notes and the graph of no owner.
		o.OnlyRun = a.bound() && a.boundToRun(o.Scope)
		if err := o.Check(); err != nil {
			return err
		}
		switch {
		case a.served():
			return mcp.Serve(cmd.Context(), a.shell.db, o, a.in, a.out)
		case a.shell != nil:
			return usagef(cmd, "a shell has no input of its own for it; run memdbctl mcp")
		}
		v, err := a.vectorModel(&models, false)
		if err != nil {
			return err
		}
		return newRelay(a.in, a.out).run(cmd.Context(), func(ctx context.Context, in io.Reader, out io.Writer) error {
			return a.attach(cmd, v, o, in, out)
		})
	}
	return cmd
}

// boundToRun reports whether the scopes of the key that hold a scope are all of a run.
func (a *app) boundToRun(s memory.Scope) bool {
	for _, of := range a.bounds.Scopes {
		if of.Run == "" && (of.User == "" || of.User == s.User) && (of.Agent == "" || of.Agent == s.Agent) {
			return false
		}
	}
	return true
}

// attach serves a client: in the program that holds the database, or by opening it.
func (a *app) attach(cmd *cobra.Command, v *vectorModel, o mcp.Options, in io.Reader, out io.Writer) error {
	ctx := cmd.Context()
	for waited := time.Duration(0); ; waited += lockPoll {
		c, err := beside.Dial(ctx, a.dir)
		switch {
		case err == nil:
			return a.attachTo(cmd, c, in, out)
		case !errors.Is(err, fs.ErrNotExist):
			return a.unserved(err)
		}
		db, err := engine.Open(a.dir, a.mcpOptions(v))
		if err == nil {
			return a.closing(db, a.host(ctx, v, db, o, in, out))
		}
		if !errors.Is(err, memory.ErrLocked) || waited >= max(a.wait, takeOverWait) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lockPoll):
		}
	}
}

func (a *app) mcpOptions(v *vectorModel) *engine.Options {
	o := v.options(nil)
	o.Clock, o.Salvage = a.now, a.salvage
	return o
}

// host serves a client, and lets others in beside it.
func (a *app) host(ctx context.Context, v *vectorModel, db *engine.DB, o mcp.Options, in io.Reader, out io.Writer) error {
	a.tellWide()
	if a.lend != nil {
		door, err := a.lend(db)
		if err != nil {
			a.warn("nobody else can use the database meanwhile: %v", err)
		} else {
			defer done(door)
		}
	}
	return v.use(func(db *engine.DB) error { return mcp.Serve(ctx, db, o, in, out) })(db)
}

// attachTo has the program that holds the database serve a client.
func (a *app) attachTo(cmd *cobra.Command, c *beside.Conn, in io.Reader, out io.Writer) (err error) {
	defer done(c)
	r := a.request()
	if r.Dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("the working folder: %w", err)
	}
	code, err := c.Run(cmd.Context(), r, &beside.Terms{In: in, Out: out, Err: a.err, Getenv: a.share(cmd)})
	switch {
	case cmd.Context().Err() != nil:
		return nil
	case err != nil:
		return err
	case code != exitDone:
		return &exitError{code, errors.New("the program that holds the database has ended the session")}
	}
	return nil
}
