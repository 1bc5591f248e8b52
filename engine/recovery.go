package engine

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/recovery"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Report is the result of a check.
type Report = recovery.Report

// Problem is something that a check has found wrong.
type Problem = recovery.Problem

// NewProblem is what an error says that kept a database from being opened or checked.
func NewProblem(err error) Problem {
	return Problem{Kind: "database", What: err.Error(), Remedy: recovery.RemedyRescue}
}

// The indexes that Rebuild makes anew.
const (
	IndexText    = recovery.IndexText    // of words and filters
	IndexVectors = recovery.IndexVectors // of each vector space
	IndexGraph   = recovery.IndexGraph   // the keys by which entities and relations are found, and their counts
	IndexAll     = "all"                 // these three, one after the other
)

// Check reads the whole store and compares each structure with the memories that
// it must follow from. It runs on one state, beside readers and writers, and
// reports damage as problems, not as an error.
func (db *DB) Check(ctx context.Context) (Report, error) {
	return recovery.Check(ctx, (*recoveryHost)(db), false)
}

// CheckDeep is Check, and looks for a sample of each space's own vectors: by the index, as
// a recall does, and by comparing with all. A space whose index finds less than .8 of what
// is closest is a problem. It takes up to 200 comparisons with all vectors of a space.
func (db *DB) CheckDeep(ctx context.Context) (Report, error) {
	return recovery.Check(ctx, (*recoveryHost)(db), true)
}

// recoveryHost is a database as recovery needs it.
type recoveryHost DB

var _ recovery.Host = (*recoveryHost)(nil)

func (h *recoveryHost) View(ctx context.Context, fn func(*recovery.State) error) error {
	return (*DB)(h).view(ctx, nil, func(tx *Tx) error { return fn(tx.recovering()) })
}

func (h *recoveryHost) Newest(r kv.Reader) *recovery.State {
	return (&Tx{db: (*DB)(h), state: (*DB)(h).stateOf(r, state.MaxLSN)}).recovering()
}

func (h *recoveryHost) Update(ctx context.Context, fn func(*recovery.State, *records.Writer) error) error {
	db := (*DB)(h)
	return db.acknowledge(db.update(ctx, func(tx *Tx) error { return fn(tx.recovering(), &tx.rec) }))
}

func (h *recoveryHost) Bare(fill func(*pebble.Batch) error) error { return (*DB)(h).applyBare(fill) }
func (h *recoveryHost) Republish() error                          { return (*DB)(h).republish() }

func (h *recoveryHost) Store() *store.Store { return h.store }
func (h *recoveryHost) Parts() []part.Part  { return h.parts }
func (h *recoveryHost) Erasing() bool       { return h.erasing.Load() != nil }
