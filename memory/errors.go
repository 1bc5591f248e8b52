package memory

import "github.com/seed-7aedc3ff/memdb/internal/fault"

// Error says what was being done, why it could not be, and what to do: its fields
// are Kind (one of the Err variables), What, Why, Do, and the Cause of a lower layer, if
// there was one. Every error of a database is one, or that of a context.
type Error = fault.Error

// The kinds of errors, for errors.Is.
var (
	// ErrInvalid: an argument is malformed or over a limit. Nothing was changed.
	ErrInvalid = fault.ErrInvalid
	// ErrScope: neither user, nor agent, nor run was given.
	ErrScope = fault.ErrScope
	// ErrNotFound: no memory with that ID in that scope.
	ErrNotFound = fault.ErrNotFound
	// ErrExists: the ID is taken by a memory with other content, or the name of a note by
	// another note of its owner.
	ErrExists = fault.ErrExists
	// ErrConflict: a compare-and-set found another version.
	ErrConflict = fault.ErrConflict
	// ErrAmbiguous: several owners within the scope have a memory with that ID.
	ErrAmbiguous = fault.ErrAmbiguous
	// ErrRequestID: a request has the ID of another one that the client sent before. Nothing was
	// changed.
	ErrRequestID = fault.ErrRequestID
	// ErrTxTooLarge: a transaction went over engine.MaxTxBytes or engine.MaxTxChanges. It was
	// not committed.
	ErrTxTooLarge = fault.ErrTxTooLarge
	// ErrReadOnly: a write was called in a View, or of a database that was opened with
	// engine.Options.ReadOnly.
	ErrReadOnly = fault.ErrReadOnly
	// ErrTxDone: a transaction was used after its function had returned.
	ErrTxDone = fault.ErrTxDone
	// ErrBusy: the writer lock was not free within engine.Options.LockWait.
	ErrBusy = fault.ErrBusy
	// ErrClosed: the database was closed.
	ErrClosed = fault.ErrClosed
	// ErrNotRetained: a past state was asked for that is not kept, or not yet there.
	ErrNotRetained = fault.ErrNotRetained
	// ErrFellBehind: engine.DB.Changes was to begin, or to go on, with a commit that the log does
	// not have any more. The cause is a *wal.BehindError, which names the oldest that it has.
	ErrFellBehind = fault.ErrFellBehind
	// ErrViewExpired: a call was begun in a View that is older than engine.Options.MaxViewAge.
	ErrViewExpired = fault.ErrViewExpired
	// ErrFailed: the log or the manifest could not be written. Close, mend the
	// cause, reopen: everything that was acknowledged is there. Open returns it where
	// the system refuses what it needs, such as to make the folder.
	ErrFailed = fault.ErrFailed
	// ErrLocked: another process, or this one, holds the folder open.
	ErrLocked = fault.ErrLocked
	// ErrNotDatabase: the folder holds other files and no database.
	ErrNotDatabase = fault.ErrNotDatabase
	// ErrNotOwner: the database is a shard of a cluster that another machine owns, or may own by now.
	// Whether a write that got this error was kept, the owner knows.
	ErrNotOwner = fault.ErrNotOwner
	// ErrUnavailable: the replicated log of a shard has not answered in time, for want of a majority most
	// often. A write that got this error may be kept all the same, once the log answers again; the
	// error says where it was not begun.
	ErrUnavailable = fault.ErrUnavailable
	// ErrNewerLayout: the database was written by a newer memdb.
	ErrNewerLayout = fault.ErrNewerLayout
	// ErrMismatch: an option contradicts what is stored: an analyzer, indexed
	// fields, an embedding model.
	ErrMismatch = fault.ErrMismatch
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = fault.ErrCorrupt
	// ErrDiskFull: a write was refused, and changed nothing, since it would take the
	// disk's last free space (see engine.Options.DiskReserve); or Open did not find the space
	// that it needs. It passes when there is room. A disk that is full all the same
	// fails the database: that is ErrFailed, with the system's error as its cause.
	ErrDiskFull = fault.ErrDiskFull
	// ErrFull: the database holds as many memories as it can.
	ErrFull = fault.ErrFull
	// ErrEmbedder: the embedder failed, or returned vectors that cannot be used: another
	// number of them than of texts, another dimension than it has, or zeros or no numbers.
	ErrEmbedder = fault.ErrEmbedder
	// ErrUnknownAgent: the database was opened with engine.Options.StrictAgents, and something was
	// to be stored for an agent that has no manifest. Nothing was changed.
	ErrUnknownAgent = fault.ErrUnknownAgent
	// ErrSummarizer: the summarizer of a compaction failed, was not done in time, or
	// returned a text that cannot be used: none, more than 1 MiB, or no UTF-8. Nothing was
	// changed.
	ErrSummarizer = fault.ErrSummarizer
	// ErrExtractor: the extractor of entities failed, panicked, was not done in time, or
	// returned what cannot be stored: too many entities, a name without letters.
	ErrExtractor = fault.ErrExtractor
)
