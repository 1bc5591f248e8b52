package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// clusterVerbs runs verbs of memdbctl on the shard that they are about, here or by the node that owns
// it.
type clusterVerbs struct {
	t       *tenants
	server  *server.Server
	roots   *tls.Config
	of      verbSettings
	running sync.WaitGroup
}

func (v *clusterVerbs) dialect() *server.Dialect {
	return &server.Dialect{
		Name: verbsDialect, Prefixes: []string{beside.Path},
		Routes: []server.Route{
			{Pattern: "POST " + beside.Path, Stream: true, Node: true, Handle: v.run},
		},
	}
}

// run runs a verb.
func (v *clusterVerbs) run(c *server.Call) error {
	if why := beside.Refuses(c.R); why != "" {
		c.W.Header().Set("Upgrade", beside.Protocol)
		return server.Fail(http.StatusUpgradeRequired, "upgrade_required", "%s", why)
	}
	v.running.Add(1)
	defer v.running.Done()
	shard, sent := c.Sent()
	if sent { // whether it is here is said before the connection changes
		t, done, err := v.t.Use(c.Context(), shard)
		if err != nil {
			return err
		}
		defer done()
		return v.accept(c, func(conn *beside.Conn, r *beside.Request) error { return v.of.serve(c, conn, r, t.DB) })
	}
	if text := c.R.Header.Get(server.ShardHeader); text != "" {
		if !c.Admin() {
			return server.Denied("a shard is named by administrators")
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || int(n) >= v.t.Count() {
			return server.Fail(http.StatusNotFound, "not_found", "there is no shard %.40q: they are 0 to %d", text, v.t.Count()-1)
		}
		shard = int(n)
	}
	return v.accept(c, func(conn *beside.Conn, r *beside.Request) error { return v.route(c, conn, r, shard) })
}

// accept changes the connection, and reads what is asked. Errors of the connection are told nobody.
func (v *clusterVerbs) accept(c *server.Call, run func(conn *beside.Conn, r *beside.Request) error) error {
	conn, err := beside.Accept(c.W)
	if err != nil {
		return err
	}
	r, err := conn.Ask()
	if err != nil {
		_ = conn.Close()
		return nil
	}
	_ = run(conn, r)
	return nil
}

// route runs a verb on the shard that it is about: one that was named, or that of whose it is.
func (v *clusterVerbs) route(c *server.Call, conn *beside.Conn, r *beside.Request, shard int) error {
	if shard < 0 {
		var scopes []memory.Scope
		if !c.Admin() {
			scopes = c.Key.Scopes
		}
		o, named := cli.Whose(c.Context(), r.Args, scopes)
		switch {
		case named:
		case cli.Merges(c.Context(), r.Args):
			return conn.Serve(c.Context(), r, func(context.Context, *beside.Session) int { return cli.OfEveryone })
		default:
			return v.refuse(c, conn, r, exitUsage, server.Fail(http.StatusBadRequest, "one_shard", "the server is a cluster, whose shards each have some users: name one with --user, or as an administrator a shard, as --db http://HOST:PORT/shards/0"))
		}
		shard = cluster.ShardOf(o, v.t.Count())
	}
	t, done, err := v.t.Use(c.Context(), shard)
	if err == nil {
		defer done()
		return v.of.serve(c, conn, r, t.DB)
	}
	if !errors.Is(err, memory.ErrNotOwner) {
		return v.refuse(c, conn, r, exitFailed, err)
	}
	to, err := v.dial(c, shard)
	if err != nil {
		return v.refuse(c, conn, r, exitFailed, err)
	}
	return conn.Relay(r, to)
}

// dial reaches the node that owns a shard, and waits for one where the shard moves.
func (v *clusterVerbs) dial(c *server.Call, shard int) (to *beside.Conn, err error) {
	for end := c.Now().Add(server.DefaultMoveWait); ; {
		if to, err = v.dialOnce(c, shard, err != nil); err == nil {
			return to, nil
		}
		if errors.Is(err, memory.ErrInvalid) { // it stays so
			return nil, err
		}
		if c.Now().After(end) || retry.Sleep(c.Context(), verbPause) != nil {
			break
		}
	}
	return nil, &memory.Error{Kind: memory.ErrUnavailable, What: fmt.Sprintf("reach the owner of shard %d", shard), Cause: err, Do: "try again in some seconds"}
}

// dialOnce reaches the node that owns a shard; anew: it was not reached before.
func (v *clusterVerbs) dialOnce(c *server.Call, shard int, anew bool) (*beside.Conn, error) {
	address, err := v.t.Where(c.Context(), shard, anew)
	if err != nil {
		return nil, err
	}
	header, err := v.server.Pass(c, address, http.MethodPost, beside.Path, shard, anew)
	if err != nil {
		return nil, err
	}
	return beside.DialWith(c.Context(), address, header, v.roots)
}

// verbPause is the pause before the owner of a shard is looked for again.
const verbPause = 100 * time.Millisecond

// refuse tells the client why its verb is not run.
func (v *clusterVerbs) refuse(c *server.Call, conn *beside.Conn, r *beside.Request, code int, why error) error {
	return conn.Serve(c.Context(), r, func(_ context.Context, s *beside.Session) int {
		_, _ = fmt.Fprintf(s.Err, "memdbctl: %s\n", server.Fault(why).Message)
		return code
	})
}
