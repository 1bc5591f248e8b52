package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// A Member is a node that lives.
type Member struct {
	// Name is that of the node, and Address where others reach it, as http://HOST:PORT.
	Name    string `json:"name"`
	Address string `json:"address"`
	// Run differs from start to start, so that two nodes of one name are noticed.
	Run string `json:"run"`
	// Leaving: it gives its shards to others.
	Leaving bool `json:"leaving,omitempty"`
}

// The keys of the registry.
const (
	memberPrefix = "node."
	pinPrefix    = "pin."   // the node that is to own a shard, whatever hashing says
	drainPrefix  = "drain." // a node that is to own no shard
	wantPrefix   = "want."  // a node that has brought its folder up, and waits for the shard
)

// wantKey is where a node says that it waits for a shard: each in a key of its own, so that none takes
// back what another one has said.
func wantKey(shard int, node string) string { return fmt.Sprintf("%s%d.%s", wantPrefix, shard, node) }

// CheckName refuses what is no name of a node: 1 to 64 letters, digits, '-', '_' and '.'.
func CheckName(name string) error {
	const may = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if name != "" && len(name) <= 64 && strings.Trim(name, may) == "" {
		return nil
	}
	return fault.Invalid("name a node", fmt.Sprintf("%.80q is no name of one", name), "use 1 to 64 letters, digits, -, _ and .")
}

// A view is what a node knows of the others.
type view struct {
	members map[string]Member
	pins    map[int]string
	drained map[string]bool
	wants   map[int][]string
	holders map[int]string
}

// look asks the backend.
func look(ctx context.Context, b Backend) (*view, error) {
	r := b.Registry()
	v := &view{members: map[string]Member{}, pins: map[int]string{}, drained: map[string]bool{}, wants: map[int][]string{}}
	alive, err := r.Alive(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range alive {
		var m Member
		if name, ok := strings.CutPrefix(e.Key, memberPrefix); ok && json.Unmarshal(e.Value, &m) == nil && m.Name == name {
			v.members[name] = m
		}
	}
	entries, err := r.List(ctx, "") // in one call: there are few
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		kind, of, _ := strings.Cut(e.Key, ".")
		number, node, _ := strings.Cut(of, ".")
		shard, failed := strconv.Atoi(number)
		switch kind += "."; {
		case kind == drainPrefix:
			v.drained[of] = true
		case failed != nil:
		case kind == pinPrefix:
			v.pins[shard] = string(e.Value)
		case kind == wantPrefix:
			v.wants[shard] = append(v.wants[shard], node)
		}
	}
	v.holders, err = b.Leases().Holders(ctx)
	return v, err
}

// takers are the nodes that shards may go to, in the order of their names.
func (v *view) takers() []string {
	var names []string
	for name, m := range v.members {
		if !v.drained[name] && !m.Leaving {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// plan says which node is to own each shard, empty where there is none.
func (v *view) plan(shards int) []string {
	names := v.takers()
	out := make([]string, shards)
	for s := range out {
		if pin := v.pins[s]; pin != "" && slices.Contains(names, pin) {
			out[s] = pin
			continue
		}
		out[s] = Place(s, names)
	}
	return out
}

// nexts says which node is to own each shard if its owner goes, empty where there is none.
func (v *view) nexts(shards int) []string {
	names := v.takers()
	out := v.plan(shards)
	for s, first := range out {
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == first })
		out[s] = Place(s, others)
	}
	return out
}

// join announces a node. ErrLocked: another process runs under its name.
func join(ctx context.Context, b Backend, m Member) error {
	v, err := look(ctx, b)
	if err != nil {
		return unreached(doingJoin, err)
	}
	if other, there := v.members[m.Name]; there && other.Run != m.Run {
		return &fault.Error{
			Kind: fault.ErrLocked, What: doingJoin, Why: fmt.Sprintf("a node named %s runs, at %s", m.Name, other.Address),
			Do: "give another name; where that node has just ended, wait some seconds",
		}
	}
	if err := b.Registry().Delete(ctx, drainPrefix+m.Name); err != nil { // it was to leave, and has come back
		return unreached(doingJoin, err)
	}
	return beat(ctx, b, m)
}

func beat(ctx context.Context, b Backend, m Member) error {
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := b.Registry().Beat(ctx, memberPrefix+m.Name, value); err != nil {
		return unreached("say that the node lives", err)
	}
	return nil
}

// unknownNode is the error of a name that no node has which lives.
func unknownNode(what, name string) error {
	return &fault.Error{Kind: fault.ErrNotFound, What: what, Why: fmt.Sprintf("no node named %s lives", name), Do: "see memdbctl cluster status"}
}

// lostRace reports whether an error says that another one owns the shard.
func lostRace(err error) bool { return errors.Is(err, ErrHeld) || errors.Is(err, ErrLost) }
