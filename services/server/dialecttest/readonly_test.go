package dialecttest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
)

// toolCalls are calls of every tool of every set.
var toolCalls = []struct {
	tools           mcp.Tools
	writes          bool
	tool, arguments string
}{
	{mcp.Memdb, true, "remember", `{"text":"drinks coffee"}`},
	{mcp.Memdb, true, "forget", `{"ids":["m"]}`},
	{mcp.Memdb, true, "facts", `{"action":"add","text":"drinks coffee"}`},
	{mcp.Memdb, true, "facts", `{"action":"update","id":"m","text":"drinks coffee"}`},
	{mcp.Memdb, true, "facts", `{"action":"delete","id":"m"}`},
	{mcp.Memdb, true, "notes", `{"action":"write","name":"n","content":"x"}`},
	{mcp.Memdb, true, "notes", `{"action":"rename","name":"a.md","to":"b.md"}`},
	{mcp.Memdb, true, "notes", `{"action":"delete","name":"a.md"}`},
	{mcp.Memdb, true, "graph", `{"action":"put","id":"x","name":"X"}`},
	{mcp.Memdb, true, "graph", `{"action":"delete","id":"Ada"}`},
	{mcp.Memdb, true, "graph", `{"action":"relate","from":"Ada","relation":"knows","to":"Bob"}`},
	{mcp.Memdb, true, "graph", `{"action":"unrelate","from":"Ada","relation":"likes","to":"Bob"}`},
	{mcp.Memdb, true, "session", `{"action":"append","session":"s","text":"hello"}`},
	{mcp.Reference, true, "create_entities", `{"entities":[{"name":"X","entityType":"t","observations":[]}]}`},
	{mcp.Reference, true, "create_relations", `{"relations":[{"from":"Bob","to":"Ada","relationType":"knows"}]}`},
	{mcp.Reference, true, "add_observations", `{"observations":[{"entityName":"Ada","contents":["x"]}]}`},
	{mcp.Reference, true, "delete_entities", `{"entityNames":["Ada"]}`},
	{mcp.Reference, true, "delete_observations", `{"deletions":[{"entityName":"Ada","observations":["drinks tea"]}]}`},
	{mcp.Reference, true, "delete_relations", `{"relations":[{"from":"Ada","to":"Bob","relationType":"likes"}]}`},
	{mcp.Anthropic, true, "memory", `{"command":"create","path":"/memories/n.md","file_text":"x"}`},
	{mcp.Anthropic, true, "memory", `{"command":"str_replace","path":"/memories/a.md","old_str":"tea","new_str":"coffee"}`},
	{mcp.Anthropic, true, "memory", `{"command":"insert","path":"/memories/a.md","insert_line":0,"insert_text":"x"}`},
	{mcp.Anthropic, true, "memory", `{"command":"rename","old_path":"/memories/a.md","new_path":"/memories/b.md"}`},
	{mcp.Anthropic, true, "memory", `{"command":"delete","path":"/memories/a.md"}`},
	{mcp.Memdb, false, "recall", `{"query":"tea"}`},
	{mcp.Memdb, false, "facts", `{"action":"list"}`},
	{mcp.Memdb, false, "notes", `{"action":"list"}`},
	{mcp.Memdb, false, "graph", `{"action":"get","id":"Ada"}`},
	{mcp.Memdb, false, "session", `{"action":"list"}`},
	{mcp.Reference, false, "read_graph", `{}`},
	{mcp.Reference, false, "search_nodes", `{"query":"tea"}`},
	{mcp.Reference, false, "open_nodes", `{"names":["Ada"]}`},
	{mcp.Anthropic, false, "memory", `{"command":"view","path":"/memories/a.md"}`},
}

// TestReadOnlyKeyOverMCP verifies that every tool that writes refuses a read-only key with a clear error and changes
// nothing, and that the others answer.
func TestReadOnlyKeyOverMCP(t *testing.T) {
	db := testdb.New(t, engine.Options{})
	keys := testdb.Keys(t, time.Now)
	s := server.New(db, server.Options{Keys: keys})
	s.Mount(mcp.Dialect())
	key := func(readOnly bool) string {
		secret, _, err := keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{ada}, ReadOnly: readOnly})
		testdb.NoError(t, err)
		return secret
	}
	writer, reader := key(false), key(true)
	call := func(key string, tools mcp.Tools, tool, arguments string) (text string, isError bool) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/mcp?tools="+string(tools), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		got := decode(t, w.Body.Bytes())
		if w.Code != http.StatusOK || at(got, "result") == nil {
			t.Fatalf("%s %s: %d %s", tool, arguments, w.Code, w.Body)
		}
		text, _ = at(got, "result", "content", 0, "text").(string)
		return text, at(got, "result", "isError") == true
	}
	_, err := db.Memories().Store(t.Context(), memory.Memory{ID: "m", Scope: ada, Kind: memory.KindFact, Text: "drinks tea"}, nil)
	testdb.NoError(t, err)
	for _, c := range [][2]string{
		{"create_entities", `{"entities":[{"name":"Ada","entityType":"t","observations":["drinks tea"]},{"name":"Bob","entityType":"t","observations":[]}]}`},
		{"create_relations", `{"relations":[{"from":"Ada","to":"Bob","relationType":"likes"}]}`},
	} {
		if text, isError := call(writer, mcp.Reference, c[0], c[1]); isError {
			t.Fatal(text)
		}
	}
	if text, isError := call(writer, mcp.Anthropic, "memory", `{"command":"create","path":"/memories/a.md","file_text":"tea"}`); isError {
		t.Fatal(text)
	}
	everything := func() string {
		lines, err := json.Marshal(testdb.Lines(t, db, ada))
		testdb.NoError(t, err)
		for _, m := range testdb.List(t, db.Memories(), ada) {
			lines = append(lines, m.ID+m.Text...)
		}
		return string(lines)
	}
	before := everything()
	for _, c := range toolCalls {
		text, isError := call(reader, c.tools, c.tool, c.arguments)
		if isError != c.writes || c.writes && !strings.Contains(text, "read-only") {
			t.Errorf("%s %s: %s (an error: %v)", c.tool, c.arguments, text, isError)
		}
	}
	if after := everything(); after != before {
		t.Errorf("a read-only key has changed something:\n%s\nwas\n%s", after, before)
	}
}
