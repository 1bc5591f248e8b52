package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// verbsDialect is the name of the dialect of memdbctl.
const verbsDialect = "memdbctl"

// verbs runs those of memdbctl on other machines: a connection that is upgraded carries one.
type verbs struct {
	db      *engine.DB
	files   string
	running sync.WaitGroup
}

func (v *verbs) dialect() *server.Dialect {
	return &server.Dialect{
		Name: verbsDialect, Prefixes: []string{beside.Path},
		Routes: []server.Route{{Pattern: "POST " + beside.Path, Stream: true, Handle: v.run}},
	}
}

// boundsOf is what the key of a call lets a verb do.
func boundsOf(c *server.Call, files string) *cli.Bounds {
	b := &cli.Bounds{Files: files}
	if c.Key != nil {
		b.Key, b.ReadOnly = c.Key.ID, c.Key.ReadOnly
	}
	if !c.Admin() {
		b.Scopes = c.Key.Scopes
	}
	return b
}

// run runs a verb. Its errors are those of the connection, of which nobody is left to be told.
func (v *verbs) run(c *server.Call) error {
	if !strings.EqualFold(c.R.Header.Get("Upgrade"), beside.Protocol) {
		c.W.Header().Set("Upgrade", beside.Protocol)
		return server.Fail(http.StatusUpgradeRequired, "upgrade_required", "memdbctl asks here, with --db http://HOST:PORT")
	}
	bounds := boundsOf(c, v.files)
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
	_ = conn.Serve(c.Context(), r, func(ctx context.Context, s *beside.Session) (code int) {
		code = exitFailed
		if err := panics.Catch("runs a verb", func() { code = cli.RunWithin(ctx, v.db, s, bounds) }); err != nil {
			_, _ = fmt.Fprintf(s.Err, "memdbctl: %v\n", err)
		}
		return code
	})
	return nil
}
