package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// verbsDialect is the name of the dialect of memdbctl.
const verbsDialect = "memdbctl"

// verbs runs those of memdbctl on other machines: a connection that is upgraded carries one.
type verbs struct {
	db      *engine.DB
	of      verbSettings
	running sync.WaitGroup
}

// verbSettings are the settings of a server that bound verbs.
type verbSettings struct {
	files  string
	models []config.Endpoint
	log    *slog.Logger
}

// bounds are those of a client.
func (v *verbSettings) bounds(c *server.Call) *cli.Bounds {
	b := &cli.Bounds{Files: v.files, Models: v.models}
	if c.Key != nil {
		b.Key, b.ReadOnly = c.Key.ID, c.Key.ReadOnly
	}
	if !c.Admin() {
		b.Scopes = append([]memory.Scope{}, c.Key.Scopes...) // never nil, which is for administrators
	}
	return b
}

// serve runs a verb of a client. Errors are those of the connection.
func (v *verbSettings) serve(c *server.Call, conn *beside.Conn, r *beside.Request, db *engine.DB) error {
	bounds := v.bounds(c)
	return conn.Serve(c.Context(), r, func(ctx context.Context, s *beside.Session) (code int) {
		code = exitFailed
		if err := panics.Catch("runs a verb", func() { code = cli.RunWithin(ctx, db, s, bounds) }); err != nil {
			v.log.Error("a verb panicked", "error", err)
			_, _ = fmt.Fprintf(s.Err, "memdbctl: %s\n", server.Fault(err).Message)
		}
		return code
	})
}

func (v *verbs) dialect() *server.Dialect {
	return &server.Dialect{
		Name: verbsDialect, Prefixes: []string{beside.Path},
		Routes: []server.Route{{Pattern: "POST " + beside.Path, Stream: true, Handle: v.run}},
	}
}

// run runs a verb. Its errors are those of the connection, of which nobody is left to be told.
func (v *verbs) run(c *server.Call) error {
	if why := beside.Refuses(c.R); why != "" {
		c.W.Header().Set("Upgrade", beside.Protocol)
		return server.Fail(http.StatusUpgradeRequired, "upgrade_required", "%s", why)
	}
	v.running.Add(1)
	defer v.running.Done()
	conn, err := beside.Accept(c.W)
	if err != nil {
		return err
	}
	r, err := conn.Ask()
	if err != nil {
		_ = conn.Close()
		return nil
	}
	_ = v.of.serve(c, conn, r, v.db)
	return nil
}
