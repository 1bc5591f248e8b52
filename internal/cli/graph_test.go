package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The life of a graph: entities, relations, queries, a delete.
func TestGraph(t *testing.T) {
	c := newCLI(t)
	alice := `{"id":"alice","type":"person","properties":{"name":"Alice Johnson"},"relations":[{"target":"memdb","type":"works_on"}]}`
	if got := one(t, c.objects("graph", "add", alice, "--agent", "a")); got["stored"] != true || got["id"] != "alice" || got["created"] != true || got["relations"] != 1.0 {
		t.Errorf("add: %v", got)
	}
	c.in = strings.NewReader(`{"id":"memdb","entity_type":"project"}`)
	c.ok("graph", "add", "-", "--agent", "a")
	if got := one(t, c.objects("graph", "relate", "memdb", "inverse:works_on", "alice", "--agent", "a")); got["created"] != false {
		t.Errorf("the inverse is another relation: %v", got)
	}
	got := one(t, c.objects("graph", "get", "memdb", "--agent", "a"))
	relations := got["relations"].([]any)
	if got["entity_type"] != "project" || len(relations) != 1 || relations[0].(map[string]any)["type"] != "inverse:works_on" {
		t.Errorf("get: %v", got)
	}
	walk := c.objects("graph", "query", "memdb", "--agent", "a")
	if len(walk) != 2 || walk[0]["id"] != "memdb" || walk[1]["id"] != "alice" || walk[1]["depth"] != 1.0 {
		t.Errorf("query: %v", walk)
	}
	if got := c.objects("graph", "query", "nobody", "--agent", "a"); len(got) != 0 {
		t.Errorf("an unknown start: %v", got)
	}
	if got := one(t, c.objects("graph", "find", "alice", "--relation", "works_on", "--agent", "a")); got["id"] != "memdb" {
		t.Errorf("find: %v", got)
	}
	match := one(t, c.objects("graph", "match", "--from-name", "alice johnson", "--to-type", "project", "--agent", "a"))
	if match["relation"].(map[string]any)["relation"] != "works_on" || match["to"].(map[string]any)["id"] != "memdb" {
		t.Errorf("match: %v", match)
	}
	if got := one(t, c.objects("graph", "list", "--name-prefix", "ali", "--agent", "a")); got["id"] != "alice" {
		t.Errorf("list: %v", got)
	}
	if got := one(t, c.objects("graph", "path", "memdb", "alice", "--agent", "a")); got["relation"] != "inverse:works_on" || got["to"] != "alice" {
		t.Errorf("path: %v", got)
	}
	c.fails(exitNotFound, "no relations lead", "graph", "path", "memdb", "nobody", "--agent", "a")
	if got := c.objects("graph", "rank", "alice", "--agent", "a"); len(got) != 2 || got[0]["id"] != "alice" {
		t.Errorf("rank: %v", got)
	}
	if got := one(t, c.objects("graph", "components", "--agent", "a")); got["size"] != 2.0 {
		t.Errorf("components: %v", got)
	}
	c.ok("store", "Alice works on memdb", "--id", "m", "--agent", "a")
	if got := one(t, c.objects("graph", "link", "alice", "m", "--agent", "a")); got["linked"] != true || got["changed"] != true {
		t.Errorf("link: %v", got)
	}
	c.fails(exitNotFound, "no memory", "graph", "link", "alice", "none", "--agent", "a")
	if got := one(t, c.objects("graph", "stats", "--agent", "a")); got["entities"] != 2.0 || got["relations"] != 1.0 || got["links"] != 1.0 {
		t.Errorf("stats: %v", got)
	}
	deleted := one(t, c.objects("graph", "delete", "alice", "--agent", "a"))["deleted"].(map[string]any)
	if deleted["entities"] != 1.0 || deleted["relations"] != 1.0 || deleted["links"] != 1.0 {
		t.Errorf("delete: %v", deleted)
	}
	c.fails(exitNotFound, "no entity", "graph", "get", "alice", "--agent", "a")
	c.ok("check")
}

// Two entities that are one: found, merged, and parted again.
func TestGraphMerge(t *testing.T) {
	c := newCLI(t)
	c.ok("graph", "add", `{"id":"a","name":"Alice"}`, "--agent", "a")
	c.ok("graph", "add", `{"id":"b","name":"alice","relations":[{"target":"a","type":"x"},{"target":"c","type":"x"}]}`, "--agent", "a")
	c.ok("graph", "add", `{"id":"c"}`, "--agent", "a")
	c.ok("graph", "add", `{"id":"d","name":"ALICE"}`, "--agent", "a")
	if got := one(t, c.objects("graph", "duplicates", "--limit", "1", "--agent", "a")); got["a"] != "a" || got["b"] != "d" || got["score"] != 0.8 {
		t.Errorf("duplicates: %v", got)
	}
	if got := one(t, c.objects("graph", "lookup", "alise", "--agent", "a", "--limit", "1")); got["id"] != "a" || got["score"] != 0.8 || got["matched"] != "alice" {
		t.Errorf("lookup: %v", got)
	}
	if got := c.objects("graph", "degrees", "--agent", "a"); len(got) != 3 || got[0]["id"] != "b" || got[0]["out"] != 2.0 || got[0]["in"] != 0.0 {
		t.Errorf("degrees: %v", got)
	}
	if got := c.objects("graph", "counts", "--agent", "a"); len(got) != 2 || got[0]["of"] != "entity" || got[0]["count"] != 4.0 || got[1]["type"] != "x" {
		t.Errorf("counts: %v", got)
	}
	picture := filepath.Join(t.TempDir(), "b.svg")
	if got := one(t, c.objects("graph", "show", "b", "--svg", picture, "--agent", "a")); got["entities"] != 3.0 || got["relations"] != 2.0 || got["limit"] != "" {
		t.Errorf("show: %v", got)
	}
	if b, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(b), "<svg ") {
		t.Errorf("%.40s, %v", b, err)
	}
	c.fails(exitFailed, "--force", "graph", "show", "b", "--svg", picture, "--agent", "a")
	c.fails(exitUsage, "--svg", "graph", "show", "b", "--agent", "a")
	c.fails(exitNotFound, "no entity", "graph", "show", "none", "--svg", "-", "--agent", "a")
	c.fails(exitUsage, "--min-score", "graph", "duplicates", "--min-score", "2", "--agent", "a")
	merged := one(t, c.objects("graph", "merge", "a", "b", "--agent", "a"))
	if merged["id"] != "a" || merged["relations"] != 1.0 || merged["links"] != 0.0 || merged["lsn"] == nil {
		t.Errorf("merge: %v", merged)
	}
	if got := one(t, c.objects("graph", "get", "b", "--agent", "a")); got["id"] != "a" {
		t.Errorf("the ID of the one that is gone leads to %v", got)
	}
	if got := one(t, c.objects("graph", "unmerge", "b", "--agent", "a")); got["id"] != "b" || got["relations"] != 2.0 {
		t.Errorf("unmerge: %v", got)
	}
	c.fails(exitNotFound, "merged into another", "graph", "unmerge", "b", "--agent", "a")
	c.ok("check")
}

func TestGraphUsage(t *testing.T) {
	c := newCLI(t)
	c.fails(exitUsage, "it names no user, agent or run", "graph", "add", `{"id":"a"}`)
	c.fails(exitUsage, "no JSON object", "graph", "add", `{"id":`, "--agent", "a")
	c.fails(exitUsage, "no JSON object", "graph", "add", `{"identity":"a"}`, "--agent", "a")
	c.fails(exitUsage, "give it an id", "graph", "add", `{"relations":[{"target":"b","type":"x"}]}`, "--agent", "a")
	c.fails(exitUsage, "whole number", "graph", "query", "a", "--depth", "-1", "--agent", "a")
	c.fails(exitUsage, "within 1 and 3", "graph", "match", "--hops", "4", "--agent", "a")
	c.fails(exitUsage, "it takes a verb", "graph")
	c.fails(exitFailed, "no database", "graph", "get", "a", "--agent", "a")
}

// Triples make entities; what an export writes, an import reads.
func TestGraphImportExport(t *testing.T) {
	c := newCLI(t)
	file := filepath.Join(t.TempDir(), "triples.tsv")
	if err := os.WriteFile(file, []byte("a\tknows\tb\r\nb\tknows\tc\nno triple\na\tknows\tb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(exitFailed, "line 3: it has 1 field", "graph", "import", file, "--agent", "a")
	out := c.ok("graph", "export", "--agent", "a")
	if n := strings.Count(out, `"type":"entity"`); n != 3 || strings.Count(out, `"type":"relation"`) != 2 {
		t.Errorf("export:\n%s", out)
	}
	other := newCLI(t)
	other.in = strings.NewReader(out)
	report := one(t, other.objects("graph", "import", "-", "--agent", "a"))
	if report["read"] != 5.0 || report["entities"] != 3.0 || report["relations"] != 2.0 || report["skipped"] != 0.0 {
		t.Errorf("import: %v", report)
	}
	if again := other.ok("graph", "export", "--agent", "a"); again != out {
		t.Errorf("the copy:\n%s\nwant\n%s", again, out)
	}
	if dot := c.ok("graph", "export", "--format", "dot", "--agent", "a"); !strings.Contains(dot, `"a" -> "b" [label="knows"];`) {
		t.Errorf("dot:\n%s", dot)
	}
	if xml := c.ok("graph", "export", "--format", "graphml", "--agent", "a"); !strings.Contains(xml, `source="b" target="c"><data key="relation">knows</data>`) {
		t.Errorf("graphml:\n%s", xml)
	}
}

// What texts mention becomes entities, at a store or later, and a recall uses them.
func TestGraphExtract(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "We met Bob in Ghent on 7 May 2023", "--id", "m", "--agent", "a", "--extract")
	c.ok("store", "we asked Carol", "--id", "n", "--agent", "a")
	got := one(t, c.objects("graph", "extract", "--agent", "a"))
	if got["memories"] != 1.0 || got["entities"] != 1.0 || got["links"] != 1.0 {
		t.Errorf("extract: %v", got)
	}
	got = one(t, c.objects("graph", "extract", "--agent", "a", "--again"))
	if got["memories"] != 2.0 || got["entities"] != 0.0 || got["links"] != 0.0 {
		t.Errorf("again: %v", got)
	}
	if got := one(t, c.objects("graph", "get", "2023-05-07", "--agent", "a")); got["entity_type"] != "date" {
		t.Errorf("the date: %v", got)
	}
	c.ok("graph", "relate", "bob", "knows", "carol", "--agent", "a")
	hits := c.objects("recall", "BOB?", "--agent", "a", "--graph", "--explain")
	if len(hits) != 3 || hits[0]["id"] != "m" || hits[1]["id"] != "n" || hits[1]["parts"].(map[string]any)["graph"] == 0.0 {
		t.Errorf("recall: %v", hits)
	}
	if out := c.ok("recall", "BOB?", "--agent", "a", "--graph=0.2", "--explain"); !strings.Contains(out, "graph from bob: 2 entities, 2 memories") {
		t.Errorf("recall: %s", out)
	}
	c.fails(exitUsage, "weight", "recall", "Bob", "--agent", "a", "--graph=2")
	c.fails(exitUsage, "none.toml", "graph", "extract", "--agent", "a", "--config", "none.toml")
	c.fails(exitUsage, "give --user", "graph", "extract")
}

// Links of entities to memories come back from an export, those that texts are the reason for
// as such, and what an import makes exports to the same bytes.
func TestGraphLinksInExports(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "we met Bob in Ghent", "--id", "m", "--user", "ada", "--extract")
	c.ok("store", "no names", "--id", "n", "--user", "ada")
	c.ok("graph", "link", "bob", "n", "--user", "ada")
	first := filepath.Join(t.TempDir(), "first.jsonl")
	c.ok("export", first)
	want, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(want), `"type":"link"`) != 3 || strings.Count(string(want), `"mentioned":true`) != 2 {
		t.Errorf("links:\n%s", want)
	}
	other := newCLI(t)
	for range 2 { // the second time everything is there
		other.ok("import", first, "--strict")
		second := filepath.Join(t.TempDir(), "second.jsonl")
		other.ok("export", second)
		if got, err := os.ReadFile(second); err != nil || string(got) != string(want) {
			t.Errorf("got\n%s\nwant\n%s\n%v", got, want, err)
		}
	}
	if got := one(t, other.objects("graph", "stats", "--user", "ada")); got["links"] != 3.0 {
		t.Errorf("stats: %v", got)
	}
	alone := filepath.Join(t.TempDir(), "alone.jsonl")
	if err := os.WriteFile(alone, []byte(`{"type":"link","entity":"nobody","memory":"m","user":"ada"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other.fails(exitFailed, `line 1: link the entity "nobody" to a memory: its owner has no entity "nobody"`, "import", alone, "--strict")
}

// TestGraphImportOfMemoryServer verifies that the file of the memory server of the Model Context
// Protocol loses nothing, that both verbs read it alike, and that nothing is written over.
func TestGraphImportOfMemoryServer(t *testing.T) {
	c := newCLI(t)
	c.in = strings.NewReader(`{"type":"entity","name":"Ada Lovelace","entityType":"person","observations":["wrote the first program","likes \u00e9toiles"]}
{"type":"entity","name":"Analytical Engine","entityType":"machine","observations":[]}
{"type":"relation","from":"Ada Lovelace","to":"Analytical Engine","relationType":"worked on","since":1843}
{"type":"entity","name":"Ada Lovelace","entityType":"person","observations":["knew Babbage"]}
`)
	file := c.in
	report := one(t, c.objects("graph", "import", "-", "--agent", "a"))
	if fmt.Sprint(report["left_out"]) != "map[second records of an entity, joined with the first:1]" {
		t.Errorf("%v", report["left_out"])
	}
	if _, err := file.(*strings.Reader).Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	c.in = file
	if again := one(t, c.objects("import", "-", "--agent", "a")); again["unchanged"] != 3.0 || again["format"] != "mcp" {
		t.Errorf("read by the other verb: %v", again)
	}
	if hits := c.objects("recall", "first program", "--agent", "a"); len(hits) == 0 || hits[0]["text"] != "Ada Lovelace: wrote the first program" {
		t.Errorf("recall: %v", hits)
	}
	other := `{"type":"entity","name":"Ada Lovelace","entityType":"person","observations":["died in 1852"]}`
	c.in = strings.NewReader(other)
	c.fails(exitFailed, "there is one that says something else", "graph", "import", "-", "--agent", "a")
	if report["read"] != 3.0 || report["entities"] != 2.0 || report["relations"] != 1.0 || report["skipped"] != 0.0 {
		t.Errorf("%v", report)
	}
	ada := one(t, c.objects("graph", "get", "Ada Lovelace", "--agent", "a"))
	if ada["entity_type"] != "person" || fmt.Sprint(ada["properties"]) != "map[observations:[wrote the first program likes étoiles knew Babbage] order:1]" || ada["name"] != "Ada Lovelace" {
		t.Errorf("%v", ada)
	}
	relation := ada["relations"].([]any)[0].(map[string]any)
	order, placed := relation["properties"].(map[string]any)["order"].(float64) // its place among the others
	delete(relation, "properties")
	if fmt.Sprint(ada["relations"]) != "[map[target:Analytical Engine type:worked on]]" || !placed || order <= 0 {
		t.Errorf("%v, order %v", ada["relations"], order)
	}
	c.in = strings.NewReader(`{"type":"entity","id":"x","entity_type":"t","colour":"red"}` + "\n")
	c.fails(exitFailed, `"colour" is not known`, "graph", "import", "-", "--agent", "a")
}

// TestGraphTellsWhatIsMissing: an end of a relation that is not there yet is told, and so is a
// bound that leaves nothing to show.
func TestGraphTellsWhatIsMissing(t *testing.T) {
	c := newCLI(t)
	c.ok("graph", "add", `{"id":"n0","name":"Zero"}`, "--agent", "a")
	c.ok("graph", "add", `{"id":"n3","relations":[{"target":"later","type":"t"}]}`, "--agent", "a")
	got := one(t, c.objects("graph", "relate", "n0", "likes", "later", "--agent", "a"))
	if fmt.Sprint(got["waits_for"]) != "[later]" {
		t.Errorf("%v", got)
	}
	c.ok("graph", "add", `{"id":"x","name":"X"}`, "--agent", "a")
	c.ok("graph", "merge", "n0", "n3", "--agent", "a")
	if got := one(t, c.objects("graph", "relate", "x", "likes", "n3", "--agent", "a")); got["waits_for"] != nil {
		t.Errorf("%v", got)
	}
	for _, id := range []string{"n0", "n3"} {
		e := one(t, c.objects("graph", "get", id, "--agent", "a"))
		if e["id"] != "n0" || !strings.Contains(fmt.Sprint(e["relations"]), "map[target:x type:inverse:likes]") {
			t.Errorf("%s: %v", id, e)
		}
	}
	c.fails(exitFailed, "limit of nodes", "graph", "find", "x", "--max-nodes", "1", "--agent", "a")
	if d := one(t, c.objects("graph", "delete", "n0", "--agent", "a")); fmt.Sprint(d["deleted"]) != "map[entities:1 links:0 relations:3]" {
		t.Errorf("%v", d)
	}
}
