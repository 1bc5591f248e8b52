package anthropic

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/tree"
)

// service is a server with the dialect.
type service struct {
	t  *testing.T
	db *engine.DB
	s  *server.Server
}

func newService(t *testing.T, o server.Options) *service {
	db := testdb.New(t, engine.Options{})
	s := server.New(db, o)
	s.Mount(New(nil))
	return &service{t, db, s}
}

// ask sends a request, wants a status, and returns the answer.
func (s *service) ask(status int, key, method, target, body string) map[string]any {
	s.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	s.s.Handler().ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != status {
		s.t.Fatalf("%s %s %.200s: %d %s, want %d", method, target, body, w.Code, w.Body, status)
	}
	id := w.Header().Get("Request-Id")
	if id == "" || w.Code >= 400 && (answer["type"] != "error" || answer["request_id"] != id) {
		s.t.Errorf("%s %s: %s, request %q", method, target, w.Body, id)
	}
	return answer
}

func (s *service) errorOf(status int, key, method, target, body string) string {
	s.t.Helper()
	e, _ := s.ask(status, key, method, target, body)["error"].(map[string]any)
	kind, _ := e["type"].(string)
	return kind
}

const stores = "/v1/memory_stores"

// TestRefusals: what cannot be done is told in the form of the API.
func TestRefusals(t *testing.T) {
	s := newService(t, server.Options{})
	id := s.ask(200, "", "POST", stores, `{"name":"plans"}`)["id"].(string)
	one := stores + "/" + id
	long := strings.Repeat("x", maxContent+1)
	memoryID := s.ask(200, "", "POST", one+"/memories", `{"path":"/a/b","content":"tea"}`)["id"].(string)
	head := s.ask(200, "", "GET", one+"/memories/"+memoryID, "")["memory_version_id"].(string)
	for _, c := range []struct {
		status               int
		method, target, body string
		want                 string
	}{
		{400, "POST", stores, `{}`, "invalid_request_error"},
		{400, "POST", stores, `{"name":"x","more":1}`, "invalid_request_error"},
		{400, "POST", stores, `{"name":"a\u0000b"}`, "invalid_request_error"},
		{400, "POST", stores, `{"name":"` + strings.Repeat("x", 256) + `"}`, "invalid_request_error"},
		{400, "POST", stores, `{"name":"x","description":"` + strings.Repeat("x", 1025) + `"}`, "invalid_request_error"},
		{400, "POST", stores, `{"name":"x","metadata":{"":"x"}}`, "invalid_request_error"},
		{400, "POST", stores, `{"name":"x"`, "invalid_request_error"},
		{400, "GET", stores + "?limit=0", "", "invalid_request_error"},
		{400, "GET", stores + "?page=%25", "", "invalid_request_error"},
		{400, "GET", stores + "?created_at[gte]=monday", "", "invalid_request_error"},
		{400, "GET", stores + "?include_archived=maybe", "", "invalid_request_error"},
		{404, "GET", stores + "/memstore_none", "", "not_found_error"},
		{404, "GET", stores + "/memories", "", "not_found_error"},
		{404, "GET", stores + "/memstore_..%2F..", "", "not_found_error"},
		{404, "POST", stores + "/memstore_none/memories", `{"path":"/a","content":""}`, "not_found_error"},
		{404, "PUT", stores + "/x/y/z/w", "", "not_found_error"},
		{405, "PUT", one, "", "invalid_request_error"},
		{400, "DELETE", stores + "/" + products.Memories, "", "invalid_request_error"},
		{400, "POST", stores + "/" + products.Memories + "/archive", "", "invalid_request_error"},
		{400, "POST", one + "/memories", `{"path":"/x"}`, "invalid_request_error"},
		{400, "POST", one + "/memories", `{"path":"x","content":""}`, "invalid_request_error"},
		{400, "POST", one + "/memories", `{"path":"/x/../y","content":""}`, "invalid_request_error"},
		{400, "POST", one + "/memories", `{"path":"/x","content":"` + long + `"}`, "invalid_request_error"},
		{400, "POST", one + "/memories?view=all", `{"path":"/x","content":""}`, "invalid_request_error"},
		{409, "POST", one + "/memories", `{"path":"/a/b","content":""}`, "memory_path_conflict_error"},
		{409, "POST", one + "/memories", `{"path":"/a","content":""}`, "memory_path_conflict_error"},
		{409, "POST", one + "/memories", `{"path":"/a/b/c","content":""}`, "memory_path_conflict_error"},
		{409, "POST", one + "/memories/" + memoryID, `{"content":"x","precondition":{"type":"content_sha256","content_sha256":"` + strings.Repeat("0", 64) + `"}}`, codePrecondition},
		{400, "POST", one + "/memories/" + memoryID, `{"content":"x","precondition":{"type":"content_sha256","content_sha256":"ABC"}}`, "invalid_request_error"},
		{400, "POST", one + "/memories/" + memoryID, `{"content":"x","precondition":{"type":"etag"}}`, "invalid_request_error"},
		{409, "DELETE", one + "/memories/" + memoryID + "?expected_content_sha256=" + strings.Repeat("0", 64), "", codePrecondition},
		{404, "GET", one + "/memories/mem_none", "", "not_found_error"},
		{404, "GET", stores + "/" + products.Memories + "/memories/" + memoryID, "", "not_found_error"},
		{404, "GET", one + "/memory_versions/memver_none", "", "not_found_error"},
		{404, "POST", one + "/memory_versions/none/redact", "", "not_found_error"},
		{400, "POST", one + "/memory_versions/" + head + "/redact", "", "invalid_request_error"},
		{400, "GET", one + "/memories?path_prefix=/a", "", "invalid_request_error"},
		{400, "GET", one + "/memories?depth=-1", "", "invalid_request_error"},
		{400, "GET", one + "/memory_versions?operation=read", "", "invalid_request_error"},
	} {
		if got := s.errorOf(c.status, "", c.method, c.target, c.body); got != c.want {
			t.Errorf("%s %s %.100s: %s, want %s", c.method, c.target, c.body, got, c.want)
		}
	}
	// What was refused changed nothing.
	if m := s.ask(200, "", "GET", one+"/memories/"+memoryID, ""); m["content"] != "tea" || m["memory_version_id"] != head {
		t.Error(m)
	}
	// The hash is of no matter where nothing is to change.
	s.ask(200, "", "POST", one+"/memories/"+memoryID, `{"content":"tea","precondition":{"type":"content_sha256","content_sha256":"`+strings.Repeat("0", 64)+`"}}`)
	s.ask(200, "", "POST", one+"/archive", "")
	for _, target := range []string{one, one + "/memories/" + memoryID} {
		if got := s.errorOf(400, "", "POST", target, `{}`); got != "invalid_request_error" {
			t.Error(target, got)
		}
	}
	s.ask(200, "", "DELETE", one+"/memories/"+memoryID, "")
	s.ask(200, "", "DELETE", one, "")
	s.ask(404, "", "GET", one+"/memory_versions", "")
}

// TestIsolation: what another owner has is as what nobody has.
func TestIsolation(t *testing.T) {
	keys := testdb.Keys(t, time.Now)
	s := newService(t, server.Options{Keys: keys})
	secrets := map[string]string{}
	for name, of := range map[string]memory.Scope{"ada": {User: "ada"}, "bob": {User: "bob"}, "adas planner": {User: "ada", Agent: "planner"}, "run": {Run: "r1"}} {
		secret, _, err := keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{of}})
		testdb.NoError(t, err)
		secrets[name] = secret
	}
	ada := secrets["ada"]
	s.errorOf(401, "", "GET", stores, "")
	store := s.ask(200, ada, "POST", stores, `{"name":"plans"}`)["id"].(string)
	one := stores + "/" + store
	made := s.ask(200, ada, "POST", one+"/memories", `{"path":"/a","content":"tea"}`)
	id, version := made["id"].(string), made["memory_version_id"].(string)
	if v := s.ask(200, ada, "GET", one+"/memory_versions/"+version, ""); v["created_by"].(map[string]any)["type"] != "api_actor" {
		t.Error(v)
	}
	_, err := (&tree.Tree{DB: s.db, Owner: scope.Owner{User: "ada"}}).Run(t.Context(), tree.Command{Command: "create", Path: "/memories/b", FileText: "milk"})
	testdb.NoError(t, err)
	if all := s.ask(200, ada, "GET", stores, "")["data"].([]any); len(all) != 2 {
		t.Error(all)
	}
	for _, other := range []string{"bob", "adas planner"} {
		key := secrets[other]
		if all := s.ask(200, key, "GET", stores, "")["data"].([]any); len(all) != 0 {
			t.Errorf("%s sees %v", other, all)
		}
		for _, path := range []string{"", "/memories", "/memories/" + id, "/memory_versions", "/memory_versions/" + version} {
			a, b := s.ask(404, key, "GET", one+path, ""), s.ask(404, key, "GET", stores+"/memstore_none"+path, "")
			if !strings.HasPrefix(a["error"].(map[string]any)["message"].(string), "find the memory store "+store) || !strings.HasPrefix(b["error"].(map[string]any)["message"].(string), "find the memory store memstore_none") {
				t.Error(a, b)
			}
		}
		s.ask(404, key, "POST", one+"/memory_versions/"+version+"/redact", "")
		s.ask(404, key, "DELETE", one, "")
		s.ask(404, key, "GET", stores+"/"+products.Memories+"/memories/"+id, "")
	}
	s.errorOf(403, ada, "GET", stores+"?user=bob", "")
	s.errorOf(403, secrets["run"], "GET", stores, "")
	if m := s.ask(200, ada, "GET", one+"/memories/"+id, ""); m["content"] != "tea" {
		t.Error(m)
	}
}

// TestMemoryTool: what a model writes with the memory tool is in the API, and the other way round.
func TestMemoryTool(t *testing.T) {
	s := newService(t, server.Options{})
	tool := &tree.Tree{DB: s.db, Owner: scope.Owner{User: "default"}}
	_, err := tool.Run(t.Context(), tree.Command{Command: "create", Path: "/memories/a/b", FileText: "tea\n"})
	testdb.NoError(t, err)
	one := stores + "/" + products.Memories
	m := s.ask(200, "", "GET", one+"/memories?view=full", "")["data"].([]any)[0].(map[string]any)
	if m["path"] != "/a/b" || m["content"] != "tea\n" || m["content_size_bytes"] != 4.0 {
		t.Fatal(m)
	}
	s.ask(200, "", "POST", one+"/memories/"+m["id"].(string), `{"content":"milk\n"}`)
	got, err := tool.Run(t.Context(), tree.Command{Command: "view", Path: "/memories/a/b"})
	if err != nil || !strings.Contains(got, "1\tmilk") {
		t.Error(got, err)
	}
}
