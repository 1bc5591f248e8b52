package replication_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// memLog is a log in memory.
type memLog struct {
	mu     sync.Mutex
	frames []*wal.Frame
}

func (l *memLog) Mark() engine.LogMark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.LogMark{Sequence: uint64(len(l.frames))}
}

func (l *memLog) Append(_ context.Context, f *wal.Frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames = append(l.frames, cloned(f))
	return nil
}

func (l *memLog) all() []*wal.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.frames)
}

// TestStandby verifies that a standby that applies a log has what its owner has, goes on behind a reopening, rewrites
// its files after an erasure, and becomes a database of its own.
func TestStandby(t *testing.T) {
	fs, l := vfs.NewMem(), &memLog{}
	db, err := engine.OpenLogged(fsys.On(fs, "owner"), engine.LogOptions{Log: l}, &engine.Options{MemoryBudget: testdb.Budget})
	testdb.NoError(t, err)
	t.Cleanup(func() { testdb.Close(t, db) })
	storeSome(t, db, 0, 10)

	applied := 0
	open := func() *engine.Standby {
		t.Helper()
		s, err := engine.OpenStandby(fsys.On(fs, "standby"), &engine.StandbyOptions{MemoryBudget: testdb.Budget})
		testdb.NoError(t, err)
		return s
	}
	// apply applies the log until the standby has what the owner has, which may write meanwhile.
	apply := func(s *engine.Standby) {
		t.Helper()
		for {
			of, err := db.Digest(t.Context())
			testdb.NoError(t, err)
			for _, f := range l.all()[applied:] {
				testdb.NoError(t, s.Apply(cloned(f)))
				applied++
			}
			testdb.NoError(t, s.Sync())
			has, err := s.Digest(t.Context())
			testdb.NoError(t, err)
			if has.Number != of.Number {
				continue
			}
			if has != of {
				t.Errorf("the standby has %+v, the owner %+v", has, of)
			}
			return
		}
	}
	s := open()
	if d, err := s.Digest(t.Context()); err != nil || d != (engine.Digest{}) {
		t.Errorf("of nothing: %+v, %v", d, err)
	}
	if m, at, err := s.Position(); err != nil || m != (engine.LogMark{}) || at != (wal.Position{}) {
		t.Errorf("of nothing: %+v, %+v, %v", m, at, err)
	}
	apply(s)
	_, err = engine.OpenStandby(fsys.On(fs, "standby"), nil)
	testdb.WantError(t, "open it twice", err, fault.ErrLocked)
	gap := cloned(l.all()[0])
	gap.First, gap.Last = gap.First+1000, gap.Last+1000
	testdb.WantError(t, "a gap", s.Apply(gap), fault.ErrNotRetained)
	closes(t, s)

	s = open()
	if s.Erased() {
		t.Error("nothing was erased")
	}
	testdb.NoError(t, s.Purge(t.Context()))
	_, err = db.Erase(t.Context(), engine.EraseQuery{User: "u"})
	testdb.NoError(t, err)
	apply(s)
	if !s.Erased() {
		t.Error("an erasure has ended, and the standby does not know")
	}
	closes(t, s)
	s = open() // which has noted it
	testdb.NoError(t, s.Purge(t.Context()))
	if s.Erased() {
		t.Error("the files are rewritten")
	}
	closes(t, s)

	p, err := engine.PromoteReplica(fsys.On(fs, "standby"))
	if err != nil || p.LSN == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	own, err := openOn(fs, "standby", engine.Options{})
	testdb.NoError(t, err)
	testdb.Check(t, own, 0)
	storeSome(t, own, 100, 1)
	testdb.Close(t, own)
	_, err = engine.OpenStandby(fsys.On(fs, "standby"), nil)
	testdb.WantError(t, "a standby of a database of its own", err, fault.ErrExists)
}
