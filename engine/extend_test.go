package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// An extended is a memory that lives while it is read.
type extended struct {
	*testing.T
	db    *DB
	clock *testClock
	id    string
	seq   uint64
}

const leaseOf = 10 * time.Minute

func newExtended(t *testing.T, fs vfs.FS) *extended {
	clock := newTestClock()
	db := openTest(t, fs, Options{Clock: clock.now})
	s := mustStore(t, db.Memories(), memory.Memory{ID: "m", Scope: memory.Scope{User: "ada"}, Text: "likes tea", ExpiresAt: clock.now().Add(leaseOf)})
	return &extended{t, db, clock, "m", s.Seq}
}

func (x *extended) extend() time.Time {
	x.Helper()
	until := x.clock.now().Add(leaseOf)
	if err := x.db.Memories().Extend(x.Context(), map[uint64]time.Time{x.seq: until, 1 << 40: until}); err != nil {
		x.Fatal(err)
	}
	return until
}

// expires verifies by every kind of read that the memory lives until a time, and no longer.
func (x *extended) expires(what string, at time.Time) {
	x.Helper()
	now := x.clock.now()
	defer func() { x.clock.ms.Store(now.UnixMilli()) }()
	mm, ada := x.db.Memories(), memory.Scope{User: "ada"}
	for _, late := range []time.Duration{-time.Millisecond, 0} {
		x.clock.ms.Store(at.Add(late).UnixMilli())
		want := 1
		if late == 0 {
			want = 0
		}
		m, err := mm.Get(x.Context(), ada, x.id)
		if got := err == nil; got != (want == 1) || got && !m.ExpiresAt.Equal(at) {
			x.Errorf("%s, %v after its end: get %v with the end %v, want %v", what, late, err, m.ExpiresAt, at)
		}
		if got := len(mustList(x, mm, ada)); got != want {
			x.Errorf("%s, %v after its end: the list has %d", what, late, got)
		}
		for name, q := range map[string]memory.Query{
			"recall":           {Scope: ada, Text: "tea", NoTouch: true},
			"recall by expiry": {Scope: ada, Text: "tea", NoTouch: true, Filter: filter.Eq("expires_at", at.Format(time.RFC3339Nano))},
		} {
			if got := len(mustRecall(x, mm, q)); got != want {
				x.Errorf("%s, %v after its end: %s finds %d", what, late, name, got)
			}
		}
	}
}

func (x *extended) reopen(fs vfs.FS) {
	x.Helper()
	x.db = openTest(x.T, fs, Options{Clock: x.clock.now})
}

// TestExtend verifies that a memory which is extended by a thousand reads lives until the last of them
// says, that neither its history nor updated_at nor more than a few commits come of it, and that a sweep
// deletes it afterwards.
func TestExtend(t *testing.T) {
	fs := vfs.NewMem()
	x := newExtended(t, fs)
	before, lsn := mustGet(t, x.db.Memories(), memory.Scope{}, x.id), x.db.LSN()
	began, until := time.Now(), time.Time{}
	for range 1000 {
		x.clock.advance(9 * time.Minute)
		until = x.extend()
	}
	if n, most := x.db.LSN()-lsn, uint64(time.Since(began)/touchEvery)+1; n > most {
		t.Errorf("%d commits of 1000 reads, want at most %d", n, most)
	}
	x.expires("extended", until)
	mustExpire(t, x.db)
	if err := x.db.FlushTouches(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeTest(t, x.db)
	x.reopen(fs)
	x.expires("reopened", until)
	after := mustGet(t, x.db.Memories(), memory.Scope{}, x.id)
	if h := mustHistory(t, x.db.Memories(), memory.Scope{}, x.id); len(h) != 1 || !after.UpdatedAt.Equal(before.UpdatedAt) || after.AccessCount != 0 {
		t.Errorf("%d entries of its history; %+v, before %+v", len(h), after, before)
	}
	mustCheck(t, x.db, 1)
	x.clock.ms.Store(until.UnixMilli())
	if x.extend(); len(mustList(t, x.db.Memories(), memory.Scope{User: "ada"})) > 0 {
		t.Error("what has expired is extended")
	}
	mustExpire(t, x.db)
	mustCheck(t, x.db, 0)
}

// TestExtendAndCrash verifies that a crash loses the extensions that were not committed, and no others.
func TestExtendAndCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	x := newExtended(t, fs)
	x.clock.advance(5 * time.Minute)
	until := x.extend()
	if err := x.db.FlushTouches(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.clock.advance(time.Minute)
	x.extend()
	x.reopen(fs.CrashClone(vfs.CrashCloneCfg{}))
	x.expires("after a crash", until)
	mustCheck(t, x.db, 1)
}

// TestExtendBesideChanges verifies that a new version keeps the expiry, also what a read adds while its
// transaction runs, unless it sets another one; and that a transaction which fails changes nothing of it.
func TestExtendBesideChanges(t *testing.T) {
	fs := vfs.NewMem()
	x := newExtended(t, fs)
	change := func(p memory.Patch, fail error) (until time.Time) {
		t.Helper()
		x.clock.advance(time.Minute)
		x.extend()
		err := x.db.Update(t.Context(), func(tx *Tx) error {
			if _, err := tx.Memories().Update(t.Context(), memory.Scope{}, x.id, p); err != nil {
				return err
			}
			x.clock.advance(time.Minute)
			until = x.extend()
			return fail
		})
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
		return until
	}
	both := func(what string, until time.Time) {
		t.Helper()
		x.expires(what, until)
		closeTest(t, x.db)
		x.reopen(fs)
		x.expires(what+", reopened", until)
		mustCheck(t, x.db, 1)
	}
	both("importance", change(memory.Patch{Importance: new(0.9)}, nil))
	both("text", change(memory.Patch{Text: new("likes green tea")}, nil))
	both("failed", change(memory.Patch{Text: new("likes no tea")}, errors.New("failed")))
	x.expires("extended after a failure", x.extend())
	end := x.clock.now().Add(3 * time.Minute)
	change(memory.Patch{ExpiresAt: &end}, nil)
	both("an end of its own", end)
	both("extended again", x.extend())
}

// TestExtendedMove verifies that memories keep what was added to their expiry when their documents move
// to another chunk.
func TestExtendedMove(t *testing.T) {
	fs, clock := vfs.NewMem(), newTestClock()
	o := rebuildOptions()
	o.Clock = clock.now
	db := openTest(t, fs, o)
	until := map[uint64]time.Time{}
	for i := range 600 {
		s := mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("tea ", i), ExpiresAt: clock.now().Add(leaseOf)})
		if s.Seq%3 == 0 {
			until[s.Seq] = clock.now().Add(time.Hour + time.Duration(i)*time.Minute)
		}
	}
	db.waitSealed(t)
	if err := db.Memories().Extend(t.Context(), until); err != nil {
		t.Fatal(err)
	}
	deleteTeas(t, db)
	db.waitMoved(t)
	if db.tables.Docs.Moved.Load() == 0 {
		t.Fatal("nothing moved")
	}
	for range 2 {
		clock.advance(20 * time.Minute)
		all := everyMemory(t, db.Memories())
		for _, m := range all {
			if !m.ExpiresAt.Equal(until[m.Seq]) {
				t.Errorf("memory %s ends at %v, want %v", m.ID, m.ExpiresAt, until[m.Seq])
			}
		}
		mustCheck(t, db, len(until))
		closeTest(t, db)
		db = openTest(t, fs, o)
	}
}
