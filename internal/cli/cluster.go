package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

const (
	clusterExample = `
memdbctl cluster status --db http://127.0.0.1:7070
memdbctl cluster move 12 node-b --db http://127.0.0.1:7070
memdbctl cluster drain node-a --db http://127.0.0.1:7070
memdbctl cluster verify --db http://127.0.0.1:7070`

	// clusterPath is the path below which a node answers for its cluster, and nativePath that of calls.
	clusterPath = "/memdb/v1/cluster"
	nativePath  = "/memdb/v1"
)

func (a *app) clusterCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "cluster", "See and steer a cluster of many machines", clusterExample)
	cmd.Long = `See who owns the shards of a cluster, move them, and bring databases in and out. It asks a memdbd
that is a node (docs/cluster.md), which --db names by its address; any node answers for all.`
	return withVerbs(cmd, a.clusterStatusCmd(), a.clusterMoveCmd(), a.clusterDrainCmd(), a.clusterVerifyCmd(), a.clusterImportCmd(), a.clusterExportCmd())
}

// node is a memdbd of a cluster.
type node struct {
	a      *app
	client *http.Client
	at     string
}

// node is the one that --db names.
func (a *app) node(cmd *cobra.Command) (*node, error) {
	if !beside.IsURL(a.dir) {
		return nil, usagef(cmd, "it asks a node of a cluster; give the address of its memdbd, as --db http://HOST:7070")
	}
	roots, err := a.roots()
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = roots
	// The key is for this server alone.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &node{a: a, client: &http.Client{Transport: t, CheckRedirect: stay}, at: strings.TrimSuffix(a.dir, "/")}, nil
}

// noShard is for calls that name no shard.
const noShard = -1

// maxReply bounds an answer that is no export.
const maxReply = 64 << 20

// ask sends a request. The reply is one that went well, and the caller's to close.
func (n *node) ask(ctx context.Context, method, path string, shard int, body []byte, kind string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, n.at+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if key := n.a.getenv(keyVariable); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	if shard != noShard {
		r.Header.Set(server.ShardHeader, strconv.Itoa(shard))
	}
	reply, err := n.client.Do(r)
	if err != nil {
		return nil, n.a.serverError(err)
	}
	if lost, err := strconv.Atoi(reply.Header.Get(api.UnreadableHeader)); err == nil {
		n.a.unreadable.ofServer(lost)
	}
	if reply.StatusCode < http.StatusMultipleChoices {
		return reply, nil
	}
	b, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	return nil, errors.Join(n.refused(reply.StatusCode, b), err, reply.Body.Close())
}

// refused is what a user is told of a call that a node refuses.
func (n *node) refused(status int, body []byte) error {
	var told struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	refusal := &beside.Refusal{Status: status, Message: "what answers is no node of a cluster"}
	if json.Unmarshal(body, &told) == nil && told.Error.Message != "" {
		refusal.Message = told.Error.Message
	}
	switch {
	case status == http.StatusNotFound && told.Error.Message == "there is nothing at this path":
		return &memory.Error{Kind: memory.ErrFailed, What: "ask " + n.at, Why: "it is no node of a cluster", Do: "give the address of a memdbd that was started with --cluster"}
	case status == http.StatusNotFound:
		return &memory.Error{Kind: memory.ErrNotFound, What: "ask " + n.at, Why: refusal.Message}
	case told.Error.Code == "damaged":
		return &memory.Error{Kind: memory.ErrCorrupt, What: "ask " + n.at, Why: refusal.Message}
	}
	return n.a.serverError(refusal)
}

// call asks for a JSON value, which it reads into out.
func (n *node) call(ctx context.Context, method, path string, shard int, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	reply, err := n.ask(ctx, method, path, shard, body, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(reply.Body, maxReply)).Decode(out); err != nil {
		return &memory.Error{Kind: memory.ErrFailed, What: "read the answer of " + n.at, Cause: err}
	}
	return nil
}

// clusterView is what a node says of its cluster.
type clusterView struct {
	ID     string               `json:"id"`
	Nodes  []cluster.Member     `json:"nodes"`
	Shards []cluster.ShardState `json:"shards"`
}

func (n *node) view(ctx context.Context) (v clusterView, err error) {
	err = n.call(ctx, http.MethodGet, clusterPath, noShard, nil, &v)
	return v, err
}

func (a *app) clusterStatusCmd() *cobra.Command {
	cmd := newCmd("", "status", "Show who owns the shards, and how far they are", "\nmemdbctl cluster status --json --db http://127.0.0.1:7070")
	cmd.Long = `Show each shard with the node that owns it, how often it has changed its owner (epoch), its newest
commit, for how long the oldest write waits for the log, and the nodes that stand by to take it over.`
	cmd.Args = exactly(0, "no argument")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		n, err := a.node(cmd)
		if err != nil {
			return err
		}
		v, err := n.view(cmd.Context())
		if err != nil {
			return err
		}
		t := a.rows("SHARD", "OWNER", "EPOCH", "LSN", "LAG MS", "STANDBYS")
		for _, s := range v.Shards {
			if err := t.add(s, s.Shard, s.Owner, s.Epoch, s.LSN, s.LagMS, strings.Join(s.Standbys, " ")); err != nil {
				return err
			}
		}
		if err := t.end(); err != nil || a.json || a.quiet {
			return err
		}
		for _, m := range v.Nodes {
			a.printf("node %s at %s\n", m.Name, m.Address)
		}
		return nil
	}
	return cmd
}

// shardIn reads the number of a shard.
func shardIn(cmd *cobra.Command, s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, usagef(cmd, "%q is no number of a shard; memdbctl cluster status lists them", cut(s, 40))
	}
	return int(n), nil
}

func (a *app) clusterMoveCmd() *cobra.Command {
	cmd := newCmd("", "move SHARD NODE", "Have a node own a shard", "\nmemdbctl cluster move 12 node-b --db http://127.0.0.1:7070")
	cmd.Long = `Have a node own a shard from now on, as long as the node lives, and wait until it does. The node brings
its folder up to the log first, while the shard goes on; then writes wait for less than a second.`
	cmd.Args = exactly(2, "a shard and a node")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := a.node(cmd)
		if err != nil {
			return err
		}
		shard, err := shardIn(cmd, args[0])
		if err != nil {
			return err
		}
		var out struct {
			Shard   int     `json:"shard"`
			Owner   string  `json:"owner"`
			Seconds float64 `json:"seconds"`
		}
		if err := n.call(cmd.Context(), http.MethodPost, clusterPath+"/move", noShard, map[string]any{"shard": shard, "node": args[1]}, &out); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(out)
		}
		a.printf("shard %d is owned by %s, after %.1f s\n", out.Shard, out.Owner, out.Seconds)
		return nil
	}
	return cmd
}

func (a *app) clusterDrainCmd() *cobra.Command {
	cmd := newCmd("", "drain NODE", "Have a node own no shard, so that it can be ended", "\nmemdbctl cluster drain node-a --db http://127.0.0.1:7070")
	cmd.Long = `Have other nodes take over the shards of a node, and wait until they have. The node gets none until it
is started anew. A node that is ended by SIGTERM does the same by itself.`
	cmd.Args = exactly(1, "a node")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := a.node(cmd)
		if err != nil {
			return err
		}
		var out struct {
			Node    string  `json:"node"`
			Shards  int     `json:"shards"`
			Seconds float64 `json:"seconds"`
		}
		if err := n.call(cmd.Context(), http.MethodPost, clusterPath+"/drain", noShard, map[string]any{"node": args[0]}, &out); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(out)
		}
		a.printf("%s owns no shard any more: %d went to others within %.1f s\n", out.Node, out.Shards, out.Seconds)
		return nil
	}
	return cmd
}

// verifiedJSON is a shard that was verified.
type verifiedJSON struct {
	Shard int    `json:"shard"`
	OK    bool   `json:"ok"`
	LSN   uint64 `json:"lsn"`
}

func (a *app) clusterVerifyCmd() *cobra.Command {
	cmd := newCmd("", "verify [SHARD]", "Compare a shard, or all, with a copy made of its log", "\nmemdbctl cluster verify 12 --db http://127.0.0.1:7070")
	cmd.Long = `Have the owner of each shard make a copy of it of the snapshot and the log alone, and compare what the
copy exports with what its own database does. It reads all of both, and ends with exit code 5 where
they differ.`
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := a.node(cmd)
		if err != nil {
			return err
		}
		v, err := n.view(cmd.Context())
		if err != nil {
			return err
		}
		from, to := 0, len(v.Shards)
		if len(args) > 0 {
			if from, err = shardIn(cmd, args[0]); err != nil {
				return err
			}
			to = from + 1
		}
		var damaged error
		for shard := from; shard < to; shard++ {
			out := verifiedJSON{Shard: shard}
			err := n.call(cmd.Context(), http.MethodPost, clusterPath+"/verify", shard, struct{}{}, &out)
			if err != nil && !errors.Is(err, memory.ErrCorrupt) {
				return err
			}
			damaged = errors.Join(damaged, err)
			if a.json {
				err = a.printJSON(out)
			} else if err == nil {
				a.printf("shard %d: the copy of its log is equal, at LSN %d\n", shard, out.LSN)
			}
			if a.json && err != nil {
				return err
			}
		}
		return damaged
	}
	return cmd
}
