package dialecttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/agents"
	"github.com/seed-7aedc3ff/memdb/services/server/anthropic"
	"github.com/seed-7aedc3ff/memdb/services/server/functions"
	"github.com/seed-7aedc3ff/memdb/services/server/langgraph"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
	"github.com/seed-7aedc3ff/memdb/services/server/mem0"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// A fetched is a request of a page.
type fetched struct {
	method, path, body string
	status             int
	headers            []string // beside Authorization and Content-Type, each with a value
}

// pageRequests are those of a page, in every dialect; the first is a stream of lines.
var pageRequests = []fetched{
	{"GET", "/memdb/v1/memories?user=ada", "", 200, nil},
	{"POST", "/memdb/v1/memories", `{"user":"ada","text":"tea"}`, 201, []string{"Idempotency-Key"}},
	{"DELETE", "/memdb/v1/memories/none?user=ada", "", 404, nil},
	{"POST", "/v1/memories/", `{"user_id":"ada","messages":"tea"}`, 200, []string{"X-Mem0-Client"}},
	{"POST", "/mcp?user=ada", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200, []string{"Mcp-Protocol-Version"}},
	{"POST", "/v1/memory_stores", `{"name":"x"}`, 200, []string{"Anthropic-Version", "Anthropic-Beta"}},
	{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{"x":1}}`, 204, nil},
	{"POST", "/functions/memory::recall", `{"agentId":"a","query":"tea"}`, 200, nil},
	{"GET", "/api/agents/a/memories", "", 200, nil},
	{"GET", "/nothing/here", "", 404, nil},
	{"GET", "/openapi.json", "", 404, nil},
}

var headerValues = map[string]string{
	"Idempotency-Key": "once", "X-Mem0-Client": "js", "Mcp-Protocol-Version": "2025-06-18", "Anthropic-Version": "2023-06-01", "Anthropic-Beta": "x",
}

// serveFor returns a server of all dialects for the pages of some origins, and its address.
func serveFor(t *testing.T, origins ...string) string {
	t.Helper()
	s := server.New(testdb.New(t, engine.Options{}), server.Options{Origins: origins})
	for _, d := range append(mem0.New(), native.New(), mcp.Dialect(), anthropic.New(nil), langgraph.New(nil), agents.Dialect(), (&functions.Functions{}).Dialect()) {
		s.Mount(d)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h.URL
}

// send sends a request with headers in pairs.
func send(t *testing.T, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testdb.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := http.DefaultClient.Do(r)
	testdb.NoError(t, err)
	_, err = io.Copy(io.Discard, reply.Body)
	testdb.NoError(t, err)
	testdb.NoError(t, reply.Body.Close())
	return reply
}

// list are the members of a header in lower case.
func list(h http.Header, name string) (all []string) {
	for v := range strings.SplitSeq(strings.Join(h.Values(name), ","), ",") {
		all = append(all, strings.ToLower(strings.TrimSpace(v)))
	}
	return all
}

// TestPagesOfOrigins verifies the rules of the Fetch standard for requests of pages with headers of their own: the
// preflight is answered 2xx with the origin, the method and every header; and the answer has the origin, whatever its status,
// and exposes its headers. Pages of other origins get none of it.
func TestPagesOfOrigins(t *testing.T) {
	const page, other = "https://app.example.org", "https://app.example.org.evil.example"
	address := serveFor(t, page)
	for _, f := range pageRequests {
		names := strings.ToLower(strings.Join(slices.Sorted(slices.Values(append([]string{"Authorization", "Content-Type"}, f.headers...))), ","))
		asked := []string{"Access-Control-Request-Method", f.method, "Access-Control-Request-Headers", names, "Access-Control-Request-Private-Network", "true"}
		pre := send(t, "OPTIONS", address+f.path, "", append(asked, "Origin", page)...)
		h := pre.Header
		if pre.StatusCode/100 != 2 || h.Get("Access-Control-Allow-Origin") != page || !slices.Contains(list(h, "Access-Control-Allow-Methods"), strings.ToLower(f.method)) ||
			h.Get("Access-Control-Allow-Private-Network") != "true" || h.Get("Access-Control-Allow-Credentials") != "" || !slices.Contains(list(h, "Vary"), "origin") {
			t.Errorf("preflight of %s %s: %d %v", f.method, f.path, pre.StatusCode, h)
		}
		for name := range strings.SplitSeq(names, ",") {
			if !slices.Contains(list(h, "Access-Control-Allow-Headers"), name) {
				t.Errorf("preflight of %s %s does not allow %s", f.method, f.path, name)
			}
		}
		headers := []string{"Origin", page, "Authorization", "Bearer none", "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
		for _, name := range f.headers {
			headers = append(headers, name, headerValues[name])
		}
		reply := send(t, f.method, address+f.path, f.body, headers...)
		if got := reply.Header.Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != page || reply.StatusCode != f.status {
			t.Errorf("%s %s: %d with the origins %q, want %d", f.method, f.path, reply.StatusCode, got, f.status)
		}
		for _, name := range []string{"x-request-id", "retry-after", "idempotent-replayed", "*"} {
			if !slices.Contains(list(reply.Header, "Access-Control-Expose-Headers"), name) {
				t.Errorf("%s %s does not expose %s", f.method, f.path, name)
			}
		}
		for _, origin := range []string{other, "null", "https://APP.example.org", "http://app.example.org"} {
			pre, reply := send(t, "OPTIONS", address+f.path, "", append(asked, "Origin", origin)...), send(t, f.method, address+f.path, f.body, "Origin", origin)
			if pre.StatusCode != 403 || reply.StatusCode != 403 || pre.Header.Get("Access-Control-Allow-Origin") != "" || reply.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s of %s: %d %v, %d %v", f.method, f.path, origin, pre.StatusCode, pre.Header, reply.StatusCode, reply.Header)
			}
		}
	}
}

// pageScript sends the requests of a page one after the other, and tells the server of the page what it could read.
const pageScript = `<script>
(async () => {
  const out = [];
  for (const f of %s) {
    try {
      const r = await fetch(%q + f.path, {method: f.method, headers: f.headers, body: f.body || undefined});
      out.push({status: r.status, id: r.headers.get("X-Request-Id"), text: (await r.text()).length > 0 || r.status === 204});
    } catch (e) { out.push({error: String(e)}); }
  }
  await fetch("/done", {method: "POST", body: JSON.stringify(out)});
})();
</script>`

// TestPagesInABrowser verifies with Chromium that a page of an allowed origin can use every dialect, and one of another
// origin none. It is skipped where there is no Chromium.
func TestPagesInABrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-headless-shell", "chrome-headless-shell", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil && browser == "" {
			browser = at
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium")
	}
	type read struct {
		Status int    `json:"status"`
		ID     string `json:"id"`
		Text   bool   `json:"text"`
		Error  string `json:"error"`
	}
	type request struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		Body    string            `json:"body"`
		Headers map[string]string `json:"headers"`
	}
	var requests []request
	for _, f := range pageRequests {
		r := request{f.method, f.path, f.body, map[string]string{"Authorization": "Bearer none", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}}
		for _, name := range f.headers {
			r.Headers[name] = headerValues[name]
		}
		requests = append(requests, r)
	}
	script, err := json.Marshal(requests)
	testdb.NoError(t, err)
	done := make(chan []read, 1)
	var address atomic.Value // of the server
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/done" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, pageScript, script, address.Load()) // a browser that has left is not told
			return
		}
		var all []read
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
			t.Error(err)
		}
		done <- all
	}))
	t.Cleanup(pages.Close)
	address.Store(serveFor(t, pages.URL))
	visit := func(url string) []read {
		ctx, cancel := context.WithTimeout(t.Context(), testdb.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), url)
		cmd.WaitDelay = 10 * time.Second
		testdb.NoError(t, cmd.Start())
		defer func() { cancel(); _ = cmd.Wait() }() // it was killed
		select {
		case all := <-done:
			return all
		case <-ctx.Done():
			t.Fatal("the page has not ended")
			return nil
		}
	}
	for i, r := range visit(pages.URL) {
		if f := pageRequests[i]; r.Status != f.status || r.ID == "" || !r.Text {
			t.Errorf("%s %s: %+v, want %d", f.method, f.path, r, f.status)
		}
	}
	for i, r := range visit(strings.Replace(pages.URL, "127.0.0.1", "localhost", 1)) {
		if f := pageRequests[i]; r.Error == "" {
			t.Errorf("%s %s of another origin: %+v", f.method, f.path, r)
		}
	}
}
