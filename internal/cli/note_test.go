package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The life of notes: names, aliases that move, an archive, a search, the past; an export and
// an import keep all of it, numbers included.
func TestNotes(t *testing.T) {
	c := newCLI(t)
	add := func(args ...string) map[string]any {
		t.Helper()
		return one(t, c.objects(append([]string{"note", "add", "--agent", "ops"}, args...)...))
	}
	n := add("deploy", "The deploy runs at six.")
	for key, want := range map[string]any{"type": "note", "id": 1.0, "name": "deploy", "content": "The deploy runs at six.", "kind": "note"} {
		if n[key] != want {
			t.Errorf("%s is %v, want %v", key, n[key], want)
		}
	}
	if fmt.Sprint(n["aliases"]) != "[]" || n["memory_id"] == "" || !strings.HasSuffix(fmt.Sprint(n["created_at"]), "Z") {
		t.Errorf("added %v", n)
	}
	if n := add("minutes", "We spoke of tea.", "--kind", "archive"); n["id"] != 2.0 || n["kind"] != "archive" {
		t.Errorf("added %v", n)
	}
	c.fails(exitFailed, `has "deploy" as its name`, "note", "add", "deploy", "again", "--agent", "ops")
	c.ok("note", "alias", "deploy", "release", "--agent", "ops")
	c.ok("note", "alias", "minutes", "release", "--agent", "ops")
	c.fails(exitFailed, `has "deploy" as its name`, "note", "alias", "minutes", "deploy", "--agent", "ops")
	if got := c.ok("note", "get", "release", "--agent", "ops"); got != "We spoke of tea.\n" {
		t.Errorf("got %q", got)
	}
	if n := one(t, c.objects("note", "rename", "deploy", "plan", "--keep", "--agent", "ops")); n["name"] != "plan" || fmt.Sprint(n["aliases"]) != "[deploy]" {
		t.Errorf("renamed %v", n)
	}
	if r := c.run("note", "write", "minutes", "We spoke of coffee.", "--agent", "ops"); r.code != 0 || !strings.Contains(r.err, "is an archive") {
		t.Errorf("wrote an archive: %+v", r)
	}
	hits := c.objects("note", "search", "coffee", "--agent", "ops")
	if h := one(t, hits); h["name"] != "minutes" || h["score"].(float64) <= 0 {
		t.Errorf("found %v", h)
	}
	if got := c.objects("note", "search", "plan six coffee", "--limit", "1", "--agent", "ops"); len(got) != 1 {
		t.Errorf("with a limit of 1: %v", got)
	}
	if got := c.ok("note", "search", "release", "--agent", "ops"); got != "" {
		t.Errorf("an alias is searched: %s", got)
	}
	if list := c.objects("note", "list", "--agent", "ops"); len(list) != 2 || list[0]["id"] != 1.0 || list[1]["id"] != 2.0 {
		t.Errorf("list %v", list)
	}
	c.ok("note", "remove", "plan", "--agent", "ops")
	c.fails(exitNotFound, "no note or archive", "note", "get", "deploy", "--agent", "ops")
	c.fails(exitNotFound, "no note or archive", "note", "get", "minutes", "--agent", "other")
	c.fails(exitUsage, "neither note nor archive", "note", "add", "x", "y", "--kind", "fact", "--agent", "ops")
	c.fails(exitUsage, "not a whole number", "note", "search", "x", "--limit", "-1", "--agent", "ops")
	c.fails(exitUsage, "add, get, rename", "note")
	if n := add("third", "Lunch."); n["id"] != 3.0 {
		t.Errorf("a number was given again: %v", n)
	}
	file := filepath.Join(t.TempDir(), "all.jsonl")
	c.ok("export", file)
	other := newCLI(t)
	other.ok("import", file)
	if got, want := other.ok("export", "-"), c.ok("export", "-"); got != want {
		t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
	if n := one(t, other.objects("note", "add", "fourth", "Dinner.", "--agent", "ops")); n["id"] != 4.0 {
		t.Errorf("after an import: %v", n)
	}
	c.ok("check")
	other.ok("check")
}

// Nobody's notes make no database.
func TestNotesOfNobody(t *testing.T) {
	c := newCLI(t)
	c.fails(exitUsage, "", "note", "add", "x", "y")
	c.fails(exitFailed, "no database", "note", "list", "--agent", "ops")
}
