package cli

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// goNames are names of Go that an error may advise by: two words in one, and the names of options
// and methods that are one.
var goNames = regexp.MustCompile(`\b(?:[A-Z][a-z]+){2,}\b|\b(?:Upsert|Views?|TTL|Reembed|Retain|Stats|Limit|After|Next|Scopes?|Options|Archive|Strict|Filter|Cursor|Language)\b`)

// notNames are words of people that look like those.
var notNames = regexp.MustCompile(`PageRank|JavaScript|LoCoMo|OpenAI|UTF|MessagePack`)

// What a person reads of an error has no names of Go: the texts of errors of all packages that
// memdbctl reaches, as inWords tells them.
func TestWordsOfErrors(t *testing.T) {
	root := os.DirFS("../..")
	for _, folder := range []string{"engine", "entries", "filter", "graph", "memory", "notes", "policy", "sessions", "usage", "backup", "exchange", "exchange/move", "internal/store", "internal/metadata", "internal/valid", "scope"} {
		files, err := fs.Glob(root, folder+"/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, error %v", folder, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path.Join("../..", name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, e := range toldBy(n) {
					ast.Inspect(e, func(n ast.Node) bool {
						lit, ok := n.(*ast.BasicLit)
						if !ok || lit.Kind != token.STRING {
							return true
						}
						text, err := strconv.Unquote(lit.Value)
						if err != nil {
							t.Fatal(err)
						}
						said := notNames.ReplaceAllString(inWords(errors.New(text)), "")
						if name := goNames.FindString(said); name != "" {
							t.Errorf("%s: %q tells people of %s", set.Position(lit.Pos()), said, name)
						}
						return true
					})
				}
				return true
			})
		}
	}
}

// TestWordsOfScope verifies that the error for a missing owner names flags in every command, and
// not by the parameters of an interface.
func TestWordsOfScope(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "ada")
	file := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(file, []byte(`{"type":"memory","text":"nobody's"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"store", "x"},
		{"list"},
		{"recall", "x"},
		{"get", "x"},
		{"update", "x", "y"},
		{"history", "x"},
		{"delete", "x"},
		{"delete", "--all"},
		{"groups"},
		{"why", "x", "y"},
		{"kv", "put", "k", "1"},
		{"kv", "get", "k"},
		{"kv", "list"},
		{"kv", "delete", "k"},
		{"note", "add", "n", "t"},
		{"note", "list"},
		{"note", "get", "n"},
		{"note", "remove", "n"},
		{"note", "search", "n"},
		{"session", "append", "s", "t"},
		{"session", "show", "s"},
		{"session", "delete", "s"},
		{"session", "open", "s"},
		{"graph", "add", `{"id":"a"}`},
		{"graph", "get", "a"},
		{"graph", "list"},
		{"graph", "delete", "a"},
		{"graph", "extract"},
		{"graph", "stats"},
		{"usage", "add", "--model", "m", "--tokens", "1"},
		{"usage", "budget", "remove"},
		{"usage", "budget", "list"},
		{"fact", "list"},
		{"fact", "search", "x"},
		{"fact", "delete-all"},
		{"import", file},
	} {
		r := c.run(args...)
		if strings.Contains(r.err, "user_id") || strings.Contains(r.err, "agent_id") {
			t.Errorf("%q: %s", args, r.err)
		}
		if r.code == exitUsage && strings.Contains(r.err, "no user") && !strings.Contains(r.err, "--user") {
			t.Errorf("%q names no flag: %s", args, r.err)
		}
	}
	c.fails(exitUsage, "it names no user, agent or run; give --user, --agent or --run, or --all-scopes", "list")
	c.fails(exitUsage, "it names no user, agent or run; give --user or --agent", "kv", "list")
}

// toldBy are the expressions of a node that an error says: its reason, its advice, and what was
// refused.
func toldBy(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Why" || key.Name == "Do") {
			return []ast.Expr{n.Value}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Invalid" && len(n.Args) > 1 {
			return n.Args[1:]
		}
	}
	return nil
}
