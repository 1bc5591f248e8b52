package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestFilesAreCounted: the statistics count every file of the folder, each once, also snapshots
// of vectors.
func TestFilesAreCounted(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, nil)
	noError(t, err)
	for i := range 50 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("text ", i), Vectors: map[string][]float32{"default": {float32(i), 1, 2}}})
	}
	noError(t, db.Close())
	snapshot := filepath.Join(dir, spaces.SnapshotPrefix+"9.snap.new") // of a crash, and larger than all else
	noError(t, os.WriteFile(snapshot, make([]byte, 3<<20), 0o600))
	db, err = Open(dir, &Options{ReadOnly: true})
	noError(t, err)
	s, err := db.Stats(t.Context())
	noError(t, err)
	want := int64(0)
	noError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		want += info.Size()
		return err
	}))
	if s.DiskBytes != want || s.Files.Snapshots < 3<<20 || s.Files.Tables == 0 || s.Files.Sum() != want {
		t.Errorf("%d bytes, %+v; the files have %d", s.DiskBytes, s.Files, want)
	}
	noError(t, db.Close())
}
