package replication_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// archived opens a database of a file system with an archive in another folder of it.
func archived(t *testing.T, fs vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	o.Archive = folder.New(fsys.On(fs, "/archive"))
	return testdb.Open(t, fs, o)
}

func storeSome(t *testing.T, db *engine.DB, from, n int) {
	t.Helper()
	for i := range n {
		testdb.Store(t, db.Memories(), memory.Memory{ID: fmt.Sprintf("m%d", from+i), Text: fmt.Sprintf("text number %d", from+i), Scope: memory.Scope{User: "u"}})
	}
}

// archivedNow waits until the archive has everything.
func archivedNow(t *testing.T, db *engine.DB) {
	t.Helper()
	_, err := db.WaitArchived(t.Context())
	testdb.NoError(t, err)
}

func closes(t *testing.T, c io.Closer) {
	t.Helper()
	testdb.NoError(t, c.Close())
}

func texts(ms []memory.Memory) (all []string) {
	for i := range ms {
		all = append(all, ms[i].Text)
	}
	return all
}

func recalled(t *testing.T, db *engine.DB, q memory.Query) (ids []string) {
	t.Helper()
	r, err := db.Memories().Recall(t.Context(), q)
	testdb.NoError(t, err)
	for i := range r.Hits {
		ids = append(ids, r.Hits[i].ID)
	}
	return ids
}

func openOn(fs vfs.FS, dir string, o engine.Options) (*engine.DB, error) {
	o.MemoryBudget = testdb.Budget
	return engine.Open(fsys.On(fs, dir), &o)
}

// feedOf follows the archive of a file system.
func feedOf(t *testing.T, fs vfs.FS, wait bool) wal.Feed {
	t.Helper()
	c, err := folder.Follow(fsys.On(fs, "/archive"), wal.Timeline{}, wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, c) })
	return c.Next
}

// openReplicaOn follows into the folder "replica" of a file system.
func openReplicaOn(fs vfs.FS, feed wal.Feed, o engine.ReplicaOptions) (*engine.Replica, error) {
	if o.MemoryBudget == 0 {
		o.MemoryBudget = testdb.Budget
	}
	return engine.OpenReplica(fsys.On(fs, "replica"), feed, &o)
}

func testReplica(t *testing.T, fs vfs.FS, feed wal.Feed, o engine.ReplicaOptions) *engine.Replica {
	t.Helper()
	r, err := openReplicaOn(fs, feed, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, r) })
	return r
}

// sameAs compares what the replica shows with a database: keys, memories, recalls.
func sameAs(t *testing.T, r *engine.Replica, db *engine.DB) {
	t.Helper()
	if err := r.WaitLSN(t.Context(), db.LSN()); err != nil {
		t.Fatal(err)
	}
	err := r.Use(t.Context(), func(got *engine.DB) error {
		if got.LSN() != db.LSN() {
			t.Errorf("LSN %d, the database has %d", got.LSN(), db.LSN())
		}
		report, err := got.CheckDeep(t.Context())
		if err != nil || !report.OK {
			t.Errorf("check: %+v, %v", report, err)
		}
		everything := memory.ListQuery{AllScopes: true, Limit: 1000}
		a, err := got.Memories().List(t.Context(), everything)
		if err != nil {
			return err
		}
		b, err := db.Memories().List(t.Context(), everything)
		if err != nil {
			return err
		}
		testdb.Equal(t, "memories", texts(a.Memories), texts(b.Memories))
		for _, text := range []string{"number", "text 3", "tea"} {
			q := memory.Query{AllScopes: true, Text: text, Limit: 20, NoTouch: true} // a replica that does not follow would lack what that writes
			testdb.Equal(t, "recall of "+text, recalled(t, got, q), recalled(t, db, q))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mustUse are the texts that the replica shows.
func mustUse(t *testing.T, r *engine.Replica) (all []string) {
	t.Helper()
	err := r.Use(t.Context(), func(db *engine.DB) error {
		all = texts(testdb.List(t, db.Memories(), memory.Scope{User: "u"}))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// framesOf are all frames of an archive.
func framesOf(t *testing.T, feed wal.Feed) (all []*wal.Frame) {
	t.Helper()
	for at := (wal.Position{}); ; {
		f, err := feed(t.Context(), at)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all, at = append(all, f), f.After()
	}
}

// cloned is a frame of its own memory: a replica keeps what it is given.
func cloned(f *wal.Frame) *wal.Frame {
	c := *f
	c.Batches = nil
	for _, b := range f.Batches {
		c.Batches = append(c.Batches, slices.Clone(b))
	}
	return &c
}

// feedFrames gives frames whatever the position is.
func feedFrames(frames ...*wal.Frame) wal.Feed {
	return func(context.Context, wal.Position) (*wal.Frame, error) {
		if len(frames) == 0 {
			return nil, io.EOF
		}
		f := cloned(frames[0])
		frames = frames[1:]
		return f, nil
	}
}

// TestFollows: a replica has all of its database, from the first batch on, while that is written,
// behind its own reopening, and from a base.
func TestFollows(t *testing.T) {
	fs := vfs.NewMem()
	db := archived(t, fs, engine.Options{})
	storeSome(t, db, 0, 20)
	archivedNow(t, db)
	feed := feedOf(t, fs, true)
	r := testReplica(t, fs, feed, engine.ReplicaOptions{})
	sameAs(t, r, db)
	for i := range 5 {
		storeSome(t, db, 100+10*i, 10)
		if err := db.Memories().Delete(t.Context(), memory.Scope{User: "u"}, fmt.Sprint("m", i)); err != nil {
			t.Fatal(err)
		}
		archivedNow(t, db)
		sameAs(t, r, db)
	}
	if s := r.Stats(); s.Restarts != 0 || s.Loads < 2 || !s.Following || s.LagMS != 0 || s.AppliedLSN != db.LSN() {
		t.Errorf("%+v", s)
	}
	closes(t, r)
	storeSome(t, db, 200, 5)
	archivedNow(t, db)
	r = testReplica(t, fs, feed, engine.ReplicaOptions{})
	if r.LSN() == 0 {
		t.Error("what was there is not readable at once")
	}
	sameAs(t, r, db)
	if s := r.Stats(); s.Frames == 0 || s.Bytes > 1<<20 {
		t.Errorf("what it had came again: %+v", s)
	}
}

// TestOfBase: a replica begins with the base of an archive, and again with the next one where
// something is missing, if it may.
func TestOfBase(t *testing.T) {
	fs := vfs.NewMem()
	db := testdb.Open(t, fs, engine.Options{})
	storeSome(t, db, 0, 20)
	closes(t, db)
	db = archived(t, fs, engine.Options{})
	storeSome(t, db, 20, 5)
	archivedNow(t, db)
	feed := feedOf(t, fs, false)
	r := testReplica(t, fs, feed, engine.ReplicaOptions{})
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameAs(t, r, db)
	closes(t, r)
	closes(t, db)

	db = testdb.Open(t, fs, engine.Options{})
	storeSome(t, db, 40, 5) // the archive does not see it
	closes(t, db)
	db = archived(t, fs, engine.Options{})
	storeSome(t, db, 60, 5)
	archivedNow(t, db)
	r = testReplica(t, fs, feed, engine.ReplicaOptions{})
	if err := r.Wait(t.Context()); !errors.Is(err, wal.ErrGap) || !errors.Is(err, fault.ErrNotRetained) {
		t.Fatalf("a gap: %v", err)
	}
	if n := len(mustUse(t, r)); n != 25 {
		t.Errorf("%d memories before the gap, want 25", n)
	}
	closes(t, r)
	r = testReplica(t, fs, feed, engine.ReplicaOptions{BeginAgain: true})
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameAs(t, r, db)
	if s := r.Stats(); s.Restarts != 1 || s.Building {
		t.Errorf("%+v", s)
	}
}

// TestIsReadOnly: a replica is not opened to be written, and what it lends refuses writes; opened
// with ReadOnly it is what was applied.
func TestIsReadOnly(t *testing.T) {
	fs := vfs.NewMem()
	db := archived(t, fs, engine.Options{})
	storeSome(t, db, 0, 5)
	archivedNow(t, db)
	r := testReplica(t, fs, feedOf(t, fs, false), engine.ReplicaOptions{})
	err := r.Use(t.Context(), func(db *engine.DB) error {
		_, err := db.Memories().Store(t.Context(), memory.Memory{Text: "no", Scope: memory.Scope{User: "u"}}, nil)
		return err
	})
	testdb.WantError(t, "store into a replica", err, fault.ErrReadOnly)
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = openReplicaOn(fs, feedOf(t, fs, false), engine.ReplicaOptions{})
	testdb.WantError(t, "follow twice", err, fault.ErrLocked)
	closes(t, r)
	testdb.WantError(t, "use a closed one", r.Use(t.Context(), func(*engine.DB) error { return nil }), fault.ErrClosed)
	testdb.WantError(t, "wait for a closed one", r.WaitLSN(t.Context(), 1000), fault.ErrClosed)

	_, err = openOn(fs, "replica", engine.Options{MemoryBudget: testdb.Budget})
	testdb.WantError(t, "open a replica", err, fault.ErrReadOnly)
	_, err = openOn(fs, "replica", engine.Options{MemoryBudget: testdb.Budget, Salvage: true})
	testdb.WantError(t, "salvage a replica", err, fault.ErrReadOnly)
	read, err := openOn(fs, "replica", engine.Options{MemoryBudget: testdb.Budget, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(testdb.List(t, read.Memories(), memory.Scope{User: "u"})); n != 5 {
		t.Errorf("%d memories", n)
	}
	closes(t, read)
}

// TestElsewhere: no replica is made in the folder of a database, or of something else.
func TestElsewhere(t *testing.T) {
	fs := vfs.NewMem()
	db := archived(t, fs, engine.Options{})
	storeSome(t, db, 0, 5)
	archivedNow(t, db)
	feed := feedOf(t, fs, false)
	closes(t, db)
	_, err := engine.OpenReplica(fsys.On(fs, "db"), feed, nil)
	testdb.WantError(t, "follow into a database", err, fault.ErrExists)
	_, err = engine.OpenReplica(fsys.On(fs, "/archive"), feed, nil)
	testdb.WantError(t, "follow into an archive", err, fault.ErrNotDatabase)
	_, err = openReplicaOn(fs, nil, engine.ReplicaOptions{})
	testdb.WantError(t, "follow nothing", err, fault.ErrInvalid)
	r := testReplica(t, fs, func(context.Context, wal.Position) (*wal.Frame, error) { return nil, io.EOF }, engine.ReplicaOptions{})
	testdb.WantError(t, "read of an empty feed", r.Use(t.Context(), func(*engine.DB) error { return nil }), fault.ErrNotFound)
	if err := r.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	closes(t, r)
	if _, err := openOn(fs, "replica", engine.Options{ReadOnly: true}); !errors.Is(err, fault.ErrNotDatabase) {
		t.Errorf("open of nothing: %v", err)
	}
}

// TestRefuses: frames that do not follow, or are damaged, are refused whole, and what was there
// before is read on. A frame that came before does no harm.
func TestRefuses(t *testing.T) {
	fs := vfs.NewMem()
	db := archived(t, fs, engine.Options{})
	for i := range 4 {
		storeSome(t, db, 3*i, 3)
		archivedNow(t, db)
	}
	all := framesOf(t, feedOf(t, fs, false))
	closes(t, db)
	if len(all) < 4 {
		t.Fatalf("%d frames", len(all))
	}
	n := len(all) - 1
	last := all[n]
	changed := func(change func(f *wal.Frame)) *wal.Frame {
		f := cloned(last)
		change(f)
		return f
	}
	middle := len(last.Batches[0]) / 2
	for name, c := range map[string]struct {
		last *wal.Frame
		kind error
	}{
		"missing":  {changed(func(f *wal.Frame) { f.First, f.Last = f.First+1, f.Last+1 }), fault.ErrNotRetained},
		"timeline": {changed(func(f *wal.Frame) { f.Timeline[3] ^= 1 }), fault.ErrMismatch},
		"cut":      {changed(func(f *wal.Frame) { f.Batches[0] = f.Batches[0][:middle] }), fault.ErrCorrupt},
		"empty":    {changed(func(f *wal.Frame) { f.Batches[0] = nil }), fault.ErrCorrupt},
		"count":    {changed(func(f *wal.Frame) { f.Batches[0][8]++ }), fault.ErrCorrupt},
		"kind":     {changed(func(f *wal.Frame) { f.Batches[0][12] = 200 }), fault.ErrCorrupt},
		"number":   {changed(func(f *wal.Frame) { f.Batches[0] = slices.Clone(all[0].Batches[0]) }), fault.ErrCorrupt},
		"base":     {changed(func(f *wal.Frame) { f.Kind = wal.Base }), fault.ErrNotRetained},
		"end":      {changed(func(f *wal.Frame) { f.Kind = wal.BaseEnd }), fault.ErrNotRetained},
		"twice":    {all[n-1], nil},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			r := testReplica(t, fs, feedFrames(append(slices.Clone(all[:n]), c.last)...), engine.ReplicaOptions{})
			if err := r.Wait(t.Context()); !errors.Is(err, c.kind) {
				t.Errorf("error %v, want %v", err, c.kind)
			}
			if s := r.Stats(); s.Number != all[n-1].Last || s.LSN != all[n-1].LSN || (s.Error == "") != (c.kind == nil) {
				t.Errorf("%+v, want number %d, LSN %d", s, all[n-1].Last, all[n-1].LSN)
			}
			closes(t, r)
			r = testReplica(t, fs, feedFrames(last), engine.ReplicaOptions{})
			if err := r.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(mustUse(t, r)); got != 12 {
				t.Errorf("%d memories in the end, want 12", got)
			}
		})
	}
}

// TestPromote: a replica that is promoted is a database of another timeline, which is written, archived and
// followed; what it followed is no more of its.
func TestPromote(t *testing.T) {
	fs := vfs.NewMem()
	db := archived(t, fs, engine.Options{})
	storeSome(t, db, 0, 10)
	archivedNow(t, db)
	feed := feedOf(t, fs, false)
	r := testReplica(t, fs, feed, engine.ReplicaOptions{})
	if err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := r.Stats().Timeline
	p, err := r.Promote(t.Context())
	if err != nil || p.LSN != db.LSN() || p.Timeline == old {
		t.Fatalf("%+v, %v; LSN %d, timeline %s", p, err, db.LSN(), old)
	}
	id, err := place.Read(fs, "replica")
	if err != nil || id.Replica || id.Timeline != p.Timeline || id.Parent == nil || *id.Parent != (place.Origin{Timeline: old, LSN: p.LSN}) {
		t.Errorf("%+v, %v", id, err)
	}
	_, err = engine.PromoteReplica(fsys.On(fs, "replica"))
	testdb.WantError(t, "promote twice", err, fault.ErrInvalid)
	_, err = engine.PromoteReplica(fsys.On(fs, "nowhere"))
	testdb.WantError(t, "promote nothing", err, fault.ErrInvalid)
	_, err = openReplicaOn(fs, feed, engine.ReplicaOptions{})
	testdb.WantError(t, "follow into what was promoted", err, fault.ErrExists)

	own, err := openOn(fs, "replica", engine.Options{MemoryBudget: testdb.Budget, Archive: folder.New(fsys.On(fs, "/archive2"))})
	if err != nil {
		t.Fatal(err)
	}
	storeSome(t, own, 50, 5)
	if s, err := own.WaitArchived(t.Context()); err != nil || s.Restarts != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	testdb.Check(t, own, 15)
	c, err := folder.Follow(fsys.On(fs, "/archive2"), wal.Timeline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, c)
	next, err := engine.OpenReplica(fsys.On(fs, "next"), c.Next, &engine.ReplicaOptions{MemoryBudget: testdb.Budget})
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, next)
	sameAs(t, next, own)
	if s := next.Stats(); s.Timeline != p.Timeline {
		t.Errorf("%+v, want the timeline %s", s, p.Timeline)
	}
	closes(t, own)
}
