package changefeed

import (
	"context"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Host is the database whose changes are read.
type Host interface {
	// View calls fn with the newest state that callers see.
	View(ctx context.Context, fn func(Reader) error) error
	// Usable returns why the database answers no call, nil if it does.
	Usable(doing string) error
	// Ending is closed when the database begins to close.
	Ending() <-chan struct{}
	// After returns whether a state of an LSN or a later one can be seen, and otherwise a channel that is closed
	// when a newer state can.
	After(lsn uint64) (news <-chan struct{}, there bool)
	// Durable is the LSN up to which commits are durable. SyncEvery is how long a commit may be seen before it
	// is, 0 where it never is.
	Durable() uint64
	SyncEvery() time.Duration
	// Opened is the LSN of the newest commit when the database was opened.
	Opened() uint64
	// Parts are the structures beside memories.
	Parts() []part.Part
	// Running are the readers of the database that run.
	Running() *Running
}

// Reader is one state of the database.
type Reader interface {
	State() *state.State
	// Part is the state as parts read it.
	Part() part.View
	// Memory is a version as an export has it, with the confidence that was stored with it. lost reports that
	// one of its vectors is gone.
	Memory(rec *layout.Record, v layout.Version, vectors bool) (m memory.Memory, lost bool, err error)
}
