package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEnums verifies that the values of each enum are the constants of its Go type.
func TestEnums(t *testing.T) {
	folders := map[string]string{"facts": "services/facts", "place": "internal/place"} // of packages that are not in a folder of their name
	for name, got := range enums {
		pkg, typ, _ := strings.Cut(name, ".")
		folder := folders[pkg]
		if folder == "" {
			folder = pkg
		}
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: there are no files: %v", folder, err)
		}
		var want []string
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, constantsOf(t, f, typ)...)
		}
		slices.Sort(want)
		if sorted := slices.Sorted(slices.Values(got)); !slices.Equal(sorted, want) {
			t.Errorf("the enum of %s has %q, its constants are %q", name, sorted, want)
		}
	}
}

// constantsOf are the values of the constants of a type.
func constantsOf(t *testing.T, f *ast.File, typ string) (values []string) {
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.ValueSpec)
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != typ {
				continue
			}
			for _, v := range spec.Values {
				text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, text)
			}
		}
	}
	return values
}

// TestAcceptQuality verifies how the weights of the Accept headers are read.
func TestAcceptQuality(t *testing.T) {
	for header, want := range map[string]float64{
		"": -1, "*/*": -1, "application/json": 1, "text/html, application/json;q=0.3": 0.3, "application/json;q=NaN": 0, "application/json;q": -1,
		"application/json;q=0.2, application/json;q=0.4": 0.4,
	} {
		if got := quality(map[string][]string{"Accept": {header}}, mediaJSON); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
