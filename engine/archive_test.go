package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// archived opens a database of a file system with an archive in another folder of it.
func archived(t *testing.T, fs vfs.FS, o Options) *DB {
	t.Helper()
	o.Archive = folder.New(fsys.On(fs, "/archive"))
	return openTest(t, fs, o)
}

// copyOf makes a store of the batches of an archive alone, and returns its keys.
func copyOf(t *testing.T, fs vfs.FS) (keys map[string]string, at wal.Position, lsn uint64) {
	t.Helper()
	c, err := folder.Follow(fsys.On(fs, "/archive"), wal.Timeline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, c)
	db, err := pebble.Open("copy", plainStore(vfs.NewMem()))
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, db)
	for {
		f, err := c.Next(t.Context(), at)
		if errors.Is(err, io.EOF) {
			return pebbleKeys(t, db), at, lsn
		}
		if err != nil {
			t.Fatalf("behind %+v: %v", at, err)
		}
		if !f.Follows(at) {
			t.Fatalf("%+v after %+v", f, at)
		}
		for _, repr := range f.Batches {
			b := db.NewBatch()
			if err := errors.Join(b.SetRepr(repr), b.Commit(pebble.NoSync)); err != nil {
				t.Fatal(err)
			}
		}
		at, lsn = f.After(), max(lsn, f.LSN)
	}
}

// plainStore are options for a store that holds the keys of a database, and nothing else.
func plainStore(fs vfs.FS) *pebble.Options {
	return &pebble.Options{FS: fs, Merger: (&DB{}).merger(), FormatMajorVersion: pebble.FormatValueSeparation, Logger: silent{}}
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func pebbleKeys(t *testing.T, r pebble.Reader) map[string]string {
	t.Helper()
	it, err := r.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, it)
	keys := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		keys[string(it.Key())] = string(it.Value())
	}
	return keys
}

func closes(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// sameKeys compares a copy with the store of a database that is closed.
func sameKeys(t *testing.T, fs vfs.FS, got map[string]string) {
	t.Helper()
	o := plainStore(fs)
	o.ReadOnly = true
	db, err := pebble.Open(fs.PathJoin("db", store.Dir), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, db)
	compareKeys(t, pebbleKeys(t, db), got)
}

func compareKeys(t *testing.T, want, got map[string]string) {
	t.Helper()
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			t.Errorf("key %q: %q, the copy has %q, %v", k, v, g, ok)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("the copy has key %q, which is not there", k)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func storeSome(t *testing.T, db *DB, from, n int) {
	t.Helper()
	for i := range n {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprintf("m%d", from+i), Text: fmt.Sprintf("text number %d", from+i), Scope: memory.Scope{User: "u"}})
	}
}

// TestArchiveIsTheStore: a copy that is made of the archive alone has each key of the store, from the
// first batch on, behind a reopening, and behind writes that the archive did not see.
func TestArchiveIsTheStore(t *testing.T) {
	fs := vfs.NewMem()
	session := func(first int, restarts int64) {
		t.Helper()
		db := archived(t, fs, Options{})
		storeSome(t, db, first, 10)
		s, err := db.WaitArchived(t.Context())
		if err != nil || s.LSN < db.LSN() || s.Restarts != restarts {
			t.Fatalf("%+v, %v; LSN %d", s, err, db.LSN())
		}
		storeSome(t, db, first+10, 10)
		lsn := db.LSN()
		closes(t, db)
		got, _, archived := copyOf(t, fs)
		if archived < lsn {
			t.Errorf("the archive ends at LSN %d of %d", archived, lsn)
		}
		sameKeys(t, fs, got)
	}
	session(0, 0)
	session(20, 0)
	db := openTest(t, fs, Options{}) // which is only looked at
	closes(t, db)
	session(40, 0)
	db = openTest(t, fs, Options{})
	storeSome(t, db, 60, 3)
	closes(t, db)
	session(80, 1)
	session(100, 0)
}

// testArchive is an archive that fails, or waits.
type testArchive struct {
	mu    sync.Mutex
	fail  error
	block chan struct{} // while it is not nil, Append waits for it
	begin wal.End
	at    wal.Position
	t     *testing.T
	db    *pebble.DB
}

func newTestArchive(t *testing.T) *testArchive {
	t.Helper()
	a := &testArchive{t: t}
	a.empty()
	return a
}

func (a *testArchive) empty() {
	db, err := pebble.Open("copy", plainStore(vfs.NewMem()))
	if err != nil {
		a.t.Fatal(err)
	}
	a.db, a.at = db, wal.Position{}
	a.t.Cleanup(func() { _ = db.Close() })
}

func (a *testArchive) Name() string { return "test" }
func (a *testArchive) Close() error { return nil }

func (a *testArchive) Begin(context.Context, string, wal.Timeline) (wal.End, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begin, a.fail
}

func (a *testArchive) Append(ctx context.Context, f *wal.Frame) error {
	a.mu.Lock()
	fail, block := a.fail, a.block
	a.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fail != nil {
		return fail
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(f)
	return nil
}

func (a *testArchive) add(f *wal.Frame) {
	if f.Kind == wal.Base && f.Last == 0 {
		a.empty()
	}
	if !f.Follows(a.at) && (f.Kind != wal.Batches || a.at.Parts == 0) {
		a.t.Errorf("%v %d to %d after %+v", f.Kind, f.First, f.Last, a.at)
	}
	for _, repr := range f.Batches {
		b := a.db.NewBatch()
		if err := errors.Join(b.SetRepr(bytes.Clone(repr)), b.Commit(pebble.NoSync)); err != nil {
			a.t.Error(err)
		}
	}
	a.at = f.After()
}

func (a *testArchive) set(fail error, block chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail, a.block = fail, block
}

// TestArchiveFirst: a write is acknowledged once the archive has it, and Close ends its wait.
func TestArchiveFirst(t *testing.T) {
	fs, a := vfs.NewMem(), newTestArchive(t)
	db := openTest(t, fs, setup{Options{Archive: a, ArchiveFirst: true}, tuning{lastArchive: 50 * time.Millisecond}})
	storeSome(t, db, 0, 3)
	if s := db.Archives()[0]; s.LSN < 3 {
		t.Errorf("acknowledged, and the archive has LSN %d", s.LSN)
	}
	block := make(chan struct{})
	a.set(nil, block)
	done := make(chan error, 1)
	go func() {
		_, err := db.Memories().Store(t.Context(), memory.Memory{Text: "waits", Scope: memory.Scope{User: "u"}}, nil)
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("acknowledged without the archive: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(block)
	if err := <-done; err != nil {
		t.Error(err)
	}
	a.set(errors.New("gone"), nil)
	go func() {
		_, err := db.Memories().Store(t.Context(), memory.Memory{Text: "is in the store", Scope: memory.Scope{User: "u"}}, nil)
		done <- err
	}()
	waitFor(t, func() bool { return db.Archives()[0].Error != "" })
	closes(t, db)
	if err := <-done; !errors.Is(err, memory.ErrClosed) {
		t.Errorf("a write that the archive does not have: %v", err)
	}
	db = openTest(t, fs, Options{})
	if s, err := db.Stats(t.Context()); err != nil || s.Memories != 5 {
		t.Errorf("%d memories, %v", s.Memories, err)
	}
	closes(t, db)
}

// TestArchiveFirstInTime: while the archive fails, a call ends with its context and says whether its write was made.
func TestArchiveFirstInTime(t *testing.T) {
	t.Parallel() // it waits
	fs, a := vfs.NewMem(), newTestArchive(t)
	db := openTest(t, fs, setup{Options{Archive: a, ArchiveFirst: true}, tuning{lastArchive: 50 * time.Millisecond}})
	store := func(text string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := db.Memories().Store(ctx, memory.Memory{Text: text, Scope: memory.Scope{User: "u"}}, nil)
		return err
	}
	storeSome(t, db, 0, 1)
	a.set(errors.New("gone"), nil)
	if err := store("made"); !errors.Is(err, memory.ErrUnavailable) || !strings.Contains(err.Error(), "the write is in the database") {
		t.Errorf("a write that the archive does not have: %v", err)
	}
	waitFor(t, func() bool { return db.Archives()[0].Error != "" })
	lsn := db.syncer.Newest()
	if err := store("not made"); !errors.Is(err, memory.ErrUnavailable) || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("a write beside it: %v", err)
	}
	if now := db.syncer.Newest(); now != lsn {
		t.Errorf("it was made, at LSN %d", now)
	}
	a.set(nil, nil)
	waitFor(t, func() bool { return db.Archives()[0].LSN >= lsn })
	if s, err := db.Stats(t.Context()); err != nil || s.Memories != 2 {
		t.Errorf("%d memories, %v", s.Memories, err)
	}
	closes(t, db)
}

// TestArchiveCrash: a crash anywhere leaves an archive that has what it said it had; it is a state of the
// database, and it goes on from there without a new base.
func TestArchiveCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var db atomic.Pointer[DB]
	most := race.Times(40)
	fs, states := crashing(rand.New(rand.NewPCG(seed, 3)), 10, most, func() (s ArchiveStats) {
		if db := db.Load(); db != nil {
			s = db.Archives()[0]
		}
		return s
	})
	now := archived(t, fs, Options{ArchiveDelay: time.Millisecond})
	db.Store(now)
	rng := rand.New(rand.NewPCG(seed, 4))
	for i := range 150 {
		m := now.Memories()
		id := fmt.Sprintf("m%d", i)
		mustStore(t, m, memory.Memory{ID: id, Text: id + " of many", Scope: memory.Scope{User: "u", Run: fmt.Sprint(i % 7)}, Embedding: []float32{1, float32(i)}})
		switch rng.IntN(10) {
		case 0:
			if err := m.Delete(t.Context(), memory.Scope{User: "u"}, id); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, err := m.DeleteScope(t.Context(), memory.Scope{User: "u", Run: fmt.Sprint(i % 7)}); err != nil {
				t.Fatal(err)
			}
		case 2:
			if err := now.Rebuild(t.Context(), "text", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	closes(t, now)
	for i, c := range states() {
		_, at, lsn := copyIfAny(t, c.fs)
		if at.Number < c.known.Number || lsn < c.known.LSN {
			t.Fatalf("crash %d: the archive ends at %+v, LSN %d, and said %+v", i, at, lsn, c.known)
		}
		db := archived(t, c.fs, Options{})
		storeSome(t, db, 1000, 1)
		s, err := db.WaitArchived(t.Context())
		if err != nil || s.Restarts > 0 && c.known.Number > 0 {
			t.Fatalf("crash %d, after %+v: %+v, %v", i, c.known, s, err)
		}
		closes(t, db)
		got, _, _ := copyOf(t, c.fs)
		sameKeys(t, c.fs, got)
	}
}

// copyIfAny is copyOf for an archive that need not be there yet.
func copyIfAny(t *testing.T, fs vfs.FS) (keys map[string]string, at wal.Position, lsn uint64) {
	t.Helper()
	if _, all, err := folder.Timelines(fsys.On(fs, "/archive")); err != nil || len(all) == 0 || all[0].Number == 0 {
		return nil, at, 0
	}
	return copyOf(t, fs)
}
