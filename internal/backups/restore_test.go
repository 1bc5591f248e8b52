package backups_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// travelled is a database with an archive and backups, and what it said at each LSN.
type travelled struct {
	dir   string
	said  map[uint64]string
	times map[uint64]time.Time
	last  uint64
	clock *testdb.Clock
}

// travel writes with several writers at once now and then, so that commits share batches, takes backups
// in between, and seals, deletes and rebuilds.
func travel(t *testing.T, seed uint64) *travelled {
	t.Helper()
	tr := &travelled{dir: t.TempDir(), said: map[uint64]string{}, times: map[uint64]time.Time{}, clock: testdb.NewClock()}
	o := &engine.Options{Archive: folder.New(filepath.Join(tr.dir, "archive")), ArchiveDelay: time.Millisecond, Clock: tr.clock.Now, MemoryBudget: testdb.Budget}
	db, err := engine.Open(filepath.Join(tr.dir, "db"), o)
	if err != nil {
		t.Fatal(err)
	}
	m, rng := db.Memories(), rand.New(rand.NewPCG(seed, 8))
	note := func() {
		lsn := db.LSN()
		if tr.said[lsn] == "" {
			tr.said[lsn], tr.times[lsn], tr.last = contentOf(t, db), tr.clock.Now(), lsn
		}
		tr.clock.Advance(time.Second)
	}
	for i := range 40 {
		id := fmt.Sprintf("m%d", i)
		s := memory.Scope{User: "u", Run: fmt.Sprint(i % 5)}
		testdb.Store(t, m, memory.Memory{ID: id, Scope: s, Text: id + " is told", Embedding: []float32{1, float32(i)}})
		note()
		switch rng.IntN(8) {
		case 0:
			_, err = m.DeleteScope(t.Context(), s)
		case 1:
			text := id + " is told anew"
			_, err = m.Update(t.Context(), s, id, memory.Patch{Text: &text})
		case 2:
			err = db.Rebuild(t.Context(), "text", nil)
		case 3:
			err = tr.storm(t, db, i)
		}
		if err != nil {
			t.Fatal(err)
		}
		note()
		if i == 10 || i == 25 {
			if _, err := db.Backup(t.Context(), filepath.Join(tr.dir, "repo"), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	closes(t, db)
	return tr
}

// storm has several writers store at once.
func (tr *travelled) storm(t *testing.T, db *engine.DB, i int) error {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, 16)
	for w := range errs {
		all.Go(func() {
			_, errs[w] = db.Memories().Store(t.Context(), memory.Memory{Text: fmt.Sprintf("storm %d %d", i, w), Scope: memory.Scope{User: "w"}}, nil)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (tr *travelled) restore(t *testing.T, repo string, o engine.RestoreOptions) (engine.RestoreReport, *engine.DB, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "to")
	r, err := engine.Restore(t.Context(), repo, to, &o)
	if err != nil {
		return r, nil, err
	}
	db, err := engine.Open(to, &engine.Options{ReadOnly: true, Clock: tr.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, db) })
	return r, db, nil
}

// TestRestoreToLSN: a database restored to any LSN says what the source said then; from backups and their
// archive, and from the archive alone.
func TestRestoreToLSN(t *testing.T) {
	race.Sequential(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	tr := travel(t, seed)
	repo, archive := filepath.Join(tr.dir, "repo"), filepath.Join(tr.dir, "archive")
	for lsn := uint64(1); lsn <= tr.last; lsn += 5 + lsn%17 {
		for _, c := range []struct {
			repo string
			o    engine.RestoreOptions
		}{{archive, engine.RestoreOptions{ToLSN: lsn}}, {repo, engine.RestoreOptions{ToLSN: lsn, Archive: archive}}} {
			r, db, err := tr.restore(t, c.repo, c.o)
			if err != nil {
				t.Fatalf("to LSN %d of %s: %v", lsn, c.repo, err)
			}
			if r.LSN != lsn || db.LSN() != lsn {
				t.Fatalf("to LSN %d of %s: %+v, opened at %d", lsn, c.repo, r, db.LSN())
			}
			if want, ok := tr.said[lsn]; ok && contentOf(t, db) != want {
				t.Errorf("at LSN %d of %s\n%s\nwant\n%s", lsn, c.repo, contentOf(t, db), want)
			}
			if report, err := db.CheckDeep(t.Context()); err != nil || !report.OK {
				t.Fatalf("at LSN %d of %s: %+v, %v", lsn, c.repo, report, err)
			}
		}
	}
}

// TestRestoreToTime: all that was made until then, and nothing later.
func TestRestoreToTime(t *testing.T) {
	race.Sequential(t)
	tr := travel(t, 1)
	archive := filepath.Join(tr.dir, "archive")
	for lsn, at := range tr.times {
		if lsn%16 != 1 {
			continue
		}
		r, db, err := tr.restore(t, archive, engine.RestoreOptions{ToTime: at})
		if err != nil || r.LSN < lsn || contentOf(t, db) != tr.said[lsn] {
			t.Errorf("to %v: %+v, %v; LSN %d was the newest", at, r, err, lsn)
		}
	}
	_, _, err := tr.restore(t, archive, engine.RestoreOptions{ToTime: tr.clock.Now().Add(time.Hour)})
	testdb.WantError(t, "behind the newest commit", err, memory.ErrInvalid)
}

// TestRestoreOfAShortArchive verifies that a restore and a replica report how far an archive reached of
// which the newest segment is lost, unless they were asked for less.
func TestRestoreOfAShortArchive(t *testing.T) {
	race.Sequential(t)
	tr := travel(t, 5)
	archive := filepath.Join(tr.dir, "archive")
	segments, err := filepath.Glob(filepath.Join(archive, "*", "*.segment"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	info, err := os.Stat(slices.Max(segments))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(slices.Max(segments), info.Size()/2); err != nil {
		t.Fatal(err)
	}
	r, db, err := tr.restore(t, archive, engine.RestoreOptions{})
	if err != nil || r.Short == nil || r.LSN >= r.Short.Had.LSN || db.LSN() != r.LSN {
		t.Fatalf("%+v, %v", r, err)
	}
	_, _, err = tr.restore(t, archive, engine.RestoreOptions{ToLSN: r.Short.Had.LSN})
	testdb.WantError(t, "to what the archive had", err, memory.ErrCorrupt)
	if r, _, err := tr.restore(t, archive, engine.RestoreOptions{ToLSN: r.LSN}); err != nil || r.Short != nil {
		t.Errorf("to what is there: %+v, %v", r, err)
	}
	c, err := folder.Follow(archive, wal.Timeline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	replica, err := engine.OpenReplica(filepath.Join(tr.dir, "replica"), c.Next, nil)
	if err != nil {
		t.Fatal(err)
	}
	testdb.WantError(t, "a replica", replica.Wait(t.Context()), memory.ErrCorrupt)
	if s := replica.Stats(); s.LSN != r.LSN || s.ExpectedLSN != r.Short.Had.LSN {
		t.Errorf("%+v; want LSN %d of %d", s, r.LSN, r.Short.Had.LSN)
	}
	closes(t, replica)
	closes(t, c)
}

// TestRestoreBadTargets: what is not there is refused, and nothing is made.
func TestRestoreBadTargets(t *testing.T) {
	race.Sequential(t)
	tr := travel(t, 2)
	repo, archive := filepath.Join(tr.dir, "repo"), filepath.Join(tr.dir, "archive")
	other := travel(t, 3)
	backups, err := engine.Open(filepath.Join(tr.dir, "db"), &engine.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	newest := backups.LSN()
	closes(t, backups)
	for _, c := range []struct {
		what, repo string
		o          engine.RestoreOptions
		want       error
	}{
		{"beyond the end", archive, engine.RestoreOptions{ToLSN: newest + 1}, memory.ErrNotRetained},
		{"beyond the end, from a backup", repo, engine.RestoreOptions{ToLSN: newest + 1, Archive: archive}, memory.ErrNotRetained},
		{"between the backups, without the archive", repo, engine.RestoreOptions{ToLSN: newest}, memory.ErrNotRetained},
		{"before the backups, without the archive", repo, engine.RestoreOptions{ToLSN: 1}, memory.ErrNotFound},
		{"the archive of another database", repo, engine.RestoreOptions{ToLSN: newest, Archive: filepath.Join(other.dir, "archive")}, memory.ErrMismatch},
		{"an archive that is none", repo, engine.RestoreOptions{ToLSN: newest, Archive: repo}, memory.ErrNotDatabase},
		{"a database in place of a repository", filepath.Join(tr.dir, "db"), engine.RestoreOptions{}, memory.ErrNotDatabase},
	} {
		_, _, err := tr.restore(t, c.repo, c.o)
		testdb.WantError(t, c.what, err, c.want)
	}
}

// TestRestoredTimeline: a database that was restored begins another timeline, in an archive of its own, and
// of the old one nothing is followed by it.
func TestRestoredTimeline(t *testing.T) {
	race.Sequential(t)
	tr := travel(t, 4)
	archive, to := filepath.Join(tr.dir, "archive"), filepath.Join(tr.dir, "to")
	r, err := engine.Restore(t.Context(), archive, to, &engine.RestoreOptions{ToLSN: 30})
	if err != nil {
		t.Fatal(err)
	}
	db, err := engine.Open(to, &engine.Options{Archive: folder.New(archive), Clock: tr.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	tr.clock.Advance(time.Second) // of two timelines the one that was written last is the newest
	testdb.Store(t, db.Memories(), memory.Memory{Text: "on the new timeline", Scope: memory.Scope{User: "u"}})
	if s, err := db.WaitArchived(t.Context()); err != nil || s.Restarts != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	want := contentOf(t, db)
	closes(t, db)
	_, all, err := folder.Timelines(archive)
	if err != nil || len(all) != 2 || all[1].ID.String() != r.Timeline {
		t.Fatalf("%+v, %v; the new one is %s", all, err, r.Timeline)
	}
	// The newest timeline is the one that is followed unless another is named.
	_, again, err := tr.restore(t, archive, engine.RestoreOptions{})
	if err != nil || contentOf(t, again) != want {
		t.Errorf("restored again: %v", err)
	}
	c, err := folder.Follow(archive, all[1].ID, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, c)
	if _, err := c.Next(t.Context(), wal.Position{Timeline: all[1].ID, Number: all[0].Number}); err == nil {
		t.Error("a position of the old timeline is followed on the new one")
	}
}

// TestBackupRefuses: what a backup and a restore do not do.
func TestBackupRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	db, err := engine.Open(at("db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer testdb.Close(t, db)
	testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea"})
	writeTestFile(t, vfs.Default, at("plain"), []byte("mine"))
	if err := vfs.Default.MkdirAll(at("foreign"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, vfs.Default, at("foreign/notes.txt"), []byte("mine"))
	for _, c := range []struct {
		repo, archive string
		want          error
	}{
		{"", "", fault.ErrInvalid},
		{at("db"), "", fault.ErrInvalid},
		{at("db/backups"), "", fault.ErrInvalid},
		{at("db/../db/a/b"), "", fault.ErrInvalid},
		{dir, "", fault.ErrInvalid},
		{"", at("db/file"), fault.ErrInvalid},
		{at("plain"), "", fault.ErrNotDatabase},
		{at("foreign"), "", fault.ErrNotDatabase},
		{"", at("plain"), fault.ErrExists},
		{"", at("foreign"), fault.ErrExists},
	} {
		_, err := db.Backup(t.Context(), c.repo, &engine.BackupOptions{Archive: c.archive})
		testdb.WantError(t, fmt.Sprintf("%q, %q", c.repo, c.archive), err, c.want)
	}
	if _, err := db.Backup(t.Context(), at("repo"), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		repo, to string
		o        engine.RestoreOptions
		want     error
	}{
		{at("repo"), at("db"), engine.RestoreOptions{}, fault.ErrExists},
		{at("repo"), at("foreign"), engine.RestoreOptions{}, fault.ErrExists},
		{at("none"), at("new"), engine.RestoreOptions{}, fault.ErrNotDatabase},
		{at("foreign"), at("new"), engine.RestoreOptions{}, fault.ErrNotDatabase},
		{at("plain"), at("new"), engine.RestoreOptions{}, fault.ErrCorrupt},
		{at("repo"), at("new"), engine.RestoreOptions{ID: "20260101T000000.000Z"}, fault.ErrNotFound},
		{at("repo"), at("new"), engine.RestoreOptions{Database: "none"}, fault.ErrNotFound},
	} {
		_, err := engine.Restore(t.Context(), c.repo, c.to, &c.o)
		testdb.WantError(t, fmt.Sprintf("%q to %q, %+v", c.repo, c.to, c.o), err, c.want)
		if _, err := vfs.Default.Stat(at("new")); err == nil {
			t.Fatal("something was restored")
		}
	}
	// Another database: the newest is that of neither.
	other, err := engine.Open(at("other"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer testdb.Close(t, other)
	r, err := other.Backup(t.Context(), at("repo"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Restore(t.Context(), at("repo"), at("new"), nil)
	testdb.WantError(t, "two databases", err, fault.ErrInvalid)
	back, err := engine.Restore(t.Context(), at("repo"), at("new"), &engine.RestoreOptions{Database: other.Settings().ID})
	if err != nil || back.Backup != r.ID || back.Memories != 0 {
		t.Errorf("%+v, %v", back, err)
	}
}

func closes(t *testing.T, c io.Closer) {
	t.Helper()
	testdb.NoError(t, c.Close())
}

// contentOf is what a database says: its memories, and the lines of its export.
func contentOf(t *testing.T, db *engine.DB) string {
	t.Helper()
	lines := testdb.Lines(t, db, memory.Scope{})
	err := db.View(t.Context(), func(tx *engine.Tx) error {
		for m, err := range tx.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("%d %s %s %q", m.Seq, m.ID, m.Run, m.Text))
		}
		return nil
	})
	testdb.NoError(t, err)
	return strings.Join(lines, "\n")
}

func writeTestFile(t *testing.T, files vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := files.Create(path, vfs.WriteCategoryUnspecified)
	testdb.NoError(t, err)
	_, err = f.Write(b)
	testdb.NoError(t, errors.Join(err, f.Close()))
}
