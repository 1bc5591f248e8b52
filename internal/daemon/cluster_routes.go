package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
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
		Shard int    `json:"shard" openapi:"required"`
		Node  string `json:"node" openapi:"required"`
	}
	drainBody struct {
		Node string `json:"node" openapi:"required"`
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
	// pastEnd is the last line of an earlier state.
	pastEnd struct {
		Type string `json:"type"`
		End  bool   `json:"end"`
		// LSN is that of the newest commit in it.
		LSN uint64 `json:"lsn"`
		exchange.Exported
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
			{Pattern: "GET " + clusterPath, Admin: true, Node: true, Handle: r.status, Doc: server.Doc{Tag: "cluster", Summary: "Show the nodes and shards of the cluster", Reply: overview{}}},
			{Pattern: "GET " + clusterPath + "/here", Admin: true, Node: true, Handle: r.here, Doc: server.Doc{Tag: "cluster", Summary: "Show the progress of the shards of this node", Reply: here{}}},
			{Pattern: "POST " + clusterPath + "/move", Admin: true, Node: true, Stream: true, Handle: r.move, Doc: server.Doc{Tag: "cluster", Summary: "Move a shard to a node", Body: moveBody{}, Reply: moved{}}},
			{Pattern: "POST " + clusterPath + "/drain", Admin: true, Node: true, Stream: true, Handle: r.drain, Doc: server.Doc{Tag: "cluster", Summary: "Move all shards away from a node", Body: drainBody{}, Reply: drained{}}},
			{
				Pattern: "GET " + clusterPath + "/past", Admin: true, Whole: true, Stream: true, Handle: r.past,
				Doc: server.Doc{
					Tag: "cluster", Summary: "Export an earlier state of a shard, which the header Memdb-Shard names, as lines that an import reads; the last line has its LSN", Media: []string{"application/x-ndjson"},
					Query: []server.Param{
						{Name: "lsn", Summary: "the LSN of the last commit to include", Type: "integer"},
						{Name: "time", Summary: "the time of the last commit to include, in Unix milliseconds", Type: "integer"},
						{Name: "user", Summary: "only data of this user", Type: "string"},
					},
				},
			},
			{Pattern: "POST " + clusterPath + "/verify", Admin: true, Whole: true, Stream: true, Handle: r.verify, Doc: server.Doc{Tag: "cluster", Summary: "Compare a shard, which the header Memdb-Shard names, with a copy that is built from its log", Reply: verified{}}},
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

// past writes the lines of an earlier state. What fails once lines were written cuts them off.
func (r *clusterRoutes) past(c *server.Call) error {
	q := c.R.URL.Query()
	var at cluster.Past
	number := func(name string) (n uint64, err error) {
		if text := q.Get(name); text != "" {
			if n, err = strconv.ParseUint(text, 10, 63); err != nil || n == 0 {
				err = &memory.Error{Kind: memory.ErrInvalid, What: "read " + name, Why: fmt.Sprintf("%.40q is no number above 0", text)}
			}
		}
		return n, err
	}
	lsn, err := number("lsn")
	if err != nil {
		return err
	}
	ms, err := number("time")
	if err != nil {
		return err
	}
	if at.LSN = lsn; ms > 0 {
		at.Time = time.UnixMilli(int64(ms))
	}
	if at == (cluster.Past{}) {
		return &memory.Error{Kind: memory.ErrInvalid, What: "make an earlier state", Why: "it is not said which", Do: "give lsn or time"}
	}
	return r.node.Past(c.Context(), c.Shard(), at, func(db *engine.DB) error {
		lines := &rawLines{call: c}
		done, err := exchange.Export(c.Context(), db, lines, &exchange.ExportOptions{Scope: memory.Scope{User: q.Get("user")}})
		if err != nil {
			return err
		}
		return lines.end(pastEnd{exchange.TypeEnd, true, db.LSN(), exchange.NewExported(done)})
	})
}

// rawLines writes lines that are JSON already.
type rawLines struct {
	call *server.Call
	to   *server.Lines // nil until there is something to say
}

func (l *rawLines) Write(b []byte) (int, error) {
	if l.to == nil {
		l.to = l.call.Lines()
	}
	return len(b), l.to.Raw(b)
}

func (l *rawLines) end(last any) error {
	if l.to == nil {
		l.to = l.call.Lines()
	}
	if err := l.to.Write(last); err != nil {
		return err
	}
	return l.to.Flush()
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
