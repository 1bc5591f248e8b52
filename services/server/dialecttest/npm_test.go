package dialecttest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
)

// npmPackages returns the folder node_modules of the packages of testdata/npm. The test is skipped where Node.js or
// the packages are not installed.
func npmPackages(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("Node.js is not installed")
	}
	modules, err := filepath.Abs(filepath.Join("testdata", "npm", "node_modules"))
	testdb.NoError(t, err)
	if _, err := os.Stat(modules); err != nil {
		t.Skip("the packages of npm are not installed; run npm ci in testdata/npm")
	}
	return modules
}

// command returns a program that the test waits for, in a folder. It is killed where it takes too long.
func command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	return cmd
}

// runs runs a program, which must succeed, and returns what it prints.
func runs(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// copied copies files into a new folder.
func copied(t *testing.T, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range files {
		b, err := os.ReadFile(name)
		testdb.NoError(t, err)
		testdb.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o600))
	}
	return dir
}
