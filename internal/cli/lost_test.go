package cli

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestDamagedTables: beside damaged blocks of its tables a database is read, checked and
// exported, and every verb that meets the damage says so.
func TestDamagedTables(t *testing.T) {
	race.Sequential(t)
	c := newCLI(t)
	var lines strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&lines, `{"type":"memory","id":"m%d","user":"ada","text":"this is the note with the number %d","embedding":[%d,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}`+"\n", i, i, i)
	}
	c.ok("import", c.file("notes.jsonl", lines.String()))
	db, err := engine.Open(c.dir, nil) // to write what only the log holds, it needs much
	if err != nil {
		t.Fatal(err)
	}
	for from := 0; from < 1200; from += 100 {
		err := db.Update(t.Context(), func(tx *engine.Tx) error {
			for i := from; i < from+100; i++ {
				m := memory.Memory{Scope: memory.Scope{User: "bob"}, Text: strings.Repeat(fmt.Sprint("word", i, " "), 200)}
				if _, err := tx.Memories().Store(t.Context(), m, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, opened := c.dir, 0
	for _, tenth := range []int{0, 2, 5, 8} {
		c.dir = filepath.Join(t.TempDir(), "db")
		if err := os.CopyFS(c.dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		spoilTables(t, c.dir, tenth)
		if r := c.run("stats"); r.out == "" {
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
		lines := parseLines(t, r.out)
		report := lines[0]
		lost, _ := lines[len(lines)-1]["unreadable"].(float64)
		if told := strings.Contains(r.err, "cannot be read"); told != (lost > 0) || told != (r.code == exitDamaged) {
			t.Errorf("at %d tenths: exit %d, %v, %s", tenth, r.code, report, r.err)
		}
		seesBeside(t, c, tenth)
		again := newCLI(t)
		if got := one(t, again.objects("import", out)); got["stored"] != report["memories"] {
			t.Errorf("at %d tenths: %v of %v were imported", tenth, got, report)
		}
	}
	if opened == 0 {
		t.Error("no damage left a database that opens")
	}
}

// seesBeside lists and recalls beside damage: what can be read is printed, and where something
// cannot, the last line says how much, and the exit code is 5.
func seesBeside(t *testing.T, c *cli, tenth int) {
	t.Helper()
	for _, verb := range [][]string{{"list", "--all", "--user", "ada"}, {"list", "--all", "--user", "bob"}, {"list", "--count", "--user", "ada"}, {"groups", "--all-scopes"}, {"stats", "--by", "user"}, {"recall", "--user", "ada", "--limit", "1000", "note number"}} {
		r := c.run(append([]string{"--json"}, verb...)...)
		lines := parseLines(t, r.out)
		if len(lines) == 0 {
			t.Errorf("at %d tenths: %s: exit %d without a line: %s", tenth, verb, r.code, r.err)
			continue
		}
		n, _ := lines[len(lines)-1]["unreadable"].(float64)
		if lacks := n > 0; lacks != (r.code == exitDamaged) || !lacks && r.code != exitDone || lacks && len(lines) < 2 {
			t.Errorf("at %d tenths: %s: exit %d, %d lines, %v are unreadable: %s", tenth, verb, r.code, len(lines), n, r.err)
		}
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

// TestRescueVerb: rescue makes a new database of a damaged one, says what it has and what was lost,
// and leaves the damaged one as it is, byte for byte. Exit code 5 says that there was nothing.
func TestRescueVerb(t *testing.T) {
	c := newCLI(t)
	const all = 400
	var lines strings.Builder
	for i := range all {
		fmt.Fprintf(&lines, `{"type":"memory","id":"m%d","user":"ada","text":"note number %d about %s"}`+"\n", i, i, strings.Repeat("tea ", 20))
	}
	c.ok("import", c.file("notes.jsonl", lines.String()))
	c.ok("kv", "put", "--user", "ada", "k", "1")
	c.ok("note", "add", "--user", "ada", "drinks", "prefers tea")
	c.ok("stats") // what the log held is in tables
	whole := c.dir
	to := filepath.Join(t.TempDir(), "whole")
	got := one(t, parseLines(t, c.bare("--json", "rescue", whole, to).out))
	for _, key := range []string{"memories", "history", "entries", "entities", "relations", "sessions", "messages", "notes", "usage", "lost", "seconds"} {
		if _, ok := got[key]; !ok {
			t.Errorf("rescue: no %q in %v", key, got)
		}
	}
	if lost, _ := got["lost"].([]any); got["memories"] != float64(all+1) || got["entries"] != 1.0 || got["notes"] != 1.0 || len(lost) > 0 {
		t.Errorf("rescued without damage: %v", got)
	}

	none := filepath.Join(t.TempDir(), "none")
	if r := c.bare("rescue", none, to+" again"); r.code != exitFailed || !strings.Contains(r.err, "there is no such folder; name the folder of the damaged database") {
		t.Errorf("rescue of nothing: exit %d, %s", r.code, r.err)
	}

	spoilTables(t, whole, 5)
	before := bytesOf(t, whole)
	to = filepath.Join(t.TempDir(), "left")
	r := c.bare("--json", "rescue", whole, to)
	got = one(t, parseLines(t, r.out))
	lost, _ := got["lost"].([]any)
	if n, _ := got["memories"].(float64); r.code != exitDone || n == 0 || n > all || len(lost) == 0 {
		t.Fatalf("rescued beside damage: exit %d, %v, %s", r.code, got, r.err)
	}
	for _, l := range lost {
		l, _ := l.(map[string]any)
		if n, _ := l["count"].(float64); l["what"] == "" || n < 1 || l["reason"] == "" {
			t.Errorf("lost: %v", l)
		}
	}
	if !maps.Equal(bytesOf(t, whole), before) {
		t.Error("the damaged database has changed")
	}
	c.dir = to
	c.ok("check")

	empty := t.TempDir()
	if r := c.bare("--json", "rescue", empty, filepath.Join(t.TempDir(), "none")); r.code != exitDamaged {
		t.Errorf("rescue of nothing: exit %d, %s%s", r.code, r.out, r.err)
	}
}

// bytesOf are the contents of the files below a folder.
func bytesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
