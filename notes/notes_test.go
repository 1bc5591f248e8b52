package notes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
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
	db := testdb.Open(t, vfs.NewMem(), engine.Options{Clock: func() time.Time { return now }})
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
	testdb.Check(t, db, 3)
}

// TestNotesByNameAndAlias: a name is unique; entries are addressed by name or alias, everywhere; a name
// is rebound by aliasing, and the canonical name is the one that was chosen last.
func TestNotesByNameAndAlias(t *testing.T) {
	db := testdb.Open(t, vfs.NewMem(), engine.Options{})
	n, ctx := db.Notes(), t.Context()
	a, b := mustAdd(t, n, "a", "first", ""), mustAdd(t, n, "b", "second", memory.KindArchive)
	for _, name := range []string{"a", "b"} {
		_, err := n.Add(ctx, ops, name, "again", "")
		testdb.WantError(t, "add a taken name", err, fault.ErrExists)
	}
	if _, err := n.Alias(ctx, ops, "a", "x"); err != nil {
		t.Fatal(err)
	}
	_, err := n.Add(ctx, ops, "x", "again", "")
	testdb.WantError(t, "add under an alias", err, fault.ErrExists)
	_, err = n.Alias(ctx, ops, "a", "b")
	testdb.WantError(t, "take a canonical name", err, fault.ErrExists)
	_, err = n.Rename(ctx, ops, "a", "b", false)
	testdb.WantError(t, "rename to a canonical name", err, fault.ErrExists)
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
		testdb.WantError(t, "a removed "+name, err, fault.ErrNotFound)
	}
	mustAdd(t, n, "x", "its names are free", "")
	testdb.Check(t, db, 2)
}

// TestNotesAreRanked: notes and archives share one index and one ranking by BM25 of content and
// name; aliases add no tokens; every match comes unless a limit is given; statistics are of
// notes alone.
func TestNotesAreRanked(t *testing.T) {
	db := testdb.Open(t, vfs.NewMem(), engine.Options{})
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
		testdb.Store(t, db.Memories(), memory.Memory{Scope: ops.Scope(), Text: fmt.Sprint("harbour ", i)})
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
	db := testdb.Open(t, vfs.NewMem(), engine.Options{})
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
	db := testdb.Open(t, vfs.NewMem(), engine.Options{})
	ctx, stop := t.Context(), errors.New("stop")
	err := db.Update(ctx, func(tx *engine.Tx) error {
		mustAdd(t, tx.Notes(), "a", "first", "")
		if _, err := tx.Notes().Alias(ctx, ops, "a", "b"); err != nil {
			return err
		}
		if note, err := tx.Notes().Get(ctx, ops, "b"); err != nil || note.ID != 1 {
			t.Errorf("%+v, %v", note, err)
		}
		_, err := tx.Notes().Add(ctx, ops, "b", "again", "")
		testdb.WantError(t, "taken within the transaction", err, fault.ErrExists)
		return stop
	})
	testdb.WantError(t, "the rollback", err, stop)
	if got := namesOf(t, db.Notes(), ops); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if note := mustAdd(t, db.Notes(), "a", "first", ""); note.ID != 1 {
		t.Errorf("number %d", note.ID)
	}
	testdb.Check(t, db, 1)
}

// TestNotesOfThePast: an earlier state has the names that were, a View too, and a rebuild of
// the index keeps them.
func TestNotesOfThePast(t *testing.T) {
	db := testdb.Open(t, vfs.NewMem(), engine.Options{Retain: time.Hour})
	n, ctx := db.Notes(), t.Context()
	mustAdd(t, n, "a", "first", "")
	then := testdb.Stats(t, db).LSN
	err := db.View(ctx, func(tx *engine.Tx) error {
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
	if err := db.Rebuild(ctx, engine.IndexText, nil); err != nil {
		t.Fatal(err)
	}
	err = db.ViewAt(ctx, then, func(tx *engine.Tx) error {
		note, err := tx.Notes().Get(ctx, ops, "a")
		if err == nil && note.Content != "first" {
			t.Errorf("then: %+v", note)
		}
		_, gone := tx.Notes().Get(ctx, ops, "b")
		testdb.WantError(t, "a later name", gone, fault.ErrNotFound)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if note, err := n.Get(ctx, ops, "b"); err != nil || note.Content != "second" || note.ID != 1 {
		t.Errorf("now: %+v, %v", note, err)
	}
}

// TestNotesBadInput: what cannot be is refused, and changes nothing.
func TestNotesBadInput(t *testing.T) {
	db := testdb.Open(t, vfs.NewMem(), engine.Options{})
	n, ctx := db.Notes(), t.Context()
	mustAdd(t, n, "a", "first", "")
	long := strings.Repeat("x", memory.MaxID+1)
	fails := func(what string, kind error, errs ...error) {
		t.Helper()
		for _, err := range errs {
			testdb.WantError(t, what, err, kind)
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
	testdb.Check(t, db, 1)
}

// TestNotesPersist: a path that does not exist is an empty memory; one that exists is
// read as the last successful operation has left it, with its index.
func TestNotesPersist(t *testing.T) {
	fs := crashfs.NewDisk()
	db := testdb.Open(t, fs, engine.Options{})
	if got := namesOf(t, db.Notes(), ops); len(got) != 0 {
		t.Errorf("a new memory has %q", got)
	}
	mustAdd(t, db.Notes(), "harbour", "Ships wait for the tide.", "")
	if _, err := db.Notes().Alias(t.Context(), ops, "harbour", "port"); err != nil {
		t.Fatal(err)
	}
	_, err := db.Notes().Add(t.Context(), ops, "port", "refused", "")
	testdb.WantError(t, "a taken name", err, fault.ErrExists)
	clone := fs.Crash(crashfs.Crash{})
	for name, at := range map[string]*crashfs.Disk{"a crash": clone, "a close": fs} {
		if at == fs {
			testdb.Close(t, db)
		}
		db := testdb.Open(t, at, engine.Options{})
		if got := namesOf(t, db.Notes(), ops); len(got) != 1 || got[0] != "1 harbour [port]" {
			t.Errorf("after %s: %q", name, got)
		}
		if got := foundNotes(t, db.Notes(), "tide", 0); !slices.Equal(got, []string{"harbour"}) {
			t.Errorf("after %s it finds %q", name, got)
		}
	}
}
