package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

func openDB(t testing.TB) *engine.DB {
	t.Helper()
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// things is a dialect for tests.
func things() *Dialect {
	type thing struct {
		Name string         `json:"name"`
		More map[string]any `json:"more"`
	}
	return &Dialect{
		Name: "things", Prefixes: []string{"/things/"},
		Fail: func(w http.ResponseWriter, _ *http.Request, f *Failure) {
			writeJSON(w, f.Status, map[string]string{"oops": f.Code})
		},
		Routes: []Route{
			{Pattern: "POST /things", Handle: func(c *Call) error {
				var v thing
				if err := c.Decode(&v); err != nil {
					return err
				}
				return c.Reply(http.StatusCreated, v)
			}},
			{Pattern: "GET /things/{id}", Handle: func(c *Call) error {
				m, err := c.Get(memory.Scope{User: c.R.URL.Query().Get("user")}, c.R.PathValue("id"))
				if err != nil {
					return err
				}
				return c.Reply(http.StatusOK, map[string]string{"text": m.Text})
			}},
			{Pattern: "GET /things/{id}/panic", Handle: func(*Call) error { panic("oh") }},
			{Pattern: "GET /things/{id}/secret", Handle: func(*Call) error { return errors.New("the password is tea") }},
			{Pattern: "GET /things/{id}/slow", Handle: func(c *Call) error { <-c.Context().Done(); return c.Context().Err() }},
			{Pattern: "GET /things/{id}/silent", Stream: true, Handle: func(c *Call) error { <-c.Context().Done(); return c.Context().Err() }},
			{Pattern: "GET /things/{id}/stream", Stream: true, Handle: func(c *Call) error {
				l := c.Lines()
				for i := 0; ; i++ {
					if err := errors.Join(l.Write(i), l.Flush()); err != nil {
						return err
					}
				}
			}},
			{Pattern: "PUT /things/{id}/text", Handle: func(c *Call) error {
				of, err := c.Exact(memory.Scope{User: "ada"})
				if err == nil {
					_, err = c.DB.Memories().Store(c.Context(), memory.Memory{ID: c.R.PathValue("id"), Scope: of, Text: "tea"}, nil)
				}
				return err
			}},
			{Pattern: "POST /things/admin", Admin: true, Handle: func(c *Call) error { return c.Reply(http.StatusNoContent, nil) }},
		},
	}
}

func newServer(t testing.TB, o Options) *Server {
	s := New(openDB(t), o)
	s.Mount(things())
	return s
}

// ask sends a request past the network.
func ask(s *Server, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestErrorsAreOfTheDialect(t *testing.T) {
	s := newServer(t, Options{MaxBody: 1000, Timeout: 20 * time.Millisecond, Silence: 20 * time.Millisecond})
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for _, c := range []struct {
		method, target, body string
		headers              []string
		status               int
		want                 string
	}{
		{"POST", "/things", `{"name":"tea"}`, nil, 201, `"name":"tea"`},
		{"POST", "/things", `{"name":"tea","other":1}`, nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", `{"name":"tea","name":"milk"}`, nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", `{"name":1}`, nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", `{"name":"tea"`, nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", `{"name":"tea"} {}`, nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", "", nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", "{\"name\":\"\xff\"}", nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", `{"more":{"a":` + deep + `}}`, nil, 400, `{"oops":"invalid"}`},
		{"POST", "/things", `{"name":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, `{"oops":"too_large"}`},
		{"POST", "/things", `{}`, []string{"Content-Type", "text/plain"}, 415, `{"oops":"unsupported_media_type"}`},
		{"POST", "/things", `{}`, []string{"Content-Type", "application/json; charset=latin1"}, 415, `{"oops":"unsupported_media_type"}`},
		{"POST", "/things", `{}`, []string{"Content-Type", "application/json; charset=UTF-8"}, 201, `"name"`},
		{"PUT", "/things/a", "", nil, 405, `{"oops":"method_not_allowed"}`},
		{"GET", "/things/a", "", nil, 404, `{"oops":"not_found"}`},
		{"GET", "/things/a%2Fb%25", "", nil, 404, `{"oops":"not_found"}`},
		{"GET", "/things/../../etc/passwd", "", nil, 404, `{"oops":"not_found"}`},
		{"GET", "/things/a/b/c/d", "", nil, 404, `{"oops":"not_found"}`},
		{"GET", "/elsewhere", "", nil, 404, `"code":"not_found"`},
		{"GET", "/things/a/panic", "", nil, 500, `{"oops":"internal"}`},
		{"GET", "/things/a/secret", "", nil, 500, `{"oops":"internal"}`},
		{"GET", "/things/a/slow", "", nil, 504, `{"oops":"deadline"}`},
		{"GET", "/things/a/silent", "", nil, 504, `{"oops":"deadline"}`},
		{"GET", "/healthz", "", nil, 200, `"ok"`},
		{"GET", "/readyz", "", nil, 200, `"ready"`},
		{"GET", "/metrics", "", nil, 200, "memdbd_requests_total{dialect=\"things\",status=\"404\"}"},
		{"POST", "/things", `{}`, []string{"Origin", "https://evil.example"}, 403, `{"oops":"denied"}`},
		{"POST", "/things", `{}`, []string{"Origin", "http://example.com"}, 201, `"name"`},
	} {
		w := ask(s, c.method, c.target, c.body, c.headers...)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || w.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s %s %.40q: %d %s, want %d %s", c.method, c.target, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestScopes(t *testing.T) {
	ada := &apikeys.Key{ID: "k", Rights: apikeys.Rights{Scopes: []memory.Scope{{User: "ada", Agent: "planner"}, {Run: "r1"}}}}
	for _, c := range []struct {
		asked memory.Scope
		want  string
	}{
		{memory.Scope{}, "[{ada planner } {  r1}]"},
		{memory.Scope{User: "ada"}, "[{ada planner } {ada  r1}]"},
		{memory.Scope{User: "bob"}, "[{bob  r1}]"},
		{memory.Scope{User: "bob", Run: "r2"}, "denied"},
		{memory.Scope{Run: "r2"}, "[{ada planner r2}]"},
	} {
		got, err := (&Call{Key: ada}).Scopes(c.asked)
		told := fmt.Sprint(got)
		if err != nil {
			told = Fault(err).Code
		}
		if told != c.want {
			t.Errorf("%+v: %s, want %s", c.asked, told, c.want)
		}
	}
	nested := &apikeys.Key{ID: "k", Rights: apikeys.Rights{Scopes: []memory.Scope{{User: "bob", Run: "r1"}, {User: "bob"}, {User: "bob"}}}}
	for _, asked := range []memory.Scope{{}, {User: "bob"}, {Run: "r1"}, {Run: "r2"}} {
		if s, err := (&Call{Key: nested}).Scope(asked); err != nil || s != (memory.Scope{User: "bob", Run: asked.Run}) {
			t.Errorf("%+v: %+v, %v", asked, s, err)
		}
	}
	if _, err := (&Call{Key: ada}).Scope(memory.Scope{}); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
	if _, err := (&Call{Key: ada}).Owner(scope.Owner{User: "bob"}); Fault(err).Code != "denied" {
		t.Error(err)
	}
	if s, err := (&Call{}).Scopes(memory.Scope{}); err != nil || len(s) != 1 {
		t.Error(s, err)
	}
}

func TestRates(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := newServer(t, Options{Rate: 2, Burst: 3, Clock: func() time.Time { return now }})
	for range 3 {
		if w := ask(s, "GET", "/things/a", ""); w.Code != 404 {
			t.Fatal(w.Code)
		}
	}
	if w := ask(s, "GET", "/things/a", ""); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Fatal(w.Code, w.Header())
	}
	if w := ask(s, "GET", "/healthz", ""); w.Code != 200 {
		t.Fatal(w.Code)
	}
	now = now.Add(500 * time.Millisecond)
	if w := ask(s, "GET", "/things/a", ""); w.Code != 404 {
		t.Fatal(w.Code)
	}
}

// serveTest has a server listen, and returns its address and what ends it.
func serveTest(t *testing.T, s *Server) (addr string, end func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(cancel)
	return "http://" + l.Addr().String(), func() error { cancel(); return <-ended }
}

// TestServe: hosts are checked, a stream ends with the server, and so does a request.
func TestServe(t *testing.T) {
	k := testdb.Keys(t, time.Now)
	secret, _ := addKey(t, k, apikeys.Rights{Admin: true})
	s := newServer(t, Options{Keys: k, Hosts: []string{"memdb.example"}})
	addr, end := serveTest(t, s)
	for host, want := range map[string]int{"": 404, "localhost": 404, "[::1]:80": 404, "memdb.example": 404, "evil.example": 403, "127.0.0.1.evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", addr+"/things/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("X-Api-Key", secret)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = reply.Body.Close(); reply.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, reply.StatusCode, want)
		}
	}
	reply := getStream(t, addr, secret)
	if _, err := io.ReadFull(reply.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cut := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, reply.Body)
		cut <- err
	}()
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := <-cut; err == nil {
		t.Error("a stream that was cut off looks whole")
	}
}

// TestSlow: a client that is slow is not waited for, neither one that sends nor one that reads.
func TestSlow(t *testing.T) {
	s := newServer(t, Options{Timeout: 50 * time.Millisecond})
	addr, end := serveTest(t, s)
	for _, head := range []string{"POST /things HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", "PUT /elsewhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", "GET /things/a/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(addr, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, head); err != nil {
			t.Fatal(err)
		}
	}
	for s.counts.connections.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	for deadline := time.Now().Add(time.Minute); s.counts.connections.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are still waited for", s.counts.connections.Load())
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestLogHasNoSecret: of a request neither key, nor query, nor ID, nor body.
func TestLogHasNoSecret(t *testing.T) {
	var log bytes.Buffer
	k := testdb.Keys(t, time.Now)
	s := newServer(t, Options{Keys: k, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	ada, _ := addKey(t, k, apikeys.Rights{Scopes: []memory.Scope{{User: "ada"}}})
	ask(s, "GET", "/things/hidden?user=hidden", "", "X-Api-Key", ada)
	ask(s, "POST", "/things", `{"name":"hidden"}`, "Authorization", "Bearer "+ada)
	ask(s, "POST", "/things", `{"hidden":1}`, "Authorization", "Bearer hidden")
	ask(s, "GET", "/hidden", "")
	if strings.Contains(log.String(), "hidden") || strings.Contains(log.String(), ada) {
		t.Error(log.String())
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 4 {
		t.Fatal(lines)
	}
	var entry map[string]any
	if err := json.Unmarshal([]byte(lines[1]), &entry); err != nil || entry["route"] != "POST /things" || entry["status"] != 201.0 {
		t.Error(entry, err)
	}
}
