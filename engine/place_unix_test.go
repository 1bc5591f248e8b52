//go:build unix

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestPlace verifies that a database fails, and acknowledges nothing more, once its folder or the
// file of one of its locks was removed or replaced; that what it acknowledged is where its folder
// went; and that nothing of it gets into the database that took its place, nor to its locks.
func TestPlace(t *testing.T) {
	ada := memory.Scope{User: "ada"}
	texts := func(t *testing.T, path string) string {
		db, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer closeTest(t, db)
		var all []string
		for _, m := range mustList(t, db.Memories(), ada) {
			all = append(all, m.Text)
		}
		return strings.Join(all, ",")
	}
	for name, c := range map[string]struct {
		file  string // of the database below the test's folder
		act   func(t *testing.T, path string)
		whole string // where all that was acknowledged is afterwards, empty for nowhere
	}{
		"folder renamed": {"db", func(t *testing.T, path string) { noError(t, os.Rename(path, path+".old")) }, "db.old"},
		"folder removed": {"db", func(t *testing.T, path string) { noError(t, os.RemoveAll(path)) }, ""},
		"parent renamed": {"in/db", func(t *testing.T, path string) {
			noError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
		}, "in.old/db"},
		"lock removed":             {"db", func(t *testing.T, path string) { noError(t, os.Remove(filepath.Join(path, "memdb.lock"))) }, "db"},
		"lock of store removed":    {"db", func(t *testing.T, path string) { noError(t, os.Remove(filepath.Join(path, "store", "LOCK"))) }, "db"},
		"lock of one file removed": {"one.memdb", func(t *testing.T, path string) { noError(t, os.Remove(path+".lock")) }, "one.memdb"},
		"folder became a file": {"db", func(t *testing.T, path string) {
			noError(t, os.Rename(path, path+".old"))
			noError(t, os.WriteFile(path, nil, 0o600))
		}, "db.old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := t.TempDir()
			path := filepath.Join(in, filepath.FromSlash(c.file))
			noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			db, err := Open(path, nil)
			noError(t, err)
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "acknowledged"})
			noError(t, db.inPlace())
			c.act(t, path)
			_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: "too late"}, nil)
			wantError(t, "store", err, fault.ErrFailed)
			if err == nil || !strings.Contains(err.Error(), "was removed or replaced while it was open") || !strings.Contains(err.Error(), "open it again, where its folder is now") {
				t.Errorf("the error does not say what to do: %v", err)
			}
			_, err = db.Memories().List(t.Context(), memory.ListQuery{Scope: ada})
			wantError(t, "list", err, fault.ErrFailed)
			noError(t, db.Close())
			if c.whole != "" {
				if got := texts(t, filepath.Join(in, filepath.FromSlash(c.whole))); !strings.HasPrefix(got, "acknowledged") {
					t.Errorf("%s holds %q", c.whole, got)
				}
			}
		})
	}

	t.Run("lock removed, and opened by another", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "db")
		db, err := Open(path, nil)
		noError(t, err)
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "acknowledged"})
		noError(t, os.Remove(filepath.Join(path, "memdb.lock")))
		_, err = Open(path, nil)
		wantError(t, "open", err, fault.ErrLocked)
		noError(t, os.Remove(filepath.Join(path, "store", "LOCK")))
		other, err := Open(path, nil)
		noError(t, err)
		_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: "too late"}, nil)
		wantError(t, "store", err, fault.ErrFailed)
		mustStore(t, other.Memories(), memory.Memory{Scope: ada, Text: "of the second"})
		noError(t, db.Close())
		noError(t, other.Close())
		if got := texts(t, path); !strings.Contains(got, "acknowledged") || !strings.Contains(got, "of the second") {
			t.Errorf("the folder holds %q", got)
		}
	})

	t.Run("replaced by another", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "db")
		db, err := Open(path, nil)
		noError(t, err)
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "acknowledged"})
		noError(t, os.Rename(path, path+".old"))
		other, err := Open(path, nil)
		noError(t, err)
		mustStore(t, other.Memories(), memory.Memory{Scope: ada, Text: "of another"})
		before := filesIn(t, path)
		if db.store.Flush() == nil && db.Failed() == nil { // before the background check
			t.Error("tables are written into the folder of another database")
		}
		wantError(t, "the database", db.Failed(), fault.ErrFailed)
		noError(t, db.Close())
		if after := filesIn(t, path); after != before {
			t.Errorf("the files of the other were\n%s\nand are\n%s", before, after)
		}
		noError(t, other.Failed())
		closeTest(t, other)
		if got := texts(t, path) + "; " + texts(t, path+".old"); got != "of another; acknowledged" {
			t.Error(got)
		}
	})
}

// filesIn lists the files below a folder.
func filesIn(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	noError(t, err)
	return strings.Join(all, "\n")
}
