// Package replication makes a folder follow a database: it applies the batches that the database wrote, in their
// order, and derives nothing again.
//
// A Replica also shows what it has applied. A database that reads loads each state beside the reads of the one before,
// and takes its place. A Standby only applies. Both hold one followed store, and both may become a database of
// their own: see [Promote].
package replication
