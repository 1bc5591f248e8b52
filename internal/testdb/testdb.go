// Package testdb gives the tests of a structure a database to run on: in memory, with a clock
// that the test moves, and closed when the test ends. The tests see the structure as a program
// does, through engine's public face.
package testdb

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	// Budget keeps the caches of the many databases of tests small.
	Budget = 32 << 20
	// Patience is how long a test waits for what must happen soon.
	Patience = 2 * time.Minute
	// most is how many memories List reads.
	most = 10_000
)

// Clock is a clock that only the test moves. It begins at noon of 1 March 2026.
type Clock struct{ ms atomic.Int64 }

// NewClock is a Clock at its beginning.
func NewClock() *Clock {
	c := &Clock{}
	c.ms.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

// Now is what [engine.Options] take as Clock.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// Open opens the database "db" on files, which may hold one already, and closes it when the test
// ends.
func Open(t testing.TB, files vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	if o.MemoryBudget == 0 {
		o.MemoryBudget = Budget
	}
	db, err := engine.Open(fsys.On(files, "db"), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, db) })
	return db
}

// New is Open on files of its own, in memory.
func New(t testing.TB, o engine.Options) *engine.DB {
	t.Helper()
	return Open(t, vfs.NewMem(), o)
}

// Keys returns the keys of a server, none so far, in a database of their own.
func Keys(t testing.TB, now func() time.Time) *apikeys.Keys {
	t.Helper()
	return apikeys.Open(New(t, engine.Options{}).APIKeys(), now)
}

// Close closes a database, once or again.
func Close(t testing.TB, db *engine.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error("close:", err)
	}
}

// Store stores a memory that must be new.
func Store(t testing.TB, m engine.Memories, mem memory.Memory) memory.Stored {
	t.Helper()
	st, err := m.Store(t.Context(), mem, nil)
	if err != nil || !st.Stored {
		t.Fatalf("store %+v: %+v, %v", mem, st, err)
	}
	return st
}

// List lists all memories of a scope.
func List(t testing.TB, m engine.Memories, s memory.Scope) []memory.Memory {
	t.Helper()
	page, err := m.List(t.Context(), memory.ListQuery{Scope: s, Limit: most})
	if err != nil || page.Next != "" {
		t.Fatalf("list %+v: next %q, %v", s, page.Next, err)
	}
	return page.Memories
}

// Check runs the database's check, which must find n memories and nothing wrong.
func Check(t testing.TB, db *engine.DB, n int) {
	t.Helper()
	r, err := db.Check(t.Context())
	if err != nil || !r.OK || r.Memories != n {
		t.Fatalf("check: %+v, %v; %d memories are expected", r, err, n)
	}
}

// Stats are the figures of a database.
func Stats(t testing.TB, db *engine.DB) engine.Stats {
	t.Helper()
	s, err := db.Stats(t.Context())
	NoError(t, err)
	return s
}

// SetPolicy changes the stored policy.
func SetPolicy(t testing.TB, db *engine.DB, change func(p *policy.Policy)) {
	t.Helper()
	p, err := db.Policies().Show(t.Context())
	if err == nil {
		change(&p)
		_, err = db.Policies().Set(t.Context(), p)
	}
	NoError(t, err)
}

// Compact has the database forget what its policy does not keep.
func Compact(t testing.TB, db *engine.DB) {
	t.Helper()
	_, err := db.Compact(t.Context())
	NoError(t, err)
}

// NoError ends the test at an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantError compares an error with the kind that is wanted.
func WantError(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error %v, want %v", what, err, kind)
	}
}

// Equal compares what a test got.
func Equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Soon waits until something is so that the database brings about by itself.
func Soon(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, Patience)
		}
	}
}
