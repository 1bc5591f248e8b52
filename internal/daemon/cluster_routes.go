package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// clusterPath is the path below which a node answers for its cluster.
const clusterPath = "/memdb/v1/cluster"

// clusterRoutes are what "memdbctl cluster" asks.
type clusterRoutes struct {
	node   *cluster.Node
	server *server.Server
}

// The bodies and replies.
type (
	moveBody struct {
		Shard int    `json:"shard"`
		Node  string `json:"node"`
	}
	drainBody struct {
		Node string `json:"node"`
	}
	drained struct {
		Node    string  `json:"node"`
		Shards  int     `json:"shards"`
		Seconds float64 `json:"seconds"`
	}
	moved struct {
		Shard   int     `json:"shard"`
		Owner   string  `json:"owner"`
		Seconds float64 `json:"seconds"`
	}
	verified struct {
		Shard int    `json:"shard"`
		OK    bool   `json:"ok"`
		LSN   uint64 `json:"lsn"`
	}
	// here is what a node has.
	here struct {
		Shards   map[int]cluster.State `json:"shards"`
		Standbys []int                 `json:"standbys"`
	}
	// overview is a cluster with its nodes and shards.
	overview struct {
		ID     string               `json:"id"`
		Nodes  []cluster.Member     `json:"nodes"`
		Shards []cluster.ShardState `json:"shards"`
	}
)

func (r *clusterRoutes) dialect() *server.Dialect {
	return &server.Dialect{
		Name: "cluster", Prefixes: []string{clusterPath},
		Routes: []server.Route{
			{Pattern: "GET " + clusterPath, Admin: true, Node: true, Handle: r.status, Doc: server.Doc{Summary: "The nodes and shards of the cluster", Reply: overview{}}},
			{Pattern: "GET " + clusterPath + "/here", Admin: true, Node: true, Handle: r.here, Doc: server.Doc{Summary: "How far the shards of this node are", Reply: here{}}},
			{Pattern: "POST " + clusterPath + "/move", Admin: true, Node: true, Stream: true, Handle: r.move, Doc: server.Doc{Summary: "Have a node own a shard", Body: moveBody{}, Reply: moved{}}},
			{Pattern: "POST " + clusterPath + "/drain", Admin: true, Node: true, Stream: true, Handle: r.drain, Doc: server.Doc{Summary: "Have a node own no shard", Body: drainBody{}, Reply: drained{}}},
			{Pattern: "POST " + clusterPath + "/verify", Admin: true, Whole: true, Stream: true, Handle: r.verify, Doc: server.Doc{Summary: "Compare a shard, named by the header Memdb-Shard, with a copy that is made of its log", Reply: verified{}}},
		},
	}
}

// status asks all nodes that live. What one does not answer is left out of its shards.
func (r *clusterRoutes) status(c *server.Call) error {
	shards, err := r.node.Owners(c.Context())
	if err != nil {
		return err
	}
	out := overview{ID: r.node.Facts().ID, Nodes: []cluster.Member{}, Shards: shards}
	for _, m := range r.node.Members() {
		out.Nodes = append(out.Nodes, m)
		at := here{r.node.Here(), r.node.Standing()}
		if m.Name != r.node.Name() {
			b, err := r.server.AskNode(c, m.Address, clusterPath+"/here")
			if at = (here{}); err != nil || json.Unmarshal(b, &at) != nil {
				continue
			}
		}
		for shard := range shards {
			s := &shards[shard]
			if state, has := at.Shards[shard]; has && s.Owner == m.Name {
				s.State = state
			}
			if slices.Contains(at.Standbys, shard) && s.Owner != m.Name && !slices.Contains(s.Standbys, m.Name) {
				s.Standbys = append(s.Standbys, m.Name)
			}
		}
	}
	sortMembers(out.Nodes)
	return c.Reply(http.StatusOK, out)
}

func (r *clusterRoutes) here(c *server.Call) error {
	return c.Reply(http.StatusOK, here{r.node.Here(), r.node.Standing()})
}

func (r *clusterRoutes) move(c *server.Call) error {
	var b moveBody
	if err := c.Decode(&b); err != nil {
		return err
	}
	began := c.Now()
	if err := r.node.Move(c.Context(), b.Shard, b.Node); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, moved{b.Shard, b.Node, c.Now().Sub(began).Seconds()})
}

func (r *clusterRoutes) drain(c *server.Call) error {
	var b drainBody
	if err := c.Decode(&b); err != nil {
		return err
	}
	before, err := r.node.Owners(c.Context())
	if err != nil {
		return err
	}
	out := drained{Node: b.Node}
	for _, s := range before {
		if s.Owner == b.Node {
			out.Shards++
		}
	}
	began := c.Now()
	if err := r.node.Drain(c.Context(), b.Node); err != nil {
		return err
	}
	out.Seconds = c.Now().Sub(began).Seconds()
	return c.Reply(http.StatusOK, out)
}

func (r *clusterRoutes) verify(c *server.Call) error {
	shard := c.Shard()
	lsn, err := r.node.Verify(c.Context(), shard)
	if err != nil {
		if server.Fault(err).Code == "damaged" {
			return &memory.Error{Kind: memory.ErrCorrupt, What: fmt.Sprintf("verify shard %d", shard), Cause: err, Do: "see memdbctl check, and have the shard made anew: memdbctl cluster move"}
		}
		return err
	}
	return c.Reply(http.StatusOK, verified{shard, true, lsn})
}
