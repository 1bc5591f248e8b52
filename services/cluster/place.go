package cluster

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

const (
	// DefaultShards is how many shards a cluster has where nothing else is said when it is made.
	DefaultShards = 64
	// MaxShards bounds them: each is a database with files and goroutines of its own.
	MaxShards = 4096
)

// ShardOf is the shard of an owner in a cluster of so many: by the user, or by the agent of what has
// no user. So all that a user has is in one shard, whatever the agent. What has neither is in shard
// 0, where the IDs of its memories are unique, too. A cluster keeps data where this says, so it never
// changes.
func ShardOf(o scope.Owner, shards int) int {
	switch {
	case o.User != "":
		return int(xxh3.HashString("u"+o.User) % uint64(shards))
	case o.Agent != "":
		return int(xxh3.HashString("a"+o.Agent) % uint64(shards))
	}
	return 0
}

// Admit returns an error for an owner of another shard, for engine.Options.Admit: the last of the
// checks that what an owner has is in one place.
func Admit(shard, shards int) func(o scope.Owner) error {
	return func(o scope.Owner) error {
		of := ShardOf(o, shards)
		if of == shard {
			return nil
		}
		return &fault.Error{
			Kind: fault.ErrInvalid, What: "store in a shard", Why: fmt.Sprintf("what is to be stored belongs to shard %d, and this is shard %d", of, shard),
			Do: "ask a node of the cluster without naming a shard",
		}
	}
}

// Place is the member that is to own a shard: of those given the one whose name and the shard hash
// highest (rendezvous hashing, Thaler and Ravishankar 1998). So a member that comes or goes moves the
// shards that it gets or had, and no other one. Empty without members.
func Place(shard int, members []string) string {
	best, most := "", uint64(0)
	for _, m := range members {
		b := binary.BigEndian.AppendUint32([]byte(m), uint32(shard))
		if h := xxh3.Hash(b); best == "" || h > most || h == most && m < best {
			best, most = m, h
		}
	}
	return best
}
