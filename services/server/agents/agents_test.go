package agents

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// A bench is a server with the dialect, over a database whose clock the test moves.
type bench struct {
	t     *testing.T
	db    *engine.DB
	clock *testdb.Clock
	keys  *apikeys.Keys
	s     *server.Server
}

func newBench(t *testing.T) *bench {
	clock := testdb.NewClock()
	db := testdb.New(t, engine.Options{Clock: clock.Now})
	keys := testdb.Keys(t, clock.Now)
	b := &bench{t: t, db: db, clock: clock, keys: keys, s: server.New(db, server.Options{Keys: keys, Clock: clock.Now})}
	b.s.Mount(Dialect())
	return b
}

func (b *bench) key(of ...memory.Scope) string {
	b.t.Helper()
	key, _, err := b.keys.Add(b.t.Context(), apikeys.Rights{Scopes: of})
	testdb.NoError(b.t, err)
	return key
}

// ask sends METHOD PATH, with a body if there is one.
func (b *bench) ask(key, request, body string) (int, string) {
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	b.s.Handler().ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// want asks for what is answered as told.
func (b *bench) want(key, request, body string, status int, want string) {
	b.t.Helper()
	if code, got := b.ask(key, request, body); code != status || got != want {
		b.t.Errorf("%s %s: %d %s\nwant %d %s", request, body, code, got, status, want)
	}
}

// into asks, and reads the answer.
func (b *bench) into(key, request, body string, out any) {
	b.t.Helper()
	code, got := b.ask(key, request, body)
	if code/100 != 2 {
		b.t.Fatalf("%s %s: %d %s", request, body, code, got)
	}
	testdb.NoError(b.t, json.Unmarshal([]byte(got), out))
}

const noon = `2026-03-01T12:00:00Z`

func TestStructured(t *testing.T) {
	b := newBench(t)
	b.want("", "GET /api/agents/a1/kv", "", 200, `{"kv_pairs":[]}`)
	pair := `{"key":"last_report_date","value":"2025-03-06","updated_at":"` + noon + `"}`
	b.want("", "PUT /api/agents/a1/kv/last_report_date", `{"value":"2025-03-06"}`, 200, pair)
	b.want("", "GET /api/agents/a1/kv/last_report_date", "", 200, pair)
	b.want("", "PUT /api/agents/a1/kv/a%2Fb/c%25", `{"value":null}`, 200, `{"key":"a/b/c%","value":null,"updated_at":"`+noon+`"}`)
	b.want("", "GET /api/agents/a1/kv?limit=1", "", 200, `{"kv_pairs":[{"key":"a/b/c%","value":null,"updated_at":"`+noon+`"}],"next":"a/b/c%"}`)
	b.want("", "GET /api/agents/a1/kv?cursor=a/b/c%25", "", 200, `{"kv_pairs":[`+pair+`]}`)
	b.want("", "GET /api/agents/a2/kv", "", 200, `{"kv_pairs":[]}`)
	b.want("", "DELETE /api/agents/a1/kv/last_report_date", "", 204, "")
	for request, says := range map[string]string{
		"GET /api/agents/a1/kv/last_report_date": "has none", "DELETE /api/agents/a1/kv/last_report_date": "has none",
	} {
		if code, got := b.ask("", request, ""); code != 404 || !strings.Contains(got, says) {
			t.Errorf("%s: %d %s", request, code, got)
		}
	}
}

func TestFragments(t *testing.T) {
	b := newBench(t)
	var first, again Remembered
	b.into("", "POST /api/agents/a1/memories", `{"content":"Company XYZ launched a new product on 2025-03-01.","source":"WebSearch"}`, &first)
	b.into("", "POST /api/agents/a1/memories", `{"content":"Company XYZ launched a new product on 2025-03-01.","source":"web_search"}`, &again)
	if !first.Stored || again.Stored || !again.Deduplicated || again.ID != first.ID {
		t.Errorf("remembered %+v, then %+v", first, again)
	}
	b.into("", "POST /api/agents/a1/memories", `{"content":"The user prefers a product launch without jargon.","source":"user_preference"}`, &again)
	b.into("", "POST /api/agents/a2/memories", `{"content":"another agent's product launch"}`, &again)
	b.clock.Advance(time.Hour)
	var found []Fragment
	b.into("", "POST /api/agents/a1/recall", `{"query":"product launch","limit":5,"filter":{"agent_id":"a1","source":"WebSearch"}}`, &found)
	if len(found) != 1 || found[0].ID != first.ID || found[0].Source != memory.SourceWebSearch || found[0].Importance != 1 || *found[0].Score <= 0 {
		t.Errorf("recalled %+v", found)
	}
	b.into("", "POST /api/agents/a1/recall", `{"query":"product launch"}`, &found)
	if len(found) != 2 {
		t.Errorf("recalled %+v", found)
	}
	var f Fragment
	b.into("", "GET /api/agents/a1/memories/"+first.ID, "", &f)
	if f.AgentID != "a1" || f.AccessCount != 2 || !f.LastAccessedAt.Equal(b.clock.Now()) || !f.CreatedAt.Equal(b.clock.Now().Add(-time.Hour)) {
		t.Errorf("accessed %+v", f)
	}
	var page, second Fragments
	b.into("", "GET /api/agents/a1/memories?limit=1", "", &page)
	b.into("", "GET /api/agents/a1/memories?cursor="+page.Next, "", &second)
	if len(second.Fragments) != 1 || second.Fragments[0].Source != memory.SourceUserPreference || second.Next != "" {
		t.Errorf("the second page is %+v", second)
	}
	b.want("", "DELETE /api/agents/a1/memories/"+first.ID, "", 204, "")
	if code, _ := b.ask("", "DELETE /api/agents/a1/memories/"+first.ID, ""); code != 404 {
		t.Errorf("forgot it again: %d", code)
	}
	b.want("", "POST /api/agents/a1/recall", `{"query":"XYZ"}`, 200, "[]")
}

func TestEmbeddings(t *testing.T) {
	b := newBench(t)
	var st Remembered
	b.into("", "POST /api/agents/a1/memories", `{"content":"north","embedding":[1,0]}`, &st)
	b.into("", "POST /api/agents/a1/memories", `{"content":"east","embedding":[0,1]}`, &st)
	var found []Fragment
	b.into("", "POST /api/agents/a1/recall", `{"embedding":[0.1,1],"limit":1}`, &found)
	if len(found) != 1 || found[0].Content != "east" {
		t.Errorf("recalled %+v", found)
	}
}

// TestConsolidate holds what days without access leave of an importance, and what a threshold deletes.
func TestConsolidate(t *testing.T) {
	b := newBench(t)
	var st Remembered
	b.into("", "POST /api/agents/a1/memories", `{"content":"old news of the market"}`, &st)
	b.clock.Advance(14 * 24 * time.Hour)
	var f Fragment
	b.into("", "GET /api/agents/a1/memories/"+st.ID, "", &f)
	if f.Importance < .48 || f.Importance > .49 { // .95 to the power of 14
		t.Errorf("after 14 days: %v", f.Importance)
	}
	b.want("", "POST /api/agents/a1/consolidate", `{"threshold":0.3}`, 200, `{"fragments_processed":1,"fragments_deleted":0,"fragments_merged":0}`)
	b.clock.Advance(10 * 24 * time.Hour)
	b.want("", "POST /api/agents/a2/consolidate", `{"threshold":0.3}`, 200, `{"fragments_processed":0,"fragments_deleted":0,"fragments_merged":0}`)
	b.want("", "POST /api/agents/a1/consolidate", ``, 200, `{"fragments_processed":1,"fragments_deleted":0,"fragments_merged":0}`)
	b.want("", "POST /api/agents/a1/consolidate", `{"threshold":0.3}`, 200, `{"fragments_processed":1,"fragments_deleted":1,"fragments_merged":0}`)
}

func TestKnowledge(t *testing.T) {
	b := newBench(t)
	add := func(path, body string) string {
		t.Helper()
		var out ID
		b.into("", "POST /api/agents/a1/"+path, body, &out)
		return out.ID
	}
	openai := add("entities", `{"entity_type":"Company","name":"OpenAI","attributes":{"founded":"2015"}}`)
	sam := add("entities", `{"entity_type":"Person","name":"Sam"}`)
	add("entities", `{"id":"sf","entity_type":"City","name":"San Francisco"}`)
	works := add("relations", fmt.Sprintf(`{"from_entity_id":%q,"relation_type":"works_for","to_entity_id":%q,"properties":{"role":"CEO"}}`, sam, openai))
	add("relations", fmt.Sprintf(`{"from_entity_id":%q,"relation_type":"based_in","to_entity_id":"sf"}`, openai))
	company := fmt.Sprintf(`{"id":%q,"agent_id":"a1","entity_type":"Company","name":"OpenAI","attributes":{"founded":"2015"},"created_at":"%s"}`, openai, noon)
	person := fmt.Sprintf(`{"id":%q,"agent_id":"a1","entity_type":"Person","name":"Sam","attributes":{},"created_at":"%s"}`, sam, noon)
	city := `{"id":"sf","agent_id":"a1","entity_type":"City","name":"San Francisco","attributes":{},"created_at":"` + noon + `"}`
	related := "GET /api/agents/a1/entities/" + sam + "/related"
	b.want("", related, "", 200, "["+company+"]")
	b.want("", related+"?max_hops=2", "", 200, "["+company+","+city+"]")
	b.want("", related+"?relation_type=works_for&max_hops=2", "", 200, "["+company+"]")
	b.want("", related+"?relation_type=owns", "", 200, "[]")
	b.want("", "POST /api/agents/a1/match", `{"from":{"entity_type":"Person"},"relation":"works_for","to":{"entity_type":"Company","name":"OpenAI"}}`, 200,
		fmt.Sprintf(`[{"from":%s,"relation":{"id":%q,"agent_id":"a1","from_entity_id":%q,"relation_type":"works_for","to_entity_id":%q,"properties":{"role":"CEO"},"created_at":"%s"},"to":%s}]`,
			person, works, sam, openai, noon, company))
	b.want("", "POST /api/agents/a1/match", `{"from":{"entity_type":"City"}}`, 200, "[]")
	b.want("", "GET /api/agents/a1/entities?entity_type=City", "", 200, `{"entities":[`+city+`]}`)
	b.want("", "GET /api/agents/a1/entities/sf", "", 200, city)
	b.want("", "DELETE /api/agents/a1/entities/sf", "", 204, "")
	if code, _ := b.ask("", "GET /api/agents/a1/entities/sf/related", ""); code != 404 {
		t.Errorf("related to what is gone: %d", code)
	}
	if code, got := b.ask("", "POST /api/agents/a1/relations", fmt.Sprintf(`{"from_entity_id":%q,"relation_type":"lives_in","to_entity_id":"nowhere"}`, sam)); code != 404 {
		t.Errorf("a relation to what is not there: %d %s", code, got)
	}
}

func TestSessions(t *testing.T) {
	b := newBench(t)
	var s, other, again Loaded
	b.into("", "POST /api/agents/a1/sessions", ``, &s)
	b.into("", "POST /api/agents/a1/sessions", `{"channel":"telegram"}`, &other)
	b.into("", "POST /api/agents/a1/sessions", ``, &again)
	if s.ID == "" || s.ID == other.ID || s.ID != again.ID || s.Messages == nil || len(s.Messages) != 0 || other.Channel != "telegram" {
		t.Fatalf("opened %+v, %+v, %+v", s, other, again)
	}
	one := "/api/agents/a1/sessions/" + s.ID
	b.into("", "PUT "+one, `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"hello"}],"usage":{"input_tokens":3}}]}`, &s)
	saved, err := json.Marshal(map[string]any{"messages": append(s.Messages, Message{sessions.Message{Role: "user", Text: "bye"}})})
	testdb.NoError(t, err)
	b.into("", "PUT "+one, string(saved), &again)
	if len(again.Messages) != 3 || string(again.Messages[1].Parts) != `[{"type":"text","text":"hello"}]` || string(again.Messages[1].Extra) != `{"usage":{"input_tokens":3}}` || again.Messages[0].ID != s.Messages[0].ID {
		t.Errorf("saved %+v", again)
	}
	for i := range 30 {
		var done []sessions.Appended
		b.into("", "POST "+one+"/messages", fmt.Sprintf(`{"messages":[{"role":"user","content":"message %d"}]}`, i), &done)
	}
	b.into("", "GET "+one, "", &s)
	b.into("", "GET "+one+"?last=20", "", &again)
	if len(s.Messages) != 33 || len(again.Messages) != 20 || again.Messages[19].Text != "message 29" {
		t.Errorf("it has %d, the last %+v", len(s.Messages), again.Messages)
	}
	b.into("", "PUT "+one+"?keep=20", `{"messages":`+string(must(json.Marshal(s.Messages)))+`}`, &s)
	if len(s.Messages) != 20 || s.Messages[19].Text != "message 29" {
		t.Errorf("it keeps %d", len(s.Messages))
	}
	var list Sessions
	if b.into("", "GET /api/agents/a1/sessions?channel=telegram", "", &list); len(list.Sessions) != 1 || list.Sessions[0].ID != other.ID {
		t.Errorf("listed %+v", list)
	}
	b.want("", "DELETE "+one, "", 204, "")
	if code, _ := b.ask("", "GET "+one, ""); code != 404 {
		t.Errorf("a deleted session: %d", code)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestSaveKeepsSummary saves a session that was compacted: what was summarised stays.
func TestSaveKeepsSummary(t *testing.T) {
	b := newBench(t)
	o := scope.Owner{Agent: "a1"}
	for i := range 12 {
		_, err := b.db.Sessions().Append(t.Context(), o, "s", []sessions.Message{{Role: "user", Text: fmt.Sprintf("The plan %d costs money.", i)}}, nil)
		testdb.NoError(t, err)
	}
	_, err := b.db.Sessions().Compact(t.Context(), o, "s", &sessions.CompactOptions{Threshold: 12, KeepRecent: 2})
	testdb.NoError(t, err)
	var s Loaded
	b.into("", "GET /api/agents/a1/sessions/s", "", &s)
	if len(s.Messages) != 2 || s.Summary == "" {
		t.Fatalf("loaded %+v", s)
	}
	var again Loaded
	b.into("", "PUT /api/agents/a1/sessions/s", `{"messages":`+string(must(json.Marshal(s.Messages[:1])))+`}`, &again)
	if len(again.Messages) != 1 || again.Summary != s.Summary || again.MessageCount != 11 {
		t.Errorf("saved %+v", again)
	}
}

func TestUsage(t *testing.T) {
	b := newBench(t)
	b.want("", "GET /api/budget/agents", "", 200, "[]")
	b.want("", "PUT /api/agents/a1", `{"name":"researcher"}`, 201, `{"agent_id":"a1","name":"researcher","created_at":"`+noon+`"}`)
	b.want("", "POST /api/agents/a1/usage", `{"model":"m","prompt_tokens":300000,"completion_tokens":150000,"cost_usd":12.34}`, 201,
		`{"agent_id":"a1","model":"m","prompt_tokens":300000,"completion_tokens":150000,"total_tokens":450000,"cost_usd":12.34,"timestamp":"`+noon+`"}`)
	for range 10 {
		b.ask("", "POST /api/agents/a2/usage", `{"model":"m","total_tokens":32000,"cost_usd":0.1}`)
	}
	b.want("", "GET /api/budget/agents", "", 200,
		`[{"agent_id":"a1","name":"researcher","cost_usd":12.34,"tokens":450000},{"agent_id":"a2","name":"a2","cost_usd":1,"tokens":320000}]`)
	b.want("", "GET /api/agents/a2/usage", "", 200, `{"records":10,"prompt_tokens":0,"completion_tokens":0,"total_tokens":320000,"cost_usd":1}`)
	b.want("", "GET /api/agents/a2/usage?since=2026-03-02T00:00:00Z", "", 200, `{"records":0,"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cost_usd":0}`)
	b.want("", "GET /api/agents", "", 200, `[{"agent_id":"a1","name":"researcher","created_at":"`+noon+`"}]`)
	b.want("", "GET /api/agents/a1", "", 200, `{"agent_id":"a1","name":"researcher","created_at":"`+noon+`"}`)
}

// fill gives an agent some of everything.
func (b *bench) fill(key, agent string) {
	b.t.Helper()
	for request, body := range map[string]string{
		"PUT /kv/k": `{"value":[1.10]}`, "POST /memories": `{"content":"the harbour is closed"}`, "POST /usage": `{"model":"m","cost_usd":1}`,
		"PUT /sessions/s": `{"messages":[{"role":"user","content":"hi"}]}`, "POST /entities": `{"id":"x","name":"X"}`,
	} {
		method, path, _ := strings.Cut(request, " ")
		if code, got := b.ask(key, method+" /api/agents/"+agent+path, body); code/100 != 2 {
			b.t.Fatalf("%s: %d %s", request, code, got)
		}
	}
	if code, got := b.ask(key, "POST /api/agents/"+agent+"/relations", `{"from_entity_id":"x","relation_type":"is","to_entity_id":"x"}`); code != 201 {
		b.t.Fatal(code, got)
	}
}

func TestMove(t *testing.T) {
	b := newBench(t)
	b.want("", "GET /api/agents/a1/export", "", 200, "[]")
	b.fill("", "a1")
	_, document := b.ask("", "GET /api/agents/a1/export?format=json", "")
	var r, again Imported
	b.into("", "POST /api/agents/a2/import", document, &r)
	if r.Fragments != 1 || r.Entities != 1 || r.Relations != 1 || r.Entries != 1 || r.Sessions != 1 || r.Messages != 1 || r.Usage != 1 || r.Skipped != 0 {
		t.Errorf("imported %+v of %s", r, document)
	}
	_, moved := b.ask("", "GET /api/agents/a2/export", "")
	if strings.ReplaceAll(moved, `"agent":"a2"`, `"agent":"a1"`) != document {
		t.Errorf("moved\n%s\nfrom\n%s", moved, document)
	}
	if b.into("", "POST /api/agents/a2/import", document, &again); again.Fragments != 0 || again.Skipped != 0 {
		t.Errorf("imported again %+v", again)
	}
	testdb.Check(t, b.db, 2)
}

// TestHostileImport has a key import what names others.
func TestHostileImport(t *testing.T) {
	b := newBench(t)
	ada := b.key(memory.Scope{User: "ada"})
	var r Imported
	b.into(ada, "POST /api/agents/a1/import", `[
		{"type":"memory","id":"1","user":"bob","agent":"a9","text":"one"},
		{"type":"memory","id":"2","USER":"bob","text":"two"},
		{"type":"memory","id":"3","user_id":"bob","text":"three"},
		{"type":"kv","user":"bob","Agent":"a9","key":"k","value":1},
		{"type":"policy","preset":"agentos","cap":1},
		{"type":"agent","id":"a1","name":"mine"},
		{"type":"memory","Type":"policy","id":"4","text":"four"},
		{"id":"5","text":"five"}
	]`, &r)
	if r.Fragments < 3 || r.Entries != 1 || r.Skipped < 3 {
		t.Errorf("imported %+v", r)
	}
	if all := testdb.List(t, b.db.Memories(), memory.Scope{User: "bob"}); len(all) != 0 {
		t.Errorf("bob has %+v", all)
	}
	for _, m := range testdb.List(t, b.db.Memories(), memory.Scope{User: "ada"}) {
		if m.Agent != "a1" {
			t.Errorf("imported %+v", m)
		}
	}
	p, err := b.db.Policies().Show(t.Context())
	if err != nil || p.Cap == 1 {
		t.Errorf("the policy is %+v, %v", p, err)
	}
	if agents, err := b.db.Usage().Agents(t.Context()); err != nil || len(agents) != 0 {
		t.Errorf("agents %+v, %v", agents, err)
	}
	if owners, err := b.db.KV().Owners(t.Context()); err != nil || len(owners) != 1 || owners[0] != (scope.Owner{User: "ada", Agent: "a1"}) {
		t.Errorf("entries of %v, %v", owners, err)
	}
}

func TestBadRequests(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		request, body string
		status        int
		says          string
	}{
		{"PUT /api/agents/a/kv/k", `{}`, 400, "value is missing"},
		{"PUT /api/agents/a/kv/k", `{"value":1,"ttl":2}`, 400, "ttl"},
		{"PUT /api/agents/a/kv/", `{"value":1}`, 400, "key"},
		{"PUT /api/agents/" + strings.Repeat("a", 513) + "/kv/k", `{"value":1}`, 400, "512"},
		{"POST /api/agents/a/memories", `{"source":"WebSearch"}`, 400, "content is missing"},
		{"POST /api/agents/a/memories", `{"content":"x","source":"hearsay"}`, 400, "hearsay"},
		{"POST /api/agents/a/memories", `{"content":"x","importance":2}`, 400, ""},
		{"POST /api/agents/a/memories", `{"content":"x"`, 400, ""},
		{"POST /api/agents/a/recall", `{}`, 400, "query is missing"},
		{"POST /api/agents/a/recall", `{"query":"x","limit":0}`, 400, "limit is 0"},
		{"POST /api/agents/a/recall", `{"query":"x","filter":{"agent_id":"b"}}`, 400, "agent_id"},
		{"POST /api/agents/a/consolidate", `{"threshold":2}`, 400, ""},
		{"POST /api/agents/a/entities", `{}`, 400, "name is missing"},
		{"POST /api/agents/a/entities", `{"name":"x","attributes":1}`, 400, ""},
		{"POST /api/agents/a/relations", `{"from_entity_id":"x"}`, 400, "relation_type is missing"},
		{"GET /api/agents/a/entities/x/related?max_hops=0", ``, 400, "max_hops"},
		{"PUT /api/agents/a/sessions/s", `{}`, 400, "messages is missing"},
		{"PUT /api/agents/a/sessions/s", `{"messages":[{"content":"x"}]}`, 400, "role is missing"},
		{"PUT /api/agents/a/sessions/s", `{"messages":[7]}`, 400, "in the place of a message"},
		{"GET /api/agents/a/sessions/s", ``, 404, "no such session"},
		{"GET /api/agents/a/sessions?limit=0", ``, 400, "limit"},
		{"POST /api/agents/a/usage", `{"model":"m","cost_usd":-1}`, 400, ""},
		{"GET /api/agents/a/usage?since=yesterday", ``, 400, "since"},
		{"GET /api/agents/a/export?format=yaml", ``, 400, "format"},
		{"POST /api/agents/a/import", `[{"type":"memory"`, 400, "document"},
		{"POST /api/agents/a/import", `hello`, 400, "document"},
		{"GET /api/agents/a/nothing", ``, 404, "nothing at this path"},
		{"PATCH /api/agents/a/kv", ``, 405, "PATCH"},
	} {
		code, got := b.ask("", c.request, c.body)
		var f map[string]string
		if err := json.Unmarshal([]byte(got), &f); err != nil || code != c.status || len(f) != 1 || !strings.Contains(f["error"], c.says) {
			t.Errorf("%.80s %s: %d %s", c.request, c.body, code, got)
		}
	}
	testdb.Check(t, b.db, 0)
}

// TestKeys has two keys of one agent name, and keys that are narrower.
func TestKeys(t *testing.T) {
	b := newBench(t)
	ada, bob := b.key(memory.Scope{User: "ada"}), b.key(memory.Scope{User: "bob"})
	bot, run := b.key(memory.Scope{User: "ada", Agent: "bot"}), b.key(memory.Scope{User: "ada", Agent: "bot", Run: "s"})
	var st Remembered
	b.into(ada, "POST /api/agents/bot/memories", `{"content":"the secret of ada"}`, &st)
	b.fill(ada, "bot")
	b.fill(b.key(memory.Scope{Agent: "bot"}), "bot") // of nobody, or all
	for _, request := range []string{"GET /memories/%s", "DELETE /memories/%s", "GET /kv/%s", "DELETE /kv/%s", "GET /entities/%s", "GET /sessions/%s", "DELETE /sessions/%s"} {
		method, path, _ := strings.Cut(request, " ")
		ids := map[string]string{"/memories/%s": st.ID, "/kv/%s": "k", "/entities/%s": "x", "/sessions/%s": "s"}
		code, got := b.ask(bob, method+" /api/agents/bot"+fmt.Sprintf(path, ids[path]), "")
		unknown, without := b.ask(bob, method+" /api/agents/bot"+fmt.Sprintf(path, "none"), "")
		if code != 404 || unknown != 404 || strings.ReplaceAll(got, ids[path], "none") != strings.ReplaceAll(without, ids[path], "none") {
			t.Errorf("%s: %d %s, and of an unknown one %d %s", request, code, got, unknown, without)
		}
	}
	for path, want := range map[string]string{
		"/kv": `{"kv_pairs":[]}`, "/memories": `{"fragments":[]}`, "/entities": `{"entities":[]}`, "/sessions": `{"sessions":[]}`, "/export": `[]`,
		"/usage": `{"records":0,"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cost_usd":0}`,
	} {
		b.want(bob, "GET /api/agents/bot"+path, "", 200, want)
	}
	b.want(bob, "GET /api/budget/agents", "", 200, "[]")
	b.want(ada, "GET /api/budget/agents", "", 200, `[{"agent_id":"bot","name":"bot","cost_usd":1,"tokens":0}]`)
	b.want(bot, "GET /api/budget/agents", "", 200, `[{"agent_id":"bot","name":"bot","cost_usd":1,"tokens":0}]`)
	b.want(bob, "POST /api/agents/bot/recall", `{"query":"secret"}`, 200, "[]")
	if _, document := b.ask(ada, "GET /api/agents/bot/export", ""); strings.Count(document, `"type":"kv"`) != 1 {
		t.Errorf("exported %s", document)
	}
	for key, requests := range map[string][]string{
		bot: {"GET /api/agents/other/kv", "GET /api/agents/other/export", "POST /api/agents/other/import", "GET /api/agents/other", "GET /api/agents/other/memories/x"},
		run: {"GET /api/agents/bot/kv", "GET /api/agents/bot/entities", "GET /api/agents/bot/usage", "GET /api/agents/bot/export", "GET /api/budget/agents", "GET /api/agents/bot/sessions/other", "POST /api/agents/bot/consolidate"},
	} {
		for _, request := range requests {
			if code, got := b.ask(key, request, ""); code != 403 {
				t.Errorf("%s: %d %s", request, code, got)
			}
		}
	}
	if code, _ := b.ask(ada, "PUT /api/agents/bot", `{"name":"mine"}`); code != 403 {
		t.Errorf("a manifest by the key of a user: %d", code)
	}
	var s Loaded
	b.into(run, "POST /api/agents/bot/sessions", "", &s)
	if s.ID != "s" || len(s.Messages) != 1 {
		t.Errorf("the session of a key of a run: %+v", s)
	}
	if all := testdb.List(t, b.db.Memories(), memory.Scope{User: "bob"}); len(all) != 0 {
		t.Errorf("bob has %+v", all)
	}
}
