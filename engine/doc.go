// Package engine is the database: it keeps what an agent must remember, and
// finds it again by text, by vector, by scope and by age.
//
// # Model
//
// A [memory.Memory] is a text, a vector, or both, that belongs to a [memory.Scope] of user,
// agent and run. The exact pair (user, agent) is its owner: an ID is unique
// within an owner, and nothing is ever read or found across owners that the
// caller's scope does not name.
//
//	db, err := engine.Open("memories", nil)
//	...
//	_, err = db.Memories().Store(ctx, memory.Memory{
//		Scope: memory.Scope{User: "ada"}, Text: "prefers tea to coffee"}, nil)
//	found, err := db.Memories().Recall(ctx, memory.Query{
//		Scope: memory.Scope{User: "ada"}, Text: "what does she drink?"})
//
// # Transactions
//
// [DB.View] runs a function on a fixed, durable state: it never waits for a
// writer and sees nothing that a crash could take back. [DB.Update] runs a
// function that reads and writes; one runs at a time, and what it wrote is
// committed when the function returns nil, or not at all. The methods of
// [Memories] work on a transaction (tx.Memories()) and on the database itself
// (db.Memories()), where each call is a transaction of its own and prepares its
// input (embedding, analysis, encoding) before it takes the writer lock.
//
// One commit covers the record, every index, the history and the log. A call
// that returns success has its result on disk: a store, an update, a delete,
// and also a store that was found to be a duplicate of an earlier one.
//
// # Failure
//
// A write error of the log or of the store's manifest fails the database: every
// later call returns [ErrFailed] with the cause, the process lives on, and
// reopening recovers everything that was acknowledged. Before a disk is full,
// writes are refused with [ErrDiskFull], which passes when there is room; reads and
// what has begun go on (see Options.DiskReserve and ReadOnly). Errors are values of
// [Error], which say what was being done, why it could not be, and what to do;
// test their kind with errors.Is and the Err variables of this package.
//
// # Lifetimes
//
// A transaction, and what its methods return as iterators, is valid until the
// function that received it returns. Memories, slices and maps that are returned
// belong to the caller. A DB is safe for concurrent use; a Tx is not.
package engine
