package dialecttest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server/tree"
)

// run does a command of the memory tool.
func (s *site) run(c tree.Command) string {
	s.t.Helper()
	said, err := (&tree.Tree{DB: s.db, Owner: memory.Owner{User: "ada"}, Now: s.clock.Now}).Run(s.t.Context(), c)
	testdb.NoError(s.t, err)
	return said
}

// randomFiles are the files of a folder, by their paths below it.
func randomFiles(t *testing.T, now time.Time) fstest.MapFS {
	r := random(t)
	files := fstest.MapFS{}
	for i := range 20 {
		name := fmt.Sprintf("%s%d.md", []string{"", "plans/", "plans/old/", "Åse/"}[r.IntN(4)], i)
		text := strings.Repeat(fmt.Sprintf("Line of %d\n", i), r.IntN(4))
		files[name] = &fstest.MapFile{Data: []byte(text), ModTime: now.Add(-time.Duration(r.IntN(1e6)) * time.Second)}
	}
	return files
}

// TestAnthropic verifies that the memory tool and the memory stores answer for an imported folder as
// they do for files that the tool has made.
func TestAnthropic(t *testing.T) {
	imported, made := newSite(t), newSite(t)
	files := randomFiles(t, imported.clock.Now())
	folder := fstest.MapFS{".git/config": {}, ".DS_Store": {}, "bin": {Data: []byte{0xff, 0}}}
	for name, f := range files {
		folder[path.Join("memories", name)] = f
		made.run(tree.Command{Command: "create", Path: "/memories/" + name, FileText: string(f.Data)})
	}
	delete(folder, "bin")
	folder["memories/bin"] = &fstest.MapFile{Data: []byte{0xff, 0}}
	report, left := imported.importsFolder(move.Anthropic, folder, memory.Scope{User: "ada"})
	if report.Stored != len(files) || report.Skipped > 0 || left["files that are no text"] != 1 {
		t.Errorf("%+v, left out %v", report, left)
	}
	for _, view := range []string{"/memories", "/memories/plans"} {
		if got, want := imported.run(tree.Command{Command: "view", Path: view}), made.run(tree.Command{Command: "view", Path: view}); got != want {
			t.Errorf("view %s:\n%s\nwant\n%s", view, got, want)
		}
	}
	list := func(s *site) (all []map[string]any) {
		got := s.ask(200, "GET /v1/memory_stores/"+products.Memories+"/memories?view=full&limit=100&user=ada", "")
		for _, one := range at(got, "data").([]any) {
			item := one.(map[string]any)
			for _, key := range []string{"id", "memory_version_id", "created_at", "updated_at"} {
				delete(item, key)
			}
			all = append(all, item)
		}
		return all
	}
	same(t, "the store", list(imported), list(made))
	for name, f := range files {
		if got, want := imported.run(tree.Command{Command: "view", Path: "/memories/" + name}), made.run(tree.Command{Command: "view", Path: "/memories/" + name}); got != want {
			t.Errorf("view %s: %q, want %q", name, got, want)
		}
		_ = f
	}
	if again, _ := imported.importsFolder(move.Anthropic, folder, memory.Scope{User: "ada"}); again.Unchanged != len(files) {
		t.Errorf("imported again: %+v", again)
	}
	// A folder over files that the tool has made: what is the same is unchanged, and what differs is skipped.
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	made.run(tree.Command{Command: "insert", Path: "/memories/" + names[0], InsertText: "more"})
	if over, _ := made.importsFolder(move.Anthropic, folder, memory.Scope{User: "ada"}); over.Unchanged != len(files)-1 || over.Skipped != 1 {
		t.Errorf("imported over files: %+v", over)
	}
	same(t, "as many files as before", len(list(made)), len(files))
}

// TestAnthropicStores verifies that what the API of memory stores answers can be imported, and is
// answered again.
func TestAnthropicStores(t *testing.T) {
	s, copied := newSite(t), newSite(t)
	store := at(s.ask(200, "POST /v1/memory_stores?user=ada", `{"name":"plans","metadata":{"k":"v"}}`), "id").(string)
	memories := "/v1/memory_stores/" + store + "/memories"
	for i := range 5 {
		s.ask(200, "POST "+memories+"?user=ada", fmt.Sprintf(`{"path":"/a/%d.md","content":"text %d"}`, i, i))
		s.clock.Advance(time.Minute)
	}
	for _, target := range []string{"/v1/memory_stores?user=ada", memories + "?user=ada&view=full"} {
		report, left := copied.imports(move.Anthropic, toJSON(t, s.ask(200, "GET "+target, "")), memory.Scope{User: "ada"})
		if report.Skipped > 0 || report.Stored == 0 || len(left) > strings.Count(target, store) {
			t.Errorf("%s: %+v, left out %v", target, report, left)
		}
		same(t, target, copied.ask(200, "GET "+target, ""), s.ask(200, "GET "+target, ""))
	}
}
