package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/entries"
)

// The life of a key: put, compare-and-set, list in pages, expire, delete.
func TestKV(t *testing.T) {
	c := newCLI(t)
	put := one(t, c.objects("kv", "put", "a/1", `{"page": 4}`, "--agent", "r"))
	if put["type"] != "kv" || put["key"] != "a/1" || put["agent"] != "r" || put["version"] != 1.0 {
		t.Errorf("put: %v", put)
	}
	c.ok("kv", "put", "a/2", "12345678901234567890", "--agent", "r", "--ttl", "1h")
	c.ok("kv", "put", "b", `"x"`, "--agent", "r", "--if-version", "0")
	c.fails(exitFailed, "version is 3, not 0", "kv", "put", "b", `"y"`, "--agent", "r", "--if-version", "0")
	c.ok("kv", "put", "b", `"y"`, "--agent", "r", "--if-version", "3")
	if got := c.ok("kv", "get", "a/1", "--agent", "r") + c.ok("kv", "get", "a/2", "--agent", "r"); got != "{\"page\":4}\n12345678901234567890\n" {
		t.Errorf("get: %q", got)
	}
	if got := one(t, c.objects("kv", "get", "a/2", "--agent", "r")); got["expires_at"] == nil {
		t.Errorf("no expiry: %v", got)
	}
	c.fails(exitNotFound, "its owner has none", "kv", "get", "a/1", "--agent", "other")
	c.fails(exitNotFound, "its owner has none", "kv", "delete", "c", "--agent", "r")

	var keys []string
	for _, e := range c.objects("kv", "list", "a/", "--agent", "r") {
		keys = append(keys, e["key"].(string))
	}
	if got := strings.Join(keys, " "); got != "a/1 a/2" {
		t.Errorf("list a/: %s", got)
	}
	first := c.run("kv", "list", "--agent", "r", "--limit", "2")
	after, ok := strings.CutPrefix(first.err, "memdbctl: there are more; go on with --after ")
	if !ok || !strings.HasPrefix(c.ok("kv", "list", "--agent", "r", "--after", strings.TrimSpace(after)), "b\t") {
		t.Errorf("pages: %+v", first)
	}
	if got := c.ok("kv", "delete", "b", "--agent", "r"); got != "deleted 1\n" {
		t.Errorf("delete: %q", got)
	}
	c.ok("check")
}

func TestKVUsage(t *testing.T) {
	c := newCLI(t)
	with := newCLI(t)
	with.ok("kv", "put", "k", "1", "--user", "u")
	with.fails(exitUsage, "; give --user or --agent\n", "kv", "list") // an entry has no run
	if r := c.run("kv", "put", "k", "plain-secret", "--agent", "r"); r.code != exitUsage || !strings.Contains(r.err, "no JSON") || strings.Contains(r.err, "secret") {
		t.Errorf("exit code %d, or the error tells the value: %s", r.code, r.err)
	}
	c.fails(exitUsage, "it names no user, agent or run", "kv", "put", "k", "1")
	c.fails(exitUsage, "KEY and JSON", "kv", "put", "k", "--agent", "r")
	c.fails(exitUsage, "put, get, delete and list", "kv")
	c.fails(exitUsage, "no verb", "kv", "push", "k")
	c.fails(exitFailed, "no database", "kv", "get", "k", "--agent", "r")
}

// TestWrongRequests verifies that a request that can only fail makes no database.
func TestWrongRequests(t *testing.T) {
	c := newCLI(t)
	for _, wrong := range []struct{ line, want string }{
		{"kv put k 1 --agent r --ttl 0d", "the ttl is not above 0"},
		{"note add n text --agent r --kind other", "neither note nor archive"},
		{"session open --agent r", "there is no channel"},
	} {
		c.fails(exitUsage, wrong.want, strings.Fields(wrong.line)...)
	}
	c.fails(exitFailed, "no database", "kv", "get", "k", "--agent", "r")
}

// A value may come from the input, which takes any that the database does.
func TestKVPutReadsTheInput(t *testing.T) {
	long := `"` + strings.Repeat("x", entries.MaxValue-2) + `"`
	for _, test := range []struct{ in, want, error string }{
		{"{\n  \"page\": 4\n}\n", `{"page":4}`, ""},
		{`"no end"`, `"no end"`, ""},
		{long + "\r\n", long, ""},
		{long + "   ", "", "read the value: it is longer than the limit of 8,388,608 bytes"},
		{"", "", "the input is no JSON"},
		{"plain", "", "the input is no JSON; a string needs quotes of its own"},
		{"1 2", "", "the input is no JSON"},
	} {
		c := newCLI(t)
		c.in = strings.NewReader(test.in)
		if test.error != "" {
			c.fails(exitUsage, test.error, "kv", "put", "k", "-", "--user", "u")
			if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%.40q: a database was made, %v", test.in, err)
			}
			continue
		}
		c.ok("kv", "put", "k", "-", "--user", "u")
		if got := c.ok("kv", "get", "k", "--user", "u"); got != test.want+"\n" {
			t.Errorf("%.40q: the value is %.40q", test.in, got)
		}
	}
	c := newCLI(t)
	if r := c.run("kv", "put", "k", strings.Repeat("x", 1<<20), "--user", "u"); r.code != exitUsage || len(r.err) > 500 {
		t.Errorf("exit %d, %.500s", r.code, r.err)
	}
	if out := c.ok("kv", "put", "--help"); !strings.Contains(out, "kv put report - ") {
		t.Errorf("help: %s", out)
	}
}

// Reset asks to be sure, and then leaves nothing.
func TestReset(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "u", "--id", "m")
	c.ok("kv", "put", "k", "1", "--user", "u")
	c.fails(exitUsage, "--yes", "reset")
	if got := one(t, c.objects("reset", "--yes")); got["deleted"] != 1.0 {
		t.Errorf("reset: %v", got)
	}
	c.fails(exitNotFound, "m", "get", "m")
	c.fails(exitNotFound, "m", "history", "m")
	c.fails(exitNotFound, "k", "kv", "get", "k", "--user", "u")
	c.ok("check")
}

// A delete by filter takes what fits and nothing else.
func TestDeleteByFilter(t *testing.T) {
	c := newCLI(t)
	for _, id := range []string{"a", "b", "c"} {
		c.ok("store", "text "+id, "--user", "u", "--id", id, "--metadata", `{"tag":"`+id+`"}`)
	}
	if got := one(t, c.objects("delete", "--all", "--user", "u", "--filter", "tag in (a, c)")); got["deleted"] != 2.0 {
		t.Errorf("delete: %v", got)
	}
	if got := one(t, c.objects("list", "--user", "u")); got["id"] != "b" {
		t.Errorf("left: %v", got)
	}
	c.fails(exitUsage, "--all", "delete", "b", "--user", "u", "--filter", "tag = b")
	c.fails(exitUsage, "it names no user, agent or run", "delete", "--all", "--filter", "tag = b")
	c.fails(exitUsage, "--filter: it is given twice; join the two with and", "delete", "--all", "--user", "u", "--filter", "tag = a", "--filter", "tag = b")
	if got := one(t, c.objects("list", "--user", "u")); got["id"] != "b" {
		t.Errorf("left: %v", got)
	}
}

// Export, import into another database, export again: the same bytes.
func TestExport(t *testing.T) {
	c, other := newCLI(t), newCLI(t)
	c.ok("store", "tea", "--user", "u", "--id", "m", "--metadata", `{"n":12345678901234567890}`, "--embedding", "[1,2]")
	c.ok("store", "coffee", "--user", "v")
	c.ok("kv", "put", "k", `{"a":1}`, "--user", "u")
	file := filepath.Join(t.TempDir(), "all.jsonl")
	if got := c.ok("export", file); got != "exported 2 memories, 0 events of histories and 1 key\n" {
		t.Errorf("export: %q", got)
	}
	c.fails(exitFailed, "--force", "export", file)
	c.ok("export", file, "--force")
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other.ok("import", file)
	if second := other.ok("export", "-"); second != string(first) {
		t.Errorf("exported\n%s\nthen\n%s", first, second)
	}
	if got := c.ok("export", "-", "--user", "v"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "coffee") {
		t.Errorf("of v: %q", got)
	}
	left, err := filepath.Glob(file + ".*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	c.fails(exitFailed, "no such file", "export", filepath.Join(t.TempDir(), "none", "x.jsonl"))
}

// Flags that say nothing must not widen what a verb reads or deletes.
func TestScopeFlags(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "u", "--id", "m")
	c.fails(exitUsage, "--user is empty", "get", "m", "--user", "")
	c.fails(exitUsage, "--db is empty", "--db", "", "list", "--user", "u")
	c.fails(exitUsage, "exclude each other", "list", "--user", "u", "--all-scopes")
	c.fails(exitUsage, "--id is empty", "store", "coffee", "--user", "u", "--id", "")
	c.fails(exitUsage, "--order-by is empty", "list", "--user", "u", "--order-by", "")
	if got := c.ok("list", "--all-scopes", "--order-by", "id"); strings.Count(got, "\n") != 1 {
		t.Errorf("list: %q", got)
	}
	c.fails(exitUsage, "--yes", "delete", "--all", "--all-scopes")
	if got := c.ok("delete", "--all", "--all-scopes", "--yes"); got != "deleted 1\n" {
		t.Errorf("delete: %q", got)
	}
}

// An import changes no key that is there, unless it is told to.
func TestImportOfOldKeys(t *testing.T) {
	c := newCLI(t)
	c.ok("kv", "put", "k", "1", "--user", "u")
	file := filepath.Join(t.TempDir(), "old.jsonl")
	c.ok("export", file)
	c.ok("kv", "put", "k", "2", "--user", "u")
	if r := c.run("import", file); r.code != exitFailed || !strings.Contains(r.err, "another value") {
		t.Errorf("import: %+v", r)
	}
	if got := c.ok("kv", "get", "k", "--user", "u"); got != "2\n" {
		t.Errorf("the key is %s", got)
	}
	c.ok("import", file, "--upsert")
	if got := c.ok("kv", "get", "k", "--user", "u"); got != "1\n" {
		t.Errorf("the key is %s", got)
	}
}

// A compaction gives room back, and leaves what is there as it was.
func TestCompact(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "green tea", "--user", "u", "--id", "m")
	before := c.ok("export", "-")
	got := one(t, c.objects("compact"))
	first, _ := got["disk_bytes_before"].(float64)
	last, _ := got["disk_bytes_after"].(float64)
	seconds, _ := got["seconds"].(float64)
	if len(got) != 3 || first <= 0 || last <= 0 || seconds <= 0 {
		t.Errorf("compact: %v", got)
	}
	if after := c.ok("export", "-"); after != before {
		t.Errorf("exported\n%s, and then\n%s", before, after)
	}
	c.ok("check")
	c.fails(exitUsage, "no argument", "compact", "text")
}

// A rebuild leaves what recall finds as it was.
func TestRebuild(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "green tea", "--user", "u", "--id", "m")
	c.ok("store", "black coffee", "--user", "u", "--id", "n")
	before := c.ok("recall", "tea", "--user", "u", "--json", "--no-touch")
	if got := one(t, c.objects("rebuild", "text")); got["index"] != "text" || got["documents"] != 2.0 {
		t.Errorf("rebuild: %v", got)
	}
	c.ok("graph", "add", `{"id":"ada","name":"Ada"}`, "--user", "u")
	c.ok("store", "oolong", "--user", "v", "--embedding", "[1,0]")
	all := c.objects("rebuild", "all")
	if len(all) != 3 || all[0]["documents"] != 3.0 || all[1]["vectors"] != 1.0 || all[2]["index"] != "graph" {
		t.Fatalf("rebuild all: %v", all)
	}
	if keys, _ := all[2]["keys"].(float64); keys < 4 {
		t.Errorf("rebuild graph: %v", all[2])
	}
	if after := c.ok("recall", "tea", "--user", "u", "--json", "--no-touch"); after != before {
		t.Errorf("recall found\n%s, and then\n%s", before, after)
	}
	c.ok("check")
	c.fails(exitUsage, "name of an index: text, vectors, graph or all", "rebuild")
	c.fails(exitUsage, "name of an index: text, vectors, graph or all", "rebuild", "rows")
}
