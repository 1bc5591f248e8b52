package ram_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/ram"
)

// nodeShards is how many shards the clusters of these tests have.
const nodeShards = 6

// patience is how long a test waits for what must happen soon: disks differ, and each shard is one more
// database on them.
const patience = 2 * time.Minute

// nodes are those of a cluster that run.
type nodes struct {
	t     *testing.T
	store *ram.Store
	dir   string

	mu   sync.Mutex
	live map[string]*liveNode
}

type liveNode struct {
	*cluster.Node
	client *ram.Client
	end    func()
}

func newNodes(t *testing.T) *nodes {
	return &nodes{t: t, store: ram.New(&ram.Options{TTL: 900 * time.Millisecond}), dir: t.TempDir(), live: map[string]*liveNode{}}
}

// start starts a node.
func (ns *nodes) start(name string) *liveNode { return ns.startWith(name, false) }

func (ns *nodes) startWith(name string, standby bool) *liveNode {
	ns.t.Helper()
	c := ns.store.Client()
	n, err := cluster.Join(ns.t.Context(), cluster.NodeOptions{
		Backend: c, Name: name, Address: "http://" + name, Dir: filepath.Join(ns.dir, name), Shards: nodeShards, Standby: standby,
		Engine: engine.Options{MemoryBudget: 64 << 20}, LogWait: time.Second,
	})
	if err != nil {
		ns.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ns.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	live := &liveNode{Node: n, client: c}
	live.end = sync.OnceFunc(func() {
		ns.mu.Lock()
		delete(ns.live, name)
		ns.mu.Unlock()
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, cluster.ErrUnavailable) {
			ns.t.Errorf("%s: %v", name, err)
		}
	})
	ns.t.Cleanup(live.end)
	ns.mu.Lock()
	ns.live[name] = live
	ns.mu.Unlock()
	return live
}

// until waits until a thing is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// owned is how many shards each node serves.
func (ns *nodes) owned() map[string]int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	counts := map[string]int{}
	for name, n := range ns.live {
		if all := len(n.Here()); all > 0 {
			counts[name] = all
		}
	}
	return counts
}

func (ns *nodes) all(name string) func() bool {
	return func() bool { return maps.Equal(ns.owned(), map[string]int{name: nodeShards}) }
}

// use calls fn with the shard of a user, on the node that has it.
func (ns *nodes) use(user string, fn func(db *engine.DB) error) error {
	shard := cluster.ShardOf(scope.Owner{User: user}, nodeShards)
	ns.mu.Lock()
	live := slices.Collect(maps.Values(ns.live))
	ns.mu.Unlock()
	for _, n := range live {
		db, done, err := n.Use(ns.t.Context(), shard)
		if errors.Is(err, memory.ErrNotOwner) {
			continue
		}
		if err != nil {
			return err
		}
		defer done()
		return fn(db)
	}
	return fmt.Errorf("%w: nobody serves shard %d", memory.ErrNotOwner, shard)
}

// writer stores memories of many users one after the other until it is ended, and returns the IDs that
// were acknowledged, with the longest pause between two of them.
func (ns *nodes) writer() (end func() (acked map[string]string, gap time.Duration)) {
	stop, ended := make(chan struct{}), make(chan struct{})
	acked, last, longest := map[string]string{}, time.Now(), time.Duration(0)
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			user, id := fmt.Sprint("user", i%12), fmt.Sprint("m", i)
			err := ns.use(user, func(db *engine.DB) error {
				_, err := db.Memories().Store(ns.t.Context(), memory.Memory{ID: id, Scope: memory.Scope{User: user}, Text: fmt.Sprint("memory number ", i)}, nil)
				return err
			})
			switch {
			case err == nil:
				acked[id], longest, last = user, max(longest, time.Since(last)), time.Now()
			case errors.Is(err, memory.ErrNotOwner), errors.Is(err, memory.ErrUnavailable), errors.Is(err, memory.ErrClosed):
				time.Sleep(time.Millisecond) // it is on its way to another node
			default:
				ns.t.Errorf("%s: %v", id, err)
				return
			}
		}
	}()
	return func() (map[string]string, time.Duration) {
		close(stop)
		<-ended
		return acked, longest
	}
}

// wantAll looks for what was acknowledged.
func (ns *nodes) wantAll(acked map[string]string) {
	ns.t.Helper()
	lost := 0
	for id, user := range acked {
		var err error
		until(ns.t, "the shard of "+user+" is served", func() bool { // it may be on its way
			err = ns.use(user, func(db *engine.DB) error {
				_, err := db.Memories().Get(ns.t.Context(), memory.Scope{User: user}, id)
				return err
			})
			return !errors.Is(err, memory.ErrNotOwner)
		})
		if err != nil {
			lost++
			ns.t.Log(id, user, err)
		}
	}
	if lost > 0 || len(acked) < 20 {
		ns.t.Errorf("%d of %d acknowledged memories are lost", lost, len(acked))
	}
}

// TestNodes: shards move as nodes come, are drained and end, while somebody writes; nothing is lost, and
// the gaps are short.
func TestNodes(t *testing.T) {
	ns := newNodes(t)
	began := time.Now()
	a := ns.start("a")
	until(t, "a owns everything", ns.all("a"))
	opened := time.Since(began) // all shards, on this machine and its disk
	end := ns.writer()
	ns.start("b")
	until(t, "b has its share", func() bool {
		counts := ns.owned()
		return counts["a"]+counts["b"] == nodeShards && counts["b"] > 0 && counts["a"] > 0
	})
	if err := a.Drain(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	until(t, "b owns everything", ns.all("b"))
	acked, gap := end()
	ns.wantAll(acked)
	if gap > max(5*time.Second, 2*opened) {
		t.Errorf("a gap of %v, where all shards are opened in %v", gap, opened)
	}
	t.Log(len(acked), "memories, longest gap", gap)
	a.end()
	a = ns.start("a") // which ends its draining
	until(t, "a has its share again", func() bool { return ns.owned()["a"] > 0 && ns.owned()["a"]+ns.owned()["b"] == nodeShards })
	end = ns.writer()
	until(t, "something is written", func() bool { return ns.owned()["a"] > 0 })
	ns.mu.Lock()
	b := ns.live["b"]
	ns.mu.Unlock()
	b.end() // as by SIGTERM
	until(t, "a owns everything again", ns.all("a"))
	more, _ := end()
	maps.Copy(acked, more)
	ns.wantAll(acked)
	for shard := range nodeShards {
		if _, err := a.Verify(t.Context(), shard); err != nil {
			t.Error(shard, err)
		}
	}
}

// TestNodeCutOff: the shards of a node that is not heard of go to another one, and that node answers for
// them no more.
func TestNodeCutOff(t *testing.T) {
	t.Parallel() // it waits for leases
	ns := newNodes(t)
	a := ns.start("a")
	until(t, "a owns everything", ns.all("a"))
	acked := map[string]string{}
	for i := range 30 {
		id, user := fmt.Sprint("m", i), fmt.Sprint("user", i)
		if err := ns.use(user, func(db *engine.DB) error {
			_, err := db.Memories().Store(t.Context(), memory.Memory{ID: id, Scope: memory.Scope{User: user}, Text: "tea"}, nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		acked[id] = user
	}
	b := ns.start("b")
	until(t, "b has its share", func() bool { return ns.owned()["b"] > 0 && ns.owned()["a"]+ns.owned()["b"] == nodeShards })
	a.client.Fail(ram.Faults{Cut: true})
	some := slices.Sorted(maps.Keys(a.Here()))[0]
	until(t, "a reads what may be old", func() bool {
		_, age, done, err := a.UseStale(t.Context(), some)
		if err == nil {
			done()
		}
		return err == nil && age > 0
	})
	until(t, "b owns everything", func() bool { return len(b.Here()) == nodeShards })
	for shard := range nodeShards {
		if _, done, err := a.Use(t.Context(), shard); err == nil {
			done()
			t.Errorf("a answers for shard %d", shard)
		} else if !errors.Is(err, memory.ErrNotOwner) {
			t.Error(err)
		}
		if at, err := b.Where(t.Context(), shard, true); err != nil || at != "http://b" {
			t.Error(at, err)
		}
	}
	ns.wantAll(acked)
	a.client.Fail(ram.Faults{})
	until(t, "a has its share again", func() bool { return len(a.Here()) > 0 && len(a.Here())+len(b.Here()) == nodeShards })
	ns.wantAll(acked)
}

// TestNodeWritable verifies that a node says that it takes no writes while it cannot renew its leases, reaches nobody, or
// its logs are full, and that it takes them again afterwards.
func TestNodeWritable(t *testing.T) {
	ns := newNodes(t)
	a := ns.start("a")
	until(t, "a owns everything", ns.all("a"))
	until(t, "a takes writes", func() bool { return a.Writable() == nil })
	for _, f := range []ram.Faults{{Leaderless: true}, {Cut: true}, {Full: true}} {
		what := fmt.Sprintf("%+v", f)
		a.client.Fail(f)
		if f.Full { // which is seen by who writes
			write := func(db *engine.DB) error {
				_, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea"}, nil)
				return err
			}
			if err := ns.use("ada", write); err == nil {
				t.Errorf("%s: a write was taken", what)
			}
		}
		until(t, what+": a takes no writes", func() bool { return errors.Is(a.Writable(), memory.ErrUnavailable) })
		a.client.Fail(ram.Faults{})
		until(t, what+" is over: a owns everything", ns.all("a"))
		until(t, what+" is over: a takes writes", func() bool { return a.Writable() == nil })
	}
	if free, reserve := a.Disk(); free == 0 || reserve == 0 {
		t.Errorf("%d bytes are free, %d are kept", free, reserve)
	}
}

// TestNodeLeaderless: while leases cannot be renewed their holder answers reads, and says how old they may be; then it
// holds its shards again.
func TestNodeLeaderless(t *testing.T) {
	ns := newNodes(t)
	a := ns.start("a")
	until(t, "a owns everything", ns.all("a"))
	if _, _, _, err := a.UseStale(t.Context(), 0); !errors.Is(err, memory.ErrNotOwner) {
		t.Errorf("while it holds the lease: %v", err)
	}
	a.client.Fail(ram.Faults{Leaderless: true})
	until(t, "a reads what may be old", func() bool {
		_, age, done, err := a.UseStale(t.Context(), 0)
		if err == nil {
			done()
		}
		return err == nil && age > 0
	})
	if _, _, err := a.Use(t.Context(), 0); !errors.Is(err, memory.ErrNotOwner) {
		t.Errorf("a writes: %v", err)
	}
	a.client.Fail(ram.Faults{})
	until(t, "a has its shard again", func() bool {
		_, done, err := a.Use(t.Context(), 0)
		if err == nil {
			done()
		}
		return err == nil
	})
}

// TestNodeOrders: shards are moved by hand, and what cannot be is refused.
func TestNodeOrders(t *testing.T) {
	t.Parallel() // it waits for leases
	ns := newNodes(t)
	a, b := ns.start("a"), ns.start("b")
	until(t, "both have shards", func() bool { return len(a.Here()) > 0 && len(a.Here())+len(b.Here()) == nodeShards })
	for _, to := range []*liveNode{b, a} {
		for shard := range nodeShards {
			if err := a.Move(t.Context(), shard, to.Name()); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "the shards have moved", func() bool { return len(to.Here()) == nodeShards })
	}
	// A node that wants a shard is heard although the one before it has still to say that it wants none.
	a.client.Fail(ram.Faults{Delay: 40 * time.Millisecond})
	for range 3 {
		for _, to := range []*liveNode{b, a} {
			if err := b.Move(t.Context(), 0, to.Name()); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.client.Fail(ram.Faults{})
	owners, err := b.Owners(t.Context())
	if err != nil || len(owners) != nodeShards || owners[0].Owner != "a" {
		t.Error(owners, err)
	}
	for what, c := range map[string]struct{ err, kind error }{
		"an unknown node":  {a.Move(t.Context(), 0, "c"), memory.ErrNotFound},
		"an unknown shard": {a.Move(t.Context(), nodeShards, "b"), memory.ErrInvalid},
		"an unknown drain": {a.Drain(t.Context(), "c"), memory.ErrNotFound},
		"a drained node":   {errors.Join(a.Drain(t.Context(), "a"), a.Move(t.Context(), 0, "a")), memory.ErrInvalid},
		"the last one":     {b.Drain(t.Context(), "b"), memory.ErrInvalid},
		"not of this node": {func() error { _, err := a.Verify(t.Context(), 0); return err }(), memory.ErrNotOwner},
		"a name that runs": {func() error {
			_, err := cluster.Join(t.Context(), cluster.NodeOptions{Backend: a.client, Name: "a", Dir: t.TempDir()})
			return err
		}(), memory.ErrLocked},
		"no name": {func() error {
			_, err := cluster.Join(t.Context(), cluster.NodeOptions{Backend: a.client, Name: "a/b"})
			return err
		}(), memory.ErrInvalid},
		"other shards": {func() error {
			_, err := cluster.Join(t.Context(), cluster.NodeOptions{Backend: a.client, Name: "c", Shards: 7})
			return err
		}(), memory.ErrMismatch},
		"too many shards": {func() error {
			_, err := cluster.Join(t.Context(), cluster.NodeOptions{Backend: a.client, Name: "c", Shards: 5000})
			return err
		}(), memory.ErrInvalid},
	} {
		if !errors.Is(c.err, c.kind) {
			t.Errorf("%s: %v, want %v", what, c.err, c.kind)
		}
	}
}

// TestNodeStandby: a node follows the shards of the other one, and takes them over with everything.
func TestNodeStandby(t *testing.T) {
	t.Parallel() // it waits for leases
	ns := newNodes(t)
	a, b := ns.startWith("a", true), ns.startWith("b", true)
	follow := func() bool {
		return len(a.Here()) > 0 && len(a.Here())+len(b.Here()) == nodeShards && len(a.Standing()) == len(b.Here()) && len(b.Standing()) == len(a.Here())
	}
	until(t, "each follows the shards of the other", follow)
	end := ns.writer()
	until(t, "b has written", func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(b.Here())), func(s cluster.State) bool { return s.LSN > 20 })
	})
	a.client.Fail(ram.Faults{Cut: true})
	until(t, "b owns everything", func() bool { return len(b.Here()) == nodeShards && len(b.Standing()) == 0 })
	a.client.Fail(ram.Faults{})
	until(t, "each follows the shards of the other again", follow)
	if err := a.Move(t.Context(), 0, "a"); err != nil {
		t.Fatal(err)
	}
	until(t, "each follows the shards of the other still", follow)
	acked, _ := end()
	ns.wantAll(acked)
	for shard := range nodeShards {
		n := a
		if _, owns := b.Here()[shard]; owns {
			n = b
		}
		if _, err := n.Verify(t.Context(), shard); err != nil {
			t.Error(shard, err)
		}
	}
}
