//go:build unix

package engine

import (
	"path/filepath"
	"testing"
)

// TestBackupIsPrivate: what a backup and a restore make is its owner's alone.
func TestBackupIsPrivate(t *testing.T) {
	dir := t.TempDir()
	repo, archive, back := filepath.Join(dir, "made", "repo"), filepath.Join(dir, "made", "archive"), filepath.Join(dir, "made", "new")
	db, err := Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	storeTea(t, db, 0, 3)
	if _, err := db.Backup(t.Context(), repo, &BackupOptions{Archive: archive}); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), archive, back, nil); err != nil {
		t.Fatal(err)
	}
	if n := wantPrivate(t, filepath.Dir(repo)); n < 20 {
		t.Errorf("%d names", n)
	}
}
