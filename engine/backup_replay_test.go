package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"
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
	clock *testClock
}

// travel writes with several writers at once now and then, so that commits share batches, takes backups
// in between, and seals, deletes and rebuilds.
func travel(t *testing.T, seed uint64) *travelled {
	t.Helper()
	tr := &travelled{dir: t.TempDir(), said: map[uint64]string{}, times: map[uint64]time.Time{}, clock: newTestClock()}
	o := setup{Options{Archive: folder.New(filepath.Join(tr.dir, "archive")), ArchiveDelay: time.Millisecond, Clock: tr.clock.now}, tuning{hotBytes: 8 << 10, lookLeast: 4}}
	db, err := openSetup(filepath.Join(tr.dir, "db"), o)
	if err != nil {
		t.Fatal(err)
	}
	m, rng := db.Memories(), rand.New(rand.NewPCG(seed, 8))
	note := func() {
		lsn := db.LSN()
		if tr.said[lsn] == "" {
			tr.said[lsn], tr.times[lsn], tr.last = contentOf(t, db), tr.clock.now(), lsn
		}
		tr.clock.advance(time.Second)
	}
	for i := range 40 {
		id := fmt.Sprintf("m%d", i)
		s := memory.Scope{User: "u", Run: fmt.Sprint(i % 5)}
		mustStore(t, m, memory.Memory{ID: id, Scope: s, Text: id + " is told", Embedding: []float32{1, float32(i)}})
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
func (tr *travelled) storm(t *testing.T, db *DB, i int) error {
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

func (tr *travelled) restore(t *testing.T, repo string, o RestoreOptions) (RestoreReport, *DB, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "to")
	r, err := Restore(t.Context(), repo, to, &o)
	if err != nil {
		return r, nil, err
	}
	db, err := Open(to, &Options{ReadOnly: true, Clock: tr.clock.now})
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
			o    RestoreOptions
		}{{archive, RestoreOptions{ToLSN: lsn}}, {repo, RestoreOptions{ToLSN: lsn, Archive: archive}}} {
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
		r, db, err := tr.restore(t, archive, RestoreOptions{ToTime: at})
		if err != nil || r.LSN < lsn || contentOf(t, db) != tr.said[lsn] {
			t.Errorf("to %v: %+v, %v; LSN %d was the newest", at, r, err, lsn)
		}
	}
	_, _, err := tr.restore(t, archive, RestoreOptions{ToTime: tr.clock.now().Add(time.Hour)})
	wantError(t, "behind the newest commit", err, memory.ErrInvalid)
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
	r, db, err := tr.restore(t, archive, RestoreOptions{})
	if err != nil || r.Short == nil || r.LSN >= r.Short.Had.LSN || db.LSN() != r.LSN {
		t.Fatalf("%+v, %v", r, err)
	}
	_, _, err = tr.restore(t, archive, RestoreOptions{ToLSN: r.Short.Had.LSN})
	wantError(t, "to what the archive had", err, memory.ErrCorrupt)
	if r, _, err := tr.restore(t, archive, RestoreOptions{ToLSN: r.LSN}); err != nil || r.Short != nil {
		t.Errorf("to what is there: %+v, %v", r, err)
	}
	c, err := folder.Follow(archive, wal.Timeline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	replica, err := OpenReplica(filepath.Join(tr.dir, "replica"), c.Next, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "a replica", replica.Wait(t.Context()), memory.ErrCorrupt)
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
	backups, err := Open(filepath.Join(tr.dir, "db"), &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	newest := backups.LSN()
	closes(t, backups)
	for _, c := range []struct {
		what, repo string
		o          RestoreOptions
		want       error
	}{
		{"beyond the end", archive, RestoreOptions{ToLSN: newest + 1}, memory.ErrNotRetained},
		{"beyond the end, from a backup", repo, RestoreOptions{ToLSN: newest + 1, Archive: archive}, memory.ErrNotRetained},
		{"between the backups, without the archive", repo, RestoreOptions{ToLSN: newest}, memory.ErrNotRetained},
		{"before the backups, without the archive", repo, RestoreOptions{ToLSN: 1}, memory.ErrNotFound},
		{"the archive of another database", repo, RestoreOptions{ToLSN: newest, Archive: filepath.Join(other.dir, "archive")}, memory.ErrMismatch},
		{"an archive that is none", repo, RestoreOptions{ToLSN: newest, Archive: repo}, memory.ErrNotDatabase},
		{"a database in place of a repository", filepath.Join(tr.dir, "db"), RestoreOptions{}, memory.ErrNotDatabase},
	} {
		_, _, err := tr.restore(t, c.repo, c.o)
		wantError(t, c.what, err, c.want)
	}
}

// TestRestoredTimeline: a database that was restored begins another timeline, in an archive of its own, and
// of the old one nothing is followed by it.
func TestRestoredTimeline(t *testing.T) {
	race.Sequential(t)
	tr := travel(t, 4)
	archive, to := filepath.Join(tr.dir, "archive"), filepath.Join(tr.dir, "to")
	r, err := Restore(t.Context(), archive, to, &RestoreOptions{ToLSN: 30})
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(to, &Options{Archive: folder.New(archive), Clock: tr.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	tr.clock.advance(time.Second) // of two timelines the one that was written last is the newest
	mustStore(t, db.Memories(), memory.Memory{Text: "on the new timeline", Scope: memory.Scope{User: "u"}})
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
	_, again, err := tr.restore(t, archive, RestoreOptions{})
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
