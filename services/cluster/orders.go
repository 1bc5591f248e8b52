package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

// A ShardState is who owns a shard, and how far it is.
type ShardState struct {
	// Shard is its number.
	Shard int `json:"shard"`
	// Owner is empty where no node owns it now.
	Owner string `json:"owner"`
	State
	// Standbys are nodes that have brought their folder up, and wait for it.
	Standbys []string `json:"standbys"`
}

// Here are the states of the shards that this node owns.
func (n *Node) Here() map[int]State {
	out := map[int]State{}
	for shard, of := range n.owned() {
		out[shard] = of.State()
	}
	return out
}

// owned are the shards that this node owns. They are used without the lock: a shard may be closing.
func (n *Node) owned() map[int]owned {
	all := map[int]owned{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for shard, s := range n.mu.slots {
		if s.shard != nil {
			all[shard] = s.shard
		}
	}
	return all
}

// errNoAnswer is the cause of what a node cannot do while its backend does not answer.
var errNoAnswer = errors.New("it did not answer when it was asked last")

// Writable says why this node takes no writes for its shards now, nil where it does: ErrUnavailable where what holds
// the logs and leases does not answer, and the errors of engine.DB.Writable for any shard.
func (n *Node) Writable() (err error) {
	n.mu.Lock()
	cut := n.mu.cut
	n.mu.Unlock()
	for _, of := range n.owned() {
		cut = cut || of.Cut()
	}
	if cut {
		return unreached("write", errNoAnswer)
	}
	n.each(func(db *engine.DB) { err = cmp.Or(err, db.Writable()) })
	return err
}

// Disk is the least free space of the disks of the shards that this node owns, and the largest reserve. Most often
// they are on one disk.
func (n *Node) Disk() (free, reserve int64) {
	n.each(func(db *engine.DB) {
		f, r := db.Disk()
		if reserve == 0 || f < free {
			free = f
		}
		reserve = max(reserve, r)
	})
	return free, reserve
}

// each calls fn with the databases of the shards that this node owns.
func (n *Node) each(fn func(db *engine.DB)) {
	for _, of := range n.owned() {
		db, done, err := of.Use(context.Background())
		if err != nil {
			continue // it goes to another node
		}
		fn(db)
		done()
	}
}

// Standing are the shards whose logs this node follows.
func (n *Node) Standing() []int { return n.with.follows() }

// Owners are all shards with their owners, as the leases say now; the states are left empty.
func (n *Node) Owners(ctx context.Context) ([]ShardState, error) {
	v, err := look(ctx, n.o.Backend)
	if err != nil {
		return nil, unreached("see who owns the shards", err)
	}
	out := make([]ShardState, n.facts.Shards)
	for shard := range out {
		out[shard] = ShardState{Shard: shard, Owner: v.holders[shard], Standbys: []string{}}
		for _, w := range v.wants[shard] {
			if w != v.holders[shard] {
				out[shard].Standbys = append(out[shard].Standbys, w)
			}
		}
	}
	return out, nil
}

// Move has a shard be owned by a node from now on, as long as that lives, and waits until it is.
// ErrNotFound for a node that does not live.
func (n *Node) Move(ctx context.Context, shard int, to string) error {
	what := fmt.Sprintf("move shard %d to %s", shard, to)
	if shard < 0 || shard >= n.facts.Shards {
		return fault.Invalid(what, "there is no such shard", fmt.Sprintf("there are 0 to %d", n.facts.Shards-1))
	}
	v, err := look(ctx, n.o.Backend)
	if err != nil {
		return unreached(what, err)
	}
	switch m, lives := v.members[to]; {
	case !lives:
		return unknownNode(what, to)
	case m.Leaving || v.drained[to]:
		return fault.Invalid(what, "the node is leaving", "start it anew, or name another one")
	}
	if _, err := n.o.Backend.Registry().Put(ctx, pinPrefix+strconv.Itoa(shard), []byte(to)); err != nil {
		return unreached(what, err)
	}
	return n.until(ctx, what, func(v *view) bool { return v.holders[shard] == to })
}

// Drain has a node own no shard from now on, and waits until others have them all. It is over once the
// node is started anew. ErrInvalid where no other node lives.
func (n *Node) Drain(ctx context.Context, name string) error {
	what := "drain " + name
	v, err := look(ctx, n.o.Backend)
	if err != nil {
		return unreached(what, err)
	}
	if _, lives := v.members[name]; !lives {
		return unknownNode(what, name)
	}
	v.drained[name] = true
	if len(v.takers()) == 0 {
		return fault.Invalid(what, "no other node could take its shards", "start another one first")
	}
	if _, err := n.o.Backend.Registry().Put(ctx, drainPrefix+name, []byte(n.o.Name)); err != nil {
		return unreached(what, err)
	}
	return n.until(ctx, what, func(v *view) bool {
		for _, holder := range v.holders {
			if holder == name {
				return false
			}
		}
		return true
	})
}

// until waits until the others are as they are to be.
func (n *Node) until(ctx context.Context, what string, reached func(v *view) bool) error {
	for {
		v, err := look(ctx, n.o.Backend)
		if err != nil {
			return unreached(what, err)
		}
		if reached(v) {
			return nil
		}
		if err := retry.Sleep(ctx, askEvery); err != nil {
			return &fault.Error{Kind: fault.ErrUnavailable, What: what, Why: "it was not done in time, and goes on", Cause: err, Do: "see memdbctl cluster status"}
		}
	}
}

// Verify has a copy of a shard that this node owns be made of the log, and compares it with the
// database. ErrNotOwner where it does not own it, ErrCorrupt where the two differ.
func (n *Node) Verify(ctx context.Context, shard int) (lsn uint64, err error) {
	of, _, err := n.owns(shard)
	if err != nil {
		return 0, err
	}
	return of.Verify(ctx)
}

// Past calls fn with a copy of a shard that this node owns, as it was: see [Shard.Past]. ErrNotOwner where it does not
// own it.
func (n *Node) Past(ctx context.Context, shard int, at Past, fn func(db *engine.DB) error) error {
	of, _, err := n.owns(shard)
	if err != nil {
		return err
	}
	return of.Past(ctx, at, fn)
}
