package arch

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// module is the path in the root go.mod. Nested modules have paths below it, so
// that one rule reads the imports of both.
const module = "github.com/seed-7aedc3ff/memdb"

// A goFile is one parsed file of the tree.
type goFile struct {
	path string // from the root, with slashes: "engine/doc.go"
	pkg  string // its folder: "engine"
	test bool   // a _test.go file
	ast  *ast.File
	fset *token.FileSet
}

// A textFile is any file that a person reads.
type textFile struct {
	path string
	text string
}

// A finding is one break of a rule.
type finding struct {
	where string // "engine/doc.go:12", or a package
	what  string
}

func (f finding) String() string { return f.where + ": " + f.what }

// at names the line of a node.
func (f *goFile) at(pos token.Pos) string {
	return f.path + ":" + strconv.Itoa(f.fset.Position(pos).Line)
}

// parse makes a goFile of a source, which the tables of the tests use as well.
func parse(name, source string) (*goFile, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &goFile{
		path: name,
		pkg:  path.Dir(name),
		test: strings.HasSuffix(name, "_test.go"),
		ast:  file,
		fset: fset,
	}, nil
}

// root finds the folder of the root go.mod above the test.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatalf("no go.mod of %s above the test", module)
		}
		dir = up
	}
}

// unread are the folders that hold no source of the project.
var unread = map[string]bool{".git": true, "testdata": true, "memdb.data": true, "node_modules": true}

// walk calls fn for every file of the project, by its path from the root.
func walk(t *testing.T, fn func(name, full string)) {
	t.Helper()
	base := root(t)
	err := filepath.WalkDir(base, func(full string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && unread[d.Name()]:
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		rel, err := filepath.Rel(base, full)
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(rel), full)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goFiles parses the whole tree, nested modules too.
func goFiles(t *testing.T) []*goFile {
	t.Helper()
	var files []*goFile
	walk(t, func(name, full string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		source, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parse(name, string(source))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	})
	if len(files) == 0 {
		t.Fatal("no Go file found: the walk is broken")
	}
	return files
}

// readable are the endings of files that a person reads; files without one
// (LICENSE, scripts) count too.
var readable = map[string]bool{
	"": true, ".go": true, ".s": true, ".md": true, ".mod": true, ".sh": true,
	".yml": true, ".yaml": true, ".json": true, ".jsonl": true, ".toml": true, ".txt": true,
	".html": true, ".svg": true, ".csv": true, ".tsv": true, ".gitignore": true,
}

// textFiles reads everything in the tree that a person reads.
func textFiles(t *testing.T) []textFile {
	t.Helper()
	var files []textFile
	walk(t, func(name, full string) {
		if !readable[path.Ext(name)] {
			return
		}
		text, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(string(text), 0) {
			return // a binary without an ending
		}
		files = append(files, textFile{path: name, text: string(text)})
	})
	return files
}

// imported lists a file's imports by the name that the file uses for them.
func imported(f *goFile) map[string]string {
	names := map[string]string{}
	for _, spec := range f.ast.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused it already
		}
		if spec.Name != nil {
			names[spec.Name.Name] = target
			continue
		}
		name := path.Base(target)
		if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(target))
		}
		names[name] = target
	}
	return names
}

// report fails the test once for each finding.
func report(t *testing.T, findings []finding) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}
