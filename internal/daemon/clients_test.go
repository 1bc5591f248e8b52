//go:build npm

package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/services/server"
)

// TestGeneratedClients generates TypeScript clients from the OpenAPI document of a server that runs, compiles programs
// that use them under --strict, and runs these against the server with a scoped key and an administrator's. It is skipped
// where node and npm are not installed. The packages and their versions are those of package-lock.json.
func TestGeneratedClients(t *testing.T) {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s", name)
		}
	}
	db := filepath.Join(t.TempDir(), "db")
	scoped, admin := addKey(t, db, "--user", "ada"), addKey(t, db, "--admin")
	d := start(t, db)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "clients"))); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		t.Logf("%s %s: %.1f s", filepath.Base(name), args[0], time.Since(begun).Seconds())
	}
	bin := func(name string) string { return filepath.Join(dir, "node_modules", ".bin", name) }
	run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	run(bin("openapi-typescript"), d.address+server.OpenAPIPath, "--output", filepath.Join("generated", "schema.ts"))
	run(bin("openapi-ts"), "--input", d.address+server.OpenAPIPath, "--output", filepath.Join("generated", "hey"))
	run(bin("tsc"), "--project", ".")
	for _, program := range []string{"fetch.js", "hey.js"} {
		run("node", filepath.Join("built", program), d.address, scoped.Key, admin.Key)
	}
	if code, log := d.end(); code != 0 {
		t.Errorf("memdbd ended with %d: %s", code, log)
	}
}
