package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestUserDelete: a user goes with all it has, and the export of another is that of before.
func TestUserDelete(t *testing.T) {
	c := newCLI(t)
	for _, user := range []string{"ada", "bob"} {
		for _, agent := range []string{"a1", "a2"} {
			who := []string{"--user", user, "--agent", agent}
			c.ok(append([]string{"store", "the sea is deep", "--id", user + agent}, who...)...)
			c.ok(append([]string{"update", user + agent, "the sea is wide"}, who...)...)
			c.ok(append([]string{"store", "gone", "--id", "gone" + user + agent}, who...)...)
			c.ok(append([]string{"delete", "gone" + user + agent}, who...)...)
			c.ok(append([]string{"kv", "put", "k", "1"}, who...)...)
			c.ok(append([]string{"note", "add", "n", "a note"}, who...)...)
			c.ok(append([]string{"graph", "add", `{"id":"e","type":"t"}`}, who...)...)
			c.ok(append([]string{"session", "append", "s", "hello"}, who...)...)
			c.ok(append([]string{"usage", "add", "--model", "m", "--cost", "1"}, who...)...)
		}
	}
	want := `{"type":"user","user":"ada","agents":["a1","a2"],"memories":6,"entries":2,"sessions":2,"entities":2,"relations":0,"usage":2}` + "\n"
	if got := c.ok("user", "show", "ada", "--json"); got != want {
		t.Errorf("%s want %s", got, want)
	}
	if got := c.ok("user", "list", "--json"); got != want+strings.Replace(want, "ada", "bob", 1) {
		t.Error(got)
	}
	bob := c.ok("export", "-", "--user", "bob")
	c.fails(exitUsage, "say so with --yes", "user", "delete", "ada")
	c.fails(exitNotFound, "eve", "user", "delete", "eve", "--yes")
	c.fails(exitNotFound, "eve", "user", "show", "eve")
	got := one(t, c.objects("user", "delete", "ada", "--yes"))
	if fmt.Sprint(got["deleted"]) != "map[entities:2 entries:2 history:18 memories:6 relations:0 sessions:2 usage:2]" || len(got["left"].([]any)) == 0 {
		t.Errorf("%v", got)
	}
	for _, args := range []string{
		"list --user ada", "export - --user ada", "kv list --user ada", "note list --user ada", "session list --user ada",
		"usage by agent --user ada", "history goneadaa1 --user ada --agent a1", "graph list --user ada",
	} {
		if r := c.run(strings.Fields(args)...); strings.Contains(r.out, "ada") || strings.Contains(r.out, "gone") || strings.Contains(r.out, "sea") {
			t.Errorf("%s: %s", args, r.out)
		}
	}
	if after := c.ok("export", "-", "--user", "bob"); after != bob {
		t.Errorf("bob has\n%s, and had\n%s", after, bob)
	}
	c.fails(exitNotFound, "nothing of it", "user", "delete", "ada", "--yes")
	c.ok("check")
}

// TestMetadataFlags: a key given twice is refused at any depth, a merge changes what it names.
func TestMetadataFlags(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "the sea is deep", "--id", "m", "--user", "ada", "--metadata", `{"a":1,"b":[{"a":1},{"a":2}]}`)
	for _, twice := range []string{`{"a":1,"a":2}`, `{"b":{"a":1,"c":[],"\u0061":2}}`, `{"b":[{"a":1,"a":null}]}`} {
		c.fails(exitUsage, `the key "a" is given twice`, "store", "x", "--user", "ada", "--metadata", twice)
		c.fails(exitUsage, `the key "a" is given twice`, "update", "m", "--user", "ada", "--merge-metadata", twice)
		c.fails(exitUsage, `the key "a" is given twice`, "fact", "add", "x", "--user", "ada", "--metadata", twice)
	}
	got := one(t, c.objects("update", "m", "--user", "ada", "--merge-metadata", `{"b":null,"c":3}`))
	if fmt.Sprint(got["metadata"]) != "map[a:1 c:3]" {
		t.Errorf("%v", got["metadata"])
	}
	c.fails(exitUsage, "", "update", "m", "--user", "ada", "--merge-metadata", `{}`, "--metadata", `{}`)
}

// TestRecallMinScore: hits below the score are left out, and the rest is as without it.
func TestRecallMinScore(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "the sea is deep and blue", "--user", "ada")
	c.ok("store", "the sea and much else that nobody has asked for in this long text", "--user", "ada")
	all := c.objects("recall", "deep blue sea", "--user", "ada", "--profile", "text")
	if len(all) != 2 {
		t.Fatalf("%v", all)
	}
	best := all[0]["score"].(float64)
	got := c.objects("recall", "deep blue sea", "--user", "ada", "--profile", "text", "--min-score", fmt.Sprint(best*.99))
	if len(got) != 1 || got[0]["id"] != all[0]["id"] {
		t.Errorf("%v", got)
	}
}

// TestStatsOfFiles: the bytes are those of the files that there are, and --by begins with the
// largest.
func TestStatsOfFiles(t *testing.T) {
	c := newCLI(t)
	for i := range 3 {
		c.ok("store", fmt.Sprint("of bob ", i), "--user", "bob")
	}
	c.ok("store", "of ada", "--user", "ada")
	s := one(t, c.objects("stats"))
	files := s["files"].(map[string]any)
	sum := 0.0
	for _, of := range []string{"tables", "logs", "snapshots", "other"} {
		sum += files[of].(float64)
	}
	if sum != s["disk_bytes"] || files["tables"].(float64) == 0 {
		t.Errorf("%v of %v", files, s["disk_bytes"])
	}
	by := c.objects("stats", "--by", "user")
	if len(by) != 2 || by[0]["user"] != "bob" || by[0]["memories"] != 3.0 {
		t.Errorf("%v", by)
	}
	c.fails(exitUsage, "unknown group", "stats", "--by", "planet")
}
