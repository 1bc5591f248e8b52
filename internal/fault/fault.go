// Package fault has the errors of the database: a few kinds, and one type that says what
// was being done, why it could not be, and what to do next. Package engine re-exports
// both.
package fault

import (
	"errors"
	"strings"
)

// The kinds of errors, for errors.Is. What is returned is an *Error that wraps
// one of them.
var (
	// ErrInvalid: an argument is malformed or over a limit. Nothing was changed.
	ErrInvalid = errors.New("invalid argument")
	// ErrScope: neither user, nor agent, nor run was given.
	ErrScope = errors.New("At least one of user_id, agent_id, or run_id must be provided") //nolint:staticcheck // a documented sentence of the interface
	// ErrNotFound: no memory with that ID in that scope.
	ErrNotFound = errors.New("not found")
	// ErrExists: the ID is taken by a memory with other content.
	ErrExists = errors.New("already exists")
	// ErrConflict: a compare-and-set found another version.
	ErrConflict = errors.New("conflict")
	// ErrAmbiguous: several owners within the scope have a memory with that ID.
	ErrAmbiguous = errors.New("ambiguous")
	// ErrTxTooLarge: a transaction went over MaxTxBytes or MaxTxChanges. It was
	// not committed.
	ErrTxTooLarge = errors.New("transaction too large")
	// ErrReadOnly: a write was called in a View, or of a database that was opened with
	// Options.ReadOnly.
	ErrReadOnly = errors.New("read only")
	// ErrTxDone: a transaction was used after its function had returned.
	ErrTxDone = errors.New("transaction is over")
	// ErrBusy: the writer lock was not free within Options.LockWait.
	ErrBusy = errors.New("busy")
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("closed")
	// ErrNotRetained: a past state was asked for that is not kept, or not yet there.
	ErrNotRetained = errors.New("not retained")
	// ErrFailed: the log or the manifest could not be written. Close, mend the
	// cause, reopen: everything that was acknowledged is there.
	ErrFailed = errors.New("database failed")
	// ErrLocked: another process, or this one, holds the folder open.
	ErrLocked = errors.New("locked")
	// ErrNotDatabase: the folder holds other files and no database.
	ErrNotDatabase = errors.New("not a memdb database")
	// ErrNewerLayout: the database was written by a newer memdb.
	ErrNewerLayout = errors.New("newer layout")
	// ErrMismatch: an option contradicts what is stored: an analyzer, indexed
	// fields, an embedding model.
	ErrMismatch = errors.New("does not match the database")
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = errors.New("damaged")
	// ErrDiskFull: a write was refused, and changed nothing, since it would take the
	// disk's last free space (see Options.DiskReserve); or Open did not find the space
	// that it needs. It passes when there is room. A disk that is full all the same
	// fails the database: that is ErrFailed, with the system's error as its cause.
	ErrDiskFull = errors.New("disk full")
	// ErrFull: the database holds as many memories as it can.
	ErrFull = errors.New("full")
)

// Error says what was being done, why it could not be, and what to do.
type Error struct {
	Kind error  // one of the Err variables
	What string // what was being done, to which thing
	Why  string // why it could not be done
	Do   string // what to do about it; may be empty
	// Cause is the error of a lower layer, if there was one.
	Cause error
}

// Error has the form "what: why; what to do".
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

// CauseText is the first line of a cause: the store adds others for its own use.
func CauseText(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Unwrap gives the kind and the cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Invalid is an error of the kind ErrInvalid.
func Invalid(what, why, do string) error {
	return &Error{Kind: ErrInvalid, What: what, Why: why, Do: do}
}
