package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// A toolStep is a call, with the part of a value that "$ID" stands for from the answer before.
type toolStep struct{ tool, args, want, deny string }

func TestMemdbTools(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		c := connect(t, openDB(t), ada, revision, nil)
		id := ""
		for _, s := range []toolStep{
			{"remember", `{"text":"Ada prefers green tea","importance":0.9,"metadata":{"by":"test"}}`, `"stored":true`, ""},
			{"remember", `{"text":"Ada prefers green tea"}`, `"deduplicated":true`, ""},
			{"recall", `{"query":"tea"}`, `"by":"test"`, ""},
			{"recall", `{"query":"tea","kind":"fact"}`, `"memories":[]`, ""},
			{"forget", `{"ids":["$ID","nobody"]}`, `"unknown":["nobody"]`, ""},
			{"recall", `{"query":"tea"}`, `"memories":[]`, ""},
			{"facts", `{"action":"add","text":"I moved to Ghent"}`, `"event":"ADD"`, ""},
			{"facts", `{"action":"update","id":"$ID","text":"I moved to Bruges"}`, "Bruges", ""},
			{"facts", `{"action":"history","id":"$ID"}`, `"before":"I moved to Ghent"`, ""},
			{"facts", `{"action":"search","query":"Bruges"}`, `"score":`, ""},
			{"facts", `{"action":"list"}`, "Bruges", ""},
			{"facts", `{"action":"get","id":"$ID"}`, "Bruges", ""},
			{"facts", `{"action":"delete","id":"$ID"}`, "DELETE", ""},
			{"notes", `{"action":"write","name":"plan","content":"ship on Friday"}`, `"bytes":14`, "ship"},
			{"notes", `{"action":"write","name":"plan","content":"ship on Monday"}`, `"name":"plan"`, ""},
			{"notes", `{"action":"write","name":"other","content":"x"}`, `"name":"other"`, ""},
			{"notes", `{"action":"read","name":"plan"}`, "Monday", ""},
			{"notes", `{"action":"search","query":"monday"}`, "ship on Monday", ""},
			{"notes", `{"action":"rename","name":"plan","to":"release"}`, "release", ""},
			{"notes", `{"action":"list","limit":1}`, `"next":"release"`, ""},
			{"notes", `{"action":"list","limit":1,"after":"release"}`, "other", "next"},
			{"notes", `{"action":"delete","name":"release"}`, `"notes":[]`, ""},
			{"graph", `{"action":"put","id":"ada","name":"Ada Lovelace","type":"person","properties":{"born":1815}}`, `"created":true`, ""},
			{"graph", `{"action":"put","id":"engine","name":"Analytical Engine"}`, `"created":true`, ""},
			{"graph", `{"action":"relate","from":"ada","relation":"wrote_of","to":"engine"}`, `"created":true`, ""},
			{"graph", `{"action":"get","id":"ada"}`, `"relation":"wrote_of"`, ""},
			{"graph", `{"action":"find","name":"lovelace"}`, `"born":1815`, ""},
			{"graph", `{"action":"path","from":"engine","to":"ada"}`, "inverse:wrote_of", ""},
			{"graph", `{"action":"unrelate","from":"ada","relation":"wrote_of","to":"engine"}`, `"entities":[]`, ""},
			{"graph", `{"action":"delete","id":"engine"}`, `"entities":[]`, ""},
			{"session", `{"action":"append","session":"s1","text":"hello"}`, `"messages":1`, ""},
			{"session", `{"action":"append","session":"s1","role":"assistant","text":"hi"}`, `"messages":2`, ""},
			{"session", `{"action":"read","session":"s1"}`, `"text":"hello"`, ""},
			{"session", `{"action":"list"}`, `"session":"s1"`, ""},
		} {
			text, structured, isError := call(t, c, s.tool, json.RawMessage(strings.ReplaceAll(s.args, "$ID", id)))
			if isError || !strings.Contains(text, s.want) || s.deny != "" && strings.Contains(text, s.deny) || structured == nil {
				t.Errorf("%s, %s %s: %s, want %s without %q", revision, s.tool, s.args, text, s.want, s.deny)
			}
			if found := idOf(structured); found != "" {
				id = found
			}
		}
	}
}

// idOf is the first ID of an answer.
func idOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["id"].(string); ok {
			return id
		}
		for _, key := range []string{"memories", "facts"} {
			if id := idOf(v[key]); id != "" {
				return id
			}
		}
	case []any:
		for _, one := range v {
			return idOf(one)
		}
	}
	return ""
}

func TestMemdbToolsRefuse(t *testing.T) {
	c := connect(t, openDB(t), ada, "", nil)
	for _, s := range []struct{ tool, args, want string }{
		{"remember", `{}`, "text"},
		{"remember", `{"text":"x","user":"bob"}`, "user"},
		{"remember", `{"text":5}`, "text"},
		{"remember", `{"text":""}`, "text"},
		{"remember", `{"text":"x","importance":7}`, "importance"},
		{"remember", `{"text":"x","kind":"note"}`, "notes"},
		{"remember", `{"text":"` + strings.Repeat("x", memory.MaxText+1) + `"}`, "split it"},
		{"recall", `{"query":"x","limit":1000}`, "limit"},
		{"recall", `{"query":"x","kind":"dream"}`, "kind"},
		{"recall", `{"query":"x","scope":{"user":"bob"}}`, "scope"},
		{"facts", `{"action":"add"}`, "text is missing"},
		{"facts", `{"action":"reset"}`, "action"},
		{"facts", `{"action":"get","id":"nobody"}`, "search"},
		{"facts", `{"action":"update","id":"nobody","text":"x"}`, "nobody"},
		{"notes", `{"action":"read","name":"nobody"}`, "nobody"},
		{"notes", `{"action":"read"}`, "name is missing"},
		{"notes", `{"action":"list","after":"nobody"}`, "from the beginning"},
		{"graph", `{"action":"get","id":"nobody"}`, "nobody"},
		{"graph", `{"action":"relate","from":"a","relation":"r","to":"b"}`, "a"},
		{"graph", `{"action":"relate","from":"a","to":"b"}`, "relation is missing"},
		{"graph", `{"action":"path","from":"a","to":"b"}`, "find"},
		{"session", `{"action":"read"}`, "session is missing"},
		{"session", `{"action":"read","session":"nobody"}`, "nobody"},
	} {
		if text, _, isError := call(t, c, s.tool, json.RawMessage(s.args)); !isError || !strings.Contains(text, s.want) {
			t.Errorf("%s %.80s: %.300s, want %s", s.tool, s.args, text, s.want)
		}
	}
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "nobody"}); err == nil {
		t.Error("an unknown tool is called")
	}
}

func TestClosedDatabase(t *testing.T) {
	db := openDB(t)
	c := connect(t, db, ada, "", nil)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if text, _, isError := call(t, c, "remember", json.RawMessage(`{"text":"x"}`)); !isError || !strings.Contains(text, "closed") {
		t.Errorf("remember: %s", text)
	}
}

func TestFiles(t *testing.T) {
	db := openDB(t)
	c := connect(t, db, Options{Scope: ada.Scope, Tools: Anthropic}, "", nil)
	for _, s := range []struct {
		args, want string
		isError    bool
	}{
		{`{"command":"create","path":"/memories/a.md","file_text":"tea\n"}`, "a.md", false},
		{`{"command":"view","path":"/memories"}`, "a.md", false},
		{`{"command":"str_replace","path":"/memories/a.md","old_str":"tea","new_str":"coffee"}`, "coffee", false},
		{`{"command":"insert","path":"/memories/a.md","insert_line":0,"insert_text":"milk\n"}`, "", false},
		{`{"command":"rename","old_path":"/memories/a.md","new_path":"/memories/b.md"}`, "b.md", false},
		{`{"command":"view","path":"/memories/b.md"}`, "milk", false},
		{`{"command":"view","path":"/memories/../etc/passwd"}`, "", true},
		{`{"command":"view","path":"/etc/passwd"}`, "", true},
		{`{"command":"view","path":"/memories/nobody"}`, "nobody", true},
		{`{"command":"format","path":"/memories"}`, "command", true},
		{`{"command":"view","path":"/memories","user":"bob"}`, "user", true},
		{`{"path":"/memories"}`, "command", true},
		{`{"command":"delete","path":"/memories/b.md"}`, "", false},
	} {
		if text, _, isError := call(t, c, "memory", json.RawMessage(s.args)); isError != s.isError || !strings.Contains(text, s.want) {
			t.Errorf("%s: %s (error: %v), want %s", s.args, text, isError, s.want)
		}
	}
}

func TestOptionsCheck(t *testing.T) {
	run := memory.Scope{Run: "r"}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{ada, ""},
		{Options{}, "whose memories"},
		{Options{Scope: run}, ""},
		{Options{Scope: run, Tools: Reference}, "scope is a run"},
		{Options{Scope: memory.Scope{User: "ada", Run: "r"}, Tools: Reference, OnlyRun: true}, "scope is a run"},
		{Options{Scope: ada.Scope, Tools: "all"}, "no tools"},
		{Options{Scope: memory.Scope{User: "a\x00"}}, "user"},
	} {
		if err := c.o.Check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	c := connect(t, openDB(t), Options{Scope: run}, "", nil)
	listed, err := c.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 4 {
		t.Errorf("tools of a run: %d, %v", len(listed.Tools), err)
	}
}

// TestServe has lines come in and go out.
func TestServe(t *testing.T) {
	db := openDB(t)
	ask := func(in string, answer bool) string {
		r, w := io.Pipe()
		answers, out := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- errors.Join(Serve(t.Context(), db, ada, r, out), out.Close()) }()
		_, _ = io.WriteString(w, in)
		lines := bufio.NewScanner(answers)
		if answer {
			lines.Scan()
		}
		_ = w.Close()
		if err := <-done; err != nil {
			return lines.Text() + " error: " + err.Error()
		}
		return lines.Text()
	}
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	if out := ask(begin, true); !strings.Contains(out, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("initialize: %s", out)
	}
	if out := ask("", false); out != "" {
		t.Errorf("an input that ends at once: %s", out)
	}
	if out := ask("{]\n", false); !strings.Contains(out, "error") {
		t.Errorf("what is no JSON: %s", out)
	}
}

// bearer sends a key with every request.
type bearer struct{ key string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return http.DefaultTransport.RoundTrip(r)
}

func TestHTTP(t *testing.T) {
	db := openDB(t)
	s := server.New(db, server.Options{})
	s.Mount(Dialect())
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		open := func(query string) *sdk.ClientSession {
			c, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "0"}, nil).Connect(t.Context(),
				&sdk.StreamableClientTransport{Endpoint: web.URL + Path + query, DisableStandaloneSSE: true}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		mine, other, reference := open("?user=ada"), open("?user=bob"), open("?user=ada&tools=reference")
		call(t, mine, "remember", json.RawMessage(`{"text":"the secret of `+revision+`"}`))
		if text, _, _ := call(t, mine, "recall", json.RawMessage(`{"query":"secret"}`)); !strings.Contains(text, revision) {
			t.Errorf("%s: %s", revision, text)
		}
		if text, _, _ := call(t, other, "recall", json.RawMessage(`{"query":"secret"}`)); strings.Contains(text, "secret") {
			t.Errorf("bob sees %s", text)
		}
		if text, _, isError := call(t, reference, "read_graph", nil); isError {
			t.Error(text)
		}
	}
	post := func(query, body string) string {
		r, err := http.Post(web.URL+Path+query, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.Status + " " + string(b)
	}
	for _, c := range []struct{ query, body, want string }{
		{"", `{}`, "400 Bad Request " + `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		{"?user=ada&user=bob", `{}`, "-32600"},
		{"?user=", `{}`, "-32600"},
		{"?owner=ada", `{}`, "owner"},
		{"?user=ada&tools=all", `{}`, "no tools"},
		{"?user=ada", ``, "empty"},
		{"?user=ada", `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "deeper"},
	} {
		if got := post(c.query, c.body); !strings.HasPrefix(got, "400") || !strings.Contains(got, c.want) {
			t.Errorf("%s %.40s: %s, want %s", c.query, c.body, got, c.want)
		}
	}
}

// TestHTTPKeys has keys of two users, and one of a run.
func TestHTTPKeys(t *testing.T) {
	db := openDB(t)
	keys := testdb.Keys(t, time.Now)
	s := server.New(db, server.Options{Keys: keys})
	s.Mount(Dialect())
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	open := func(query string, scopes ...memory.Scope) (*sdk.ClientSession, error) {
		key := "memdb_nobody"
		if len(scopes) > 0 {
			var err error
			if key, _, err = keys.Add(t.Context(), apikeys.Rights{Scopes: scopes}); err != nil {
				t.Fatal(err)
			}
		}
		c, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "0"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
			Endpoint: web.URL + Path + query, DisableStandaloneSSE: true, MaxRetries: -1, HTTPClient: &http.Client{Transport: bearer{key}},
		}, nil)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return c, err
	}
	ada, bob := memory.Scope{User: "ada"}, memory.Scope{User: "bob"}
	mine, err := open("", ada)
	if err != nil {
		t.Fatal(err)
	}
	other, err := open("", bob)
	if err != nil {
		t.Fatal(err)
	}
	_, stored, _ := call(t, mine, "remember", json.RawMessage(`{"text":"the secret"}`))
	own, _, _ := call(t, other, "forget", json.RawMessage(`{"ids":["nobody"]}`))
	foreign, _, _ := call(t, other, "forget", json.RawMessage(`{"ids":["`+idOf(stored)+`"]}`))
	if strings.ReplaceAll(foreign, idOf(stored), "nobody") != own {
		t.Errorf("an ID of another scope: %s, an unknown one: %s", foreign, own)
	}
	if found, _, _ := call(t, mine, "recall", json.RawMessage(`{"query":"secret"}`)); !strings.Contains(found, "secret") {
		t.Errorf("ada lost it: %s", found)
	}
	run, err := open("", memory.Scope{User: "ada", Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if listed, err := run.ListTools(t.Context(), nil); err != nil || len(listed.Tools) != 4 {
		t.Errorf("a key of a run has other tools: %v, %v", listed, err)
	}
	for _, c := range []struct {
		query  string
		scopes []memory.Scope
	}{
		{"?user=ada", []memory.Scope{bob}},
		{"", []memory.Scope{ada, bob}}, // which of the two?
		{"", nil},
		{"?tools=reference", []memory.Scope{{User: "ada", Run: "r"}}},
	} {
		if _, err := open(c.query, c.scopes...); err == nil {
			t.Errorf("%s with a key of %v is let in", c.query, c.scopes)
		}
	}
	if c, err := open("?user=bob", ada, bob); err != nil {
		t.Errorf("one of several scopes: %v", err)
	} else if found, _, _ := call(t, c, "recall", json.RawMessage(`{"query":"secret"}`)); strings.Contains(found, "secret") {
		t.Errorf("bob sees %s", found)
	}
}

// TestCapabilities verifies that a server advertises what it delivers, and nothing else: the lists never change, and a
// change of the graph is told to who subscribed, within a session on the input and output, and over HTTP by the stream
// of the revision 2026-07-28 alone.
func TestCapabilities(t *testing.T) {
	db := openDB(t)
	s := server.New(db, server.Options{})
	s.Mount(Dialect())
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close) // after the clients, whose streams it waits for
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		for _, overHTTP := range []bool{false, true} {
			for _, tools := range Sets() {
				told := make(chan string, 10)
				co := &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { told <- r.Params.URI }}
				open := func() *sdk.ClientSession {
					if !overHTTP {
						return connect(t, db, Options{Scope: ada.Scope, Tools: tools}, revision, co)
					}
					c, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "0"}, co).Connect(t.Context(),
						&sdk.StreamableClientTransport{Endpoint: web.URL + Path + "?user=ada&tools=" + string(tools), DisableStandaloneSSE: true}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = c.Close() })
					return c
				}
				c := open()
				caps := c.InitializeResult().Capabilities
				text, err := json.Marshal(caps)
				delivers := tools == Reference && (!overHTTP || revision == "2026-07-28")
				says := caps.Resources != nil && caps.Resources.Subscribe
				if err != nil || strings.Contains(string(text), "listChanged") || says != delivers || (caps.Resources != nil) != (tools == Reference) || caps.Tools == nil || caps.Prompts != nil {
					t.Errorf("%s, %s, over HTTP %v: %s", revision, tools, overHTTP, text)
				}
				// From 2026-07-28 on the answer to a subscription says what of it was agreed, which may be nothing.
				if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: graphURI}); (err == nil) != (delivers || revision == "2026-07-28") {
					t.Errorf("%s, %s, over HTTP %v: subscribe: %v", revision, tools, overHTTP, err)
				}
				if !delivers {
					continue
				}
				name := revision + " " + strconv.FormatBool(overHTTP)
				call(t, c, "create_entities", json.RawMessage(`{"entities":[{"name":"`+name+`","entityType":"t","observations":[]}]}`))
				select {
				case uri := <-told:
					if uri != graphURI {
						t.Errorf("told of %s", uri)
					}
				case <-time.After(testdb.Patience):
					t.Fatalf("%s, over HTTP %v: nothing is told of a change", revision, overHTTP)
				}
			}
		}
	}
}
