package dialecttest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

var ada = memory.Scope{User: "ada"}

// call calls a tool of the reference memory server.
func (s *site) call(tool string, arguments any) any {
	s.t.Helper()
	got := s.ask(200, "POST /mcp?user=ada&tools=reference", toJSON(s.t, map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments},
	}))
	if at(got, "result", "isError") == true || at(got, "error") != nil {
		s.t.Fatalf("%s %s: %s", tool, toJSON(s.t, arguments), toJSON(s.t, got))
	}
	return at(got, "result", "structuredContent")
}

// The model of the reference memory server: what a file of it holds, in its order.
type mcpNode struct {
	Name         string   `json:"name"`
	EntityType   string   `json:"entityType"`
	Observations []string `json:"observations"`
}

type mcpArc struct {
	From         string `json:"from"`
	To           string `json:"to"`
	RelationType string `json:"relationType"`
}

type mcpGraph struct {
	Entities  []mcpNode `json:"entities"`
	Relations []mcpArc  `json:"relations"`
}

// only is the part of a graph with the entities that are kept, and the relations at them.
func (g mcpGraph) only(keep func(mcpNode) bool) mcpGraph {
	part, names := mcpGraph{[]mcpNode{}, []mcpArc{}}, map[string]bool{}
	for _, n := range g.Entities {
		if keep(n) {
			part.Entities, names[n.Name] = append(part.Entities, n), true
		}
	}
	for _, a := range g.Relations {
		if names[a.From] || names[a.To] {
			part.Relations = append(part.Relations, a)
		}
	}
	return part
}

// words are names and types that the server takes.
var words = []string{"Oda", "Hive 3", "", "two\nlines", "tab\there", "inverse:tends", "mcp-name-x", strings.Repeat("long ", 200), "Åse", "oda"}

func randomMCP(t *testing.T) mcpGraph {
	r := random(t)
	word := func() string { return words[r.IntN(len(words))] }
	g := mcpGraph{[]mcpNode{}, []mcpArc{}}
	for _, i := range r.Perm(len(words))[:7] {
		n := mcpNode{words[i], word(), []string{}}
		for range r.IntN(4) {
			n.Observations = append(n.Observations, []string{"Keeps bees", "", "a\x01b", "Plays the viola"}[r.IntN(4)])
		}
		g.Entities = append(g.Entities, n)
	}
	for range 15 {
		if a := (mcpArc{word(), word(), word()}); !slices.Contains(g.Relations, a) {
			g.Relations = append(g.Relations, a)
		}
	}
	return g
}

// lines is the graph as the server writes it, with relations before and among the entities.
func (g mcpGraph) lines(t *testing.T) string {
	var all []string
	for _, n := range g.Entities {
		all = append(all, `{"type":"entity",`+toJSON(t, n)[1:])
	}
	for i, a := range g.Relations {
		all = slices.Insert(all, min(i*2, len(all)), `{"type":"relation",`+toJSON(t, a)[1:])
	}
	return strings.Join(all, "\n") + "\n"
}

func (s *site) wantGraph(what string, g mcpGraph) {
	s.t.Helper()
	same(s.t, what+": read_graph", s.call("read_graph", map[string]any{}), g)
	for _, query := range []string{"", "ODA", "bees", "\n", "viola"} {
		same(s.t, fmt.Sprintf("%s: search_nodes %q", what, query), s.call("search_nodes", map[string]any{"query": query}), g.only(func(n mcpNode) bool {
			return slices.ContainsFunc(append([]string{n.Name, n.EntityType}, n.Observations...), func(text string) bool {
				return strings.Contains(strings.ToLower(text), strings.ToLower(query))
			})
		}))
	}
	names := []string{"Oda", "", "two\nlines", "Nobody"}
	same(s.t, what+": open_nodes", s.call("open_nodes", map[string]any{"names": names}), g.only(func(n mcpNode) bool { return slices.Contains(names, n.Name) }))
}

// found are the texts that a recall finds.
func (s *site) found(query string) (all []string) {
	s.t.Helper()
	r, err := s.db.Memories().Recall(s.t.Context(), memory.Query{Scope: ada, Text: query, Limit: 100})
	testdb.NoError(s.t, err)
	for _, h := range r.Hits {
		all = append(all, h.Text)
	}
	slices.Sort(all)
	return all
}

// TestMCP verifies that the reference tools answer for an imported memory.jsonl as the reference
// server does for the file, that a graph which is made by the tools is the same, and that what is
// exported and imported again is, too.
func TestMCP(t *testing.T) {
	g := randomMCP(t)
	file, made, again := newSite(t), newSite(t), newSite(t)
	report, left := file.imports(move.MCP, g.lines(t), ada)
	if report.Skipped > 0 || len(left) > 0 {
		t.Errorf("%+v, left out %v", report, left)
	}
	file.wantGraph("imported", g)
	made.call("create_relations", map[string]any{"relations": g.Relations})
	made.call("create_entities", map[string]any{"entities": g.Entities})
	made.wantGraph("made", g)
	var out bytes.Buffer
	_, err := move.ExportMCP(t.Context(), file.db, &out, &exchange.ExportOptions{Scope: ada})
	testdb.NoError(t, err)
	again.imports(move.MCP, out.String(), ada)
	again.wantGraph("exported and imported", g)
	for _, s := range []*site{file, made, again} {
		same(t, "recall", s.found("bees viola"), file.found("bees viola"))
	}
	if report, _ = file.imports(move.MCP, g.lines(t), ada); report.Unchanged != report.Read {
		t.Errorf("imported again: %+v", report)
	}
	// What is deleted is not found any more.
	for _, n := range g.Entities {
		made.call("delete_observations", map[string]any{"deletions": []any{map[string]any{"entityName": n.Name, "observations": []string{"Keeps bees"}}}})
	}
	if got := made.found("bees"); len(got) > 0 {
		t.Errorf("after delete_observations a recall finds %q", got)
	}
	var names []string
	for _, n := range g.Entities {
		names = append(names, n.Name)
	}
	file.call("delete_entities", map[string]any{"entityNames": names})
	if got := file.found("bees viola"); len(got) > 0 {
		t.Errorf("after delete_entities a recall finds %q", got)
	}
}

// TestMCPKeys verifies that keys of other programs are kept, and that nothing is written over.
func TestMCPKeys(t *testing.T) {
	text := `{"type":"entity","name":"Oda","entityType":"person","observations":["Keeps bees",null,7],"createdAt":"2026-02-01T00:00:00Z","version":2,"id":"e-1","tags":["bees"],"order":5}
{"type":"relation","from":"Oda","to":"Hive 3","relationType":"tends","strength":0.9,"confidence":0.8,"metadata":{"createdAt":1},"validFrom":1700000000000}
{"type":"entity","name":"Hive 3","entityType":"hive","observations":null}
{"type":"entity","name":"Oda","entityType":"person","observations":["Keeps bees","Sells honey"],"version":3}
{"type":"note","text":"x"}
{"type":"relation","from":"Oda","to":"Hive 3","relationType":"tends"}
`
	s := newSite(t)
	report, left := s.imports(move.MCP, text, ada)
	same(t, "left out", left, map[string]int{
		"order": 1, "second records of an entity, joined with the first": 1, "version of a second record": 1, `records of the type "note"`: 1, "relations that are there already": 1,
	})
	if report.Skipped > 0 {
		t.Errorf("%+v", report)
	}
	s.wantGraph("with keys of others", mcpGraph{
		[]mcpNode{{"Oda", "person", []string{"Keeps bees", "7", "Sells honey"}}, {"Hive 3", "hive", []string{}}}, []mcpArc{{"Oda", "Hive 3", "tends"}},
	})
	oda, err := s.db.Graph().Get(t.Context(), ada.Owner(), "Oda", 0)
	testdb.NoError(t, err)
	if oda.CreatedAt.Format("2006-01-02") != "2026-02-01" {
		t.Errorf("created at %v", oda.CreatedAt)
	}
	var out, second bytes.Buffer
	_, err = move.ExportMCP(t.Context(), s.db, &out, &exchange.ExportOptions{Scope: ada})
	testdb.NoError(t, err)
	for _, key := range []string{`"createdAt":"2026-02-01T00:00:00Z"`, `"version":2`, `"id":"e-1"`, `"tags":["bees"]`, `"strength":0.9`, `"metadata":{"createdAt":1}`, `"validFrom":1700000000000`} {
		if !strings.Contains(out.String(), key) {
			t.Errorf("the export lacks %s:\n%s", key, &out)
		}
	}
	again := newSite(t)
	again.imports(move.MCP, out.String(), ada)
	_, err = move.ExportMCP(t.Context(), again.db, &second, &exchange.ExportOptions{Scope: ada})
	testdb.NoError(t, err)
	if out.String() != second.String() {
		t.Errorf("exported again:\n%s\nwant\n%s", &second, &out)
	}
}

// TestMCPForms verifies that a list, a document and lines are read alike.
func TestMCPForms(t *testing.T) {
	oda, hive, tends := `{"name":"Oda","entityType":"person","observations":["Keeps bees"]`, `{"name":"Hive 3","entityType":"hive","observations":[]`, `{"from":"Oda","to":"Hive 3","relationType":"tends"`
	entity, relation := `,"type":"entity"}`, `,"type":"relation"}`
	want := mcpGraph{[]mcpNode{{"Oda", "person", []string{"Keeps bees"}}, {"Hive 3", "hive", []string{}}}, []mcpArc{{"Oda", "Hive 3", "tends"}}}
	for _, form := range []string{
		oda + entity + "\n" + hive + entity + "\r\n\n" + tends + relation,
		"[" + oda + entity + ",\n" + hive + entity + "," + tends + relation + "]",
		`{"entities":[` + oda + "}," + hive + `}],"relations":[` + tends + `}]}`,
		"{\n  \"relations\": [" + tends + "}],\n \"entities\": [" + oda + "},\n" + hive + "}]\n}\n",
	} {
		s := newSite(t)
		if report, left := s.imports(move.MCP, form, ada); report.Skipped+len(left) > 0 {
			t.Errorf("%s: %+v, left out %v", form, report, left)
		}
		s.wantGraph(form, want)
		if got := s.found("bees"); !slices.Equal(got, []string{"Oda: Keeps bees"}) {
			t.Errorf("%s: found %q", form, got)
		}
	}
	s := newSite(t) // a bad line is skipped, and the others are read
	if report, _ := s.imports(move.MCP, oda+entity+"\n{\"type\":\"entity\",\n"+hive+entity+"\n"+tends+relation, ada); report.Skipped != 1 {
		t.Errorf("%+v", report)
	}
	s.wantGraph("beside a bad line", want)
}

// TestMCPLater verifies that a later file may say what an end of a relation is.
func TestMCPLater(t *testing.T) {
	s := newSite(t)
	for _, file := range []string{
		`{"type":"relation","from":"Oda","to":"Ghost","relationType":"fears"}`,
		`{"type":"entity","name":"Ghost","entityType":"spirit","observations":["haunts the mill"]}`,
		`{"type":"relation","from":"Ghost","to":"Mill","relationType":"haunts"}`,
	} {
		if report, left := s.imports(move.MCP, file, ada); report.Skipped+len(left) > 0 {
			t.Errorf("%s: %+v, left out %v", file, report, left)
		}
	}
	got := s.call("read_graph", map[string]any{})
	same(t, "entities", at(got, "entities"), []mcpNode{{"Ghost", "spirit", []string{"haunts the mill"}}})
	same(t, "recall", s.found("mill"), []string{"Ghost: haunts the mill"})
}
