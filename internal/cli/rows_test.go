package cli

import (
	"encoding/csv"
	"strings"
	"testing"
)

// Every verb that prints rows prints them as a table, as JSON and as comma-separated values under
// a header.
func TestRowVerbs(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "=1+1, \"quoted\"", "--id", "m", "--agent", "a", "--user", "ada")
	c.ok("store", "a message", "--agent", "a", "--user", "ada", "--session", "s")
	c.ok("kv", "put", "k", `{"a":1}`, "--agent", "a")
	c.ok("note", "add", "n", "a note", "--agent", "a")
	for _, line := range []string{
		`{"id":"x","entity_type":"pot","name":"Bowl","relations":[{"target":"y","type":"like"}]}`, `{"id":"y","entity_type":"pot","name":"Bowl"}`,
		`{"id":"z","entity_type":"pot","name":"Bowl"}`,
	} {
		c.in = strings.NewReader(line)
		c.run("graph", "add", "-", "--agent", "a")
	}
	c.in = strings.NewReader(`{"id":"x","entity_type":"pot","name":"Bowl","relations":[{"target":"y","type":"like"}]}`)
	c.ok("graph", "add", "-", "--agent", "a")
	c.ok("usage", "add", "--agent", "a", "--model", "m", "--prompt", "1234", "--completion", "1", "--cost", "0.01")
	c.ok("usage", "budget", "set", "5", "--agent", "a")
	c.ok("agent", "add", "a", "--name", "A")
	c.ok("fact", "add", "Ada likes tea", "--agent", "a", "--infer=false")
	id := one(t, c.objects("fact", "list", "--agent", "a"))["id"].(string)
	repo := t.TempDir()
	c.ok("backup", repo)
	args := map[string][]string{
		"list": {"--user", "ada"}, "groups": {"--all-scopes"}, "recall": {"message", "--user", "ada"}, "history": {"m", "--user", "ada", "--agent", "a"},
		"graph path": {"x", "y", "--agent", "a"}, "graph rank": {"x", "--agent", "a"}, "graph query": {"x", "--agent", "a"}, "graph find": {"x", "--agent", "a"},
		"graph lookup": {"Bowl", "--agent", "a"}, "note search": {"note", "--agent", "a"}, "usage by": {"model", "--agent", "a"}, "usage rank": {},
		"agent list": {}, "user list": {}, "fact search": {"tea", "--agent", "a"}, "fact history": {id, "--agent", "a"}, "backup list": {repo},
		"session list": {"--user", "ada", "--agent", "a"},
	}
	for _, verb := range rowVerbs {
		more, ok := args[verb]
		if !ok {
			more = []string{"--agent", "a"}
		}
		call := append(strings.Fields(verb), more...)
		table := c.ok(call...)
		rows, err := csv.NewReader(strings.NewReader(c.ok(append(call, "--format", "csv")...))).ReadAll()
		if err != nil || len(rows) < 2 || len(rows[0]) < 2 || rows[0][0] != strings.ToLower(rows[0][0]) || strings.Contains(strings.Join(rows[0], ""), " ") {
			t.Errorf("%s: %q, error %v", verb, rows, err)
		}
		if lines := strings.Count(table, "\n"); lines != len(rows)-1 && !strings.Contains(verb, "recall") {
			t.Errorf("%s: %d lines of a table and %d rows", verb, lines, len(rows)-1)
		}
		if verb != "recall" && // which counts
			c.ok(append(call, "--format", "json")...) != c.ok(append(call, "--json")...) {
			t.Errorf("%s: --format json is not --json", verb)
		}
		if c.ok(append(call, "--format", "table")...) != table {
			t.Errorf("%s: --format table differs", verb)
		}
	}
	// Numbers are plain, and what a spreadsheet would compute is a text.
	if got := c.ok("usage", "rank", "--format", "csv"); got != "dollars,tokens,agent,name\n0.01,1235,a,A\n" {
		t.Errorf("numbers: %q", got)
	}
	if got := c.ok("usage", "rank"); got != "0.01\t1235\ta\tA\n" {
		t.Errorf("numbers in a pipe: %q", got)
	}
	c.outWidth = 80
	if got := c.ok("usage", "rank"); !strings.Contains(got, "0.01     1,235   a") {
		t.Errorf("numbers on a terminal: %q", got)
	}
	c.outWidth = 0
	if got := c.ok("list", "--user", "ada", "--format", "csv"); !strings.Contains(got, `"'=1+1, ""quoted"""`) {
		t.Errorf("a formula: %q", got)
	}
	if got := c.ok("list", "--user", "nobody", "--format", "csv"); !strings.HasPrefix(got, "seq,id,user,") || strings.Count(got, "\n") != 1 {
		t.Errorf("nothing: %q", got)
	}
	c.fails(exitUsage, "--format csv: it prints no rows; there are table and json", "stats", "--format", "csv")
	c.fails(exitUsage, `--format "xml": there are table, json and csv`, "get", "m", "--format", "xml")
	c.fails(exitUsage, "--json and --format exclude each other", "list", "--user", "ada", "--json", "--format", "csv")
	c.fails(exitUsage, "--json and --format exclude each other", "list", "--user", "ada", "--json", "--format", "table")
}
