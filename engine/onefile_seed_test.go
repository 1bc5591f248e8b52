package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// The tests of this file are named after what is promised of a memory that is one file.

var keeper = scope.Owner{Agent: "keeper"}

// oneFile opens a database in one file, with a small budget.
func oneFile(t testing.TB, path string) *engine.DB {
	t.Helper()
	db, err := engine.Open(path, &engine.Options{MemoryBudget: testdb.Budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testdb.Close(t, db) })
	return db
}

// stolen is the file as it is now, alone in another folder, and opened.
func stolen(t testing.TB, path string) *engine.DB {
	t.Helper()
	b, err := os.ReadFile(path)
	testdb.NoError(t, err)
	to := filepath.Join(t.TempDir(), "stolen.memdb")
	testdb.NoError(t, os.WriteFile(to, b, 0o600))
	return oneFile(t, to)
}

// noteLine writes a note that is read to a string.
func noteLine(to *string) func(notes.Note) error {
	return func(n notes.Note) error {
		*to += fmt.Sprint(n.Name, " ", n.Aliases, " ", n.Content)
		return nil
	}
}

// namesIn are the names in a folder.
func namesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	testdb.NoError(t, err)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// TestTheMemoryIsASingleFile: after it is closed, nothing lies beside it, and the file alone holds
// all that was stored.
func TestTheMemoryIsASingleFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.memdb")
	db := oneFile(t, path)
	ctx := t.Context()
	id := testdb.Store(t, db.Memories(), memory.Memory{Text: "The deploy runs at six.", Scope: memory.Scope{Agent: "keeper"}, Embedding: []float32{1, 2, 3}}).ID
	_, err := db.Notes().Add(ctx, keeper, "tea", "Green, no milk.", "")
	testdb.NoError(t, err)
	_, err = db.KV().Put(ctx, keeper, "cart", map[string]int{"tea": 2}, &entries.PutOptions{})
	testdb.NoError(t, err)
	_, err = db.Graph().Put(ctx, keeper, graph.Entity{ID: "tea", Type: "drink"}, nil, nil)
	testdb.NoError(t, err)
	_, err = db.Graph().Put(ctx, keeper, graph.Entity{ID: "ada", Type: "person"}, []graph.Edge{{Type: "drinks", Target: "tea"}}, nil)
	testdb.NoError(t, err)
	_, err = db.Sessions().Append(ctx, keeper, "monday", []sessions.Message{{Role: "user", Text: "Tea, please."}}, nil)
	testdb.NoError(t, err)
	if db.Form() != engine.FormFile || db.File() != path || db.Dir() != "" {
		t.Errorf("%s, %q, %q", db.Form(), db.File(), db.Dir())
	}
	lsn := db.LSN()
	testdb.Close(t, db)
	if names := namesIn(t, dir); !slices.Equal(names, []string{"agent.memdb"}) {
		t.Errorf("beside it lie %v", names)
	}
	info, err := os.Stat(path)
	testdb.NoError(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
	db = stolen(t, path)
	if db.LSN() != lsn {
		t.Errorf("LSN %d, was %d", db.LSN(), lsn)
	}
	m, err := db.Memories().Get(ctx, memory.Scope{Agent: "keeper"}, id)
	testdb.NoError(t, err)
	if stats := testdb.Stats(t, db); m.Text != "The deploy runs at six." || stats.Vectors != 1 {
		t.Errorf("%+v, %d vectors", m, stats.Vectors)
	}
	cart, err := db.KV().Get(ctx, keeper, "cart")
	testdb.NoError(t, err)
	found, err := db.Graph().Find(ctx, keeper, "ada", graph.FindOptions{})
	testdb.NoError(t, err)
	window, err := db.Sessions().Load(ctx, keeper, "monday", nil)
	testdb.NoError(t, err)
	if string(cart.Value) != `{"tea":2}` || len(found.Found) != 1 || len(window.Messages) != 1 {
		t.Errorf("%s, %+v, %+v", cart.Value, found, window)
	}
	r, err := db.CheckDeep(ctx)
	if err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTheFileHoldsAllEntriesAliasesAndTheIndex: entries, aliases and what search needs are in the
// file after each operation.
func TestTheFileHoldsAllEntriesAliasesAndTheIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.memdb")
	db := oneFile(t, path)
	n, ctx := db.Notes(), t.Context()
	_, err := n.Add(ctx, keeper, "deploy", "The deploy runs at six.", memory.KindNote)
	testdb.NoError(t, err)
	_, err = n.Add(ctx, keeper, "talk", "A summary of a talk about the deploy.", memory.KindArchive)
	testdb.NoError(t, err)
	_, err = n.Alias(ctx, keeper, "deploy", "release")
	testdb.NoError(t, err)
	copied := stolen(t, path).Notes()
	for _, name := range []string{"deploy", "release", "talk"} {
		if _, err := copied.Get(ctx, keeper, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	hits, err := copied.Search(ctx, keeper, "deploy", 0)
	if err != nil || len(hits) != 2 || hits[0].Name != "deploy" || hits[0].Score <= hits[1].Score {
		t.Errorf("%+v, %v", hits, err)
	}
}

// TestAWriteMutatesRAMAndWritesASnapshotOnEachSuccessfulApply: each operation has written a new
// file before it returns, and one that fails has not.
func TestAWriteMutatesRAMAndWritesASnapshotOnEachSuccessfulApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.memdb")
	db := oneFile(t, path)
	n, ctx := db.Notes(), t.Context()
	now := func() []byte {
		b, err := os.ReadFile(path)
		testdb.NoError(t, err)
		return b
	}
	var before []byte
	for _, op := range []struct {
		name string
		run  func() error
		left string // the name, the alias and the content of what is there after it
	}{
		{"Add", func() error { _, err := n.Add(ctx, keeper, "a", "one", memory.KindNote); return err }, "a [] one"},
		{"Rename", func() error { _, err := n.Rename(ctx, keeper, "a", "b", false); return err }, "b [] one"},
		{"Alias", func() error { _, err := n.Alias(ctx, keeper, "b", "c"); return err }, "b [c] one"},
		{"Write", func() error { _, err := n.Write(ctx, keeper, "c", "two"); return err }, "b [c] two"},
		{"Remove", func() error { return n.Remove(ctx, keeper, "c") }, ""},
	} {
		testdb.NoError(t, op.run())
		after := now()
		if slices.Equal(before, after) {
			t.Errorf("%s has not written the file", op.name)
		}
		before = after
		left := ""
		testdb.NoError(t, stolen(t, path).Notes().List(ctx, keeper, noteLine(&left)))
		if left != op.left {
			t.Errorf("after %s the file has %q, want %q", op.name, left, op.left)
		}
	}
	if _, err := n.Write(ctx, keeper, "nobody", "text"); !errors.Is(err, memory.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if !slices.Equal(before, now()) {
		t.Error("an operation that failed has written the file")
	}
}

// TestOpeningAnExistingPathReadsTheSnapshotIntoRAM: what is open needs the file no more to be read.
func TestOpeningAnExistingPathReadsTheSnapshotIntoRAM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.memdb")
	db := oneFile(t, path)
	_, err := db.Notes().Add(t.Context(), keeper, "a", "one", memory.KindNote)
	testdb.NoError(t, err)
	testdb.Close(t, db)
	db = oneFile(t, path)
	testdb.NoError(t, os.Rename(path, path+".away"))
	if got, err := db.Notes().Get(t.Context(), keeper, "a"); err != nil || got.Content != "one" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOpeningAMissingPathCreatesAnEmptyMemory: it is empty, and the file is written on the first
// successful apply.
func TestOpeningAMissingPathCreatesAnEmptyMemory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.memdb")
	for range 2 {
		db := oneFile(t, path)
		left := ""
		testdb.NoError(t, db.Notes().List(t.Context(), keeper, noteLine(&left)))
		if hits, err := db.Notes().Search(t.Context(), keeper, "anything", 0); left != "" || len(hits) > 0 || err != nil {
			t.Errorf("%q, %v, %v", left, hits, err)
		}
		if _, err := db.Notes().Write(t.Context(), keeper, "none", "text"); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it was written before the first commit: %v", err)
		}
		testdb.Close(t, db)
		if names := namesIn(t, dir); len(names) > 0 {
			t.Errorf("an empty memory leaves %v", names)
		}
	}
	db := oneFile(t, path)
	_, err := db.Notes().Add(t.Context(), keeper, "a", "one", memory.KindNote)
	testdb.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it was not written by the first commit: %v", err)
	}
}

// TestTheMemoryIsSharedAcrossConversations: archives that compactions leave in one conversation are
// found in the next, which opens the same file.
func TestTheMemoryIsSharedAcrossConversations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.memdb")
	ctx := t.Context()
	db := oneFile(t, path)
	var all []sessions.Message
	for _, text := range []string{"The cat is called Miso.", "What does she eat?", "Fish, and nothing else.", "Noted.", "And the dog?", "There is none."} {
		all = append(all, sessions.Message{Role: "user", Text: text})
	}
	_, err := db.Sessions().Append(ctx, keeper, "monday", all, nil)
	testdb.NoError(t, err)
	c, err := db.Sessions().Compact(ctx, keeper, "monday", &sessions.CompactOptions{Threshold: 4, KeepRecent: 2})
	if err != nil || !c.Compacted || c.ArchiveName == "" {
		t.Fatalf("%+v, %v", c, err)
	}
	testdb.Close(t, db)
	db = oneFile(t, path)
	got, err := db.Notes().Get(ctx, keeper, c.ArchiveName)
	if err != nil || got.Kind != memory.KindArchive {
		t.Errorf("%+v, %v", got, err)
	}
	if hits, err := db.Notes().Search(ctx, keeper, "Miso", 0); err != nil || len(hits) != 1 || hits[0].Name != c.ArchiveName {
		t.Errorf("%+v, %v", hits, err)
	}
}
