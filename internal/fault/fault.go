// Package fault defines the errors of the database: a few kinds, and one type that says what
// was being done, why it failed, and what to do next. Package engine exports both to
// callers.
package fault

import (
	"context"
	"errors"
	"strings"
)

// The kinds of errors, for errors.Is. The database returns an *Error that wraps one of
// them.
var (
	// ErrInvalid: an argument is malformed or over a limit. The call changed nothing.
	ErrInvalid = errors.New("invalid argument")
	// ErrScope: a scope names no user, no agent and no run.
	ErrScope = errors.New("At least one of user_id, agent_id, or run_id must be provided") //nolint:staticcheck // a documented sentence of the interface
	// ErrNotFound: the scope has no memory with that ID.
	ErrNotFound = errors.New("not found")
	// ErrExists: another memory, with other content, has that ID, or that name of a note.
	ErrExists = errors.New("already exists")
	// ErrConflict: a compare-and-set found another version than the caller expected.
	ErrConflict = errors.New("conflict")
	// ErrRequestID: a request has the ID of another one that the client sent before. Nothing was
	// changed.
	ErrRequestID = errors.New("request ID used for another request")
	// ErrAmbiguous: several owners in the scope have a memory with that ID.
	ErrAmbiguous = errors.New("ambiguous")
	// ErrTxTooLarge: a transaction went over MaxTxBytes or MaxTxChanges, and was not
	// committed.
	ErrTxTooLarge = errors.New("transaction too large")
	// ErrReadOnly: a write was called in a View, or on a database that was opened with
	// Options.ReadOnly.
	ErrReadOnly = errors.New("read only")
	// ErrTxDone: a transaction was used after its function had returned.
	ErrTxDone = errors.New("transaction is over")
	// ErrBusy: the writer lock was not free within Options.LockWait.
	ErrBusy = errors.New("busy")
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("closed")
	// ErrNotRetained: the caller asked for a past state that the database no longer keeps,
	// or for a state that does not exist yet.
	ErrNotRetained = errors.New("not retained")
	// ErrFellBehind: a reader of changes asked for commits that the log does not keep any
	// longer. The cause is a *wal.BehindError.
	ErrFellBehind = errors.New("fell behind")
	// ErrViewExpired: the View in which a call was begun is older than Options.MaxViewAge.
	ErrViewExpired = errors.New("view expired")
	// ErrFailed: the log or the manifest could not be written, and the database takes no
	// more writes. Close it, remove the cause, and open it again: every acknowledged
	// commit is there. Open returns it where the system refuses what it needs.
	ErrFailed = errors.New("database failed")
	// ErrLocked: this process or another one has the folder open.
	ErrLocked = errors.New("locked")
	// ErrNotDatabase: the folder holds other files and no database.
	ErrNotDatabase = errors.New("not a memdb database")
	// ErrNotOwner: the database is a shard that another machine owns, or may own. What a write that was
	// told so has changed is not kept here; the owner knows.
	ErrNotOwner = errors.New("not the owner")
	// ErrUnavailable: the replicated log of a shard has not answered in time. What a write had changed may
	// be kept all the same.
	ErrUnavailable = errors.New("unavailable")
	// ErrNewerLayout: the database was written by a newer memdb.
	ErrNewerLayout = errors.New("newer layout")
	// ErrMismatch: an option contradicts what the database stores: an analyzer, the indexed
	// fields, an embedding model.
	ErrMismatch = errors.New("does not match the database")
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = errors.New("damaged")
	// ErrDiskFull: a write would take the disk's last free space (see Options.DiskReserve),
	// or Open found too little free space. The call changed nothing, and succeeds once
	// there is room. A disk that becomes full during a write is ErrFailed instead, with
	// the system's error as its cause.
	ErrDiskFull = errors.New("disk full")
	// ErrFull: all document numbers are in use, so the database takes no more memories; or a
	// database in one file has no room below Options.MaxFileBytes.
	ErrFull = errors.New("full")
	// ErrEmbedder: the embedder failed, or returned vectors that cannot be used.
	ErrEmbedder = errors.New("the embedder failed")
	// ErrUnknownAgent: Options.StrictAgents is set, and something was to be stored for an
	// agent that has no manifest. Nothing was changed.
	ErrUnknownAgent = errors.New("the agent is not registered")
	// ErrSummarizer: a summarizer failed, or returned a text that cannot be used. Nothing
	// was changed.
	ErrSummarizer = errors.New("the summarizer failed")
	// ErrExtractor: an extractor of entities failed, hung, or returned what cannot be stored.
	ErrExtractor = errors.New("the extractor failed")
)

// Error says what was being done, why it failed, and what to do next.
type Error struct {
	Kind error  // one of the Err variables
	What string // what was being done, to which thing
	Why  string // why it failed; if empty, the text of Kind stands in its place
	Do   string // what to do next; may be empty
	// Cause is the error of a lower layer, if there was one.
	Cause error
	// Public, if set, is all that a client of a server is told: the other parts name hosts, or have what
	// another service said.
	Public string
}

// Error returns "What: Why: Cause; Do", without the parts that are empty.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	b.WriteString(": ")
	if e.Why != "" {
		b.WriteString(e.Why)
	} else {
		b.WriteString(e.Kind.Error())
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(CauseText(e.Cause))
	}
	if e.Do != "" {
		b.WriteString("; ")
		b.WriteString(e.Do)
	}
	return b.String()
}

// CauseText returns the first line of an error. The store appends further lines, for its
// own developers, to some errors.
func CauseText(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Unwrap returns the kind and, if there is one, the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Invalid returns an Error of the kind ErrInvalid.
func Invalid(what, why, do string) error {
	return &Error{Kind: ErrInvalid, What: what, Why: why, Do: do}
}

// Within returns an error of what was done within something else, as an Error that says
// so. The error of a context stays as it is. One of another package, of the system most
// often, gets the kind ErrFailed.
func Within(what string, err error) error {
	inner, own := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return nil
	case own:
		e := *inner
		e.What = what + ": " + e.What
		return &e
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return &Error{Kind: ErrFailed, What: what, Cause: err}
}

// Told reports whether an error of background work is one that the log has heard of already.
func Told(err error) bool {
	return errors.Is(err, ErrFailed) || errors.Is(err, ErrDiskFull) || errors.Is(err, ErrNotOwner) || errors.Is(err, ErrUnavailable)
}
