package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// upstream is the other server, which writes what it was asked.
type upstream struct {
	*httptest.Server
	asked   []map[string]json.RawMessage
	headers []http.Header
}

const (
	answerJSON = `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"You like green tea."},"finish_reason":"stop"}]}`
	answerSSE  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"You like \"}}]}\n\n: a comment\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"green tea.\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
)

func newUpstream(t *testing.T) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked := map[string]json.RawMessage{"path": json.RawMessage(fmt.Sprintf("%q", r.URL.Path))}
		if len(body) > 0 {
			if err := json.Unmarshal(body, &asked); err != nil {
				t.Error(err)
			}
		}
		u.asked, u.headers = append(u.asked, asked), append(u.headers, r.Header.Clone())
		w.Header().Set("Openai-Version", "2020-10-01")
		w.Header().Set("X-Request-Id", "upstream")
		switch {
		case strings.Contains(string(body), "fail please"):
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"slow down"}}`)
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
		case strings.Contains(string(body), "break off"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, answerSSE[:150])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			for part := range slices.Chunk([]byte(answerSSE), 17) {
				_, _ = w.Write(part)
				_ = http.NewResponseController(w).Flush()
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answerJSON)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// chatServer is a proxy over a database, with keys of ada and of bob.
func chatServer(t *testing.T, base string) (s *server.Server, db *engine.DB, ada, bob string) {
	t.Helper()
	db = testdb.New(t, engine.Options{})
	keys := testdb.Keys(t, time.Now)
	s = server.New(db, server.Options{Keys: keys})
	s.Mount(New(Options{BaseURL: base + "/v1/", Key: "upstream-key", Tokens: 100}))
	var secrets []string
	for _, user := range []string{"ada", "bob"} {
		secret, _, err := keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: user}}})
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	return s, db, secrets[0], secrets[1]
}

func ask(s *server.Server, key, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func texts(t *testing.T, db *engine.DB, user string) (all []string) {
	t.Helper()
	for _, m := range testdb.List(t, db.Memories(), memory.Scope{User: user}) {
		text := string(m.Role) + ": " + m.Text
		if m.Metadata["partial"] == true {
			text += " …"
		}
		all = append(all, text)
	}
	return all
}

// messages are those that the other server got last.
func (u *upstream) messages(t *testing.T) (all []string) {
	t.Helper()
	var list []message
	if err := json.Unmarshal(u.asked[len(u.asked)-1]["messages"], &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		all = append(all, m.Role+": "+m.text())
	}
	return all
}

// TestTurns: what is known goes along, the answer comes back as it is, and the turn is remembered.
func TestTurns(t *testing.T) {
	u := newUpstream(t)
	s, db, ada, bob := chatServer(t, u.URL)
	w := ask(s, ada, `{"model":"m","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"I like green tea best."}],"temperature":0.5}`)
	if w.Code != 200 || w.Body.String() != answerJSON || w.Header().Get("Openai-Version") != "2020-10-01" || w.Header().Get("X-Upstream-Request-Id") != "upstream" {
		t.Fatal(w.Code, w.Header(), w.Body)
	}
	if got := u.messages(t); len(got) != 2 || string(u.asked[0]["temperature"]) != "0.5" {
		t.Error(got, u.asked[0])
	}
	if h := u.headers[0]; h.Get("Authorization") != "Bearer upstream-key" || strings.Contains(fmt.Sprint(h), ada) {
		t.Error(h)
	}
	want := []string{"user: I like green tea best.", "assistant: You like green tea."}
	if got := texts(t, db, "ada"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// The next conversation knows it, a stream comes as it is, and parts are read.
	w = ask(s, ada, `{"model":"m","stream":true,"messages":[{"role":"developer","content":"Be kind."},{"role":"user","content":[{"type":"text","text":"Which tea do I like?"},{"type":"image_url","image_url":{"url":"data:"}}]}]}`)
	if w.Code != 200 || w.Body.String() != answerSSE || w.Header().Get(NoteHeader) != "added 2" {
		t.Fatal(w.Code, w.Header(), w.Body)
	}
	got := u.messages(t)
	if len(got) != 3 || !strings.HasPrefix(got[1], "developer: ") || !strings.Contains(got[1], "user: I like green tea best.") || got[2] != "user: Which tea do I like?" {
		t.Errorf("%q", got)
	}
	if got := texts(t, db, "ada"); !slices.Contains(got, "user: Which tea do I like?") {
		t.Errorf("%q", got)
	}
	// Another key knows nothing of it.
	ask(s, bob, `{"model":"m","messages":[{"role":"user","content":"Which tea does ada like?"}],"user":"ada"}`)
	if got := u.messages(t); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if got := texts(t, db, "bob"); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestNothingOfFailures: what the other server refuses passes through, and is not remembered; of an
// answer that broke off what came is.
func TestNothingOfFailures(t *testing.T) {
	u := newUpstream(t)
	s, db, ada, _ := chatServer(t, u.URL)
	w := ask(s, ada, `{"messages":[{"role":"user","content":"fail please"}]}`)
	if w.Code != 429 || w.Header().Get("Retry-After") != "7" || !strings.Contains(w.Body.String(), "slow down") || len(texts(t, db, "ada")) != 0 {
		t.Error(w.Code, w.Body, texts(t, db, "ada"))
	}
	ask(s, ada, `{"stream":true,"messages":[{"role":"user","content":"break off"}]}`)
	if got := texts(t, db, "ada"); !slices.Equal(got, []string{"user: break off", "assistant: You like …"}) {
		t.Errorf("%q", got)
	}
	// The answer to the result of a tool belongs to a turn whose question is stored already.
	ask(s, ada, `{"messages":[{"role":"user","content":"what else"},{"role":"assistant","content":null},{"role":"tool","content":"42"}]}`)
	if got := texts(t, db, "ada"); len(got) != 3 || got[2] != "assistant: You like green tea." {
		t.Errorf("%q", got)
	}
	for body, want := range map[string]int{`{}`: 400, `{"messages":[]}`: 400, `{"messages":"x"}`: 400, `[]`: 400, `{`: 400} {
		if w := ask(s, ada, body); w.Code != want || !strings.Contains(w.Body.String(), `"type":"invalid_request_error"`) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := ask(s, "wrong", `{"messages":[{"role":"user","content":"x"}]}`); w.Code != 401 {
		t.Error(w.Code)
	}
	u.Close()
	if w := ask(s, ada, `{"messages":[{"role":"user","content":"x"}]}`); w.Code != 502 || strings.Contains(w.Body.String(), u.URL) {
		t.Error(w.Code, w.Body)
	}
}

// TestRun: a conversation with a name is a session.
func TestRun(t *testing.T) {
	u := newUpstream(t)
	s, db, ada, _ := chatServer(t, u.URL)
	ask(s, ada, `{"messages":[{"role":"user","content":"hello"}]}`, RunHeader, "monday")
	lines := testdb.Lines(t, db, memory.Scope{User: "ada"})
	if all := strings.Join(lines, "\n"); !strings.Contains(all, `"session":"monday"`) || strings.Count(all, `"type":"message"`) != 2 {
		t.Error(all)
	}
}

// TestLeaving: of a client that does not wait for the end, what came is stored.
func TestLeaving(t *testing.T) {
	left := make(chan struct{})
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, answerSSE[:strings.Index(answerSSE, ": a comment")])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // as the proxy asks no more
		close(left)
	}))
	defer u.Close()
	s, db, ada, _ := chatServer(t, u.URL)
	front := httptest.NewServer(s.Handler())
	defer front.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL+"/v1/chat/completions", strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", ada)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(reply.Body, make([]byte, 50)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = reply.Body.Close()
	<-left
	testdb.Soon(t, "the turn is stored", func() bool { return len(texts(t, db, "ada")) == 2 })
	if got := texts(t, db, "ada"); got[1] != "assistant: You like …" {
		t.Errorf("%q", got)
	}
}

// TestReadOnlyKey verifies that a request with a read-only key gets what is known and stores nothing, also of a stream.
func TestReadOnlyKey(t *testing.T) {
	u := newUpstream(t)
	db := testdb.New(t, engine.Options{})
	keys := testdb.Keys(t, time.Now)
	s := server.New(db, server.Options{Keys: keys})
	s.Mount(New(Options{BaseURL: u.URL + "/v1/"}))
	key, _, err := keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: "ada"}}, ReadOnly: true})
	testdb.NoError(t, err)
	_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "prefers tea"}, nil)
	testdb.NoError(t, err)
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"tea?"}]}`, `{"model":"m","stream":true,"messages":[{"role":"user","content":"tea?"}]}`,
	} {
		w := ask(s, key, body, RunHeader, "r1")
		if note := w.Header().Get(NoteHeader); w.Code != 200 || note != "added 1; nothing is remembered: the key is read-only" {
			t.Errorf("%d, %q: %s", w.Code, note, w.Body)
		}
	}
	if got := texts(t, db, "ada"); len(got) != 1 {
		t.Errorf("stored: %q", got)
	}
}
