package tree

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

func newTree(t *testing.T) (*Tree, *testdb.Clock) {
	c := testdb.NewClock()
	return &Tree{DB: testdb.New(t, engine.Options{Clock: c.Now}), Owner: scope.Owner{User: "ada"}, Now: c.Now}, c
}

// A call is a command, what it answers, and whether that is a refusal.
type call struct {
	Input   Command `json:"input"`
	Result  string  `json:"result"`
	IsError bool    `json:"is_error"`
}

func runCalls(t *testing.T, tr *Tree, calls []call) {
	t.Helper()
	for i, c := range calls {
		got, err := tr.Run(t.Context(), c.Input)
		if refusal, ok := errors.AsType[Refusal](err); ok {
			got = string(refusal)
		} else if err != nil {
			t.Fatalf("%d %+v: %v", i, c.Input, err)
		}
		if got != c.Result || (err != nil) != c.IsError {
			t.Errorf("%d %+v:\n got %q, refused %v\nwant %q, refused %v", i, c.Input, got, err != nil, c.Result, c.IsError)
		}
	}
}

// TestRecording: the answers are those of the tool that others have.
func TestRecording(t *testing.T) {
	b, err := os.ReadFile(realdata.Path(t, "specs/anthropic/memory-tool-recording.json"))
	testdb.NoError(t, err)
	var calls []call
	testdb.NoError(t, json.Unmarshal(b, &calls))
	if len(calls) < 30 {
		t.Fatalf("%d calls", len(calls))
	}
	tr, _ := newTree(t)
	runCalls(t, tr, calls)
	testdb.Check(t, tr.DB, 2)
}

func TestCommands(t *testing.T) {
	tr, _ := newTree(t)
	view := func(path string) Command { return Command{Command: "view", Path: path} }
	const nothing = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n4K\t/memories"
	runCalls(t, tr, []call{
		{view("/memories"), nothing, false},
		{Command{Command: "create", Path: "/memories/a/b.md", FileText: "one\none two\n"}, "File created successfully at: /memories/a/b.md", false},
		{Command{Command: "create", Path: "/memories/a", FileText: "x"}, "File /memories/a already exists", true},
		{Command{Command: "create", Path: "/memories", FileText: "x"}, "File /memories already exists", true},
		{Command{Command: "create", Path: "/memories/a/b.md/c", FileText: "x"}, "The path /memories/a/b.md is not a directory.", true},
		{Command{Command: "str_replace", Path: "/memories/a/b.md", OldStr: "one", NewStr: "x"}, "No replacement was performed. Multiple occurrences of old_str `one` in lines: 1, 2. Please ensure it is unique", true},
		{Command{Command: "str_replace", Path: "/memories/a/b.md", OldStr: "", NewStr: "x"}, "No replacement was performed: old_str is empty.", true},
		// What goes over lines is found, and twice in a line is twice.
		{Command{Command: "str_replace", Path: "/memories/a/b.md", OldStr: "one\none", NewStr: "aa\na"}, "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\taa\n     2\ta two\n     3\t", false},
		{Command{Command: "str_replace", Path: "/memories/a/b.md", OldStr: "a\na two", NewStr: "aaa\na two"}, "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\taaaa\n     2\ta two\n     3\t", false},
		{Command{Command: "str_replace", Path: "/memories/a/b.md", OldStr: "aa", NewStr: "x"}, "No replacement was performed. Multiple occurrences of old_str `aa` in lines: 1. Please ensure it is unique", true},
		{view("/memories/./a//b.md"), "Here's the content of /memories/./a//b.md with line numbers:\n     1\taaaa\n     2\ta two\n     3\t", false},
		{Command{Command: "view", Path: "/memories/a/b.md", ViewRange: []int{2, 1}}, "Here's the content of /memories/a/b.md with line numbers:\n", false},
		{Command{Command: "view", Path: "/memories/a/b.md", ViewRange: []int{-5, 9}}, "Here's the content of /memories/a/b.md with line numbers:\n     1\taaaa\n     2\ta two\n     3\t", false},
		{Command{Command: "rename", OldPath: "/memories/a", NewPath: "/memories/a/c"}, "Cannot rename /memories/a to /memories/a/c, which is below it", true},
		{Command{Command: "rename", OldPath: "/memories/a", NewPath: "/memories/b"}, "Successfully renamed /memories/a to /memories/b", false},
		{view("/memories/b"), "Here're the files and directories up to 2 levels deep in /memories/b, excluding hidden items and node_modules:\n4K\t/memories/b\n11B\t/memories/b/b.md", false},
		{view("/memories/a"), "The path /memories/a does not exist. Please provide a valid path.", true},
		{Command{Command: "rename", OldPath: "/memories/b/b.md", NewPath: "/memories/b/b.md/x"}, "Cannot rename /memories/b/b.md to /memories/b/b.md/x, which is below it", true},
		{Command{Command: "rename", OldPath: "/memories/b/b.md", NewPath: "/memories/b"}, "The destination /memories/b already exists", true},
		{Command{Command: "insert", Path: "/memories", InsertText: "x"}, "The path /memories is not a file.", true},
		{Command{Command: "insert", Path: "/memories/b/b.md", InsertLine: -1, InsertText: "x"}, "Invalid `insert_line` parameter: -1. It should be within the range of lines of the file: [0, 3]", true},
		// No way out.
		{view("memories"), "Path must start with /memories, got: memories", true},
		{view("/memories/a/../../x"), "Path /memories/a/../../x would escape /memories directory", true},
		{view("/memories/b/../b/b.md/.."), "Here're the files and directories up to 2 levels deep in /memories/b/../b/b.md/.., excluding hidden items and node_modules:\n4K\t/memories/b/../b/b.md/..\n11B\t/memories/b/../b/b.md/../b.md", false},
		{Command{Command: "create", Path: "/memories/\x00"}, `The path "/memories/\x00" cannot be used: it has a control or format character`, true},
		{Command{Command: "create", Path: "/memories/%2e%2e/x", FileText: "x"}, "File created successfully at: /memories/%2e%2e/x", false},
		{Command{Command: "grep", Path: "/memories"}, `Unknown command: "grep". Use view, create, str_replace, insert, delete or rename.`, true},
		{Command{Command: "delete", Path: "/memories/."}, "Cannot delete the /memories directory itself", true},
		{Command{Command: "create", Path: "/memories/" + strings.Repeat("x", 600)}, `The path "/memories/` + strings.Repeat("x", 190) + `" cannot be used: it has 601 bytes, the limit is 503`, true},
	})
	// Another owner, and another store of this one, have other files.
	for _, other := range []*Tree{{DB: tr.DB, Owner: scope.Owner{User: "bob"}}, {DB: tr.DB, Owner: scope.Owner{User: "ada", Agent: "planner"}}, {DB: tr.DB, Owner: tr.Owner, Store: "memstore_x"}} {
		runCalls(t, other, []call{{view("/memories"), nothing, false}, {view("/memories/b/b.md"), "The path /memories/b/b.md does not exist. Please provide a valid path.", true}})
	}
}

// TestVersions: each change is a version, with a text until it is redacted.
func TestVersions(t *testing.T) {
	tr, clock := newTree(t)
	run := func(c Command) {
		t.Helper()
		clock.Advance(1e9)
		_, err := tr.Run(t.Context(), c)
		testdb.NoError(t, err)
	}
	run(Command{Command: "create", Path: "/memories/plan", FileText: "meet zanzibar"})
	first := fileAt(t, tr, "/plan")
	run(Command{Command: "str_replace", Path: "/memories/plan", OldStr: "meet zanzibar", NewStr: ""})
	run(Command{Command: "insert", Path: "/memories/plan", InsertText: "sleep"})
	run(Command{Command: "rename", OldPath: "/memories/plan", NewPath: "/memories/old"})
	last := fileAt(t, tr, "/old")
	if last.ID != first.ID || last.Version == first.Version || !last.CreatedAt.Equal(first.CreatedAt) || !last.ChangedAt.After(first.ChangedAt) {
		t.Errorf("%+v, after %+v", last, first)
	}
	versions := func() (told []string) {
		var all []Version
		testdb.NoError(t, tr.View(t.Context(), func(v *View) error {
			return v.Versions(func(of Version) { all = append(all, of) })
		}))
		slices.SortFunc(all, func(a, b Version) int { return a.At.Compare(b.At) })
		for _, of := range all {
			testdb.NoError(t, tr.View(t.Context(), func(v *View) error { return v.Content(&of) }))
			text := "-"
			if of.Content != nil {
				text = *of.Content
			}
			if of.File != first.ID {
				t.Errorf("%+v", of)
			}
			told = append(told, string(of.Operation)+" "+of.Path+" "+text)
		}
		return told
	}
	testdb.Equal(t, "versions", versions(), []string{"created /plan meet zanzibar", "modified /plan ", "modified /plan sleep\n", "modified /old sleep\n"})
	if _, err := tr.Redact(t.Context(), last.Version); !errors.Is(err, ErrPresent) {
		t.Error(err)
	}
	run(Command{Command: "delete", Path: "/memories/old"})
	for range 2 {
		of, err := tr.Redact(t.Context(), first.Version)
		if err != nil || of.RedactedAt == nil || of.Content != nil || of.Path != "" {
			t.Fatalf("%+v, %v", of, err)
		}
	}
	testdb.Equal(t, "versions", versions(), []string{"created  -", "modified /plan ", "modified /plan sleep\n", "modified /old sleep\n", "deleted /old -"})
	if _, err := tr.DB.Memories().History(t.Context(), memory.Scope{User: "ada"}, first.Version); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	if _, err := tr.Redact(t.Context(), "none"); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	other := &Tree{DB: tr.DB, Owner: scope.Owner{User: "bob"}}
	if _, err := other.Redact(t.Context(), last.Version); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	testdb.NoError(t, tr.Update(t.Context(), (*Edit).Clear))
	testdb.Equal(t, "versions", versions(), nil)
	testdb.Check(t, tr.DB, 0)
}

func fileAt(t *testing.T, tr *Tree, path string) (f File) {
	t.Helper()
	testdb.NoError(t, tr.View(t.Context(), func(v *View) (err error) {
		found := false
		if f, found, err = v.At(path); !found {
			t.Errorf("nothing at %s", path)
		}
		return err
	}))
	return f
}

// TestNotes: a note of somebody else is a file, and keeps what else it has.
func TestNotes(t *testing.T) {
	tr, _ := newTree(t)
	_, err := tr.DB.Notes().Add(t.Context(), tr.Owner, "/memories/tea", "green", memory.KindNote)
	testdb.NoError(t, err)
	_, err = tr.DB.Notes().Alias(t.Context(), tr.Owner, "/memories/tea", "drink")
	testdb.NoError(t, err)
	before := fileAt(t, tr, "/tea")
	pinned, metadata := true, map[string]any{"file": "mine", "tag": "x"}
	_, err = tr.DB.Memories().Update(t.Context(), memory.Scope{User: "ada"}, before.Version, memory.Patch{Pinned: &pinned, Metadata: &metadata})
	testdb.NoError(t, err)
	if _, err := tr.Run(t.Context(), Command{Command: "insert", Path: "/memories/tea", InsertLine: 1, InsertText: "black"}); err != nil {
		t.Fatal(err)
	}
	after := fileAt(t, tr, "/tea")
	if after.Content != "green\nblack" || after.ID != before.ID || !after.note.Pinned || after.note.Metadata["tag"] != "x" || !slices.Equal(after.note.Aliases, []string{"drink"}) {
		t.Errorf("%+v", after)
	}
	n, err := tr.DB.Notes().Get(t.Context(), tr.Owner, "drink")
	if err != nil || n.Content != "green\nblack" {
		t.Errorf("%+v, %v", n, err)
	}
}
