package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

var ops = scope.Owner{Agent: "ops"}

func mustAdd(t testing.TB, n notes.Notes, name, content string, kind memory.Kind) notes.Note {
	t.Helper()
	note, err := n.Add(context.Background(), ops, name, content, kind)
	if err != nil {
		t.Fatal(err)
	}
	return note
}

func namesOf(t testing.TB, n notes.Notes, o scope.Owner) (names []string) {
	t.Helper()
	err := n.List(context.Background(), o, func(note notes.Note) error {
		names = append(names, fmt.Sprint(note.ID, " ", note.Name, " ", note.Aliases))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func foundNotes(t testing.TB, n notes.Notes, query string, limit int) (names []string) {
	t.Helper()
	hits, err := n.Search(context.Background(), ops, query, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		names = append(names, h.Name)
	}
	return names
}

// TestNotesHaveNumbers: an entry has an integer id that is assigned on insert and grows, a name
// that is its identity, aliases that resolve to it, a content, a kind and a creation time.
func TestNotesHaveNumbers(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Clock: func() time.Time { return now }}})
	n := db.Notes()
	first := mustAdd(t, n, "deploy", "The deploy runs at six.", "")
	if first.ID != 1 || first.Name != "deploy" || first.Kind != memory.KindNote || first.Content != "The deploy runs at six." || !first.CreatedAt.Equal(now) || first.MemoryID == "" {
		t.Errorf("%+v", first)
	}
	if second := mustAdd(t, n, "talk", "A summary.", memory.KindArchive); second.ID != 2 || second.Kind != memory.KindArchive {
		t.Errorf("%+v", second)
	}
	if err := n.Remove(t.Context(), ops, "talk"); err != nil {
		t.Fatal(err)
	}
	if third := mustAdd(t, n, "talk", "Another.", ""); third.ID != 3 {
		t.Errorf("number %d was given again", third.ID)
	}
	other, err := n.Add(t.Context(), scope.Owner{Agent: "other"}, "deploy", "Of somebody else.", "")
	if err != nil || other.ID != 1 {
		t.Errorf("%+v, %v", other, err)
	}
	m, err := db.Memories().Get(t.Context(), ops.Scope(), first.MemoryID)
	if err != nil || m.NoteID != 1 || m.Name != "deploy" || m.Kind != memory.KindNote {
		t.Errorf("as a memory: %+v, %v", m, err)
	}
	mustCheck(t, db, 3)
}

// TestNotesByNameAndAlias: a name is unique; entries are addressed by name or alias, everywhere; a name
// is rebound by aliasing, and the canonical name is the one that was chosen last.
func TestNotesByNameAndAlias(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	n, ctx := db.Notes(), t.Context()
	a, b := mustAdd(t, n, "a", "first", ""), mustAdd(t, n, "b", "second", memory.KindArchive)
	for _, name := range []string{"a", "b"} {
		_, err := n.Add(ctx, ops, name, "again", "")
		wantError(t, "add a taken name", err, fault.ErrExists)
	}
	if _, err := n.Alias(ctx, ops, "a", "x"); err != nil {
		t.Fatal(err)
	}
	_, err := n.Add(ctx, ops, "x", "again", "")
	wantError(t, "add under an alias", err, fault.ErrExists)
	_, err = n.Alias(ctx, ops, "a", "b")
	wantError(t, "take a canonical name", err, fault.ErrExists)
	_, err = n.Rename(ctx, ops, "a", "b", false)
	wantError(t, "rename to a canonical name", err, fault.ErrExists)
	if got, err := n.Get(ctx, ops, "x"); err != nil || got.ID != a.ID {
		t.Errorf("by its alias: %+v, %v", got, err)
	}
	// The alias goes from a to b.
	if got, err := n.Alias(ctx, ops, "b", "x"); err != nil || got.ID != b.ID || !slices.Equal(got.Aliases, []string{"x"}) {
		t.Errorf("rebound: %+v, %v", got, err)
	}
	if got, err := n.Get(ctx, ops, "a"); err != nil || len(got.Aliases) != 0 {
		t.Errorf("it still has the alias: %+v, %v", got, err)
	}
	if got, err := n.Rename(ctx, ops, "x", "c", true); err != nil || got.Name != "c" || !slices.Equal(got.Aliases, []string{"x", "b"}) {
		t.Errorf("renamed: %+v, %v", got, err)
	}
	if got, err := n.Rename(ctx, ops, "b", "x", false); err != nil || got.Name != "x" || !slices.Equal(got.Aliases, []string{"b"}) {
		t.Errorf("renamed to its alias: %+v, %v", got, err)
	}
	if _, err := n.Write(ctx, ops, "b", "second, once more"); err != nil {
		t.Fatal(err)
	}
	if err := n.Remove(ctx, ops, "b"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "x", "c"} {
		_, err := n.Get(ctx, ops, name)
		wantError(t, "a removed "+name, err, fault.ErrNotFound)
	}
	mustAdd(t, n, "x", "its names are free", "")
	mustCheck(t, db, 2)
}

// TestNotesAreRanked: notes and archives share one index and one ranking by BM25 of content and
// name; aliases add no tokens; every match comes unless a limit is given; statistics are of
// notes alone.
func TestNotesAreRanked(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	n, ctx := db.Notes(), t.Context()
	mustAdd(t, n, "harbour", "Ships wait for the tide.", "")
	mustAdd(t, n, "tides", "The harbour master writes tables of them.", memory.KindArchive)
	mustAdd(t, n, "lunch", "Soup at noon.", "")
	if _, err := n.Alias(ctx, ops, "lunch", "harbour meal"); err != nil {
		t.Fatal(err)
	}
	if got := foundNotes(t, n, "harbour", 0); !slices.Equal(got, []string{"harbour", "tides"}) && !slices.Equal(got, []string{"tides", "harbour"}) {
		t.Errorf("found %q", got)
	}
	if got := foundNotes(t, n, "meal", 0); len(got) != 0 {
		t.Errorf("an alias is searched: %q", got)
	}
	if got := foundNotes(t, n, "harbour", 1); len(got) != 1 {
		t.Errorf("with a limit of 1: %q", got)
	}
	before, err := n.Search(ctx, ops, "harbour", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // that are no notes
		mustStore(t, db.Memories(), memory.Memory{Scope: ops.Scope(), Text: fmt.Sprint("harbour ", i)})
	}
	if after, err := n.Search(ctx, ops, "harbour", 0); err != nil || len(after) != len(before) || after[0].Score != before[0].Score {
		t.Errorf("memories change the ranking of notes: %+v, %+v, %v", before, after, err)
	}
	for i := range 2_000 {
		mustAdd(t, n, fmt.Sprint("n", i), "common words", "")
	}
	if got := foundNotes(t, n, "common", 0); len(got) != 2_000 {
		t.Errorf("%d of 2,000 matches", len(got))
	}
}

// TestCompactionLeavesANote: a compaction leaves an archive under a generated name, which the
// marker carries, and which is found by name and by search; each leaves one more.
func TestCompactionLeavesANote(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	ctx := t.Context()
	for round := range 2 {
		var items []sessions.Message
		for i := range 40 {
			items = append(items, sessions.Message{Role: "user", Text: fmt.Sprintf("Lighthouse report %d of round %d.", i, round)})
		}
		if _, err := db.Sessions().Append(ctx, ops, "chat", items, nil); err != nil {
			t.Fatal(err)
		}
		out, err := db.Sessions().Compact(ctx, ops, "chat", nil)
		if err != nil || !out.Compacted {
			t.Fatal(out, err)
		}
		note, err := db.Notes().Get(ctx, ops, out.ArchiveName)
		if err != nil || note.Kind != memory.KindArchive || note.ID != uint64(round+1) || note.MemoryID != out.SummaryID {
			t.Errorf("round %d: %+v, %v", round, note, err)
		}
	}
	if got := foundNotes(t, db.Notes(), "lighthouse", 0); len(got) != 2 {
		t.Errorf("found %q", got)
	}
}

// TestNotesInTransactions: what a transaction has done with notes it sees, and a rollback
// takes back.
func TestNotesInTransactions(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	ctx, stop := t.Context(), errors.New("stop")
	err := db.Update(ctx, func(tx *Tx) error {
		mustAdd(t, tx.Notes(), "a", "first", "")
		if _, err := tx.Notes().Alias(ctx, ops, "a", "b"); err != nil {
			return err
		}
		if note, err := tx.Notes().Get(ctx, ops, "b"); err != nil || note.ID != 1 {
			t.Errorf("%+v, %v", note, err)
		}
		_, err := tx.Notes().Add(ctx, ops, "b", "again", "")
		wantError(t, "taken within the transaction", err, fault.ErrExists)
		return stop
	})
	wantError(t, "the rollback", err, stop)
	if got := namesOf(t, db.Notes(), ops); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if note := mustAdd(t, db.Notes(), "a", "first", ""); note.ID != 1 {
		t.Errorf("number %d", note.ID)
	}
	mustCheck(t, db, 1)
}

// TestNotesOfThePast: an earlier state has the names that were, a View too, and a rebuild of
// the index keeps them.
func TestNotesOfThePast(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{Options: Options{Retain: time.Hour}})
	n, ctx := db.Notes(), t.Context()
	mustAdd(t, n, "a", "first", "")
	then := mustStats(t, db).LSN
	err := db.View(ctx, func(tx *Tx) error {
		if _, err := n.Rename(ctx, ops, "a", "b", false); err != nil {
			return err
		}
		if _, err := n.Write(ctx, ops, "b", "second"); err != nil {
			return err
		}
		if got := namesOf(t, tx.Notes(), ops); !slices.Equal(got, []string{"1 a []"}) {
			t.Errorf("in a View: %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Rebuild(ctx, IndexText, nil); err != nil {
		t.Fatal(err)
	}
	err = db.ViewAt(ctx, then, func(tx *Tx) error {
		note, err := tx.Notes().Get(ctx, ops, "a")
		if err == nil && note.Content != "first" {
			t.Errorf("then: %+v", note)
		}
		_, gone := tx.Notes().Get(ctx, ops, "b")
		wantError(t, "a later name", gone, fault.ErrNotFound)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if note, err := n.Get(ctx, ops, "b"); err != nil || note.Content != "second" || note.ID != 1 {
		t.Errorf("now: %+v, %v", note, err)
	}
}

// TestNotesAfterCrashes: after a crash anywhere, what was acknowledged is there, under its
// name and number, and nothing else is.
func TestNotesAfterCrashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := race.Times(30)
	fs, o := crashfs.NewDisk(), setup{tuning: tuning{hotBytes: 30 << 10, lookLeast: 1}}
	db := openTest(t, fs, o)
	have := map[uint64]string{} // names by number
	for range rounds {
		for range 20 {
			name := fmt.Sprint("n", rng.IntN(30))
			at := func() uint64 {
				for id, is := range have {
					if is == name {
						return id
					}
				}
				return 0
			}()
			switch {
			case at == 0:
				have[mustAdd(t, db.Notes(), name, "text of "+name, "").ID] = name
			case rng.IntN(2) == 0:
				if err := db.Notes().Remove(t.Context(), ops, name); err != nil {
					t.Fatal(err)
				}
				delete(have, at)
			default:
				to := fmt.Sprint("m", rng.IntN(1<<30))
				if _, err := db.Notes().Rename(t.Context(), ops, name, to, false); err != nil {
					t.Fatal(err)
				}
				have[at] = to
			}
		}
		if rng.IntN(3) == 0 {
			janitorDone(t, db)
		}
		clone := fs.Lose(rng.IntN(101), rng)
		closeTest(t, db)
		fs = clone
		db = openTest(t, fs, o)
		mustCheck(t, db, len(have))
		for id, name := range have {
			if note, err := db.Notes().Get(t.Context(), ops, name); err != nil || note.ID != id {
				t.Fatalf("%q: %+v, %v, want number %d", name, note, err, id)
			}
		}
	}
}

// TestNotesBadInput: what cannot be is refused, and changes nothing.
func TestNotesBadInput(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{})
	n, ctx := db.Notes(), t.Context()
	mustAdd(t, n, "a", "first", "")
	long := strings.Repeat("x", memory.MaxID+1)
	fails := func(what string, kind error, errs ...error) {
		t.Helper()
		for _, err := range errs {
			wantError(t, what, err, kind)
		}
	}
	second := func(_ notes.Note, err error) error { return err }
	fails("a bad name", fault.ErrInvalid, second(n.Add(ctx, ops, "", "x", "")), second(n.Add(ctx, ops, long, "x", "")), second(n.Add(ctx, ops, "a\x00b", "x", "")),
		second(n.Alias(ctx, ops, "a", "")), second(n.Alias(ctx, ops, "a", long)), second(n.Rename(ctx, ops, "a", "\xff", false)), n.Remove(ctx, ops, ""))
	fails("no content", fault.ErrInvalid, second(n.Add(ctx, ops, "b", "", "")), second(n.Write(ctx, ops, "a", "")), second(n.Add(ctx, ops, "b", strings.Repeat("x", memory.MaxText+1), "")))
	fails("a bad kind", fault.ErrInvalid, second(n.Add(ctx, ops, "b", "x", memory.KindFact)))
	fails("no owner", fault.ErrScope, second(n.Add(ctx, scope.Owner{}, "b", "x", "")), second(n.Get(ctx, scope.Owner{}, "a")), n.List(ctx, scope.Owner{}, func(notes.Note) error { return nil }))
	fails("unknown", fault.ErrNotFound, second(n.Get(ctx, ops, "b")), second(n.Alias(ctx, ops, "b", "c")), second(n.Rename(ctx, ops, "b", "c", true)), second(n.Write(ctx, ops, "b", "x")),
		n.Remove(ctx, ops, "b"), second(n.Get(ctx, scope.Owner{User: "ada", Agent: "ops"}, "a")))
	_, err := n.Search(ctx, ops, "x", -1)
	fails("a negative limit", fault.ErrInvalid, err)
	for i := range memory.MaxAliases {
		if _, err := n.Alias(ctx, ops, "a", fmt.Sprint("alias ", i)); err != nil {
			t.Fatal(err)
		}
	}
	fails("too many aliases", fault.ErrInvalid, second(n.Alias(ctx, ops, "a", "one more")))
	if got := namesOf(t, n, ops); len(got) != 1 || !strings.HasPrefix(got[0], "1 a ") {
		t.Errorf("left: %q", got)
	}
	mustCheck(t, db, 1)
}

// TestNotesAreReached: erasing, ageing and deleting a note by its memory does the same to the
// note, and damage is found.
func TestNotesAreReached(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, setup{})
	n, ctx := db.Notes(), t.Context()
	note := mustAdd(t, n, "a", "first", "")
	mustAdd(t, n, "b", "second", "")
	if err := db.Memories().Delete(ctx, ops.Scope(), note.MemoryID); err != nil {
		t.Fatal(err)
	}
	_, err := n.Get(ctx, ops, "a")
	wantError(t, "of a deleted memory", err, fault.ErrNotFound)
	janitorDone(t, db)
	mustStore(t, db.Memories(), memory.Memory{Scope: ops.Scope(), Text: "the next state"})
	if f := mustStats(t, db).Parts["notes"]; f != 1 {
		t.Errorf("%d notes have a number, 1 is there", f)
	}
	if _, err := db.DeleteOwner(ctx, ops); err != nil {
		t.Fatal(err)
	}
	if again := mustAdd(t, n, "a", "first", ""); again.ID != 3 {
		t.Errorf("after its agent was deleted: number %d", again.ID)
	}
	if _, err := db.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if again := mustAdd(t, n, "a", "first", ""); again.ID != 1 {
		t.Errorf("after a reset: number %d", again.ID)
	}
	mustCheck(t, db, 1)
	for _, key := range [][]byte{
		append(db.keys().Header('N', 0), 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 9), // a number that no memory has
		append(db.keys().Header('N', 0), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9), // of a memory that there never was
		append(db.keys().Header('N', 0), 7),                                     // malformed
	} {
		for _, damaged := range []bool{true, false} {
			err := db.store.Delete(key, pebble.Sync)
			if damaged {
				err = db.store.Set(key, layout.Seal(key, []byte{1}), pebble.Sync)
			}
			if err != nil {
				t.Fatal(err)
			}
			closeTest(t, db)
			db = openTest(t, fs, setup{})
			if r, err := db.Check(ctx); err != nil || r.OK == damaged {
				t.Errorf("%x, damaged %v: %+v, %v", key, damaged, r, err)
			}
		}
	}
}

// TestNotesPersist: a path that does not exist is an empty memory; one that exists is
// read as the last successful operation has left it, with its index.
func TestNotesPersist(t *testing.T) {
	fs := crashfs.NewDisk()
	db := openTest(t, fs, setup{})
	if got := namesOf(t, db.Notes(), ops); len(got) != 0 {
		t.Errorf("a new memory has %q", got)
	}
	mustAdd(t, db.Notes(), "harbour", "Ships wait for the tide.", "")
	if _, err := db.Notes().Alias(t.Context(), ops, "harbour", "port"); err != nil {
		t.Fatal(err)
	}
	_, err := db.Notes().Add(t.Context(), ops, "port", "refused", "")
	wantError(t, "a taken name", err, fault.ErrExists)
	clone := fs.Crash(crashfs.Crash{})
	for name, at := range map[string]*crashfs.Disk{"a crash": clone, "a close": fs} {
		if at == fs {
			closeTest(t, db)
		}
		db := openTest(t, at, setup{})
		if got := namesOf(t, db.Notes(), ops); len(got) != 1 || got[0] != "1 harbour [port]" {
			t.Errorf("after %s: %q", name, got)
		}
		if got := foundNotes(t, db.Notes(), "tide", 0); !slices.Equal(got, []string{"harbour"}) {
			t.Errorf("after %s it finds %q", name, got)
		}
	}
}
