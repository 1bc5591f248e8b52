package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A database that was killed, and whose log has gone since, is opened by --salvage alone.
func TestSalvage(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "--user", "u", "before") // and its log is empty when the verb has ended
	killed := c.dir + "-killed"
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "after"}, nil); err != nil {
		t.Fatal(err)
	}
	err = os.CopyFS(killed, os.DirFS(c.dir))
	for errors.Is(err, fs.ErrNotExist) { // the store has removed a file of before it was opened
		err = errors.Join(os.RemoveAll(killed), os.CopyFS(killed, os.DirFS(c.dir)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(killed, "store", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs %v, %v", logs, err)
	}
	for _, log := range logs {
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
	c.dir = killed
	c.fails(5, "is missing: all commits in it are lost", "list", "--user", "u")
	r := c.run("--salvage", "list", "--user", "u")
	if r.code != 0 || !strings.Contains(r.err, "was salvaged: ") || !strings.Contains(r.out, "before") || strings.Contains(r.out, "after") {
		t.Errorf("%+v", r)
	}
	c.ok("check")
}

// A database whose memdb.json or MANIFEST is damaged or gone says how to go on, and --salvage
// opens it with all that it held.
func TestSalvageFolder(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "--user", "u", "a memory")
	manifest := func() string {
		names, err := filepath.Glob(filepath.Join(c.dir, "store", "MANIFEST-*[0-9]"))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		return names[len(names)-1]
	}
	for _, d := range []struct {
		what   string
		damage func() error
	}{
		{"memdb.json", func() error { return os.Remove(filepath.Join(c.dir, "memdb.json")) }},
		{"memdb.json", func() error { return os.Truncate(filepath.Join(c.dir, "memdb.json"), 40) }},
		{"MANIFEST-", func() error { return os.Truncate(manifest(), 40) }},
		{"MANIFEST-", func() error { return os.Remove(manifest()) }},
	} {
		if err := d.damage(); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"list", "check"} {
			r := c.run(verb)
			said := r.out + r.err // check reports what it finds
			if r.code != 5 || !strings.Contains(said, d.what) || !strings.Contains(said, "--salvage") || !strings.Contains(said, "memdbctl rescue SRC DEST") {
				t.Errorf("%s: %+v", d.what, r)
			}
		}
		r := c.run("--salvage", "list", "--user", "u")
		if r.code != 0 || !strings.Contains(r.err, "was salvaged: ") || !strings.Contains(r.out, "a memory") {
			t.Errorf("%s: %+v", d.what, r)
		}
		c.ok("check")
	}
}
