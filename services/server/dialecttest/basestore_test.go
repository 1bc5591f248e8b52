package dialecttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
)

const storeExamples = "../../../examples/langgraph"

// TestTypeScriptBaseStore verifies that examples/langgraph/store.ts compiles against LangGraph's types, works in a
// compiled graph, and answers as LangGraph's InMemoryStore does.
func TestTypeScriptBaseStore(t *testing.T) {
	modules := npmPackages(t)
	dir := copied(t, storeExamples+"/store.ts", "testdata/langgraph/graph.ts")
	testdb.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	testdb.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
	runs(t, command(t, dir, "node", filepath.Join(modules, "typescript", "bin", "tsc"), "--strict", "--erasableSyntaxOnly", "--noUncheckedIndexedAccess", "--target", "es2022",
		"--module", "nodenext", "--moduleResolution", "nodenext", "--lib", "es2022,dom", "--types", "", "--skipLibCheck", "store.ts", "graph.ts"))
	if out := runs(t, command(t, dir, "node", "graph.js", serveFor(t))); strings.TrimSpace(out) != "ok" {
		t.Error(out)
	}
}

// TestPythonBaseStore verifies every operation of examples/langgraph/store.py, and that it works in a compiled graph
// where langgraph is installed. Elsewhere testdata/langgraph/standin takes the place of BaseStore.
func TestPythonBaseStore(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("Python is not installed")
	}
	if err := command(t, ".", python, "-c", "import sys; assert sys.version_info >= (3, 10)").Run(); err != nil {
		t.Skip("Python is older than 3.10")
	}
	dir := copied(t, storeExamples+"/store.py", "testdata/langgraph/graph.py")
	cmd := command(t, dir, python, "graph.py", serveFor(t))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if err := command(t, dir, python, "-c", "import langgraph.store.base").Run(); err != nil {
		standin, err := filepath.Abs(filepath.Join("testdata", "langgraph", "standin"))
		testdb.NoError(t, err)
		cmd.Env = append(cmd.Env, "PYTHONPATH="+standin)
		t.Log("langgraph is not installed: a stand-in for its BaseStore is used")
	}
	if out := runs(t, cmd); strings.TrimSpace(out) != "ok" {
		t.Error(out)
	}
}
