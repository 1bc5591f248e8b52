// Package jetstream is the backend of a cluster over NATS JetStream: a stream for the log of each shard, and
// buckets for leases, objects, the registry and who is alive.
//
// A stream has three replicas in files, one subject, and takes messages by the sequence that they follow and by
// their IDs. Servers are to sync each write (sync_interval: always): what a quorum had acknowledged is lost by a
// power cut otherwise. [Connect] asks the servers for that by their system account, and refuses others unless it is
// told that less is enough.
package jetstream
