package arch

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// architecture is the page that these tests hold against the code.
const architecture = "ARCHITECTURE.md"

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), architecture))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkRows wants a row of the page for each package, or for a folder above it, and a package
// for each row of the import law.
func checkRows(text string, packages []string, law map[string]row) []finding {
	folders := map[string]bool{}
	for line := range strings.Lines(text) {
		if first, ok := strings.CutPrefix(line, "| `"); ok {
			first, _, _ = strings.Cut(first, " |")
			for folder := range strings.SplitSeq(first, ", ") {
				folders[strings.TrimSuffix(strings.Trim(folder, "`"), "/")] = true
			}
		}
	}
	var found []finding
	for _, pkg := range packages {
		above := pkg
		for above != "." && !folders[above] {
			above = path.Dir(above)
		}
		if above == "." {
			found = append(found, finding{pkg, "no row in the tables of " + architecture + ": say which question it answers"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(law)) {
		if !slices.Contains(packages, name) {
			found = append(found, finding{name, "a row in the import law, and no package"})
		}
	}
	return found
}

func TestRows(t *testing.T) {
	packages := map[string]bool{}
	for _, f := range goFiles(t) {
		packages[f.pkg] = true
	}
	report(t, checkRows(page(t), slices.Sorted(maps.Keys(packages)), law))
}

func TestCheckRows(t *testing.T) {
	text := "| `left/`, `right/` | Which? |\n"
	rows := map[string]row{"left": {}}
	expect(t, "a package below", checkRows(text, []string{"left", "left/inner", "right"}, rows), "")
	expect(t, "no row", checkRows(text, []string{"left", "other"}, rows), "no row in the tables")
	expect(t, "no package", checkRows(text, []string{"right"}, rows), "no package")
}

// lockRooms are the packages whose locks one order holds together: the engine, and what it
// reads by.
var lockRooms = []string{"engine", "internal/ageing", "internal/backups", "internal/changefeed", "internal/lifecycle", "internal/recall", "internal/records", "internal/replication", "internal/selection", "internal/spaces", "internal/state"}

// locksOf are the locks among the fields of a file's structs: "points.mu", with the package in
// front where it is not the engine.
func locksOf(f *goFile) (names []string) {
	prefix := ""
	if f.pkg != "engine" {
		prefix = f.ast.Name.Name + "."
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					if isLock(name.Name, field.Type) {
						names = append(names, prefix+spec.Name.Name+"."+name.Name)
					}
				}
			}
		}
		return false
	})
	return names
}

// isLock reports whether a field is a lock: one of package sync, a mutex made of a channel, a
// channel that is called lock, or a struct with a lock in it.
func isLock(name string, typ ast.Expr) bool {
	switch x := typ.(type) {
	case *ast.Ident:
		return x.Name == "mutex"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Mutex" || x.Sel.Name == "RWMutex"
	case *ast.ChanType:
		return name == "lock"
	case *ast.StructType:
		return slices.ContainsFunc(x.Fields.List, func(f *ast.Field) bool { return len(f.Names) == 0 && isLock("", f.Type) })
	}
	return false
}

// checkLocks wants each lock in the comment of engine.DB, and no other name there.
func checkLocks(files []*goFile) []finding {
	var locks []string
	list := ""
	for _, f := range files {
		if f.test || !slices.Contains(lockRooms, f.pkg) {
			continue
		}
		locks = append(locks, locksOf(f)...)
		for _, d := range f.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok && f.pkg == "engine" && len(g.Specs) == 1 && g.Doc != nil {
				if s, ok := g.Specs[0].(*ast.TypeSpec); ok && s.Name.Name == "DB" {
					_, list, _ = strings.Cut(g.Doc.Text(), "# Locks")
				}
			}
		}
	}
	listed := regexp.MustCompile(`\w+(\.\w+)+`).FindAllString(list, -1)
	var found []finding
	for _, lock := range locks {
		if !slices.Contains(listed, lock) {
			found = append(found, finding{lock, "a lock that the list in the comment of engine.DB lacks"})
		}
	}
	for _, name := range listed {
		if !slices.Contains(locks, name) {
			found = append(found, finding{name, "in the list of locks of engine.DB, and no lock"})
		}
	}
	return found
}

func TestLocks(t *testing.T) {
	report(t, checkLocks(goFiles(t)))
}

func TestCheckLocks(t *testing.T) {
	const db = "package engine\n// DB is open.\n//\n// # Locks\n//\n//  1. DB.turn, then q.mu\ntype DB struct { turn mutex }\n"
	for _, c := range []struct{ more, want string }{
		{"type q struct { mu sync.Mutex }", ""},
		{"type q struct { mu struct { sync.Mutex; n int } }", ""},
		{"type q struct { n int }", "q.mu: in the list"},
		{"type q struct { mu sync.Mutex }\ntype w struct { lock chan struct{} }", "w.lock: a lock"},
	} {
		f, err := parse("engine/db.go", db+c.more)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.more, checkLocks([]*goFile{f}), c.want)
	}
}

// The two ways in which the page says where a function is.
var (
	fileThenName = regexp.MustCompile("`([\\w/*]+\\.go)`,\\s+`([\\w.]+)`")
	nameThenFile = regexp.MustCompile("`([\\w.]+)`(?:,|\\s+\\()\\s*`([\\w/*]+\\.go)`")
	goFileName   = regexp.MustCompile("`([\\w/*]+\\.go)`")
)

// checkWalks wants each file that the page names to be there, and each function that it places
// in a file to be declared in it.
func checkWalks(text string, files []*goFile) []finding {
	in := func(name string) (those []*goFile) {
		for _, f := range files {
			full, _ := path.Match(name, f.path)
			if base, _ := path.Match(name, path.Base(f.path)); full || base && !strings.Contains(name, "/") {
				those = append(those, f)
			}
		}
		return those
	}
	var found []finding
	for _, m := range goFileName.FindAllStringSubmatch(text, -1) {
		if len(in(m[1])) == 0 {
			found = append(found, finding{architecture, "it names " + m[1] + ", which is not there"})
		}
	}
	placed := map[[2]string]bool{}
	for _, m := range fileThenName.FindAllStringSubmatch(text, -1) {
		placed[[2]string{m[1], m[2]}] = true
	}
	for _, m := range nameThenFile.FindAllStringSubmatch(text, -1) {
		if !strings.HasSuffix(m[1], ".go") {
			placed[[2]string{m[2], m[1]}] = true
		}
	}
	for p := range placed {
		those := in(p[0])
		name := p[1][strings.LastIndexByte(p[1], '.')+1:]
		if len(those) > 0 && name != "go" && !slices.ContainsFunc(those, func(f *goFile) bool { return declares(f, name) }) {
			found = append(found, finding{architecture, "it places " + p[1] + " in " + p[0] + ", which does not declare it"})
		}
	}
	return found
}

// declares reports whether a file declares a function, a method or a type of a name.
func declares(f *goFile, name string) bool {
	return slices.ContainsFunc(f.ast.Decls, func(d ast.Decl) bool {
		switch d := d.(type) {
		case *ast.FuncDecl:
			return d.Name.Name == name
		case *ast.GenDecl:
			return slices.ContainsFunc(d.Specs, func(s ast.Spec) bool {
				spec, ok := s.(*ast.TypeSpec)
				return ok && spec.Name.Name == name
			})
		}
		return false
	})
}

func TestWalks(t *testing.T) {
	report(t, checkWalks(page(t), goFiles(t)))
}

func TestCheckWalks(t *testing.T) {
	f, err := parse("engine/tx.go", "package engine\nfunc (tx *Tx) seal() {}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"1. `engine/tx.go`, `seal`: it ends.", ""},
		{"1. `Tx.seal` (`engine/tx.go`) ends, and so does `tx.go`.", ""},
		{"## Ends (`seal`, `engine/tx.go`)", ""},
		{"1. `engine/t*.go`,\n   `begin`: it begins.", "places begin in engine/t*.go"},
		{"`begin` (`engine/tx.go`)", "places begin"},
		{"`engine/ty.go`, `seal`", "engine/ty.go, which is not there"},
	} {
		expect(t, c.text, checkWalks(c.text, []*goFile{f}), c.want)
	}
}
