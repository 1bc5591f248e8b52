// Package wal is the log of what a database has written, in order: frames, which hold the batches
// themselves, and changes, which say what a commit did.
//
// # Frames
//
// All that a database writes reaches its store in batches. Each batch has a number, one more than the
// one before, and a [Frame] holds some batches that follow each other. Whoever applies them all in
// their order, to an empty store, has the same database, with nothing to derive again: archives,
// replicas and restores to a past LSN stand on that.
//
// A database that was not followed from its first batch on, or of which batches were lost, begins
// with a base: the frames of [Base] hold everything that the store had when it had applied one batch,
// and the frames behind that batch follow them.
//
// # Timelines
//
// A database that is restored to an earlier LSN goes on with other commits under the LSNs that
// followed. It gets another [Timeline], and so does a replica that is promoted. A frame says which
// timeline it is of, and is never taken for one of another.
//
// # Segments
//
// A segment is a file of frames, one after the other, which docs/format/segments.md describes. A frame
// is written with one call and synced; what a crash leaves of the last one is not a frame.
package wal
