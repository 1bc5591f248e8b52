package cluster

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// shards opens the shards of a node: see [Shard] and [Standby].
type shards struct {
	n *Node

	mu       sync.Mutex
	standbys map[int]*Standby
}

func newShards(n *Node) opener { return &shards{n: n, standbys: map[int]*Standby{}} }

// leastBudget is what the caches of a shard get at least, in bytes.
const leastBudget = 16 << 20

// options are those of a shard.
func (s *shards) options(shard int) ShardOptions {
	o, e := &s.n.o, s.n.o.Engine
	e.Admit = Admit(shard, s.n.facts.Shards)
	if e.MemoryBudget > 0 { // a node alone has all of them, and most have fewer
		e.MemoryBudget = max(leastBudget, 2*e.MemoryBudget/int64(s.n.facts.Shards))
	}
	return ShardOptions{
		Backend: o.Backend, Cluster: s.n.facts.ID, Number: shard, Shards: s.n.facts.Shards, Node: o.Name,
		Dir: filepath.Join(o.Dir, fmt.Sprintf("%04d", shard)), Engine: &e, LogWait: o.LogWait, SnapshotBytes: o.SnapshotBytes, Logger: o.Logger,
	}
}

// open owns a shard, with the folder that was prepared where there is one.
func (s *shards) open(ctx context.Context, shard int) (owned, error) {
	// An opening that finds the lease taken gives its standby up; so it is looked for first.
	if err := isFree(ctx, s.n.o.Backend.Leases(), shard); err != nil {
		return nil, err
	}
	var (
		of  *Shard
		err error
	)
	if by := s.take(shard); by != nil {
		of, err = by.Own(ctx)
	} else {
		of, err = OpenShard(ctx, s.options(shard))
	}
	if err != nil {
		return nil, err
	}
	return &ownedShard{Shard: of}, nil
}

// prepare follows the log of a shard until it is open, or given up.
func (s *shards) prepare(ctx context.Context, shard int) error {
	s.mu.Lock()
	by := s.standbys[shard]
	s.mu.Unlock()
	if by == nil {
		var err error
		if by, err = Follow(ctx, s.options(shard)); err != nil {
			return err
		}
		s.mu.Lock()
		s.standbys[shard] = by
		s.mu.Unlock()
	}
	return by.CatchUp(ctx)
}

// follows are the shards that are followed.
func (s *shards) follows() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.standbys))
}

// giveUp ends the following of a shard.
func (s *shards) giveUp(shard int) error {
	if by := s.take(shard); by != nil {
		return by.Close()
	}
	return nil
}

func (s *shards) take(shard int) *Standby {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.standbys[shard]
	delete(s.standbys, shard)
	return by
}

// ownedShard is a shard as a node has it.
type ownedShard struct {
	*Shard

	mu       sync.Mutex
	sequence uint64    // of the newest message when State was asked last
	since    time.Time // since when something waits behind that message; zero where nothing does
}

// Lost implements owned.
func (s *ownedShard) Lost() <-chan struct{} { return s.Done() }

// State implements owned. The lag is counted from the first call that has found something waiting behind
// the message that is the newest still.
func (s *ownedShard) State() State {
	st, now := s.Status(), clock.System()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case st.UnsentBatches == 0:
		s.since = time.Time{}
	case s.since.IsZero() || st.Sequence != s.sequence:
		s.since = now
	}
	s.sequence = st.Sequence
	out := State{Epoch: st.Epoch, LSN: st.LSN, Published: uint64(st.Publishes), Unsent: st.UnsentBytes}
	if !s.since.IsZero() {
		out.LagMS = now.Sub(s.since).Milliseconds()
	}
	return out
}

// Verify implements owned.
func (s *ownedShard) Verify(ctx context.Context) (lsn uint64, err error) {
	v, err := s.Shard.Verify(ctx)
	if err == nil && !v.OK {
		err = &fault.Error{
			Kind: fault.ErrCorrupt, What: s.o.doing("verify"), Why: "the copy that is made of its log differs: " + strings.Join(v.Problems, "; "),
			Do: "have another node own the shard (memdbctl cluster move), which makes its folder of the log, and report this",
		}
	}
	return v.LSN, err
}
