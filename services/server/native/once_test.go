package native

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// send sends a request with an ID.
func (f *fixture) send(key, id, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, base+target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Header.Set(api.IdempotencyHeader, id)
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	return w
}

// content is what the database says of its users.
func (f *fixture) content() []string {
	lines := testdb.Lines(f.t, f.db, memory.Scope{})
	for _, m := range testdb.List(f.t, f.db.Memories(), memory.Scope{User: "ada"}) {
		lines = append(lines, m.ID+" "+m.Text)
	}
	return lines
}

// TestIdempotencyKey sends each kind of request that writes twice with one ID: the second one gets the
// first answer, and changes nothing.
func TestIdempotencyKey(t *testing.T) {
	f := newFixture(t, false)
	for i, c := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/memories", `{"id":"m1","user":"ada","text":"tea"}`, 201},
		{"POST", "/memories", `{"user":"ada","text":"coffee"}`, 201},
		{"POST", "/memories?session=monday", `{"user":"ada","text":"hello"}`, 201},
		{"POST", "/memories/batch?no_dedup=true", `{"memories":[{"user":"ada","text":"x"},{"user":"bob","text":"x"}]}`, 200},
		{"PATCH", "/memories/m1?user=ada", `{"text":"green tea"}`, 200},
		{"DELETE", "/memories/m1?user=ada", "", 200},
		{"DELETE", "/memories?user=ada&all=true", "", 200},
		{"POST", "/usage?user=ada", `{"model":"m","prompt_tokens":3,"cost_usd":"0.1"}`, 201},
		{"PUT", "/usage/budgets?user=ada", `{"limit_usd":5}`, 200},
		{"POST", "/sessions/monday/messages?user=ada", `{"role":"user","text":"hi"}`, 201},
		{"POST", "/sessions/monday/close?user=ada", ``, 200},
		{"DELETE", "/sessions/monday?user=ada", ``, 200},
		{"PUT", "/kv/cart?user=ada", `{"tea":2}`, 200},
		{"DELETE", "/kv/cart?user=ada", ``, 200},
		{"POST", "/notes?user=ada", `{"name":"n","content":"a note"}`, 201},
		{"DELETE", "/notes/n?user=ada", ``, 200},
		{"POST", "/graph/entities?user=ada", `{"id":"e","type":"person","name":"Ada"}`, 201},
		{"DELETE", "/graph/entities/e?user=ada", ``, 200},
	} {
		id := "request " + string(rune('a'+i))
		first := f.send("", id, c.method, c.target, c.body)
		if first.Code != c.status || strings.Contains(first.Body.String(), "repeated") {
			t.Fatalf("%s %s: %d %s", c.method, c.target, first.Code, first.Body)
		}
		before := f.content()
		again := f.send("", `"`+id+`"`, c.method, c.target, c.body) // a string as of RFC 8941 is the same ID
		var want, got map[string]any
		testdb.NoError(t, json.Unmarshal(first.Body.Bytes(), &want))
		testdb.NoError(t, json.Unmarshal(again.Body.Bytes(), &got))
		repeated := got["repeated"]
		delete(got, "repeated")
		wantJSON, _ := json.Marshal(want)
		gotJSON, _ := json.Marshal(got)
		if again.Code != c.status || repeated != true || string(gotJSON) != string(wantJSON) || again.Header().Get(api.RepeatedHeader) != "true" ||
			again.Header().Get("Content-Type") != first.Header().Get("Content-Type") {
			t.Errorf("%s %s again: %d %s, first %s", c.method, c.target, again.Code, again.Body, first.Body)
		}
		if after := f.content(); !slices.Equal(after, before) {
			t.Errorf("%s %s again has changed something: %q, before %q", c.method, c.target, after, before)
		}
		if w := f.send("", id, c.method, c.target+"?x=1", c.body); w.Code != 422 || !strings.Contains(w.Body.String(), `"request_id"`) {
			t.Errorf("%s with the ID of another request: %d %s", c.target, w.Code, w.Body)
		}
	}
}

// TestIdempotencyKeyRefused verifies what is refused, and that a request that failed may be sent again.
func TestIdempotencyKeyRefused(t *testing.T) {
	f := newFixture(t, false)
	want := func(w *httptest.ResponseRecorder, status int, part string) {
		t.Helper()
		if w.Code != status || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, status, part)
		}
	}
	memoryBody := `{"id":"m","user":"ada","text":"tea"}`
	for _, id := range []string{"", " ", `"`, `""`, strings.Repeat("x", 513)} {
		want(f.send("", id, "POST", "/memories", memoryBody), 400, `"invalid"`)
	}
	want(f.send("", "r", "POST", "/import", ""), 400, "takes no Idempotency-Key")
	want(f.send("", "r", "GET", "/count?user=ada", ""), 200, `{"count":0}`)
	want(f.send("", "r", "GET", "/count?user=ada", ""), 200, `{"count":0}`)
	// What failed is not kept: the same request does what it asks once it can.
	want(f.send("", "r", "PATCH", "/memories/m?user=ada", `{"text":"coffee"}`), 404, "not_found")
	f.want("POST", "/memories", memoryBody, 201, "")
	want(f.send("", "r", "PATCH", "/memories/m?user=ada", `{"text":"coffee"}`), 200, "coffee")
	want(f.send("", "r", "PATCH", "/memories/m?user=ada", `{"text":"milk"}`), 422, "request_id")
	f.want("DELETE", "/users/ada?yes=true", "", 200, "")
	want(f.send("", "r", "PATCH", "/memories/m?user=ada", `{"text":"coffee"}`), 410, "not_retained")
}

// TestIdempotencyKeyOfClients verifies that the same ID under two keys is two requests, and that one key
// never gets the answer of another one.
func TestIdempotencyKeyOfClients(t *testing.T) {
	f := newFixture(t, true)
	var keys []string
	for _, user := range []string{"ada", "bob"} {
		secret, _, err := f.keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: user}}})
		testdb.NoError(t, err)
		keys = append(keys, secret)
	}
	for i, key := range keys {
		w := f.send(key, "1", "POST", "/memories", `{"text":"tea"}`)
		again := f.send(key, "1", "POST", "/memories", `{"text":"tea"}`)
		if w.Code != 201 || again.Code != 201 || w.Header().Get(api.RepeatedHeader) != "" || again.Header().Get(api.RepeatedHeader) == "" {
			t.Errorf("key %d: %d %s, %d %s", i, w.Code, w.Body, again.Code, again.Body)
		}
	}
	if w := f.send(keys[1], "1", "POST", "/memories", `{"text":"coffee"}`); w.Code != 422 || strings.Contains(w.Body.String(), "tea") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestIdempotencyKeyAtOnce sends a request from many clients at once: it is done once, and all get one
// answer.
func TestIdempotencyKeyAtOnce(t *testing.T) {
	f := newFixture(t, false)
	var mu sync.Mutex
	answers := map[string]int{}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			w := f.send("", "1", "POST", "/usage?user=ada", `{"model":"m","prompt_tokens":3}`)
			mu.Lock()
			defer mu.Unlock()
			answers[strings.Replace(w.Body.String(), `,"repeated":true`, "", 1)]++
		})
	}
	group.Wait()
	if len(answers) != 1 {
		t.Errorf("%v", answers)
	}
	f.want("GET", "/usage/total?user=ada", "", 200, `"records":1`)
}

// lossy loses the first answer to a request that writes, between two nodes.
type lossy struct{ lost atomic.Int32 }

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && reply.StatusCode == 201 && l.lost.Add(1) == 1 {
		_ = reply.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return reply, err
}

// TestShardsOnce verifies that a request whose answer is lost between two nodes is done once: the node
// that was asked sends it again, and so may the client, to any node.
func TestShardsOnce(t *testing.T) {
	w := newWorld(t, 3, 3, false)
	net := &lossy{}
	w.client = &http.Client{Transport: net}
	user := userOf(t, w, 1)
	body := `{"model":"m","prompt_tokens":3}`
	w.want(0, "POST", "/usage?user="+user, body, 503, "unavailable") // without an ID the client has to look
	w.want(0, "GET", "/usage/total?user="+user, "", 200, `"records":1`)
	net.lost.Store(0)
	w.want(0, "POST", "/usage?user="+user, body, 201, `"repeated":true`, api.IdempotencyHeader, "r")
	w.want(2, "POST", "/usage?user="+user, body, 201, `"repeated":true`, api.IdempotencyHeader, "r")
	w.want(1, "POST", "/usage?user="+user, body, 201, `"repeated":true`, api.IdempotencyHeader, "r")
	w.want(0, "GET", "/usage/total?user="+user, "", 200, `"records":2`)
}

// userOf is a user of the shard that a node serves.
func userOf(t *testing.T, w *world, shard int) string {
	t.Helper()
	for c := 'a'; c <= 'z'; c++ {
		if (&member{w: w}).Of(memory.Owner{User: string(c)}) == shard {
			return string(c)
		}
	}
	t.Fatal("no user of the shard")
	return ""
}

// TestIdempotencyKeyDocumented verifies that the document has the header on each route that writes, and on
// no other one.
func TestIdempotencyKeyDocumented(t *testing.T) {
	f := newFixture(t, false)
	b, err := f.s.OpenAPI()
	testdb.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	testdb.NoError(t, json.Unmarshal(b, &doc))
	reads := []string{"post /memdb/v1/recall", "post /memdb/v1/memories/{id}/why", "post /memdb/v1/import"}
	n := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			has := false
			for _, p := range op.Parameters {
				has = has || p.Name == api.IdempotencyHeader && p.In == "header"
			}
			if has {
				n++
			}
			if want := method != "get" && !slices.Contains(reads, method+" "+path); has != want {
				t.Errorf("%s %s: the header is there: %v", method, path, has)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d routes take the header", n)
	}
}
