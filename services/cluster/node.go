package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

const (
	// lookEvery is how often a node looks at the others, and looks how often at least within the time of
	// a lease: a node that is gone is replaced soon after its leases are over.
	lookEvery = 500 * time.Millisecond
	looks     = 6
	// askEvery is how often a node that waits for a shard asks for its lease: the gap of a hand-over.
	askEvery = 50 * time.Millisecond
	// longestPause is the longest pause before a shard that cannot be opened is tried again.
	longestPause = 15 * time.Second
	// maxOpening is how many shards are brought up at once: each applies a log, or loads an index.
	maxOpening = 4
	// leaveWait is how long a node that ends waits for others to take its shards over, and quitWait for it
	// to be said that it is gone.
	leaveWait = 20 * time.Second
	quitWait  = 10 * time.Second
	// callsWait is how long a shard that is given away waits for the calls that run, as for exports and who
	// follows its log; then they are cut off. Writes wait for as long.
	callsWait = time.Second
)

// NodeOptions are those of a node.
type NodeOptions struct {
	// Backend has the logs, leases and objects.
	Backend Backend
	// Name is the node's own: see CheckName. Address is where other nodes reach it over HTTP.
	Name, Address string
	// Dir is the folder in which it keeps the folders of shards.
	Dir string
	// Shards is how many a cluster gets that is made by this node, 0 for DefaultShards. For one that is
	// there, 0 or its own number.
	Shards int
	// Engine are the options of the database of each shard. Admit is set by the node, and MemoryBudget
	// is shared by the shards of the node.
	Engine engine.Options
	// Logger hears of shards that come and go. nil: nobody does.
	Logger *slog.Logger
	// Standby has the node follow the logs of shards that it is to own next, so that it takes them over
	// without reading their logs first.
	Standby bool
	// LogWait and SnapshotBytes are those of ShardOptions.
	LogWait       time.Duration
	SnapshotBytes int64
}

// owned is a shard that this node has opened as its owner.
type owned interface {
	// Use returns the database until done is called. ErrNotOwner once the lease is over.
	Use(ctx context.Context) (db *engine.DB, done func(), err error)
	// UseStale is Use that goes on when the lease is over and nobody is known to have taken it.
	UseStale(ctx context.Context) (db *engine.DB, stale time.Duration, done func(), err error)
	// Cut reports whether its lease could not be renewed for want of an answer.
	Cut() bool
	// Lost is closed once the shard is not owned any more.
	Lost() <-chan struct{}
	// StepDown waits for the calls that use it, closes the database and gives the lease back.
	StepDown(ctx context.Context) error
	// State says how far it is.
	State() State
	// Verify compares a copy that is made of the log with the database.
	Verify(ctx context.Context) (lsn uint64, err error)
	// Past calls fn with a copy of the shard as it was.
	Past(ctx context.Context, at Past, fn func(db *engine.DB) error) error
}

// opener opens shards for a node.
type opener interface {
	// open owns a shard and brings it up; ErrHeld where another node has it.
	open(ctx context.Context, shard int) (owned, error)
	// prepare brings the folder of a shard up to the log without owning it.
	prepare(ctx context.Context, shard int) error
	// giveUp ends what prepare has begun.
	giveUp(shard int) error
	// follows are the shards that were prepared.
	follows() []int
}

// State is how far an owned shard is.
type State struct {
	// Epoch is how often the shard has changed its owner, LSN its newest commit.
	Epoch uint64 `json:"epoch"`
	LSN   uint64 `json:"lsn"`
	// LagMS is for how long the oldest write has waited for the log, in milliseconds.
	LagMS int64 `json:"lag_ms"`
	// Published is how many messages it has sent to the log, and Unsent how many bytes wait.
	Published uint64 `json:"published"`
	Unsent    int64  `json:"unsent"`
}

// A Node runs those shards of a cluster that it is to own: it takes over those of nodes that are gone,
// and moves them as nodes come and go. It is safe for concurrent use.
type Node struct {
	o     NodeOptions
	facts Facts
	with  opener
	room  chan struct{} // of shards that come up

	mu struct {
		sync.Mutex
		me    Member
		seen  *view
		plan  []string
		slots map[int]*slot
		cut   bool                  // the backend did not answer when it was asked last
		ended map[int]chan struct{} // of the last slot that was given away, by shard
		stand map[int]*slot         // shards that are followed, see NodeOptions.Standby
	}
}

// slot is a shard that the node owns or wants.
type slot struct {
	cancel context.CancelFunc
	ended  chan struct{}
	shard  owned // nil until it serves; the lock of the node guards it
}

// Join makes a node of a cluster, and the cluster where there is none. Run has it work.
func Join(ctx context.Context, o NodeOptions) (*Node, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	facts, err := Found(ctx, o.Backend.Registry(), o.Shards)
	if err != nil {
		return nil, err
	}
	n := &Node{o: o, facts: facts, room: make(chan struct{}, maxOpening)}
	n.with = newShards(n)
	return n, n.join(ctx)
}

func (n *Node) join(ctx context.Context) (err error) {
	n.mu.me = Member{Name: n.o.Name, Address: n.o.Address, Run: uuid.NewString()}
	n.mu.slots, n.mu.ended, n.mu.stand = map[int]*slot{}, map[int]chan struct{}{}, map[int]*slot{}
	if err := join(ctx, n.o.Backend, n.mu.me); err != nil {
		return err
	}
	n.mu.seen, err = look(ctx, n.o.Backend)
	if err != nil {
		return unreached(doingJoin, err)
	}
	return nil
}

// Facts are those of the cluster.
func (n *Node) Facts() Facts { return n.facts }

// Name is that of the node.
func (n *Node) Name() string { return n.o.Name }

// Run has the node own what it is to own, until ctx ends. Then it gives its shards to others, as far as
// there are any, and returns.
func (n *Node) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for ctx.Err() == nil {
		if err := n.tick(work); err != nil {
			n.o.Logger.Warn("the cluster is not reached; shards go on as long as their leases", "error", err)
		}
		_ = retry.Sleep(ctx, n.every()) // it ends with ctx
	}
	return n.leave(work)
}

// every is how often the node looks at the others.
func (n *Node) every() time.Duration { return min(lookEvery, n.o.Backend.Leases().TTL()/looks) }

// leave gives the shards away.
func (n *Node) leave(ctx context.Context) error {
	n.mu.Lock()
	n.mu.me.Leaving = true
	n.mu.Unlock()
	err := retry.Within(ctx, leaveWait, func(wait context.Context) error {
		for n.serving() > 0 {
			if err := n.tick(wait); err != nil || !n.takenOver() {
				return err
			}
			if err := retry.Sleep(wait, n.every()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.o.Logger.Warn("not all shards were handed over; others take them once their leases are given back", "error", err)
	}
	n.mu.Lock()
	for shard, s := range n.mu.slots {
		n.end(shard, s)
	}
	for _, s := range n.mu.stand {
		s.cancel()
	}
	ended := slices.Collect(maps.Values(n.mu.ended))
	for _, s := range n.mu.stand {
		ended = append(ended, s.ended)
	}
	n.mu.Unlock()
	for _, e := range ended {
		<-e
	}
	return retry.Within(ctx, quitWait, func(ctx context.Context) error {
		return n.o.Backend.Registry().Quit(ctx, memberPrefix+n.o.Name)
	})
}

// takenOver reports whether there are others to take the shards.
func (n *Node) takenOver() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.mu.seen.takers()) > 0
}

func (n *Node) serving() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.mu.slots {
		if s.shard != nil {
			count++
		}
	}
	return count
}

// tick says that the node lives, looks at the others, and begins and ends shards.
func (n *Node) tick(ctx context.Context) error {
	n.mu.Lock()
	me := n.mu.me
	n.mu.Unlock()
	var v *view
	err := retry.Within(ctx, n.o.Backend.Leases().TTL(), func(ctx context.Context) (err error) {
		if err := beat(ctx, n.o.Backend, me); err != nil {
			return err
		}
		v, err = look(ctx, n.o.Backend)
		return err
	})
	n.mu.Lock()
	n.mu.cut = err != nil
	n.mu.Unlock()
	if err != nil {
		return err
	}
	plan := v.plan(n.facts.Shards)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.seen, n.mu.plan = v, plan
	for shard, to := range plan {
		s := n.mu.slots[shard]
		switch mine := to == n.o.Name; {
		case mine && s == nil:
			n.begin(ctx, shard)
		case s == nil || mine:
		case s.shard == nil: // it has not begun yet
			n.end(shard, s)
		case slices.Contains(v.wants[shard], to): // who is to own it has brought its folder up
			n.end(shard, s)
		}
	}
	n.standBy(ctx, v)
	return nil
}

// standBy begins and ends to follow shards, as they are to be followed. The lock is held.
func (n *Node) standBy(ctx context.Context, v *view) {
	if !n.o.Standby {
		return
	}
	next := v.nexts(n.facts.Shards)
	for shard, to := range next {
		s, owns := n.mu.stand[shard], n.mu.slots[shard] != nil
		switch {
		case to == n.o.Name && s == nil && !owns:
			n.follow(ctx, shard)
		case s != nil && (to != n.o.Name || owns): // an owner takes what was followed
			delete(n.mu.stand, shard)
			s.cancel()
		}
	}
}

// follow has a shard followed until it is not to be any more. The lock is held.
func (n *Node) follow(ctx context.Context, shard int) {
	on, cancel := context.WithCancel(ctx)
	s := &slot{cancel: cancel, ended: make(chan struct{})}
	n.mu.stand[shard] = s
	before := n.mu.ended[shard]
	go func() {
		defer close(s.ended)
		if before != nil {
			<-before
		}
		for pause := n.every(); on.Err() == nil; pause = min(2*pause, longestPause) {
			var err error
			if caught := panics.Catch("follows a shard", func() { err = n.with.prepare(on, shard) }); caught != nil {
				err = caught
			}
			if err == nil {
				<-on.Done()
				break
			}
			n.o.Logger.Warn("a standby does not follow its shard, and begins again", "shard", shard, "error", err)
			_ = retry.Sleep(on, pause) // it ends with on
		}
		n.mu.Lock()
		owns := n.mu.slots[shard] != nil
		n.mu.Unlock()
		if owns {
			return
		}
		if err := n.with.giveUp(shard); err != nil {
			n.o.Logger.Warn("a standby could not be closed", "shard", shard, "error", err)
		}
	}()
}

// begin has a shard owned. The lock is held.
func (n *Node) begin(ctx context.Context, shard int) {
	own, cancel := context.WithCancel(ctx)
	s := &slot{cancel: cancel, ended: make(chan struct{})}
	n.mu.slots[shard] = s
	before := n.mu.ended[shard] // of which the folder is, nil where there is none
	go func() {
		defer close(s.ended)
		defer cancel()
		if before != nil {
			<-before
		}
		for pause := n.every(); own.Err() == nil; pause = min(2*pause, longestPause) {
			var err error
			if caught := panics.Catch("serves a shard", func() { err = n.serve(own, shard, s) }); caught != nil {
				err = caught
			}
			err = errors.Join(err, n.with.giveUp(shard))
			if own.Err() != nil {
				return
			}
			n.o.Logger.Warn("a shard ended, and is brought up again", "shard", shard, "error", err)
			if errors.Is(err, fault.ErrNotOwner) { // it was owned
				pause = n.every()
			}
			_ = retry.Sleep(own, pause) // it ends with own
		}
	}()
}

// end has a shard given away. The lock is held.
func (n *Node) end(shard int, s *slot) {
	delete(n.mu.slots, shard)
	n.mu.ended[shard] = s.ended
	s.cancel()
}

// serve owns a shard until it is lost, or ctx ends.
func (n *Node) serve(ctx context.Context, shard int, s *slot) error {
	began := clock.System()
	of, err := n.acquire(ctx, shard)
	if err != nil {
		return err
	}
	n.mu.Lock()
	s.shard = of
	n.mu.Unlock()
	n.o.Logger.Info("the node owns a shard", "shard", shard, "epoch", of.State().Epoch, "lsn", of.State().LSN, "took", clock.System().Sub(began))
	select {
	case <-of.Lost():
		err = &fault.Error{Kind: fault.ErrNotOwner, What: fmt.Sprintf("serve shard %d", shard), Why: "its lease is over, or another node owns it"}
	case <-ctx.Done():
	}
	n.mu.Lock()
	s.shard = nil
	n.mu.Unlock()
	return errors.Join(err, retry.Within(context.WithoutCancel(ctx), callsWait, of.StepDown))
}

// acquire owns a shard. While another node has it, the folder is brought up, and that node is told so.
func (n *Node) acquire(ctx context.Context, shard int) (owned, error) {
	prepared := false
	defer func() {
		if prepared {
			n.forget(ctx, shard)
		}
	}()
	for {
		of, err := n.open(ctx, shard)
		if err == nil || !lostRace(err) {
			return of, err
		}
		wait := askEvery
		if !prepared {
			if prepared, err = n.prepare(ctx, shard); err != nil {
				return nil, err
			}
			if !prepared {
				wait = n.every()
			}
		}
		if err := retry.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// open opens a shard as its owner, a few at once.
func (n *Node) open(ctx context.Context, shard int) (owned, error) {
	select {
	case n.room <- struct{}{}:
		defer func() { <-n.room }()
		return n.with.open(ctx, shard)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prepare brings the folder of a shard up while a node that lives owns it, and says so.
func (n *Node) prepare(ctx context.Context, shard int) (done bool, err error) {
	holder, err := n.o.Backend.Leases().Holder(ctx, shard)
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	_, lives := n.mu.seen.members[holder]
	n.mu.Unlock()
	if !lives || holder == n.o.Name { // its lease ends by itself
		return false, nil
	}
	if err := n.with.prepare(ctx, shard); err != nil {
		return false, err
	}
	_, err = n.o.Backend.Registry().Put(ctx, wantKey(shard, n.o.Name), []byte(n.o.Name))
	return err == nil, err
}

// forget takes back that the node waits for a shard. Where that fails, the owner gives the shard away
// sooner the next time.
func (n *Node) forget(ctx context.Context, shard int) {
	err := retry.Within(context.WithoutCancel(ctx), quitWait, func(ctx context.Context) error {
		return n.o.Backend.Registry().Delete(ctx, wantKey(shard, n.o.Name))
	})
	if err != nil {
		n.o.Logger.Warn("it is said still that the node waits for a shard", "shard", shard, "error", err)
	}
}

// Use returns the database of a shard that this node owns, until done is called. ErrNotOwner where it
// does not own it.
func (n *Node) Use(ctx context.Context, shard int) (db *engine.DB, done func(), err error) {
	of, _, err := n.owns(shard)
	if err != nil {
		return nil, nil, err
	}
	return of.Use(ctx)
}

// UseStale is Use for reads, where what holds the leases does not answer: age is for how long another
// node may own the shard by now, at most since the lease of this one is over.
func (n *Node) UseStale(ctx context.Context, shard int) (db *engine.DB, age time.Duration, done func(), err error) {
	of, cut, err := n.owns(shard)
	if err == nil && !cut && !of.Cut() {
		err = n.notOwned(shard)
	}
	if err != nil {
		return nil, 0, nil, err
	}
	return of.UseStale(ctx)
}

// owns returns a shard that this node has; cut is whether the backend did not answer.
func (n *Node) owns(shard int) (of owned, cut bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.mu.slots[shard]; s != nil && s.shard != nil {
		return s.shard, n.mu.cut, nil
	}
	return nil, n.mu.cut, n.notOwned(shard)
}

func (n *Node) notOwned(shard int) error {
	return &fault.Error{Kind: fault.ErrNotOwner, What: fmt.Sprintf("use shard %d", shard), Why: "this node does not own it", Do: "ask its owner: see memdbctl cluster status"}
}

// Where is the address of the node that owns a shard: what was known last, or with anew what the leases
// say now. ErrUnavailable where no node that lives owns it.
func (n *Node) Where(ctx context.Context, shard int, anew bool) (string, error) {
	n.mu.Lock()
	v := n.mu.seen
	n.mu.Unlock()
	m, ok := v.members[v.holders[shard]]
	if anew || !ok || m.Name == n.o.Name {
		fresh, err := look(ctx, n.o.Backend)
		if err != nil {
			return "", unreached("find the owner of a shard", err)
		}
		n.mu.Lock()
		n.mu.seen = fresh
		n.mu.Unlock()
		m, ok = fresh.members[fresh.holders[shard]]
	}
	if !ok {
		return "", &fault.Error{
			Kind: fault.ErrUnavailable, What: fmt.Sprintf("find the owner of shard %d", shard), Why: "no node owns it now",
			Do: "try again in some seconds: another node takes it over once the lease of the last owner is over",
		}
	}
	return m.Address, nil
}

// Members are the nodes that live, as this one knows them.
func (n *Node) Members() map[string]Member {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.seen.members
}
