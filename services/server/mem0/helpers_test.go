package mem0_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/mem0"
)

// site is a server of the dialects over a database in memory.
type site struct {
	t     testing.TB
	db    *engine.DB
	clock *testdb.Clock
	keys  *apikeys.Keys
	h     http.Handler
}

// newSite makes one; model, unless nil, takes facts out of conversations.
func newSite(t testing.TB, model llm.Client) *site {
	t.Helper()
	s := &site{t: t, clock: testdb.NewClock()}
	db, err := engine.OpenMemory(&engine.Options{Clock: s.clock.Now, MemoryBudget: testdb.Budget})
	testdb.NoError(t, err)
	t.Cleanup(func() { testdb.Close(t, db) })
	s.db = db
	s.keys = testdb.Keys(t, s.clock.Now)
	o := server.Options{Keys: s.keys, Clock: s.clock.Now}
	if model != nil {
		o.Facts, err = facts.New(&facts.Config{DB: db, LLM: model, Graph: true})
		testdb.NoError(t, err)
	}
	srv := server.New(db, o)
	for _, d := range mem0.New() {
		srv.Mount(d)
	}
	s.h = srv.Handler()
	return s
}

// key makes a key for scopes, or one of an administrator.
func (s *site) key(scopes ...memory.Scope) string {
	s.t.Helper()
	secret, _, err := s.keys.Add(s.t.Context(), apikeys.Rights{Scopes: scopes, Admin: len(scopes) == 0})
	testdb.NoError(s.t, err)
	return secret
}

// reply is an answer.
type reply struct {
	status int
	body   string
	note   string
	json   any
}

// ask sends a request with headers in pairs.
func (s *site) ask(method, target, body string, headers ...string) reply {
	s.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	out := reply{status: w.Code, body: w.Body.String(), note: strings.Join(w.Header().Values(mem0.NoteHeader), "; ")}
	if len(strings.TrimSpace(out.body)) > 0 {
		if err := json.Unmarshal([]byte(out.body), &out.json); err != nil {
			s.t.Fatalf("%s %s: the answer is no JSON: %q", method, target, out.body)
		}
	}
	return out
}

// platform is ask by a client of the platform; want is the status.
func (s *site) platform(want int, method, target, body string) reply {
	s.t.Helper()
	return s.want(want, s.ask(method, target, body, "X-Mem0-Client", "mem0-js/3.3.1"), method, target)
}

// plain is ask by a client without a header of mem0.
func (s *site) plain(want int, method, target, body string) reply {
	s.t.Helper()
	return s.want(want, s.ask(method, target, body), method, target)
}

func (s *site) want(status int, r reply, method, target string) reply {
	s.t.Helper()
	if r.status != status {
		s.t.Fatalf("%s %s: status %d, want %d: %s", method, target, r.status, status, r.body)
	}
	return r
}

// at is the value on a path of keys and numbers.
func (r reply) at(path ...any) any {
	v := r.json
	for _, p := range path {
		switch p := p.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// texts are the texts of the memories of an answer, in their order.
func (r reply) texts() []string {
	list, ok := r.json.([]any)
	if !ok {
		list, _ = r.at("results").([]any)
	}
	texts := []string{}
	for _, item := range list {
		object, _ := item.(map[string]any)
		text, _ := object["memory"].(string)
		texts = append(texts, text)
	}
	return texts
}

// add keeps a text as it is, and returns its ID.
func (s *site) add(text string, rest string) string {
	s.t.Helper()
	b, err := json.Marshal(text)
	testdb.NoError(s.t, err)
	r := s.platform(http.StatusOK, "POST", "/v3/memories/add/", `{"messages":[{"role":"user","content":`+string(b)+`}],"infer":false,`+rest+`}`)
	id, _ := r.at("results", 0, "id").(string)
	if id == "" {
		s.t.Fatalf("nothing was added: %s", r.body)
	}
	return id
}
