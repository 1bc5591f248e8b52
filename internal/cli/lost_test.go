package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// TestDamagedTables: beside damaged blocks of its tables a database is read, checked and
// exported, and every verb that meets the damage says so.
func TestDamagedTables(t *testing.T) {
	c := newCLI(t)
	var lines strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&lines, `{"type":"memory","id":"m%d","user":"ada","text":"note number %d","embedding":[%d,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}`+"\n", i, i, i)
	}
	c.ok("import", c.file("notes.jsonl", lines.String()))
	db, err := engine.Open(c.dir, nil) // to write what only the log holds, it needs much
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1200 {
		_, err := db.Memories().Store(t.Context(), engine.Memory{Scope: engine.Scope{User: "bob"}, Text: strings.Repeat(fmt.Sprint("word", i, " "), 200)}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, opened := c.dir, 0
	for tenth := range 10 {
		c.dir = filepath.Join(t.TempDir(), "db")
		if err := os.CopyFS(c.dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		spoilTables(t, c.dir, tenth)
		if r := c.run("stats"); r.code == exitDamaged {
			continue // what all else is found by
		}
		opened++
		if r := c.run("--json", "check"); r.code != exitDamaged {
			t.Errorf("at %d tenths: check: exit %d, %s", tenth, r.code, r.out)
		}
		out := filepath.Join(t.TempDir(), "left.jsonl")
		r := c.run("--json", "export", out)
		if r.code != exitDone && r.code != exitDamaged {
			t.Errorf("at %d tenths: export: exit %d, %s", tenth, r.code, r.err)
		}
		if r.out == "" {
			continue // keys are damaged that lists go by
		}
		report := one(t, parseLines(t, r.out))
		lost, _ := report["unreadable"].(float64)
		if told := strings.Contains(r.err, "cannot be read"); told != (lost > 0) || told != (r.code == exitDamaged) {
			t.Errorf("at %d tenths: exit %d, %v, %s", tenth, r.code, report, r.err)
		}
		again := newCLI(t)
		if got := one(t, again.objects("import", out)); got["stored"] != report["memories"] {
			t.Errorf("at %d tenths: %v of %v were imported", tenth, got, report)
		}
	}
	if opened == 0 {
		t.Error("no damage left a database that opens")
	}
}

// spoilTables changes a bit of each table of the store, so many tenths from its begin, and
// removes the snapshots of vectors.
func spoilTables(t *testing.T, dir string, tenths int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.Contains(d.Name(), "vectors"):
			return os.Remove(name)
		case filepath.Ext(name) != ".sst":
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		b[len(b)/10*tenths] ^= 0x40
		return os.WriteFile(name, b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
