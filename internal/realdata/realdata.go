// Package realdata finds the public data sets that some tests read. They lie in the folder
// that the environment variable MEMDB_DATA names; without it such a test skips.
package realdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Path is a file or folder of the data sets, by its path with slashes from their folder.
// The test skips where it is missing.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("MEMDB_DATA")
	if dir == "" {
		t.Skipf("no %s: MEMDB_DATA names no folder of data sets", name)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s: it is not in the folder that MEMDB_DATA names: %v", name, err)
	}
	return path
}
