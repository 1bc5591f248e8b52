package dialecttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestOpenFang verifies that the agents' API answers for the database of OpenFang what that program
// would: its agent, fragments, entries, sessions, entities, relations and usage.
func TestOpenFang(t *testing.T) {
	file, err := os.ReadFile(filepath.Join("..", "..", "..", "exchange", "move", "testdata", "openfang.db"))
	testdb.NoError(t, err)
	s := newSite(t)
	if report, left := s.imports(move.OpenFang, string(file), memory.Scope{}); report.Skipped > 0 || report.Stored == 0 {
		t.Errorf("%+v, left out %v", report, left)
	}
	const agent = "/api/agents/potter"
	made := "2025-03-06T07:08:09.123Z"
	same(t, "agent", s.ask(200, "GET "+agent, ""), map[string]any{
		"agent_id": "potter", "name": "Potter", "created_at": made, "metadata": map[string]any{"manifest": map[string]any{"model": "m", "tags": []string{"clay"}}},
	})
	for i, want := range []map[string]any{
		{"id": "f1", "agent_id": "potter", "content": "The user prefers stoneware.", "source": "user_preference", "access_count": 4, "created_at": made, "last_accessed_at": made},
		{"id": "f2", "agent_id": "potter", "content": "Clay went up in price.", "source": "web_search", "created_at": made},
	} {
		got := at(s.ask(200, "GET "+agent+"/memories", ""), "fragments", i)
		for key, value := range want {
			same(t, "fragment "+key, at(got, key), value)
		}
	}
	entry := s.ask(200, "GET "+agent+"/kv/last_report_date", "")
	same(t, "entry", at(entry, "value"), "2025-03-06")
	session := s.ask(200, "GET "+agent+"/sessions/s1", "")
	for i, want := range [][2]string{{"user", "Hello"}, {"assistant", "Hi"}, {"user", "Hello"}} {
		same(t, "message", []any{at(session, "messages", i, "role"), at(session, "messages", i, "content")}, want)
	}
	same(t, "messages", at(session, "message_count"), 3)
	entity := s.ask(200, "GET "+agent+"/entities/e1", "")
	same(t, "entity", []any{at(entity, "name"), at(entity, "entity_type"), at(entity, "attributes")}, []any{"Ilse", "Person", map[string]any{"craft": "pots"}})
	same(t, "related", at(s.ask(200, "GET "+agent+"/entities/e1/related", ""), 0, "id"), "e2")
	total := s.ask(200, "GET "+agent+"/usage", "")
	same(t, "usage", []any{at(total, "records"), at(total, "prompt_tokens"), at(total, "completion_tokens"), at(total, "cost_usd")}, []any{1, 100, 20, 0.0125})
	spent := s.ask(200, "GET /api/budget/agents", "")
	same(t, "spent", []any{at(spent, 0, "agent_id"), at(spent, 0, "name"), at(spent, 0, "tokens")}, []any{"potter", "Potter", 120})
}
