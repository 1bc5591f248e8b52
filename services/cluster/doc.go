// Package cluster keeps databases on many machines: each shard is one database over a replicated
// log, and one machine at a time owns it.
//
// # Model
//
// The log of a shard is the truth; the folder of the shard, on the machine that owns it, is what the
// log comes to. A write is acknowledged once a quorum of the log has it. Every batch that the database
// writes, of commits and of its background work, goes to the log, in the order in which it was applied
// ([engine.Log]); so whoever applies the messages of the log in their order has the same database, with
// nothing to derive again.
//
// A [Shard] is owned by who holds its lease. The lease alone fences nobody: a new owner writes an epoch
// record into the log, and from then on the log refuses what an earlier owner sends, since each message
// names the sequence that it expects to follow. A refused owner answers ErrNotOwner, and its folder is
// dropped: the folder may hold batches that no log has.
//
// # What is needed of others
//
// The log, the leases, the objects and the registry are interfaces ([Backend]). Package ram has them in
// RAM, for tests; the module services/cluster/jetstream has them over NATS JetStream.
//
// # What is guaranteed
//
// One writer a shard. An acknowledged write is on a quorum of the log. After any failure a shard is a
// prefix of its commits, in the order of their LSNs. Not guaranteed: transactions over shards; that an
// owner which was paused notices at once that it is none any more (its reads may be as old as the time of a
// lease); writes without a majority.
package cluster
