package native

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// fixture is a server with the native dialect over a database in memory.
type fixture struct {
	t    testing.TB
	db   *engine.DB
	s    *server.Server
	h    http.Handler
	keys *apikeys.Keys
	doc  any            // the OpenAPI document
	mux  *http.ServeMux // which knows the routes
}

func newFixture(t testing.TB, withKeys bool) *fixture {
	t.Helper()
	db, err := engine.OpenMemory(nil)
	testdb.NoError(t, err)
	t.Cleanup(func() { testdb.NoError(t, db.Close()) })
	f := &fixture{t: t, db: db}
	if withKeys {
		f.keys = testdb.Keys(t, time.Now)
	}
	f.s = server.New(db, server.Options{Keys: f.keys})
	f.s.Mount(New())
	f.h = f.s.Handler()
	return f
}

// documented holds an answer to the document: its status, its media type and its JSON.
func (f *fixture) documented(r *http.Request, w *httptest.ResponseRecorder) {
	f.t.Helper()
	if f.mux == nil {
		b, err := f.s.OpenAPI()
		testdb.NoError(f.t, err)
		testdb.NoError(f.t, json.Unmarshal(b, &f.doc))
		f.mux = http.NewServeMux()
		for _, r := range f.s.Routes() {
			f.mux.Handle(r.Pattern, http.NotFoundHandler())
		}
	}
	_, pattern := f.mux.Handler(r)
	method, path, found := strings.Cut(pattern, " ")
	if !found || w.Code == http.StatusNoContent {
		return // what no route takes
	}
	status, media := strconv.Itoa(w.Code), w.Header().Get("Content-Type")
	if w.Code >= http.StatusBadRequest {
		status = "default"
	}
	response := wiretest.At(f.t, pattern, f.doc, "paths", path, strings.ToLower(method), "responses", status)
	media, _, _ = strings.Cut(media, ";")
	content := response.At(f.t, "content", media)
	switch {
	case media == "application/json":
		f.fits(r, content.At(f.t, "schema"), w.Body.Bytes())
	case media == "application/x-ndjson" && !strings.Contains(path, "export"):
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		for _, l := range lines[:len(lines)-1] {
			f.fits(r, content.At(f.t, "schema", "properties", "items", "items"), []byte(l))
		}
	}
}

func (f *fixture) fits(r *http.Request, s *wiretest.Schema, body []byte) {
	f.t.Helper()
	if err := s.Check(bytes.Replace(body, []byte(`,"repeated":true`), nil, 1)); err != nil { // which any answer may have
		f.t.Errorf("%s %s: the answer is not as the document has it: %v", r.Method, r.URL, err)
	}
}

// do sends a request past the network, with a key or without one.
func (f *fixture) do(key, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, base+target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	f.documented(r, w)
	return w
}

// want sends a request without a key, and holds the answer to a status and a part of it.
func (f *fixture) want(method, target, body string, status int, part string) string {
	f.t.Helper()
	w := f.do("", method, target, body)
	if w.Code != status || !strings.Contains(w.Body.String(), part) {
		f.t.Errorf("%s %s %.80s: %d %s, want %d %s", method, target, body, w.Code, w.Body, status, part)
	}
	return w.Body.String()
}

func TestCalls(t *testing.T) {
	f := newFixture(t, false)
	for _, c := range []struct {
		method, target, body string
		status               int
		part                 string
	}{
		// Memories.
		{"POST", "/memories", `{"id":"m1","user":"ada","text":"Ada likes green tea"}`, 201, `"stored":true`},
		{"POST", "/memories", `{"id":"m1","user":"ada","text":"Ada likes green tea"}`, 200, `"stored":false`},
		{"POST", "/memories", `{"id":"m1","user":"ada","text":"other"}`, 409, `"exists"`},
		{"POST", "/memories?upsert=true", `{"id":"m1","user":"ada","text":"Ada likes black tea","metadata":{"n":1}}`, 200, `"updated":true`},
		{"POST", "/memories", `{"user":"ada","text":"x","colour":"red"}`, 400, `colour`},
		{"POST", "/memories", `{"user":"ada","text":"x","expires_at":"2001-01-01"}`, 400, `past`},
		{"POST", "/memories", `{"text":"x"}`, 400, `"scope"`},
		{"POST", "/memories", `{"type":"entity","user":"ada","text":"x"}`, 400, `type`},
		{"POST", "/memories?upsert=yes", `{}`, 400, `upsert`},
		{"POST", "/memories?upset=true", `{}`, 400, `upset`},
		{"POST", "/memories?upsert=true&upsert=true", `{}`, 400, `twice`},
		{"POST", "/memories?channel=c", `{"user":"ada","text":"x"}`, 400, `session`},
		{"POST", "/memories?session=s1", `{"user":"ada","run":"s2","text":"x"}`, 400, `differ`},
		{"POST", "/memories?session=s1&channel=web", `{"user":"ada","text":"said in a session"}`, 201, `"message_id"`},
		{"POST", "/memories/batch", `{"memories":[{"user":"ada","text":"one"},{"user":"ada","text":"two","run":"r"}]}`, 200, `"results":[{`},
		{"POST", "/memories/batch", `{"memories":[]}`, 400, `there are none`},
		{"POST", "/memories/batch", `{"memories":[{"user":"ada","texts":"one"}]}`, 400, `texts`},
		{"POST", "/memories/batch?skip_invalid=true", `{"memories":[{"user":"ada","text":"three"},{"user":"ada","text":"four","importance":7}]}`, 200, `"error":"`},
		{"GET", "/memories?user=ada&limit=2", "", 200, `{"end":true,"count":2,"next":"`},
		{"GET", "/memories?user=ada&all=true", "", 200, `{"end":true,"count":5}`},
		{"GET", "/memories?user=ada&filter=n+%3D+1", "", 200, `{"end":true,"count":1}`},
		{"GET", "/memories?user=ada&filter=n+%3D%3D%3D+1", "", 400, `filter`},
		{"GET", "/memories?user=ada&limit=0", "", 400, `limit`},
		{"GET", "/memories?user=ada&after=nonsense", "", 400, `"error"`},
		{"GET", "/memories", "", 400, `"scope"`},
		{"GET", "/memories?user=", "", 400, `"scope"`},
		{"GET", "/memories?user=ada&agent=", "", 200, `"count":5`},
		{"GET", "/memories?all_scopes=true", "", 200, `"count":5`},
		{"GET", "/memories?all_scopes=true&user=ada", "", 400, `alone`},
		{"GET", "/count?user=ada", "", 200, `{"count":5}`},
		{"GET", "/groups?user=ada&by=run", "", 200, `"memories":`},
		{"GET", "/groups?user=ada&by=shoe", "", 400, `shoe`},
		{"GET", "/memories/m1?user=ada", "", 200, `"text":"Ada likes black tea"`},
		{"GET", "/memories/m1", "", 200, `"text":"Ada likes black tea"`},
		{"GET", "/memories/m1?user=bob", "", 404, `"not_found"`},
		{"GET", "/memories/m1?run=", "", 400, `run`},
		{"PATCH", "/memories/m1?user=ada", `{"merge_metadata":{"n":null,"k":2},"pinned":true}`, 200, `"metadata":{"k":2}`},
		{"PATCH", "/memories/m1?user=ada", `{"expires_at":null}`, 200, `"id":"m1"`},
		{"PATCH", "/memories/m1?user=ada", `{"expires_at":"2001-01-01"}`, 400, `past`},
		{"PATCH", "/memories/m1?user=ada", `{"id":"m2"}`, 400, `\"id\"`},
		{"PATCH", "/memories/m9?user=ada", `{"text":"x"}`, 404, `"not_found"`},
		{"GET", "/memories/m1/history?user=ada", "", 200, `"event":"UPDATE"`},
		{"GET", "/memories/m9/history?user=ada", "", 404, `"not_found"`},
		{"POST", "/recall", `{"user":"ada","query":"tea","explain":true,"no_touch":true}`, 200, `"plan":{`},
		{"POST", "/recall", `{"user":"ada","query":"tea","filter":{"field":"k","operator":"eq","value":2}}`, 200, `"id":"m1"`},
		{"POST", "/recall", `{"user":"ada","query":"tea","filter":"k = 3"}`, 200, `"hits":[]`},
		{"POST", "/recall", `{"scopes":[{"user":"ada","run":"r"},{"user":"bob"}],"query":"two"}`, 200, `"text":"two"`},
		{"POST", "/recall", `{"scopes":[{"usr":"ada"}],"query":"two"}`, 400, `usr`},
		{"POST", "/recall", `{"user":"ada","query":"tea","profile":"wurst"}`, 400, `wurst`},
		{"POST", "/recall", `{"user":"ada","query":"tea","limit":0}`, 400, `limit`},
		{"POST", "/recall", `{"query":"tea"}`, 400, `"scope"`},
		{"POST", "/recall", `{"user":"ada"}`, 400, `no query`},
		{"POST", "/memories/m1/why", `{"user":"ada","query":"tea"}`, 200, `"found":true`},
		{"POST", "/memories/m9/why", `{"user":"ada","query":"tea"}`, 404, `"not_found"`},
		{"DELETE", "/memories?user=ada", "", 400, `all=true`},
		{"DELETE", "/memories?user=ada&filter=text+%3D+three", "", 200, `{"deleted":1}`},
		{"DELETE", "/memories/m1?user=ada", "", 200, `{"deleted":1}`},
		{"DELETE", "/memories/m1?user=ada", "", 404, `"not_found"`},
		// Values.
		{"PUT", "/kv/a%2Fb?agent=bot&if_version=0", `{"n":1}`, 200, `"version":1`},
		{"PUT", "/kv/a%2Fb?agent=bot&if_version=0", `2`, 409, `"conflict"`},
		{"PUT", "/kv/x?agent=bot&ttl=0s", `2`, 400, `ttl`},
		{"PUT", "/kv/x?agent=bot&ttl=1h", `"v"`, 200, `"expires_at"`},
		{"PUT", "/kv/x?agent=bot", `tea`, 400, `no JSON`},
		{"PUT", "/kv/x", `1`, 400, `"scope"`},
		{"GET", "/kv/a%2Fb?agent=bot", "", 200, `"value":{"n":1}`},
		{"GET", "/kv?agent=bot&prefix=a%2F", "", 200, `"count":1`},
		{"DELETE", "/kv/a%2Fb?agent=bot", "", 200, `{"deleted":1}`},
		{"GET", "/kv/a%2Fb?agent=bot", "", 404, `"not_found"`},
		// Notes.
		{"POST", "/notes?agent=bot", `{"name":"deploy","content":"The deploy runs at six."}`, 201, `"type":"note"`},
		{"POST", "/notes?agent=bot", `{"name":"deploy","content":"again"}`, 409, `"exists"`},
		{"POST", "/notes?agent=bot", `{"name":"x","content":"x","kind":"fact"}`, 400, `kind`},
		{"POST", "/notes/deploy/alias?agent=bot", `{"alias":"release"}`, 200, `"release"`},
		{"POST", "/notes/deploy/rename?agent=bot", `{"to":"rollout","keep":true}`, 200, `"name":"rollout"`},
		{"PUT", "/notes/release?agent=bot", `{"content":"The deploy runs at seven."}`, 200, `seven`},
		{"GET", "/notes/rollout?agent=bot", "", 200, `seven`},
		{"GET", "/notes?agent=bot", "", 200, `"count":1`},
		{"GET", "/notes?agent=bot&query=when+is+the+deploy", "", 200, `"score":`},
		{"GET", "/notes?agent=bot&limit=3", "", 400, `query`},
		{"DELETE", "/notes/rollout?agent=bot", "", 200, `{"deleted":1}`},
		{"DELETE", "/notes/rollout?agent=bot", "", 404, `"not_found"`},
		// Sessions.
		{"POST", "/sessions/monday/messages?agent=bot", `{"text":"Which plan?","message_id":"q1"}`, 201, `"message_id":"q1"`},
		{"GET", "/sessions?agent=bot", "", 200, `"count":1`},
		{"POST", "/sessions/tools/messages?agent=bot", `{"role":"model","parts":[{"functionCall":{"id":"f1","name":"depth","args":{}}}],"no_memory":true}`, 201, `"messages":1`},
		{"POST", "/sessions/tools/messages?agent=bot", `{"role":"tool","tool_call_id":"f1","content":"04 fathoms","message_id":"r1"}`, 201, `"message_id":"r1"`},
		{"POST", "/sessions/tools/messages?agent=bot", `{"role":"user","content":[{"kind":"smell","of":"<tar>"}]}`, 201, `"unknown":1`},
		{"POST", "/sessions/tools/messages?agent=bot", `{"role":"user","content":[{"kind":"smell","of":"tar"}],"strict":true}`, 400, `{kind,of}`},
		{"GET", "/sessions/tools?agent=bot&last=2", ``, 200, `"parts":[{"kind":"smell","of":"<tar>"}]`},
		{"PUT", "/sessions/saved?agent=bot", `[{"type":"human","content":"hi","colour":"red"}, {"type":"ai","data":{"content":"hello"}}]`, 200, `"messages":2,"unknown":1`},
		{"PUT", "/sessions/saved?agent=bot&strict=true", `{"role":"user","content":"hi","colour":"red"}`, 400, `colour`},
		{"GET", "/sessions/saved?agent=bot", ``, 200, `"colour":"red","foreign":{"type":"human"}`},
		{"POST", "/sessions/monday/messages?agent=bot", `{}`, 400, `give a text`},
		{"GET", "/sessions/monday?agent=bot", "", 200, `"text":"Which plan?"`},
		{"GET", "/sessions/monday?agent=bot&all=true&last=3", "", 400, `excludes`},
		{"GET", "/sessions/tuesday?agent=bot", "", 404, `"not_found"`},
		{"GET", "/sessions/monday/state?agent=bot", "", 200, `"messages":1`},
		{"PUT", "/sessions/saved?agent=bot", "{\"role\":\"user\",\"content\":\"hi\"}\n{\"role\":\"user\",\"content\":\"there\"}\n", 200, `{"messages":2,"unknown":0}`},
		{"PUT", "/sessions/saved?agent=bot", "{\"role\":\"user\",\"content\":\"hi\",\"content\":\"hi\"}\n", 400, `line 1`},
		{"POST", "/sessions/saved/repair?agent=bot&dry_run=true", "", 200, `"total_fixes":`},
		{"POST", "/sessions/saved/repair?agent=bot", "", 200, `"consecutive_merged":1`},
		{"POST", "/sessions/saved/repair?agent=bot&undo=true", "", 200, `"messages":2`},
		{"POST", "/sessions/saved/compact?agent=bot&threshold=2&keep_recent=1", "", 200, `"compacted":true`},
		{"POST", "/sessions/saved/compact?agent=bot&threshold=1&keep_recent=1", "", 400, `greater`},
		{"POST", "/sessions/saved/close?agent=bot", "", 200, `"closed":true`},
		{"POST", "/sessions/saved/open?agent=bot", "", 200, `"closed":false`},
		{"POST", "/sessions/saved/archive?agent=bot", "", 200, `"archived":true`},
		{"POST", "/sessions?agent=bot", `{"channel":"phone"}`, 200, `"channel":"phone"`},
		{"POST", "/sessions?agent=bot", `{"channel":""}`, 400, `channel`},
		{"DELETE", "/sessions/tools?agent=bot", "", 200, `"messages":3`},
		{"GET", "/sessions?agent=bot", "", 200, `"count":2`},
		{"DELETE", "/sessions/monday?agent=bot&with_memories=true", "", 200, `"memories":1`},
		{"DELETE", "/sessions/monday?agent=bot", "", 404, `"not_found"`},
	} {
		f.want(c.method, c.target, c.body, c.status, c.part)
	}
}

func TestCallsOfGraphAndUsage(t *testing.T) {
	f := newFixture(t, false)
	testdb.Store(t, f.db.Memories(), memory.Memory{ID: "m1", Scope: memory.Scope{Agent: "bot"}, Text: "Ada met Bob in Ghent"})
	for _, c := range []struct {
		method, target, body string
		status               int
		part                 string
	}{
		{"POST", "/graph/entities?agent=bot", `{"id":"ada","type":"person","name":"Ada","relations":[{"target":"memdb","type":"works_on"}]}`, 201, `"waits_for":["memdb"]`},
		{"POST", "/graph/entities?agent=bot", `{"id":"memdb","type":"project","name":"memdb"}`, 201, `"created":true`},
		{"POST", "/graph/entities?agent=bot", `{"type":"person","relations":[{"target":"x","type":"y"}]}`, 400, `id`},
		{"POST", "/graph/entities?agent=bot", `{"id":"x","kind":"person"}`, 400, `kind`},
		{"POST", "/graph/relations?agent=bot", `{"from":"memdb","relation":"made_by","to":"ada"}`, 201, `"stored":true`},
		{"POST", "/graph/relations?agent=bot&strict=true", `{"from":"memdb","relation":"made_by","to":"nobody"}`, 404, `nobody`},
		{"GET", "/graph/entities/ada?agent=bot", "", 200, `"entity_type":"person"`},
		{"GET", "/graph/entities/nobody?agent=bot", "", 404, `"not_found"`},
		{"GET", "/graph/entities?agent=bot", "", 200, `"count":2`},
		{"GET", "/graph/entities/ada/around?agent=bot&depth=1", "", 200, `"depth":1`},
		{"GET", "/graph/entities/ada/find?agent=bot&relation=works_on", "", 200, `"id":"memdb"`},
		{"GET", "/graph/entities/ada/find?agent=bot&hops=0", "", 400, `hops`},
		{"GET", "/graph/match?agent=bot&from_type=person&relation=works_on", "", 200, `"relation":"works_on"`},
		{"GET", "/graph/match?agent=bot&hops=9", "", 400, `hops`},
		{"GET", "/graph/path?agent=bot&from=ada&to=memdb", "", 200, `"from":"ada"`},
		{"GET", "/graph/path?agent=bot&from=ada", "", 400, `to is missing`},
		{"GET", "/graph/rank?agent=bot&id=ada&id=memdb", "", 200, `"rank":`},
		{"GET", "/graph/components?agent=bot", "", 200, `"size":2`},
		{"GET", "/graph/lookup?agent=bot&name=adda", "", 200, `"end":true`},
		{"GET", "/graph/degrees?agent=bot", "", 200, `"out":`},
		{"GET", "/graph/counts?agent=bot", "", 200, `{"of":"relation","type":"works_on","count":1}`},
		{"GET", "/graph/duplicates?agent=bot&min_score=2", "", 400, `min_score`},
		{"GET", "/graph/duplicates?agent=bot", "", 200, `"end":true`},
		{"GET", "/graph/stats?agent=bot", "", 200, `"entities":2`},
		{"PUT", "/graph/entities/ada/memories/m1?agent=bot", "", 200, `"changed":true`},
		{"DELETE", "/graph/entities/ada/memories/m1?agent=bot", "", 200, `"linked":false`},
		{"GET", "/graph/export?agent=bot&format=dot", "", 200, `digraph`},
		{"GET", "/graph/export?agent=bot&format=png", "", 400, `format`},
		{"GET", "/graph/export?agent=other", "", 200, ``},
		{"GET", "/graph/entities/ada/picture?agent=bot", "", 200, `<svg`},
		{"POST", "/graph/extract?agent=bot", "", 200, `"memories":1`},
		{"DELETE", "/graph/relations?agent=bot&from=memdb&relation=made_by&to=ada", "", 200, `{"ended":1}`},
		{"POST", "/graph/entities?agent=bot", `{"id":"ada2","type":"person","name":"Ada L"}`, 201, `"created":true`},
		{"POST", "/graph/entities/ada/merge?agent=bot", `{"from":"ada2"}`, 200, `"id":"ada"`},
		{"POST", "/graph/entities/ada2/unmerge?agent=bot", "", 200, `"id":"ada2"`},
		{"DELETE", "/graph/entities/ada2?agent=bot", "", 200, `"entities":1`},
		{"GET", "/graph/entities", "", 400, `"scope"`},
		// Usage.
		{"PUT", "/usage/budgets?agent=bot", `{"per":"day","limit_usd":1}`, 200, `"per":"day"`},
		{"PUT", "/usage/budgets?agent=bot", `{"per":"day"}`, 400, `limit_usd`},
		{"POST", "/usage?agent=bot", `{"model":"small","prompt_tokens":10,"completion_tokens":5,"cost_usd":0.25}`, 201, `"total_tokens":15`},
		{"POST", "/usage?agent=bot&within_budget=true", `{"model":"small","cost_usd":5}`, 409, `over_budget`},
		{"GET", "/usage/budgets?agent=bot", "", 200, `"count":1`},
		{"GET", "/usage/budgets/check?agent=bot&cost=0.9", "", 200, `"allowed":false`},
		{"GET", "/usage/total", "", 200, `"records":1`},
		{"GET", "/usage/total?agent=", "", 400, `empty`},
		{"GET", "/usage/by/model?agent=bot", "", 200, `"model":"small"`},
		{"GET", "/usage/by/shoe?agent=bot", "", 404, `agent, model or day`},
		{"GET", "/usage/rank", "", 200, `"agent_id":"bot"`},
		{"DELETE", "/usage/budgets?agent=bot&per=day", "", 200, `{"deleted":1}`},
		{"POST", "/usage/rollup?agent=bot&before=2020-01-01", "", 200, `true`},
		// The rest.
		{"PUT", "/agents/bot", `{"name":"The bot","metadata":{"team":"web"}}`, 200, `"name":"The bot"`},
		{"GET", "/agents/bot", "", 200, `"team":"web"`},
		{"GET", "/agents", "", 200, `"count":1`},
		{"GET", "/users", "", 200, `"end":true`},
		{"GET", "/users/nobody", "", 404, `"not_found"`},
		{"GET", "/policy", "", 200, `"preset":"default"`},
		{"PATCH", "/policy", `{"rate":0.1,"max_age_ms":"60d","kinds":["message"]}`, 200, `"rate":0.1`},
		{"PATCH", "/policy", `{"speed":1}`, 400, `speed`},
		{"POST", "/evict?agent=bot&dry_run=true&max_age=30d", "", 200, `"evicted":0`},
		{"POST", "/evict", "", 400, `"scope"`},
		{"POST", "/consolidate?agent=bot&dry_run=true", "", 200, `"memories_decayed":0`},
		{"POST", "/undo?lsn=1", "", 410, `not_retained`},
		{"GET", "/stats", "", 200, `"memories":1`},
		{"GET", "/stats/by/agent", "", 200, `"agent":"bot"`},
		{"GET", "/stats/since?time=2020-01-01", "", 200, `"whole":`},
		{"POST", "/check", "", 200, `"ok":true`},
		{"POST", "/compact", "", 200, `"disk_bytes_after"`},
		{"POST", "/rebuild/text", "", 200, `"documents":1`},
		{"POST", "/rebuild/shoes", "", 400, `no such index`},
		{"POST", "/embed", "", 200, `"embedded":0`},
		{"GET", "/log?agent=bot&limit=2", "", 200, `"count":2`},
		{"GET", "/facts?user=ada", "", 501, `not_configured`},
		{"POST", "/erase?agent=bot", "", 400, `yes=true`},
		{"POST", "/erase?agent=bot&dry_run=true", "", 200, `"memories":1`},
		{"POST", "/erase?dry_run=true", "", 400, `nobody`},
		{"DELETE", "/agents/bot", "", 400, `yes=true`},
		{"DELETE", "/agents/bot?yes=true", "", 200, `"memories":1`},
		{"POST", "/reset", "", 400, `yes=true`},
		{"POST", "/reset?yes=true", "", 200, `{"deleted":0}`},
		{"GET", "/nothing", "", 404, `"not_found"`},
		{"PUT", "/recall", "", 405, `"method_not_allowed"`},
	} {
		f.want(c.method, c.target, c.body, c.status, c.part)
	}
}

// An export of one server is what another one has after its import.
func TestExportAndImport(t *testing.T) {
	a, b := newFixture(t, false), newFixture(t, false)
	a.want("POST", "/memories", `{"id":"m1","user":"ada","text":"tea"}`, 201, "")
	a.want("PUT", "/kv/k?user=ada", `{"n":1}`, 200, "")
	a.want("POST", "/graph/entities?user=ada", `{"id":"e","type":"t"}`, 201, "")
	lines := a.want("GET", "/export?all_scopes=true", "", 200, `{"type":"end","end":true,"memories":1`)
	b.want("POST", "/import", lines, 200, `"skipped":0`)
	if again := b.want("GET", "/export?all_scopes=true", "", 200, `"end":true`); again != lines {
		t.Errorf("the second export is\n%s\nand the first\n%s", again, lines)
	}
	b.want("POST", "/import?strict=true", "{\"type\":\"memory\"}\n", 400, `line 1`)
	b.want("POST", "/import?into_agent=", "", 400, `into_agent`)
}

// IDs that look like routes, or like a path, are IDs.
func TestIDs(t *testing.T) {
	f := newFixture(t, false)
	for id, escaped := range map[string]string{
		"batch": "batch", "search": "search", "history": "history", "a/b": "a%2Fb", "100%": "100%25", "../x": "..%2Fx", "ü 字": "%C3%BC%20%E5%AD%97", "..": "%2E%2E", "a?b#c": "a%3Fb%23c",
	} {
		body, err := json.Marshal(map[string]string{"id": id, "user": "ada", "text": "the memory " + id})
		testdb.NoError(t, err)
		f.want("POST", "/memories", string(body), 201, `"stored":true`)
		f.want("GET", "/memories/"+escaped+"?user=ada", "", 200, `"text":"the memory `)
		f.want("GET", "/memories/"+escaped+"/history?user=ada", "", 200, `"event":"ADD"`)
		f.want("DELETE", "/memories/"+escaped+"?user=ada", "", 200, `{"deleted":1}`)
	}
}

// leaver is a client that leaves in the midst of an answer.
type leaver struct {
	httptest.ResponseRecorder
	leave context.CancelFunc
	n     int
}

func (l *leaver) Write(b []byte) (int, error) {
	if l.n += len(b); l.n > 100<<10 {
		l.leave()
	}
	return len(b), nil
}

func TestClientLeaves(t *testing.T) {
	f := newFixture(t, false)
	all := make([]memory.Memory, 3000)
	for i := range all {
		all[i] = memory.Memory{Scope: memory.Scope{User: "ada"}, Text: strings.Repeat("tea ", 100)}
	}
	_, err := f.db.Memories().StoreBatch(t.Context(), all, &memory.StoreOptions{NoDedup: true})
	testdb.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w := &leaver{ResponseRecorder: httptest.ResponseRecorder{Body: &bytes.Buffer{}}, leave: cancel}
	f.h.ServeHTTP(w, httptest.NewRequest("GET", base+"/memories?user=ada&all=true", nil).WithContext(ctx))
	if w.n > 300<<10 {
		t.Errorf("%d bytes were written for a client that had left", w.n)
	}
	// A follower ends with its client, too.
	ctx, cancel = context.WithCancel(t.Context())
	w = &leaver{ResponseRecorder: httptest.ResponseRecorder{Body: &bytes.Buffer{}}, leave: cancel}
	f.h.ServeHTTP(w, httptest.NewRequest("GET", base+"/log?all_scopes=true&follow=true", nil).WithContext(ctx))
}

// The document has the routes, all of them and no others, and what it refers to.
func TestOpenAPI(t *testing.T) {
	f := newFixture(t, true)
	_, _, err := f.keys.Add(t.Context(), apikeys.Rights{Admin: true})
	testdb.NoError(t, err)
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, httptest.NewRequest("GET", server.OpenAPIPath, nil))
	var doc struct {
		OpenAPI    string                                `json:"openapi"`
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	testdb.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
	told := map[string]bool{}
	for path, item := range doc.Paths {
		for method := range item {
			told[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, r := range f.s.Routes() {
		if !told[r.Pattern] {
			t.Errorf("the document lacks %s", r.Pattern)
		}
		delete(told, r.Pattern)
	}
	for left := range told {
		t.Errorf("the document has %s, which is no route", left)
	}
	for _, ref := range strings.Split(w.Body.String(), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		if doc.Components.Schemas[name] == nil {
			t.Errorf("the document refers to %s, which it lacks", name)
		}
	}
	for _, key := range []string{`"stored_confidence"`, `"valid_from"`, `"operationId":"get_memdb_v1_memories_id"`} {
		if !strings.Contains(w.Body.String(), key) {
			t.Errorf("the document lacks %s", key)
		}
	}
}
