package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// testLog is a log in RAM.
type testLog struct {
	mu     sync.Mutex
	frames []*wal.Frame
	refuse error
	block  chan struct{} // no answer comes until it is closed, nil: at once
}

func (l *testLog) Mark() LogMark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LogMark{Epoch: 1, Sequence: uint64(len(l.frames))}
}

func (l *testLog) Append(ctx context.Context, f *wal.Frame) error {
	l.mu.Lock()
	block := l.block
	l.mu.Unlock()
	if block != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-block:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return l.refuse
	}
	l.frames = append(l.frames, cloneFrame(f))
	return nil
}

// cloneFrame is a frame of its own, since who applies one keeps its memory.
func cloneFrame(f *wal.Frame) *wal.Frame {
	c := *f
	c.Batches = nil
	for _, b := range f.Batches {
		c.Batches = append(c.Batches, bytes.Clone(b))
	}
	return &c
}

func (l *testLog) set(refuse error, block chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse, l.block = refuse, block
}

func (l *testLog) all() []*wal.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*wal.Frame, len(l.frames))
	for i, f := range l.frames {
		all[i] = cloneFrame(f)
	}
	return all
}

// over opens databases over the log, as openLogged does.
func (l *testLog) over() *overLog {
	return &overLog{log: l, wait: 10 * time.Second, floor: &atomic.Int64{}}
}

// bringUp makes the folder "db" what the log comes to.
func (l *testLog) bringUp(t *testing.T, fs vfs.FS) {
	t.Helper()
	frames := l.all()
	s, err := openStandby(fs, "db", &StandbyOptions{MemoryBudget: testBudget})
	var at wal.Position
	if err == nil {
		_, at, err = s.Position()
	}
	if err != nil || len(frames) > 0 && at.Number > frames[len(frames)-1].Last {
		if s != nil {
			closes(t, s)
		}
		if err := fs.RemoveAll("db"); err != nil {
			t.Fatal(err)
		}
		if s, err = openStandby(fs, "db", &StandbyOptions{MemoryBudget: testBudget}); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range frames {
		if err := s.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	closes(t, s)
	if err := ownReplica(&tuning{fs: fs}, "db"); err != nil {
		t.Fatal(err)
	}
}

// dump is everything of the memories of a database that does not depend on recalls that were not written yet.
func dump(t *testing.T, db *DB) string {
	t.Helper()
	var b bytes.Buffer
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
		if err != nil {
			t.Fatal(err)
		}
		m.AccessCount, m.LastAccessed, m.DecayedImportance, m.Confidence = 0, time.Time{}, nil, nil
		line, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// dumped is the state of an LSN and when it was.
type dumped struct {
	at   time.Time
	text string
}

// TestLoggedPrefixes: the copy that is made of any first messages of the log of random operations, with seals,
// moves, rebuilds, resets, crashes and reopenings, is whole, and is the database as it was then.
func TestLoggedPrefixes(t *testing.T) {
	race.Sequential(t)
	for _, c := range []struct {
		seed         uint64
		turns, every int
	}{{0, 40, 1}, {2, 400, 40}, {1, 300, 40}} {
		t.Run(fmt.Sprint("seed", c.seed), func(t *testing.T) {
			t.Parallel()
			l := &testLog{}
			w := newWorld(t, c.seed, l)
			states := map[uint64]dumped{}
			for w.step = range c.turns {
				w.turn()
				if c.every == 1 && w.step == c.turns/2 {
					w.rebuild()
				}
				states[w.db.LSN()] = dumped{w.clock.now(), dump(t, w.db)}
			}
			if err := w.db.store.SyncLog(nil); err != nil {
				t.Fatal(err)
			}
			checkPrefixes(t, l.all(), c.every, states)
		})
	}
}

func checkPrefixes(t *testing.T, frames []*wal.Frame, every int, states map[uint64]dumped) {
	fs := vfs.NewMem()
	compared := 0
	for n := 1; n <= len(frames); n++ {
		s, err := openStandby(fs, "copy", &StandbyOptions{MemoryBudget: testBudget})
		if errors.Is(err, fault.ErrCorrupt) && n == 2 { // its first batch alone does not say of which database it is
			if err := fs.RemoveAll("copy"); err != nil {
				t.Fatal(err)
			}
			s, err = openStandby(fs, "copy", &StandbyOptions{MemoryBudget: testBudget})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames[:n] {
			if err := s.Apply(cloneFrame(f)); err != nil {
				t.Fatalf("message %d: %v", n, err)
			}
		}
		_, at, err := s.Position()
		noError(t, err)
		closes(t, s)
		id, err := place.Read(fs, "copy")
		noError(t, err)
		if whole := at.Number > 0 && at.Parts == 0 && id != nil; !whole || n%every != 0 && n < len(frames) {
			continue
		}
		if checkCopy(t, fs, n, states) {
			compared++
		}
	}
	if least := len(frames) / every / 4; compared <= least {
		t.Errorf("%d of %d copies could be compared", compared, len(frames))
	}
}

// checkCopy looks at a copy, and compares it with the state of its LSN, if that is known.
func checkCopy(t *testing.T, fs vfs.FS, n int, states map[uint64]dumped) bool {
	db, err := openOn(fs, "copy", Options{ReadOnly: true, MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	lsn := db.LSN()
	report, err := db.CheckDeep(t.Context())
	if err != nil || !report.OK {
		t.Fatalf("the copy of %d messages: %+v, %v", n, report, err)
	}
	closes(t, db)
	want, ok := states[lsn]
	if !ok {
		return false
	}
	at := func() time.Time { return want.at }
	if db, err = openOn(fs, "copy", Options{ReadOnly: true, MemoryBudget: testBudget, Clock: at}); err != nil {
		t.Fatal(err)
	}
	defer closes(t, db)
	if got := dump(t, db); got != want.text {
		t.Fatalf("the copy of %d messages, LSN %d, has\n%s\nthe database had\n%s", n, lsn, got, want.text)
	}
	return true
}

// openOver opens the database "db" over a log that may take so long.
func openOver(t *testing.T, fs vfs.FS, l *testLog, wait time.Duration) *DB {
	t.Helper()
	over := l.over()
	over.wait = wait
	db, err := openOn(fs, "db", setup{Options: Options{MemoryBudget: testBudget}, tuning: tuning{logged: over}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, db) })
	return db
}

func fact(text string) memory.Memory {
	return memory.Memory{Scope: memory.Scope{User: "u"}, Text: text}
}

// TestLoggedUnavailable: where the log does not answer, writes fail in time and reads go on as of what it has;
// once it answers everything is there, also what nobody was told of.
func TestLoggedUnavailable(t *testing.T) {
	l, fs := &testLog{}, vfs.NewMem()
	db := openOver(t, fs, l, 500*time.Millisecond)
	mustStore(t, db.Memories(), fact("before"))
	stuck := make(chan struct{})
	l.set(nil, stuck)
	_, err := db.Memories().Store(t.Context(), fact("during"), nil)
	wantError(t, "a write that the log does not take", err, fault.ErrUnavailable)
	lsn := db.LSN()
	_, err = db.Memories().Store(t.Context(), fact("refused"), nil)
	wantError(t, "a write while the log does not answer", err, fault.ErrUnavailable)
	equalSlices(t, "what is read meanwhile", texts(mustList(t, db.Memories(), memory.Scope{User: "u"})), []string{"before"})
	if n, _, late := db.Unsent(); n == 0 || !late {
		t.Errorf("%d batches wait, late %v", n, late)
	}
	l.set(nil, nil)
	close(stuck)
	for _, _, late := db.Unsent(); late; _, _, late = db.Unsent() {
		runtime.Gosched()
	}
	mustStore(t, db.Memories(), fact("after"))
	equalSlices(t, "what is read after", texts(mustList(t, db.Memories(), memory.Scope{User: "u"})), []string{"before", "during", "after"})
	if db.LSN() != lsn+2 {
		t.Errorf("LSN %d, behind %d", db.LSN(), lsn)
	}
	mustCheck(t, db, 3)
}

// TestLoggedRefused: an owner that its log refuses acknowledges nothing, and answers nothing any more.
func TestLoggedRefused(t *testing.T) {
	l, fs := &testLog{}, vfs.NewMem()
	db := openOver(t, fs, l, 10*time.Second)
	mustStore(t, db.Memories(), fact("before"))
	l.set(notOwner("db", "another owner came"), nil)
	_, err := db.Memories().Store(t.Context(), fact("refused"), nil)
	wantError(t, "a write that the log refuses", err, fault.ErrNotOwner)
	_, err = db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true})
	wantError(t, "a read of who was refused", err, fault.ErrNotOwner)
	closes(t, db)
	l.set(nil, nil)
	l.bringUp(t, fs)
	again := openOver(t, fs, l, 10*time.Second)
	equalSlices(t, "what the next owner has", texts(mustList(t, again.Memories(), memory.Scope{User: "u"})), []string{"before"})
}

// TestLoggedFolder: the folder is opened by its log alone, or to be read; and what a standby was made of is the
// database of the next owner, with the times of its commits in their order.
func TestLoggedFolder(t *testing.T) {
	l, fs := &testLog{}, vfs.NewMem()
	db := openOver(t, fs, l, 10*time.Second)
	for i := range 20 {
		mustStore(t, db.Memories(), fact(fmt.Sprint("text ", i)))
	}
	closes(t, db)
	_, err := openOn(fs, "db", Options{MemoryBudget: testBudget})
	wantError(t, "without its log", err, fault.ErrReadOnly)
	read, err := openOn(fs, "db", Options{MemoryBudget: testBudget, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, read, 20)
	closes(t, read)
	// The machine of the next owner is an hour behind.
	other := vfs.NewMem()
	l.bringUp(t, other)
	over := l.over()
	behind := func() time.Time { return time.Now().Add(-time.Hour) }
	next, err := openLogged("db", LogOptions{Log: l, Wait: over.wait}, &Options{MemoryBudget: testBudget, Clock: behind}, &tuning{fs: other})
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, next)
	mustStore(t, next.Memories(), fact("of the next owner"))
	all := mustList(t, next.Memories(), memory.Scope{User: "u"})
	if last := all[len(all)-1]; len(all) != 21 || last.CreatedAt.Before(all[19].CreatedAt) {
		t.Errorf("%d memories; the last was made at %v, the one before at %v", len(all), last.CreatedAt, all[19].CreatedAt)
	}
	_, err = openLogged("plain", LogOptions{Log: l}, &Options{ReadOnly: true}, &tuning{fs: other})
	wantError(t, "to be read over a log", err, fault.ErrInvalid)
}

// TestLoggedBase: a standby that begins with a base and goes on behind its mark is what one of all messages is.
func TestLoggedBase(t *testing.T) {
	l, fs := &testLog{}, vfs.NewMem()
	db := openOver(t, fs, l, 10*time.Second)
	for i := range 30 {
		mustStore(t, db.Memories(), fact(fmt.Sprint("text ", i)))
	}
	s, err := openStandby(vfs.NewMem(), "copy", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, s)
	m, end, err := db.WriteBase(t.Context(), func(f *wal.Frame) error { return s.Apply(cloneFrame(f)) })
	if err != nil || end.Kind != wal.BaseEnd || m.Sequence == 0 || m.Sequence > uint64(len(l.all())) {
		t.Fatalf("%+v, %+v, %v", m, end, err)
	}
	for i := range 5 {
		mustStore(t, db.Memories(), fact(fmt.Sprint("more ", i)))
	}
	for _, f := range l.all()[m.Sequence:] {
		if err := s.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	has, err := s.Digest(t.Context())
	noError(t, err)
	if want, err := db.Digest(t.Context()); err != nil || has != want {
		t.Errorf("the standby has %+v, the database %+v, %v", has, want, err)
	}
}

// TestLoggedComesOut: a backup of a database over a log, and a standby of it, become databases of their own, without
// a log.
func TestLoggedComesOut(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	l := &testLog{}
	db, err := OpenLogged(in("db"), LogOptions{Log: l}, &Options{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		mustStore(t, db.Memories(), fact(fmt.Sprint("text ", i)))
	}
	if _, err := db.Backup(t.Context(), in("repo"), nil); err != nil {
		t.Fatal(err)
	}
	closes(t, db)
	if _, err := Restore(t.Context(), in("repo"), in("restored"), nil); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStandby(in("standby"), &StandbyOptions{MemoryBudget: testBudget})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range l.all() {
		if err := s.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	closes(t, s)
	if _, err := PromoteReplica(in("standby")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"restored", "standby"} {
		own, err := Open(in(name), &Options{MemoryBudget: testBudget})
		if err != nil {
			t.Fatal(err)
		}
		mustStore(t, own.Memories(), fact("of its own"))
		mustCheck(t, own, 11)
		closes(t, own)
		_, err = OpenLogged(in(name), LogOptions{Log: l}, nil)
		wantError(t, "a database of its own over a log", err, fault.ErrMismatch)
		_, err = OpenStandby(in(name), nil)
		wantError(t, "a database of its own as a standby", err, fault.ErrExists)
	}
}
