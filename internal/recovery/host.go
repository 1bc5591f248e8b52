package recovery

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Host is the database that is checked, or recovered.
type Host interface {
	// View calls fn with the newest state that callers see.
	View(ctx context.Context, fn func(*State) error) error
	// Newest is the newest state of the store, read through r: all that was applied.
	Newest(r kv.Reader) *State
	// Update calls fn with a transaction, and returns when what it wrote is durable.
	Update(ctx context.Context, fn func(*State, *records.Writer) error) error
	// Bare applies a batch that changes nothing that a reader can see.
	Bare(fill func(*pebble.Batch) error) error
	// Republish makes what background work did to the indexes visible to new readers. Nobody else writes.
	Republish() error
	Store() *store.Store
	// Parts are the structures beside memories.
	Parts() []part.Part
	// Erasing reports whether an erasure has begun and is not done.
	Erasing() bool
}

// State is one state of the database as recovery reads it.
type State struct {
	records.View
	// Part is the state as parts read it.
	Part part.View
	// Name gives a name that cannot be read a new number. It is nil unless the database is a copy of what is left of
	// another.
	Name func(layout.Name) (uint32, error)
}
