package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// circle returns the names of the files in the largest set of files of a package that all reach
// each other. A file reaches those that declare the top-level identifiers, fields and methods it
// refers to, and the files that these reach. The set of a package without circles has one file.
func (t *tree) circle(dir string) ([]string, error) {
	l, err := t.loader()
	if err != nil {
		return nil, err
	}
	reach, err := l.references(filepath.Join(t.root, filepath.FromSlash(dir)))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, set := range connected(reach) {
		if len(set) > len(found) {
			found = set
		}
	}
	return found, nil
}

// loader type-checks packages from source: those of the tree and of the standard library. Other
// packages are unknown to it, and so are the types of expressions that come from them.
type loader struct {
	fset    *token.FileSet
	context build.Context
	goroot  string
	modules map[string]string // module path → folder
	done    map[string]*types.Package
}

// loader returns a loader for the tree. Files are chosen for Linux on amd64, so that a figure does
// not depend on the machine that measures it.
func (t *tree) loader() (*loader, error) {
	if t.types != nil {
		return t.types, nil
	}
	l := &loader{
		fset: token.NewFileSet(), context: build.Default, goroot: build.Default.GOROOT,
		modules: t.modules, done: map[string]*types.Package{"unsafe": types.Unsafe},
	}
	l.context.GOOS, l.context.GOARCH, l.context.CgoEnabled = "linux", "amd64", false
	if l.goroot == "" { // a program built with -trimpath does not know it
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("go env GOROOT: %w", err)
		}
		l.goroot = strings.TrimSpace(string(out))
	}
	t.types = l
	return l, nil
}

// Import returns the declarations of a package without the bodies of its functions.
func (l *loader) Import(name string) (*types.Package, error) {
	if p := l.done[name]; p != nil {
		return p, nil
	}
	dir := l.dir(name)
	if dir == "" {
		return nil, fmt.Errorf("package %s is not part of the tree", name)
	}
	files, err := l.parse(dir)
	if err != nil {
		return nil, err
	}
	p := l.check(name, files, nil)
	l.done[name] = p
	return p, nil
}

// dir returns the folder of a package, or "" if the loader does not know it.
func (l *loader) dir(name string) string {
	for at := name; at != "."; at = filepath.ToSlash(filepath.Dir(at)) {
		if root, ok := l.modules[at]; ok {
			return filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(name, at)))
		}
	}
	for _, root := range []string{"src", "src/vendor"} {
		dir := filepath.Join(l.goroot, filepath.FromSlash(root), filepath.FromSlash(name))
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return ""
}

// parse reads the files of a folder that are built, generated ones included.
func (l *loader) parse(dir string) ([]*ast.File, error) {
	p, err := l.context.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(l.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// check type-checks files. It reads the bodies of functions if info is not nil. Errors are expected:
// names of unknown packages cannot be resolved.
func (l *loader) check(name string, files []*ast.File, info *types.Info) *types.Package {
	config := types.Config{Importer: l, IgnoreFuncBodies: info == nil, FakeImportC: true, Error: func(error) {}}
	p, _ := config.Check(name, l.fset, files, info)
	return p
}

// references returns for each file of a package the files that it refers to.
func (l *loader) references(dir string) (map[string][]string, error) {
	files, err := l.parse(dir)
	if err != nil {
		return nil, err
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	p := l.check(dir, files, info)
	reach := map[string][]string{}
	for _, file := range files {
		reach[l.file(file.Pos())] = nil
	}
	for name, object := range info.Uses {
		if object.Pkg() != p {
			continue
		}
		from, to := l.file(name.Pos()), l.file(object.Pos())
		if from != to && !slices.Contains(reach[from], to) {
			reach[from] = append(reach[from], to)
		}
	}
	return reach, nil
}

func (l *loader) file(pos token.Pos) string { return filepath.Base(l.fset.File(pos).Name()) }

// connected returns the strongly connected components of a graph, by Tarjan's algorithm. Their
// order, and that of the nodes in each, depends on the names alone.
func connected(edges map[string][]string) [][]string {
	var (
		sets          [][]string
		stack         []string
		index, lowest = map[string]int{}, map[string]int{}
		visit         func(string)
	)
	visit = func(node string) {
		index[node] = len(index) + 1
		lowest[node] = index[node]
		stack = append(stack, node)
		for _, next := range slices.Sorted(slices.Values(edges[node])) {
			if index[next] == 0 {
				visit(next)
				lowest[node] = min(lowest[node], lowest[next])
			} else if slices.Contains(stack, next) {
				lowest[node] = min(lowest[node], index[next])
			}
		}
		if lowest[node] == index[node] {
			at := slices.Index(stack, node)
			set := slices.Sorted(slices.Values(stack[at:]))
			stack = stack[:at]
			sets = append(sets, set)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(edges)) {
		if index[node] == 0 {
			visit(node)
		}
	}
	return sets
}
