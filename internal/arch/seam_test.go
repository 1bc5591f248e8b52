package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// writers are what makes Pebble change: outside internal/store nobody calls them, so that every batch
// passes the one way in, where archives take it (see internal/store/ship.go).
var writers = []string{"Open", "Ingest", "IngestAndExcise", "IngestWithStats", "Excise", "LogData", "DeleteSized", "SingleDelete", "RangeKeySet"}

// inStore are the files of internal/store that write to Pebble otherwise than by ship.go and sync.go: a
// store that is opened, and one that is made of what is left of another, which nobody follows.
var inStore = []string{"internal/store/open.go", "internal/store/rebuild.go", "internal/store/remains.go", "internal/store/sync.go", "internal/store/follow.go", "internal/store/ship.go", "internal/store/sent.go", "internal/store/ingest.go"}

// checkSeam finds writes to Pebble that go past the store's way in.
func checkSeam(files []*goFile) []finding {
	var found []finding
	for _, f := range files {
		if f.test || !product(f.pkg) {
			continue
		}
		pebbles := map[string]bool{}
		for name, target := range imported(f) {
			pebbles[name] = target == pebble
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fn, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if why := pastSeam(f, fn, call, pebbles); why != "" {
				found = append(found, finding{f.at(call.Pos()), why + ": writes reach Pebble by internal/store alone, where they are numbered"})
			}
			return true
		})
	}
	return found
}

// pastSeam says how a call writes to Pebble.
func pastSeam(f *goFile, fn *ast.SelectorExpr, call *ast.CallExpr, pebbles map[string]bool) string {
	x, _ := fn.X.(*ast.Ident)
	switch name := fn.Sel.Name; {
	case x != nil && pebbles[x.Name] && slices.Contains(writers, name) && !slices.Contains(inStore, f.path):
		return "pebble." + name
	case name == "Commit" && len(call.Args) == 1 && isSyncOption(call.Args[0], pebbles) && !slices.Contains(inStore, f.path):
		return "Commit of a batch"
	case strings.HasPrefix(f.path, "internal/store/") && !slices.Contains(inStore, f.path) && isField(fn.X, "db") && slices.Contains([]string{"Apply", "ApplyNoSyncWait", "Set", "Delete", "DeleteRange", "Merge", "LogData", "Ingest"}, name):
		return "db." + name
	}
	return ""
}

// isSyncOption reports whether an expression is pebble.Sync or pebble.NoSync.
func isSyncOption(e ast.Expr, pebbles map[string]bool) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && pebbles[x.Name] && (sel.Sel.Name == "Sync" || sel.Sel.Name == "NoSync")
}

// isField reports whether an expression is a field of that name.
func isField(e ast.Expr, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name
}

func TestSeam(t *testing.T) { report(t, checkSeam(goFiles(t))) }

func TestCheckSeam(t *testing.T) {
	for _, c := range []struct{ path, body, want string }{
		{"engine/db.go", "func f() { _, _ = pebble.Open(``, nil) }", "pebble.Open"},
		{"engine/db.go", "func f(b *pebble.Batch) { _ = b.Commit(pebble.NoSync) }", "Commit of a batch"},
		{"engine/db.go", "func f(s store) { _ = s.Apply(nil, pebble.NoSync) }", ""},
		{"internal/store/sweep.go", "func (s *Store) f() { _ = s.db.Apply(nil, nil) }", "db.Apply"},
		{"internal/store/sync.go", "func (s *Store) f() { _ = s.db.Apply(nil, nil) }", ""},
	} {
		f, err := parse(c.path, "package x\nimport \"github.com/cockroachdb/pebble/v2\"\nvar _ pebble.Options\n"+c.body)
		if err != nil {
			t.Fatal(err)
		}
		found := checkSeam([]*goFile{f})
		if got := len(found) > 0; got != (c.want != "") || got && !strings.HasPrefix(found[0].what, c.want) {
			t.Errorf("%s: %s: %v", c.path, c.body, found)
		}
	}
}
