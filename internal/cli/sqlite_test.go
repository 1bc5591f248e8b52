package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImportSQLite verifies that an exported file is read back by its content, that --table names a table,
// and that nothing is made or changed next to a source.
func TestImportSQLite(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea is hot", "--user", "ada", "--id", "m1")
	c.ok("store", "clay is wet", "--user", "bob", "--id", "m2")
	dir := t.TempDir()
	path := filepath.Join(dir, "out.db")
	c.ok("export", path, "--format", "sqlite")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })

	back := newCLI(t)
	if out := back.ok("import", path, "--json"); !strings.Contains(out, `"format":"sqlite","read":2,"stored":2`) {
		t.Errorf("import: %s", out)
	}
	for user, text := range map[string]string{"ada": "tea is hot", "bob": "clay is wet"} {
		if out := back.ok("list", "--user", user); !strings.Contains(out, text) {
			t.Errorf("%s has %s", user, out)
		}
	}
	rows := newCLI(t)
	if out := rows.ok("import", path, "--table", "memories", "--json"); !strings.Contains(out, `"stored":2`) {
		t.Errorf("import of a table: %s", out)
	}
	rows.fails(exitUsage, "--table names a table of a SQLite file", "import", path, "--table", "memories", "--format", "csv")
	rows.fails(exitUsage, "--table names a table of a SQLite file", "import", path, "--table", "", "--format", "sqlite")
	rows.fails(exitFailed, `no table "notes"; its tables are "memories" (2 rows)`, "import", path, "--table", "notes")
	after, err := os.ReadFile(path)
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("the source has changed, error %v", err)
	}
	if names, err := os.ReadDir(dir); len(names) != 1 || err != nil {
		t.Errorf("next to the source: %v, error %v", names, err)
	}
}
