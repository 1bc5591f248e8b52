package langgraph

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

type service struct {
	t     *testing.T
	clock *testdb.Clock
	s     *server.Server
}

func newService(t *testing.T, keys *apikeys.Keys) *service {
	clock := testdb.NewClock()
	s := server.New(testdb.New(t, engine.Options{Clock: clock.Now}), server.Options{Keys: keys, Clock: clock.Now})
	s.Mount(New(nil))
	return &service{t, clock, s}
}

// ask sends a request, wants a status, and returns the answer.
func (s *service) ask(status int, key, method, target, body string) string {
	s.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	s.s.Handler().ServeHTTP(w, r)
	if w.Code != status || w.Code >= 400 && !strings.HasPrefix(w.Body.String(), `{"detail":"`) {
		s.t.Fatalf("%s %s %.200s: %d %s, want %d", method, target, body, w.Code, w.Body, status)
	}
	return w.Body.String()
}

// keysOf are the namespaces and keys of an answer, in its order.
func (s *service) keysOf(answer string) string {
	s.t.Helper()
	var of struct {
		Items []struct {
			Namespace []string
			Key       string
			Score     *float64
		}
	}
	testdb.NoError(s.t, json.Unmarshal([]byte(answer), &of))
	var told []string
	for _, i := range of.Items {
		scored := ""
		if i.Score != nil {
			scored = " scored"
		}
		told = append(told, strings.Join(i.Namespace, ".")+"/"+i.Key+scored)
	}
	return strings.Join(told, ", ")
}

func TestStore(t *testing.T) {
	s := newService(t, nil)
	put := func(body string) {
		t.Helper()
		s.clock.Advance(time.Second)
		s.ask(204, "", "PUT", "/store/items", body)
	}
	put(`{"namespace":["users","ada"],"key":"k1","value":{"text":"prefers tea","n":2,"big":12345678901234567,"tags":["x"]}}`)
	put(`{"namespace":["users","ada","work"],"key":"k1","value":{"text":"drinks tea at work","n":3},"index":["text"]}`)
	put(`{"namespace":["users","bob"],"key":"k1","value":{"text":"tea and milk","n":4},"index":false}`)
	put(`{"namespace":["usersx"],"key":"k2","value":{"n":"2"}}`)
	put(`{"namespace":["users","ada"],"key":"k1","value":{"text":"prefers green tea","n":2,"big":12345678901234567}}`)
	got := s.ask(200, "", "GET", "/store/items?namespace=users.ada&key=k1", "")
	if !strings.Contains(got, `"big":12345678901234567`) || !strings.Contains(got, "green") || !strings.Contains(got, `"created_at":"2026-03-01T12:00:01Z","updated_at":"2026-03-01T12:00:05Z"`) {
		t.Error(got)
	}
	for body, want := range map[string]string{
		`{}`:                             "users.ada/k1, usersx/k2, users.bob/k1, users.ada.work/k1",
		`{"namespace_prefix":["users"]}`: "users.ada/k1, users.bob/k1, users.ada.work/k1",
		`{"namespace_prefix":["users"],"limit":1,"offset":1}`:                        "users.bob/k1",
		`{"namespace_prefix":["users"],"limit":1,"offset":9}`:                        "",
		`{"namespace_prefix":["users","ada"]}`:                                       "users.ada/k1, users.ada.work/k1",
		`{"namespace_prefix":["users"],"filter":{"n":3}}`:                            "users.ada.work/k1",
		`{"namespace_prefix":["users"],"filter":{"n":{"$gte":3,"$lt":4}}}`:           "users.ada.work/k1",
		`{"filter":{"n":"2"}}`:                                                       "usersx/k2",
		`{"namespace_prefix":["users"],"query":"tea","filter":{"n":{"$ne":3}}}`:      "users.ada/k1 scored",
		`{"namespace_prefix":["users","ada","work"],"query":"who drinks?"}`:          "users.ada.work/k1 scored",
		`{"namespace_prefix":["users"],"query":"green","limit":1,"offset":0}`:        "users.ada/k1 scored",
		`{"namespace_prefix":["nobody"],"query":"tea","refresh_ttl":true}`:           "",
		`{"namespace_prefix":["users"],"query":"","filter":null,"refresh_ttl":null}`: "users.ada/k1, users.bob/k1, users.ada.work/k1",
	} {
		if got := s.keysOf(s.ask(200, "", "POST", "/store/items/search", body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	for body, want := range map[string]string{
		`{}`:                                       `[["users","ada"],["users","ada","work"],["users","bob"],["usersx"]]`,
		`{"prefix":["users"],"max_depth":2}`:       `[["users","ada"],["users","bob"]]`,
		`{"prefix":["users","*","work"]}`:          `[["users","ada","work"]]`,
		`{"suffix":["bob"],"limit":10,"offset":0}`: `[["users","bob"]]`,
		`{"limit":1,"offset":3}`:                   `[["usersx"]]`,
		`{"offset":4}`:                             `[]`,
	} {
		if got := strings.TrimSpace(s.ask(200, "", "POST", "/store/namespaces", body)); got != `{"namespaces":`+want+`}` {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	for range 2 {
		s.ask(204, "", "DELETE", "/store/items", `{"namespace":["users","ada"],"key":"k1"}`)
	}
	s.ask(404, "", "GET", "/store/items?namespace=users.ada&key=k1", "")
}

func TestTTL(t *testing.T) {
	s := newService(t, nil)
	const item, search = "/store/items?namespace=a&key=k", "/store/items/search"
	s.ask(204, "", "PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{"x":1},"ttl":10}`)
	s.clock.Advance(9 * time.Minute)
	s.ask(200, "", "GET", item+"&refresh_ttl=false", "")
	s.ask(200, "", "GET", item, "") // which begins it anew
	s.clock.Advance(9 * time.Minute)
	if got := s.keysOf(s.ask(200, "", "POST", search, `{"refresh_ttl":true}`)); got != "a/k" {
		t.Error(got)
	}
	s.clock.Advance(9 * time.Minute)
	s.ask(200, "", "POST", search, `{"refresh_ttl":false}`)
	s.clock.Advance(2 * time.Minute)
	s.ask(404, "", "GET", item, "")
}

func TestRefusals(t *testing.T) {
	s := newService(t, nil)
	for _, c := range []struct{ method, target, body string }{
		{"PUT", "/store/items", `{"namespace":["a.b"],"key":"k","value":{}}`},
		{"PUT", "/store/items", `{"namespace":[],"key":"k","value":{}}`},
		{"PUT", "/store/items", `{"namespace":["langgraph"],"key":"k","value":{}}`},
		{"PUT", "/store/items", `{"namespace":[""],"key":"k","value":{}}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"","value":{}}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k"}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":[]}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{},"ttl":0}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{},"index":true}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{},"more":1}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{"x":"` + strings.Repeat("x", memory.MaxMetadata) + `"}}`},
		{"GET", "/store/items?key=k", ""},
		{"GET", "/store/items?namespace=a..b&key=k", ""},
		{"POST", "/store/items/search", `{"limit":0}`},
		{"POST", "/store/items/search", `{"offset":10000}`},
		{"POST", "/store/items/search", `{"filter":{"n":{"$in":[1]}}}`},
		{"POST", "/store/items/search", `{"filter":{"n":[1]}}`},
		{"POST", "/store/namespaces", `{"max_depth":0}`},
	} {
		s.ask(422, "", c.method, c.target, c.body)
	}
	s.ask(404, "", "GET", "/store/other", "")
	if got := s.keysOf(s.ask(200, "", "POST", "/store/items/search", `{}`)); got != "" {
		t.Errorf("a refused item is stored: %s", got)
	}
}

// TestIsolation: a key sees the items of its scope, and no other one.
func TestIsolation(t *testing.T) {
	keys := testdb.Keys(t, time.Now)
	s := newService(t, keys)
	scopes := []memory.Scope{{User: "ada"}, {User: "ada", Agent: "planner"}, {User: "bob"}, {User: "ada", Run: "r1"}}
	var secrets []string
	for i, of := range scopes {
		secret, _, err := keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{of}})
		testdb.NoError(t, err)
		secrets = append(secrets, secret)
		s.ask(204, secret, "PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{"text":"tea of `+string(rune('0'+i))+`"}}`)
	}
	s.ask(401, "", "GET", "/store/items?namespace=a&key=k", "")
	s.ask(403, secrets[0], "GET", "/store/items?namespace=a&key=k&user=bob", "")
	s.ask(204, secrets[2], "DELETE", "/store/items", `{"namespace":["a"],"key":"k"}`)
	for i, secret := range secrets[:2] {
		want := "tea of " + string(rune('0'+i))
		if got := s.ask(200, secret, "GET", "/store/items?namespace=a&key=k", ""); !strings.Contains(got, want) {
			t.Error(got)
		}
		for _, body := range []string{`{}`, `{"query":"tea"}`} {
			if got := s.ask(200, secret, "POST", "/store/items/search", body); strings.Count(got, "tea of") != 1 || !strings.Contains(got, want) {
				t.Errorf("%d: %s", i, got)
			}
		}
	}
	if a, b := s.ask(404, secrets[2], "GET", "/store/items?namespace=a&key=k", ""), s.ask(404, secrets[2], "GET", "/store/items?namespace=x&key=k", ""); a != b {
		t.Errorf("%s, %s", a, b)
	}
}

// TestRecording sends what the official client sent.
func TestRecording(t *testing.T) {
	b, err := os.ReadFile(realdata.Path(t, "specs/langgraph/wire-recording.json"))
	testdb.NoError(t, err)
	var steps []struct {
		Step     string
		Requests []struct {
			Method, URL string
			Body        json.RawMessage
			Response    struct{ Status int }
		}
	}
	testdb.NoError(t, json.Unmarshal(b, &steps))
	s := newService(t, nil)
	n := 0
	for _, step := range steps {
		for _, r := range step.Requests {
			body := string(r.Body)
			if body == "null" {
				body = ""
			}
			s.ask(r.Response.Status, "", r.Method, r.URL, body)
			n++
		}
	}
	if n < 8 {
		t.Errorf("%d requests", n)
	}
}
