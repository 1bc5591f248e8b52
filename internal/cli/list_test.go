package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestListAll(t *testing.T) {
	c := newCLI(t)
	var lines strings.Builder
	for i := range 250 {
		fmt.Fprintf(&lines, `{"type":"memory","id":"m%d","user":"ada","run":"r%d","text":"note %d, \"so\"\nand so on","metadata":{"n":%d}}`+"\n", i, i%2, i, i)
	}
	c.ok("import", c.file("notes.jsonl", lines.String()))
	if got := c.objects("list", "--user", "ada"); len(got) != 100 {
		t.Errorf("a page has %d memories", len(got))
	}
	r := c.run("--json", "list", "--user", "ada", "--all")
	if got := parseLines(t, r.out); len(got) != 250 || got[249]["id"] != "m249" || r.err != "" {
		t.Errorf("all: %d memories, and %q", len(got), r.err)
	}
	if got := c.ok("list", "--user", "ada", "--count", "--filter", "n >= 100"); got != "150\n" {
		t.Errorf("count: %q", got)
	}
	if got := one(t, c.objects("list", "--user", "ada", "--run", "r1", "--count")); got["count"] != 125.0 {
		t.Errorf("count: %v", got)
	}
	rows, err := csv.NewReader(strings.NewReader(c.ok("list", "--user", "ada", "--format", "csv", "--all"))).ReadAll()
	if err != nil || len(rows) != 251 {
		t.Fatalf("csv: %d rows, %v", len(rows), err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for name, want := range map[string]string{"id": "m7", "user": "ada", "run": "r1", "text": "note 7, \"so\"\nand so on", "metadata": `{"n":7}`, "confidence": "1"} {
		if got := rows[8][column[name]]; got != want {
			t.Errorf("csv: %s is %q, want %q", name, got, want)
		}
	}
	for _, args := range [][]string{
		{"--all", "--limit", "5"},
		{"--count", "--all"},
		{"--count", "--limit", "5"},
		{"--count", "--after", "x"},
		{"--format", "csv", "--count"},
		{"--format", "csv", "--json"},
		{"--format", "csv", "--vectors"},
	} {
		c.fails(exitUsage, "exclude each other", append([]string{"list", "--user", "ada"}, args...)...)
	}
	c.fails(exitUsage, "there are table, json and csv", "list", "--user", "ada", "--format", "tsv")
}

// TestListCSVFormulas: no text becomes a formula of a spreadsheet, in whatever column it is.
func TestListCSVFormulas(t *testing.T) {
	c := newCLI(t)
	for i, start := range []string{"=", "+", "-", "@", "\t", "\r", "'", "a"} {
		text, want := start+"1+1", start+"1+1"
		if start != "a" && start != "'" {
			want = "'" + want
		}
		user := fmt.Sprint("u", i) // names have no control characters
		if strings.Contains("=+-@", start) {
			user = text
		}
		line, err := json.Marshal(map[string]any{"user": user, "text": text})
		if err != nil {
			t.Fatal(err)
		}
		c.ok("import", c.file("one.jsonl", string(line)+"\n"))
		rows, err := csv.NewReader(strings.NewReader(c.ok("list", "--user="+user, "--format", "csv"))).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q: %d rows, %v", text, len(rows), err)
		}
		for i, name := range rows[0] {
			if got := rows[1][i]; (name == "user" && user == text || name == "text") && got != want {
				t.Errorf("%s %q is the cell %q, want %q", name, text, got, want)
			}
		}
	}
}

func TestGroups(t *testing.T) {
	c := newCLI(t)
	for _, at := range [][]string{{"--user", "ada"}, {"--user", "ada", "--agent", "a1", "--run", "r1"}, {"--user", "ada", "--agent", "a1", "--run", "r2"}, {"--agent", "a1"}} {
		c.ok(append([]string{"store", "tea " + strings.Join(at, " ")}, at...)...)
	}
	got := c.objects("groups", "--all-scopes")
	if len(got) != 3 || got[2]["user"] != "ada" || got[2]["agent"] != "a1" || got[2]["memories"] != 2.0 || got[2]["first_created_at"] == nil {
		t.Errorf("owners: %v", got)
	}
	if got := c.objects("groups", "--agent", "a1", "--by", "run"); len(got) != 3 || got[2]["run"] != "r2" {
		t.Errorf("runs: %v", got)
	}
	if got := c.ok("groups", "--all-scopes", "--by", "user"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "ada") {
		t.Errorf("users: %q", got)
	}
	c.fails(exitUsage, "", "groups")
	c.fails(exitUsage, "unknown group", "groups", "--all-scopes", "--by", "colour")
}

func TestRecallScopes(t *testing.T) {
	c := newCLI(t)
	for _, user := range []string{"ada", "bob", "eve"} {
		c.ok("store", user+" drinks tea", "--user", user)
	}
	if got := c.objects("recall", "tea", "--scope", `{"user":"ada"}`, "--scope", `{"user":"bob"}`); len(got) != 2 {
		t.Errorf("%d hits", len(got))
	}
	c.fails(exitUsage, "stand alone", "recall", "tea", "--user", "ada", "--scope", `{"user":"bob"}`)
	c.fails(exitUsage, "there are user, agent, run", "recall", "tea", "--scope", `{"name":"bob"}`)
	c.fails(exitUsage, "it names no user, agent or run", "recall", "tea", "--scope", `{}`)
}
