package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

// Shards are the databases of a cluster. Together they hold what one database would; all that an
// owner has is in one of them, and each is served by one node at a time.
type Shards interface {
	// Count is how many there are, 1 or more. It never changes.
	Count() int
	// Of is the shard of an owner, below Count.
	Of(o scope.Owner) int
	// Use returns a shard that this node serves, until done is called; it is called once.
	// ErrNotOwner where another node serves it, or none.
	Use(ctx context.Context, shard int) (t Tenant, done func(), err error)
	// Stale is Use for a call that only reads, where nobody can be asked who serves the shard: age is
	// for how long another node may have served it since. ErrNotOwner where this node did not, or knows
	// that another one does.
	Stale(ctx context.Context, shard int) (t Tenant, age time.Duration, done func(), err error)
	// Where is the address of the node that serves a shard, as http://HOST:PORT: what was known
	// last, or with anew what the cluster says now. ErrUnavailable where no node does, ErrInvalid where
	// that one is not to be asked.
	Where(ctx context.Context, shard int, anew bool) (address string, err error)
	// Secret is what only the nodes of the cluster know.
	Secret() []byte
	// Client asks other nodes.
	Client() *http.Client
	// Writable says why this node takes no writes for its shards now, nil where it does.
	Writable() error
	// Metrics writes the figures of the shards of this node, in the form of Prometheus.
	Metrics(w io.Writer) error
}

// A Tenant is a shard that this node serves.
type Tenant struct {
	DB *engine.DB
	// Facts is its memory of facts, nil for none.
	Facts *facts.Facts
}

// ShardHeader names the shard that a request of an administrator is about, where it is about a
// whole database: a number.
const ShardHeader = "Memdb-Shard"

// ShardPath is the path below which a shard of a cluster is as a database of its own, in the place of ShardHeader.
const ShardPath = "/shards/"

// ofShard is a request for the path below ShardPath and the number of a shard as one with ShardHeader.
func ofShard(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), ShardPath)
	shard, path, below := strings.Cut(rest, "/")
	if !ok || !below {
		return r
	}
	at, err := r.URL.Parse("/" + path)
	if err != nil {
		return r
	}
	at.RawQuery = r.URL.RawQuery
	of := r.Clone(r.Context())
	of.URL = at
	of.Header.Set(ShardHeader, shard)
	return of
}

// reach is which shard a call is about.
type reach struct {
	shards Shards
	bound  int // the shard whose database the call has, -1 for none
	// part: the call is asked for what this shard has of it. What it has not is elsewhere.
	part bool
	// fixed: the shard was chosen by whom the call came from. It is not passed on.
	fixed bool
	// reads: the call changes nothing, so that it may be answered from what may be old by now.
	reads bool
	away  *elsewhere // where it is answered instead
	done  func()
}

// elsewhere ends a handler whose call another node answers, or all of them.
type elsewhere struct {
	shard int  // what it is about
	all   bool // every shard has a part of it
}

func (e *elsewhere) Error() string {
	if e.all {
		return "every shard has a part of it"
	}
	return fmt.Sprintf("shard %d is on another node", e.shard)
}

// Reach has the call be about the memories of scopes: its DB is that of the shard that has them
// all. exact: each scope is what one owner has, whose empty fields mean none. Without a cluster it
// does nothing. A handler returns the error as it is, and the call is answered by the node of the
// shard, or from the parts of all of them. ErrInvalid where the call was about another shard
// before: a commit and a view are within one.
func (c *Call) Reach(scopes []memory.Scope, exact bool) error {
	r := c.reach
	switch {
	case r == nil:
		return nil
	case r.away != nil: // a handler that tries another scope then is not heard
		return r.away
	}
	shard, all := -1, false
	for _, s := range scopes {
		if s.User == "" && !exact {
			all = true
			continue
		}
		of := r.shards.Of(s.Owner())
		all = all || shard >= 0 && of != shard
		shard = of
	}
	switch {
	case r.part && (all || shard != r.bound && !exact):
		return nil // what the shard has not is not in it
	case all && r.bound < 0:
		return c.leave(&elsewhere{all: true})
	case all:
		return severalShards()
	case r.bound >= 0 && shard != r.bound:
		return c.split(shard)
	case r.bound >= 0:
		return nil
	}
	return c.bind(shard)
}

// Unbound reports whether the call is one in a cluster of which the shard is not known yet, so that
// it has neither DB nor Facts.
func (c *Call) Unbound() bool { return c.reach != nil && c.reach.bound < 0 }

// Shard is the shard whose database the call has, -1 outside of a cluster.
func (c *Call) Shard() int {
	if c.reach == nil {
		return -1
	}
	return c.reach.bound
}

// Shards is how many there are, 0 outside of a cluster.
func (c *Call) Shards() int {
	if c.reach == nil {
		return 0
	}
	return c.reach.shards.Count()
}

// Sent is the shard for which another node has sent the call; ok is false for one of a client.
func (c *Call) Sent() (shard int, ok bool) {
	if c.inner == nil {
		return -1, false
	}
	return c.inner.Shard, true
}

// Part reports whether the call is asked for the part that one shard has of the answer.
func (c *Call) Part() bool { return c.reach != nil && c.reach.fixed && c.reach.part }

// leave ends the call here.
func (c *Call) leave(to *elsewhere) error {
	c.reach.away = to
	return to
}

// split is the error of a call about several shards.
func (c *Call) split(shard int) error {
	if c.reach.fixed { // by a node that takes the owner for one of this shard
		return &memory.Error{
			Kind: memory.ErrInvalid, What: "answer for a shard", Why: fmt.Sprintf("the call is about shard %d, and was sent to shard %d", shard, c.reach.bound),
			Do: "see that all nodes run one version of memdbd, and leave out " + ShardHeader,
		}
	}
	return severalShards()
}

func severalShards() error {
	return &memory.Error{
		Kind: memory.ErrInvalid, What: "answer within one shard", Why: "the call is about users of several shards, and a commit is within one",
		Do: "make a call for each user",
	}
}

// bind gives the call the database of a shard.
func (c *Call) bind(shard int) error {
	r := c.reach
	t, done, err := r.shards.Use(c.Context(), shard)
	if r.reads && errors.Is(err, memory.ErrNotOwner) {
		if old, age, until, failed := r.shards.Stale(c.Context(), shard); failed == nil {
			t, done, err = old, until, nil
			c.W.Header().Set(api.StaleHeader, strconv.FormatInt(age.Milliseconds(), 10))
		}
	}
	switch {
	case errors.Is(err, memory.ErrNotOwner) && !r.fixed:
		return c.leave(&elsewhere{shard: shard})
	case err != nil:
		return err
	}
	r.bound, r.done = shard, done
	c.DB, c.Facts = t.DB, t.Facts
	if c.attempt != nil {
		return c.attempt.Begin(c.Context(), c.DB)
	}
	return nil
}

// release ends the use of a shard.
func (c *Call) release() {
	if r := c.reach; r != nil && r.done != nil {
		r.done()
		r.done, r.bound, r.away = nil, -1, nil
		c.DB, c.Facts = nil, nil
	}
}

// shardOf is the shard that a request names, -1 for none.
func shardOf(r *http.Request, count int) (int, error) {
	text := r.Header.Get(ShardHeader)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(n) >= count {
		return -1, Fail(http.StatusBadRequest, "invalid", "%s is %.40q, and the shards are 0 to %d", ShardHeader, text, count-1)
	}
	return int(n), nil
}

// unmerged is the error of a call that the parts of all shards do not answer.
func unmerged(pattern string) error {
	return Fail(http.StatusBadRequest, "one_shard", "%s is not answered from all shards of a cluster; name the user, or as an administrator the shard by the header %s", pattern, ShardHeader)
}
