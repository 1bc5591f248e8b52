// Package state is what one reader sees of a database: the tables, indexes and rows as of one
// LSN. It never changes for a reader; the writer has one of its own, with what it has not
// committed yet.
package state

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// MaxLSN sees everything that was ever committed.
const MaxLSN = math.MaxUint64 - 1

// CancelEvery is how many documents a loop handles between looks at its context.
const CancelEvery = 1 << 14

// Tables are what all states of a database share. One writer lets them grow beside the readers,
// and the LSN of a state says which part of them it sees.
type Tables struct {
	Docs   doctable.Table
	Names  *Names
	Fields *Fields
	Words  Words
	Ageing *policy.Part
	// NewestIndex and NewestKeys are those of the newest state: a rebuild replaces them.
	NewestIndex atomic.Pointer[invindex.Index]
	NewestKeys  atomic.Pointer[layout.Keys]
	// Damages are what of the database is known to be lost or unreadable.
	Damages *store.Damages
	// Behind is the first key behind the block that keeps a key from being read.
	Behind func(key []byte) []byte
	// Columns has filters use the columns of numbers whatever the size of the set.
	Columns bool
}

// State is what one reader sees.
type State struct {
	*Tables
	LSN      uint64 // what is read: a read point's, or that of the commit that is being made
	Now      int64  // the clock, fixed when the reader began
	Reader   kv.Reader
	Keys     *layout.Keys
	Index    *invindex.Index
	Postings invindex.Snapshot // doc IDs below its mark may be visible
	Past     bool              // it is older than the mark
	// Lose is told of what cannot be read, and the reader goes on without it; nil: an error
	// ends the reading.
	Lose func(error)
	Own  *Own // of the writer, nil for every other reader
}

// Own is what a writer has changed, and nobody else sees.
type Own struct {
	Names map[layout.Name]uint32 // that were given numbers
	Given *layout.Counters       // with those of its names
	Anew  map[uint64]bool        // the memories, by Seq, whose debts it takes back
	// Committed reads what was committed before.
	Committed kv.Reader
}

// Shared reports whether other readers may see the same state.
func (s *State) Shared() bool { return s.Own == nil && !s.Past }

// Lookup is the number of a name, false if it has none.
func (s *State) Lookup(k layout.Name) (uint32, bool, error) {
	reader := s.Reader
	if s.Own != nil {
		if num, ok := s.Own.Names[k]; ok {
			return num, true, nil
		}
		reader = s.Own.Committed // names are for good, and those of the writer are not there
	}
	return s.Names.Lookup(reader, s.Keys, k)
}

// Without returns nil where the reader goes on without what an error says cannot be read.
func (s *State) Without(err error) error {
	if s.Lose == nil || !store.Unreadable(err) {
		return err
	}
	s.Damages.Met(err)
	s.Lose(err)
	return nil
}

// Scan visits the keys of a range. A reader that goes on without what cannot be read is led around damaged blocks, and
// its visits may fail for the same reason.
func (s *State) Scan(lower, upper []byte, visit func(key, value []byte) error) error {
	if s.Lose == nil {
		return kv.Scan(s.Reader, lower, upper, visit)
	}
	return store.ScanAround(s.Reader, lower, upper, func(key, value []byte) error { return s.Without(visit(key, value)) }, func(from []byte, err error) ([]byte, error) {
		s.Lose(store.Error("read the store", err))
		return s.Behind(from), nil
	})
}

// TextError says what is to be done about an error of the text index.
func TextError(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, invindex.ErrVersion):
		return &fault.Error{Kind: fault.ErrNewerLayout, What: doing, Cause: err, Do: "use a newer memdb"}
	case errors.Is(err, invindex.ErrCorrupt), errors.Is(err, kv.ErrNotFound), store.Corrupted(err):
		return &fault.Error{Kind: fault.ErrCorrupt, What: doing, Cause: err, Do: "rebuild the text index: memdbctl rebuild text"}
	}
	return err
}

// Since is the time from an instant in Unix milliseconds to the reader's clock.
func (s *State) Since(ms int64) time.Duration { return Elapsed(s.Now, ms) }

// Elapsed is the time from one to another in Unix milliseconds.
func Elapsed(now, from int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(now-from, -most), most)) * time.Millisecond
}
