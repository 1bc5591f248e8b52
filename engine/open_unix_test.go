//go:build unix

package engine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFolderIsPrivate: what people tell an agent is not for other users of the machine.
func TestFolderIsPrivate(t *testing.T) {
	there := t.TempDir()
	if err := os.Chmod(there, 0o750); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{filepath.Join(t.TempDir(), "new"): 0o700, there: 0o750} {
		db, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, want %v; %v", dir, info.Mode(), want, err)
		}
	}
}
