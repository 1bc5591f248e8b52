// Package shipping reads and writes what leaves a store for another one: batches in frames of a log, and
// bases, which are the whole store at one batch.
//
// Archives, replicated logs, replicas and restores share it. It knows the keys that all of them look at:
// the records of commits, the mark of a replicated log, the end of an erasure.
package shipping
