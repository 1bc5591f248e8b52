package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
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

func openKeys(t testing.TB) *Keys {
	t.Helper()
	k, err := OpenKeys(filepath.Join(t.TempDir(), KeysName), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func addKey(t testing.TB, k *Keys, admin bool, scopes ...memory.Scope) (string, Key) {
	t.Helper()
	secret, key, err := k.Add(scopes, admin)
	if err != nil {
		t.Fatal(err)
	}
	return secret, key
}

func TestKeys(t *testing.T) {
	k := openKeys(t)
	s := newServer(t, Options{Keys: k})
	status := func(headers ...string) int { return ask(s, "GET", "/things/m1", "", headers...).Code }
	if got := status(); got != 404 {
		t.Fatalf("without any key: %d", got)
	}
	ada, adaKey := addKey(t, k, false, memory.Scope{User: "ada"})
	bob, _ := addKey(t, k, false, memory.Scope{User: "bob"}, memory.Scope{Agent: "planner"})
	root, _ := addKey(t, k, true)
	for _, user := range []string{"ada", "bob"} {
		if _, err := s.db.Memories().Store(t.Context(), memory.Memory{ID: "of-" + user, Scope: memory.Scope{User: user}, Text: "tea"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		headers []string
		target  string
		want    int
	}{
		{nil, "/things/of-ada", 401},
		{[]string{"Authorization", "Bearer nonsense"}, "/things/of-ada", 401},
		{[]string{"Authorization", "Basic " + ada}, "/things/of-ada", 401},
		{[]string{"Authorization", "Bearer " + ada}, "/things/of-ada", 200},
		{[]string{"Authorization", "Token " + ada}, "/things/of-ada", 200},
		{[]string{"Authorization", "bearer " + ada}, "/things/of-ada", 200},
		{[]string{"X-Api-Key", ada}, "/things/of-ada", 200},
		{[]string{"X-Api-Key", ada}, "/things/of-bob", 404},
		{[]string{"X-Api-Key", ada}, "/things/of-nobody", 404},
		{[]string{"X-Api-Key", ada}, "/things/of-bob?user=bob", 403},
		{[]string{"X-Api-Key", ada}, "/things/of-nobody?user=bob", 403},
		{[]string{"X-Api-Key", bob}, "/things/of-bob", 200},
		{[]string{"X-Api-Key", root}, "/things/of-bob", 200},
		{[]string{"X-Api-Key", root}, "/metrics", 200},
		{[]string{"X-Api-Key", ada}, "/metrics", 403},
		{nil, "/healthz", 200},
	} {
		if got := ask(s, "GET", c.target, "", c.headers...).Code; got != c.want {
			t.Errorf("%s %v: %d, want %d", c.target, c.headers, got, c.want)
		}
	}
	unknown, other := ask(s, "GET", "/things/of-nobody", "", "X-Api-Key", ada), ask(s, "GET", "/things/of-bob", "", "X-Api-Key", ada)
	if unknown.Body.String() != other.Body.String() {
		t.Errorf("an ID of another scope is answered %s, one of nobody %s", other.Body, unknown.Body)
	}
	if _, err := k.Revoke(adaKey.ID); err != nil {
		t.Fatal(err)
	}
	if got := status("X-Api-Key", ada); got != 401 {
		t.Errorf("a revoked key: %d", got)
	}
	if _, err := k.Revoke("key_none"); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	// Another process sees the same, and nothing in the file is a key.
	again, err := OpenKeys(k.path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := again.List(); err != nil || len(all) != 3 || all[0].RevokedAt == nil && all[1].RevokedAt == nil && all[2].RevokedAt == nil {
		t.Errorf("%+v, %v", all, err)
	}
	b, err := os.ReadFile(k.path)
	if err != nil || bytes.Contains(b, []byte(ada)) || bytes.Contains(b, []byte(root)) {
		t.Errorf("the file has a key: %v", err)
	}
	if info, err := os.Stat(k.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// lineStore is a store of keys that says what it is told.
type lineStore struct {
	mu      sync.Mutex
	lines   map[string][]byte
	version uint64
	fails   error
}

func (s *lineStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *lineStore) Version() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.fails
}

func (s *lineStore) Lines() (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.lines)) {
		b = append(append(b, s.lines[name]...), '\n')
	}
	return b
}

func (s *lineStore) Put(_ context.Context, name string, line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		s.version++
		s.lines[name] = line
	}
	return s.fails
}

// TestKeysShared: servers with one store of keys know the same ones, whichever has made or ended them; where it says
// that they may be too old, nobody is let in, and nobody is refused for good.
func TestKeysShared(t *testing.T) {
	store := &lineStore{lines: map[string][]byte{}}
	open := func() (*Keys, *Server) {
		k, err := SharedKeys(store, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return k, newServer(t, Options{Keys: k})
	}
	k, one := open()
	_, two := open()
	if _, err := k.Revoke("key_none"); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	ada, adaKey := addKey(t, k, false, memory.Scope{User: "ada"})
	bob, _ := addKey(t, k, false, memory.Scope{User: "bob"})
	want := func(key string, status int) {
		t.Helper()
		for i, s := range []*Server{one, two} {
			if got := ask(s, "GET", "/things/x", "", "X-Api-Key", key).Code; got != status {
				t.Errorf("server %d: %d, want %d", i, got, status)
			}
		}
	}
	want(ada, 404)
	want("nonsense", 401)
	if _, err := k.Revoke(adaKey.ID); err != nil {
		t.Fatal(err)
	}
	want(ada, 401)
	want(bob, 404)
	store.fail(&memory.Error{Kind: memory.ErrUnavailable, What: "look up a key"})
	want(bob, 503)
	want("nonsense", 503)
	if _, _, err := k.Add(nil, true); !errors.Is(err, memory.ErrUnavailable) {
		t.Error(err)
	}
	store.fail(nil)
	want(bob, 404)
	if _, err := openKeys(t).Import(t.TempDir()); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
}

// TestKeysDamaged: what cannot be read opens nothing.
func TestKeysDamaged(t *testing.T) {
	k := openKeys(t)
	s := newServer(t, Options{Keys: k})
	ada, key := addKey(t, k, false, memory.Scope{User: "ada"})
	if _, err := k.Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, file string
		want       int
	}{
		{"a line that is none", strings.Replace(string(whole), `"revoked_at"`, `revoked_at`, 1), 500},
		{"a hash that is short", strings.Replace(string(whole), `"hash":"`, `"hash":"00`, 1), 500},
		{"a part of a last line", string(whole) + `{"id":"key_x","hash":"0`, 401},
		{"whole again", string(whole), 401},
	} {
		if err := os.WriteFile(k.path, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ask(s, "GET", "/things/x", "", "X-Api-Key", ada).Code; got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	for _, c := range []struct {
		scopes []memory.Scope
		admin  bool
		want   error
	}{{nil, false, memory.ErrScope}, {[]memory.Scope{{User: "a"}}, true, memory.ErrInvalid}, {[]memory.Scope{{}}, false, memory.ErrScope}, {[]memory.Scope{{User: strings.Repeat("x", 513)}}, false, memory.ErrInvalid}} {
		if _, _, err := k.Add(c.scopes, c.admin); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestScopes(t *testing.T) {
	ada := &Key{ID: "k", Scopes: []memory.Scope{{User: "ada", Agent: "planner"}, {Run: "r1"}}}
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
	nested := &Key{ID: "k", Scopes: []memory.Scope{{User: "bob", Run: "r1"}, {User: "bob"}, {User: "bob"}}}
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
	s := newServer(t, Options{Hosts: []string{"memdb.example"}})
	addr, end := serveTest(t, s)
	for host, want := range map[string]int{"": 404, "localhost": 404, "[::1]:80": 404, "memdb.example": 404, "evil.example": 403, "127.0.0.1.evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", addr+"/things/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = reply.Body.Close(); reply.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, reply.StatusCode, want)
		}
	}
	reply, err := http.Get(addr + "/things/a/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
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

// TestServeNeedsKeys: nobody else reaches a server without keys.
func TestServeNeedsKeys(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip(err)
	}
	if err := newServer(t, Options{Keys: openKeys(t)}).Serve(t.Context(), l); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
}

// TestLogHasNoSecret: of a request neither key, nor query, nor ID, nor body.
func TestLogHasNoSecret(t *testing.T) {
	var log bytes.Buffer
	k := openKeys(t)
	s := newServer(t, Options{Keys: k, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	ada, _ := addKey(t, k, false, memory.Scope{User: "ada"})
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
