package arch

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// checkDocs wants a doc comment of every package that begins as godoc expects
// it, and exactly one file that carries it.
func checkDocs(files []*goFile) []finding {
	docs := map[string][]*goFile{}
	for _, f := range files {
		if _, ok := docs[f.pkg]; !ok {
			docs[f.pkg] = nil
		}
		if f.ast.Doc != nil && !f.test {
			docs[f.pkg] = append(docs[f.pkg], f)
		}
	}
	var found []finding
	for pkg, carriers := range docs {
		switch {
		case len(carriers) == 0:
			found = append(found, finding{pkg, "no package doc comment"})
		case len(carriers) > 1:
			found = append(found, finding{carriers[1].path, "a second package doc comment beside " + carriers[0].path})
		default:
			found = append(found, docForm(carriers[0])...)
		}
	}
	slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.where, b.where) })
	return found
}

// docForm checks how a package doc comment begins and that its first sentence
// ends.
func docForm(f *goFile) []finding {
	text := f.ast.Doc.Text()
	want := "Package " + f.ast.Name.Name + " "
	if f.ast.Name.Name == "main" {
		name := path.Base(f.pkg)
		want = strings.ToUpper(name[:1]) + name[1:] + " "
	}
	first, _, _ := strings.Cut(text, "\n\n")
	switch {
	case !strings.HasPrefix(text, want):
		return []finding{{f.at(f.ast.Doc.Pos()), "the package doc comment does not begin with " + strconv.Quote(want)}}
	case !strings.ContainsAny(first, ".:"):
		return []finding{{f.at(f.ast.Doc.Pos()), "the package doc comment has no first sentence"}}
	}
	return nil
}

// wellKnown are methods of the standard interfaces, whose meaning is theirs.
var wellKnown = map[string]bool{
	"Error": true, "String": true, "Unwrap": true, "Is": true, "As": true,
	"Len": true, "Less": true, "Swap": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true,
}

// checkExported wants a comment on every exported declaration of product code.
func checkExported(files []*goFile) []finding {
	var found []finding
	for _, f := range files {
		if f.test || !product(f.pkg) {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !wellKnown[d.Name.Name] {
					found = append(found, finding{f.at(d.Pos()), d.Name.Name + " has no comment"})
				}
			case *ast.GenDecl:
				found = append(found, undocumented(f, d)...)
				if seenByUsers(f.pkg) {
					found = append(found, bareFields(f, d)...)
				}
			}
		}
	}
	return found
}

// exportedReceiver reports whether a function can be called from outside.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// undocumented finds exported types, variables and constants without a comment:
// of their own, beside them, above their group, or above the lines that they
// stand together with.
func undocumented(f *goFile, d *ast.GenDecl) []finding {
	var found []finding
	covered := -1 // the last line that a comment covers
	for _, spec := range d.Specs {
		var names []*ast.Ident
		var own, beside *ast.CommentGroup
		switch s := spec.(type) {
		case *ast.TypeSpec:
			names, own, beside = []*ast.Ident{s.Name}, s.Doc, s.Comment
		case *ast.ValueSpec:
			names, own, beside = s.Names, s.Doc, s.Comment
		}
		begin, end := f.fset.Position(spec.Pos()).Line, f.fset.Position(spec.End()).Line
		if d.Doc != nil || own != nil || beside != nil || begin == covered+1 {
			covered = end
			continue
		}
		for _, name := range names {
			if name.IsExported() {
				found = append(found, finding{f.at(spec.Pos()), name.Name + " has no comment"})
			}
		}
	}
	return found
}

// seenByUsers reports whether programs of others may import a package.
func seenByUsers(pkg string) bool { return !slices.Contains(strings.Split(pkg, "/"), "internal") }

// bareFields finds exported fields and methods of exported structs and interfaces without a
// comment: above them, beside them, or above the lines that they stand together with. The help of a flag is one, too.
func bareFields(f *goFile, d *ast.GenDecl) (found []finding) {
	for _, spec := range d.Specs {
		typ, ok := spec.(*ast.TypeSpec)
		if !ok || !typ.Name.IsExported() || mirrors(d, typ) {
			continue
		}
		var list *ast.FieldList
		switch t := typ.Type.(type) {
		case *ast.StructType:
			list = t.Fields
		case *ast.InterfaceType:
			list = t.Methods
		default:
			continue
		}
		covered := -1
		for _, field := range list.List {
			begin, end := f.fset.Position(field.Pos()).Line, f.fset.Position(field.End()).Line
			if field.Doc != nil || field.Comment != nil || begin == covered+1 || field.Tag != nil && strings.Contains(field.Tag.Value, ` help:"`) {
				covered = end
				continue
			}
			for _, name := range field.Names {
				if name.IsExported() {
					found = append(found, finding{f.at(field.Pos()), typ.Name.Name + "." + name.Name + " has no comment"})
				}
			}
		}
	}
	return found
}

// mirrors reports whether a type says of itself that it is another one as JSON, whose fields it has.
func mirrors(d *ast.GenDecl, typ *ast.TypeSpec) bool {
	return strings.Contains(d.Doc.Text()+typ.Doc.Text(), "as one flat JSON object")
}

// marker finds notes to oneself: what is not done is in the issues, or in README.
var marker = regexp.MustCompile(`\b(?:TODO|FIXME|XXX|HACK)\b`)

// checkMarkers finds markers in the comments of any Go file.
func checkMarkers(files []*goFile) []finding {
	var found []finding
	for _, f := range files {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if hit := marker.FindString(c.Text); hit != "" {
					found = append(found, finding{f.at(c.Pos()), "a note to oneself: " + hit})
				}
			}
		}
	}
	return found
}

// machinePath finds absolute paths of somebody's machine: home folders and
// scratch folders.
var machinePath = regexp.MustCompile(`(?:^|[^\w./~$})*-])/(?:home|Users|root|work|tmp|private/tmp|var/folders)/[\w.*-]+`)

// checkPaths finds machine paths in the text of any file.
func checkPaths(files []textFile) []finding {
	var found []finding
	for _, f := range files {
		for i, line := range strings.Split(f.text, "\n") {
			if hit := machinePath.FindString(line); hit != "" {
				found = append(found, finding{f.path + ":" + strconv.Itoa(i+1), "a path of one machine: " + strings.TrimSpace(hit)})
			}
		}
	}
	return found
}

func TestDocs(t *testing.T) {
	files := goFiles(t)
	report(t, checkDocs(files))
	report(t, checkExported(files))
}

func TestMarkers(t *testing.T) {
	report(t, checkMarkers(goFiles(t)))
}

func TestMachinePaths(t *testing.T) {
	report(t, checkPaths(textFiles(t)))
}

func TestCheckDocs(t *testing.T) {
	for _, c := range []struct{ file, source, want string }{
		{"wal/wal.go", "// Package wal keeps the log.\npackage wal", ""},
		{"wal/wal.go", "package wal", "no package doc"},
		{"wal/wal.go", "// Keeps the log.\npackage wal", "does not begin"},
		{"wal/wal.go", "// Package wal keeps the log\npackage wal", "no first sentence"},
		{"wal/wal_test.go", "// Package wal keeps the log.\npackage wal", "no package doc"},
		{"cmd/memdbctl/main.go", "// Memdbctl is the admin command.\npackage main", ""},
		{"cmd/memdbctl/main.go", "// The admin command.\npackage main", "does not begin"},
	} {
		f, err := parse(c.file, c.source)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.source, checkDocs([]*goFile{f}), c.want)
	}
	a, err := parse("wal/a.go", "// Package wal keeps the log.\npackage wal")
	if err != nil {
		t.Fatal(err)
	}
	b, err := parse("wal/b.go", "// Package wal keeps the log, again.\npackage wal")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "two doc comments", checkDocs([]*goFile{a, b}), "second")
}

func TestCheckExported(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"func F() {}", "F has no comment"},
		{"// F does.\nfunc F() {}", ""},
		{"func f() {}", ""},
		{"func (t *T) M() {}", "M has no comment"},
		{"func (t *T[K]) M() {}", "M has no comment"},
		{"func (t *t) M() {}", ""},
		{"func (t *T) Error() string { return \"\" }", ""},
		{"type T int", "T has no comment"},
		{"// The kinds.\nconst (\nA = 1\nB = 2\n)", ""},
		{"const (\nA = 1 // the first\n)", ""},
		{"const (\nA = 1\n)", "A has no comment"},
		{"const (\n// A and B are bounds.\nA = 1\nB = 2\n)", ""},
		{"const (\n// A is a bound.\nA = 1\n\nB = 2\n)", "B has no comment"},
		{"var V int", "V has no comment"},
		{"// T is one.\ntype T struct {\nA int\nb int\n}", "T.A has no comment"},
		{"// T is one.\ntype T struct {\n// A and B are bounds.\nA int\nB int\n}", ""},
		{"// T is one.\ntype T struct {\n// A is a bound.\nA int\n\nB int\n}", "T.B has no comment"},
		{"// T is one.\ntype T struct {\nA int // a bound\nscope\n}", ""},
		{"// T is one.\ntype T interface { M() }", "T.M has no comment"},
		{"type t struct { A int }", ""},
		{"// L is T as one flat JSON object.\ntype L struct {\nA int\n}", ""},
	} {
		f, err := parse("wal/wal.go", "package wal\n"+c.source)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.source, checkExported([]*goFile{f}), c.want)
	}
}

func TestCheckMarkers(t *testing.T) {
	// Put together here, so that this file holds no such comment itself.
	const slashes = "//"
	for _, c := range []struct{ source, want string }{
		{slashes + " TODO: later\nvar x int", "note to oneself"},
		{"var x int " + slashes + " FIXME", "note to oneself"},
		{"/* XXX */ var x int", "note to oneself"},
		{slashes + " mastodons are not markers\nvar x int", ""},
		{"var x = `TODO`", ""},
	} {
		f, err := parse("wal/wal.go", "package wal\n"+c.source)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.source, checkMarkers([]*goFile{f}), c.want)
	}
}

func TestCheckPaths(t *testing.T) {
	// Put together here, so that this file holds no such path itself.
	const slash = "/"
	for _, c := range []struct{ text, want string }{
		{"see " + slash + "home/ada/notes", "path of one machine"},
		{slash + "work/main/x.go", "path of one machine"},
		{`"` + slash + `tmp/x"`, "path of one machine"},
		{"open(" + slash + "Users/ada/x)", "path of one machine"},
		{"https://example.com" + slash + "home/page", ""},
		{"../shared" + slash + "work/x", ""},
		{"$HOME" + slash + "work/x", ""},
		{"the " + slash + "home folder", ""},
		{"docs/format/keys.md", ""},
	} {
		expect(t, c.text, checkPaths([]textFile{{"README.md", c.text}}), c.want)
	}
}
