package arch

import (
	"go/ast"
	"testing"
)

// checkGoroutines finds goroutines of the product that would take the program down by a
// panic: the first thing that one does is to call panics.Catch.
func checkGoroutines(files []*goFile) []finding {
	var found []finding
	for _, f := range files {
		if f.test || !product(f.pkg) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			var body ast.Expr
			switch n := n.(type) {
			case *ast.GoStmt:
				body = n.Call.Fun
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" && len(n.Args) == 1 {
					body = n.Args[0]
				}
			}
			if body != nil && !catches(body) {
				found = append(found, finding{f.at(n.Pos()), "a panic in this goroutine ends the program: call panics.Catch"})
			}
			return true
		})
	}
	return found
}

// catches reports whether a function literal calls panics.Catch.
func catches(fn ast.Expr) bool {
	lit, ok := fn.(*ast.FuncLit)
	if !ok {
		return false
	}
	caught := false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Catch" {
			pkg, ok := sel.X.(*ast.Ident)
			caught = caught || ok && pkg.Name == "panics"
		}
		return !caught
	})
	return caught
}

func TestGoroutines(t *testing.T) { report(t, checkGoroutines(goFiles(t))) }

func TestCheckGoroutines(t *testing.T) {
	const want = "call panics.Catch"
	for _, c := range []struct{ body, want string }{
		{"func f() { go g() }", want},
		{"func f() { go func() { g() }() }", want},
		{"func f(wg *sync.WaitGroup) { wg.Go(g) }", want},
		{"func f(wg *sync.WaitGroup) { wg.Go(func() { err := panics.Catch(\"\", g); _ = err }) }", ""},
		{"func f() { go func() { read := map[int]int{}; err := panics.Catch(\"\", g); _, _ = err, read }() }", ""},
		{"func f() { go func() { if err := panics.Catch(\"\", g); err != nil { g() } }() }", ""},
	} {
		f, err := parse("engine/db.go", "package engine\n"+c.body)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.body, checkGoroutines([]*goFile{f}), c.want)
	}
}
