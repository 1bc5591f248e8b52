package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Functions above these are counted: cyclomatic complexities, and a length in lines.
const (
	tooComplex    = 15
	farTooComplex = 20
	tooLong       = 70
)

// rows are what is measured of a tree, in the order of its column.
var rows = []string{
	"code lines",
	"packages",
	"files in the largest package",
	"largest file, lines",
	"largest function, lines",
	"function length, mean / p95",
	"largest struct, fields",
	"most fields with those of structs held by value",
	"largest circle of files",
	"main package: types and values + methods",
	"main package: exported fields",
	"comment lines per code line",
	fmt.Sprintf("functions with cyclomatic > %d (max)", tooComplex),
	fmt.Sprintf("functions with cyclomatic > %d", farTooComplex),
	fmt.Sprintf("functions with > %d lines", tooLong),
}

// largest is the greatest of some sizes, and the first thing that has it.
type largest struct {
	size int
	name string
}

func (l *largest) see(size int, name string) {
	if size > l.size {
		l.size, l.name = size, name
	}
}

func (l largest) String() string {
	if l.size == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", l.size, l.name)
}

// pkg is a folder with Go files.
type pkg struct {
	files, codes    int // number, and lines of code
	names           int // exported types, functions, variables and constants
	methods, fields int // exported, of exported types

	types map[string]ast.Expr // what each type is declared as
	funcs []*ast.FuncDecl
}

// tree is what is known of the Go files under a folder.
type tree struct {
	root    string
	fset    *token.FileSet
	modules map[string]string // path → folder
	types   *loader
	pkgs    map[string]*pkg // by slash path from the root, "." for the root
	lengths []int           // of functions, in lines

	file, function, structure, cyclomatic largest

	complex         int      // functions above tooComplex
	farTooComplex   []string // names of functions above it
	tooLong         []string
	comments, codes int // lines
}

// measure reads a tree.
func measure(root string, nested bool) (*tree, error) {
	t := &tree{root: root, fset: token.NewFileSet(), modules: map[string]string{}, pkgs: map[string]*pkg{}}
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if full != root && skipped(full, nested) {
				return filepath.SkipDir
			}
			return t.addModule(full)
		case !d.Type().IsRegular(), !strings.HasSuffix(full, ".go"), strings.HasSuffix(full, "_test.go"):
			return nil
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		return t.addFile(filepath.ToSlash(name), full)
	})
	return t, err
}

// skipped reports whether a folder is no part of the tree.
func skipped(full string, nested bool) bool {
	base := filepath.Base(full)
	if base == "vendor" || base == "testdata" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := os.Stat(filepath.Join(full, "go.mod"))
	return err == nil && !nested
}

// addModule remembers the path of the module that begins in a folder, if one does.
func (t *tree) addModule(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "module" {
			t.modules[strings.Trim(words[1], `"`)] = dir
		}
	}
	return nil
}

func (t *tree) addFile(name, full string) error {
	source, err := os.ReadFile(full)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.fset, full, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	dir := path.Dir(name)
	p := t.pkgs[dir]
	if p == nil {
		p = &pkg{types: map[string]ast.Expr{}}
		t.pkgs[dir] = p
	}
	p.files++
	p.addNames(file)
	t.file.see(bytes.Count(source, []byte{'\n'}), name)
	prefix := dir
	if dir == "." {
		prefix = file.Name.Name
	}
	t.addShapes(p, prefix, file)
	comments, codes := countLines(source)
	t.comments += comments
	t.codes += codes
	p.codes += codes
	return nil
}

// addShapes measures the functions and structs of a file.
func (t *tree) addShapes(p *pkg, prefix string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name := prefix + "." + funcName(n)
			length := t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line + 1
			t.lengths = append(t.lengths, length)
			t.function.see(length, name)
			c := cyclomatic(n)
			t.cyclomatic.see(c, name)
			if c > tooComplex {
				t.complex++
			}
			if c > farTooComplex {
				t.farTooComplex = append(t.farTooComplex, fmt.Sprintf("%s (%d)", name, c))
			}
			if length > tooLong {
				t.tooLong = append(t.tooLong, fmt.Sprintf("%s (%d)", name, length))
			}
			p.funcs = append(p.funcs, n)
		case *ast.TypeSpec:
			p.types[n.Name.Name] = n.Type
			if s, ok := n.Type.(*ast.StructType); ok {
				t.structure.see(s.Fields.NumFields(), prefix+"."+n.Name.Name)
			}
		}
		return true
	})
}

// column are the cells of a tree, one for each of rows.
func (t *tree) column(mainDir string, given bool) ([]string, error) {
	if len(t.pkgs) == 0 {
		return nil, fmt.Errorf("no Go files")
	}
	if !given {
		mainDir = t.mainDir()
	}
	m := t.pkgs[mainDir]
	if m == nil {
		return nil, fmt.Errorf("no Go package in %s: name the main package with -main", mainDir)
	}
	var pack largest
	for _, dir := range t.dirs() {
		pack.see(t.pkgs[dir].files, dir)
	}
	byValue, circle, err := t.overall()
	if err != nil {
		return nil, err
	}
	mean, p95 := meanAndP95(t.lengths)
	return []string{
		fmt.Sprint(t.codes), fmt.Sprint(len(t.pkgs)), pack.String(), t.file.String(), t.function.String(),
		fmt.Sprintf("%.0f / %d", mean, p95), t.structure.String(),
		byValue.String(), circle.String(),
		fmt.Sprintf("%d + %d (%s)", m.names, m.methods, mainDir), fmt.Sprint(m.fields),
		fmt.Sprintf("%.2f", float64(t.comments)/float64(max(t.codes, 1))),
		fmt.Sprintf("%d (%s)", t.complex, strings.NewReplacer(" (", ", ", ")", "").Replace(t.cyclomatic.String())),
		fmt.Sprint(len(t.farTooComplex)), fmt.Sprint(len(t.tooLong)),
	}, nil
}

// overall returns the struct with the most fields by value and the largest circle of files.
func (t *tree) overall() (byValue, circle largest, err error) {
	for _, dir := range t.dirs() {
		most := t.pkgs[dir].mostByValue()
		byValue.see(most.size, dir+"."+most.name)
		files, err := t.circle(dir)
		if err != nil {
			return byValue, circle, err
		}
		circle.see(len(files), dir)
	}
	return byValue, circle, nil
}

func (t *tree) dirs() []string {
	dirs := make([]string, 0, len(t.pkgs))
	for dir := range t.pkgs {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

// mainDir is the package in ./engine that exports most, or else the root.
func (t *tree) mainDir() string {
	best, exports := ".", -1
	for _, dir := range t.dirs() {
		p := t.pkgs[dir]
		if under := dir == "engine" || strings.HasPrefix(dir, "engine/"); under && p.names+p.methods > exports {
			best, exports = dir, p.names+p.methods
		}
	}
	return best
}

// meanAndP95 are those of lengths; of 0 functions they are 0.
func meanAndP95(lengths []int) (mean float64, p95 int) {
	if len(lengths) == 0 {
		return 0, 0
	}
	sorted, sum := slices.Sorted(slices.Values(lengths)), 0
	for _, n := range sorted {
		sum += n
	}
	rank := (len(sorted)*95 + 99) / 100 // the least that 95 of 100 do not exceed
	return float64(sum) / float64(len(sorted)), sorted[rank-1]
}
