package cli

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// TestShell: the lines of a shell do what verbs do, on one open database.
func TestShell(t *testing.T) {
	c := newCLI(t)
	c.in, c.inTerminal = strings.NewReader(`# two memories: what's in them
store "tea without milk" --user ada --id one

store 'it''s late' --user ada --id two
recall tea --user ada
stats
`), false
	r := c.run("shell", "--json")
	if r.code != exitDone || r.err != "" {
		t.Fatalf("exit %d, %s", r.code, r.err)
	}
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); len(lines) != 4 || !strings.Contains(lines[2], "tea without milk") || !strings.Contains(lines[3], `"memories":2`) {
		t.Errorf("printed:\n%s", r.out)
	}
	if got := c.run("get", "two", "--user", "ada"); !strings.Contains(got.out, "its late") {
		t.Errorf("after the shell: %s%s", got.out, got.err)
	}
}

// TestShellFails: the first line that fails ends a shell that no person types into.
func TestShellFails(t *testing.T) {
	for _, test := range []struct {
		name, in string
		code     int
		says     string
	}{
		{"no such memory", "store tea --user ada\nget nothing --user ada\nstore more --user ada", exitNotFound, "line 2"},
		{"unknown verb", "stor tea --user ada", exitUsage, "store"},
		{"open quote", `store "tea --user ada`, exitUsage, "not closed"},
		{"backslash", `store tea\`, exitUsage, "backslash"},
		{"shell in a shell", "shell", exitUsage, "already"},
		{"another database", "stats --db elsewhere", exitUsage, "elsewhere"},
		{"text of the input", "store - --user ada\nmore", exitFailed, "name a file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCLI(t)
			c.in, c.inTerminal = strings.NewReader(test.in), false
			r := c.run("shell")
			if r.code != test.code || !strings.Contains(r.err, test.says) {
				t.Errorf("exit %d, want %d: %s", r.code, test.code, r.err)
			}
			if got := c.run("list", "--user", "ada", "--count"); got.code == exitDone && !strings.HasPrefix(strings.TrimSpace(got.out), "1") {
				t.Errorf("after it: %s", got.out)
			}
		})
	}
}

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                      nil,
		"  a  b\t":              {"a", "b"},
		`'a b' "c d"e`:          {"a b", "c de"},
		`"" ''`:                 {"", ""},
		`a\ b "\"" '\'`:         {"a b", `"`, `\`},
		`--meta '{"k": "v w"}'`: {"--meta", `{"k": "v w"}`},
		"größe 日本":              {"größe", "日本"},
	} {
		if got, err := words(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}

// The tab key of a shell offers what the database has.
func TestExtended(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--id", "tea-1", "--user", "ada")
	c.ok("store", "tea", "--id", "tea-2", "--user", "adam")
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	a := &app{console: c.console}
	s := &shell{dir: c.dir, db: db}
	for line, want := range map[string]string{
		"get t": "get tea-", "get tea-2": "get tea-2 ", "list --user a": "list --user ada", "list --user adam": "list --user adam ",
		"recall --pro": "recall --profile ", "list --user 'open": "list --user 'open", "get nothing": "get nothing", "": "",
	} {
		if got := a.extended(t.Context(), s, line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

func TestCompleted(t *testing.T) {
	root := (&app{}).root()
	for line, want := range map[string]string{
		"rec": "recall ", "re": "re", "session ap": "session append ", "nothing x": "nothing x", "zz": "zz", "kv p": "kv put ",
	} {
		if got := completed(root, line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

// TestPromptKeys verifies that Ctrl-C drops the line at a prompt, and that Ctrl-D ends the input.
func TestPromptKeys(t *testing.T) {
	keys := &promptKeys{in: io.MultiReader(strings.NewReader("\x03"), strings.NewReader("half\x03list\rx\x03\x04"))}
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, io.Discard}, "> ")
	for _, want := range []string{"", "", "list", ""} {
		if line, err := editor.ReadLine(); line != want || err != nil {
			t.Errorf("%q, %v; want %q", line, err, want)
		}
	}
	if line, err := editor.ReadLine(); !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v at the end", line, err)
	}
}
