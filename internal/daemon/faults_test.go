package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ask posts JSON and returns the status of the answer, and the answer.
func ask(t *testing.T, address, key string, header http.Header, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	maps.Copy(r.Header, header)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(b)
}

// TestFaultsOfClients verifies that the server says what is wrong with a request, and not that it has
// failed itself.
func TestFaultsOfClients(t *testing.T) {
	d := start(t, filepath.Join(t.TempDir(), "db"))
	gzipped := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00"
	protocol := func(version string) http.Header {
		h := http.Header{"Accept": {"application/json, text/event-stream"}}
		if version != "" {
			h.Set("Mcp-Protocol-Version", version)
		}
		return h
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, c := range []struct {
		path   string
		header http.Header
		body   string
		status int
		want   string
	}{
		{"/memdb/v1/import", nil, gzipped, 400, "the body cannot be read"},
		{"/memdb/v1/import", http.Header{"Content-Encoding": {"gzip"}}, gzipped, 415, "send it as it is"},
		{"/memdb/v1/memories", http.Header{"Content-Encoding": {"gzip"}}, gzipped, 415, "send it as it is"},
		{"/memdb/v1/import", nil, "{\"type\":\"memory\"\xff}\n", 200, ""}, // a line that is skipped, and counted
		{"/memdb/v1/memories", nil, `{"user":"ada","user":"bob","text":"x"}`, 400, "given twice"},
		{"/v1/memories/", nil, `{"user_id":"ada","messages":[{"role":"user","content":"tea"}],"user_id":"bob"}`, 400, "given twice"},
		{"/v1/memories/", nil, `{"user_id":"ada","messages":[{"role":"user","content":"tea"}],"User_ID":"bob"}`, 400, "given twice"},
		{"/v2/memories/", nil, `{"filters":{"user_id":"ada","user_id":"bob"}}`, 400, "given twice"},
		{"/v1/memories/?user_id=ada&user_id=bob", nil, `{}`, 400, "given twice"},
		{"/v1/memories/?user_id=ada;agent_id=bob", nil, `{}`, 400, "malformed"},
		{"/mcp?user=ada", protocol(""), `{"jsonrpc":"2.0","id":7,"method":"no/such"}`, 200, `"id":7,"error":{"code":-32601`},
		{"/mcp?user=ada", protocol("2025-06-18"), `{"jsonrpc":"2.0","id":"a","method":"no/such","params":{}}`, 200, `"id":"a","error":{"code":-32601`},
		{"/mcp?user=ada", protocol(""), `{"jsonrpc":"2.0","method":"notifications/no/such"}`, 202, ""},
		{"/mcp?user=ada", protocol("1999-01-01"), ping, 400, `"error":{"code":-32600`},
		{"/mcp?user=ada", protocol("2025-06-18"), "[" + ping + "]", 400, `"error":{"code":-32600`},
		{"/mcp?user=ada", protocol("2024-11-05"), " [" + ping + "]", 400, `"error":{"code":-32600`},
		{"/mcp?user=ada", protocol("2025-03-26"), "[" + ping + "]", 200, `"result":{}`},
		{"/mcp?user=ada", nil, ping, 400, `"error":{"code":-32600`},
	} {
		status, said := ask(t, d.address+c.path, "", c.header, c.body)
		if status != c.status || !strings.Contains(said, c.want) {
			t.Errorf("%s %v %q: %d %s, want %d with %q", c.path, c.header, c.body, status, said, c.status, c.want)
		}
	}
	if code, log := d.end(); code != 0 {
		t.Error(code, log)
	}
}

// TestLargeBodies verifies that a client that sends all of a body before it reads, as Python's do, reads
// that the body is too large.
func TestLargeBodies(t *testing.T) {
	d := start(t, filepath.Join(t.TempDir(), "db"))
	const size = 48 << 20
	for name, head := range map[string]string{"of known length": fmt.Sprintf("Content-Length: %d\r\n\r\n", size), "in chunks": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size)} {
		c, err := net.Dial("tcp", strings.TrimPrefix(d.address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(c, "POST /memdb/v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"+head)
		part := bytes.Repeat([]byte(" "), 1<<20)
		for sent := 0; sent < size && err == nil; sent += len(part) {
			_, err = c.Write(part)
		}
		if err == nil && strings.Contains(head, "chunked") {
			_, err = io.WriteString(c, "\r\n0\r\n\r\n")
		}
		if err != nil {
			t.Fatalf("a body %s: %v", name, err)
		}
		w, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("a body %s: %v", name, err)
		}
		if b, err := io.ReadAll(w.Body); w.StatusCode != http.StatusRequestEntityTooLarge || err != nil || !strings.Contains(string(b), "too_large") {
			t.Errorf("a body %s: %d %s, %v", name, w.StatusCode, b, err)
		}
		_ = c.Close()
	}
	if code, log := d.end(); code != 0 {
		t.Error(code, log)
	}
}

// TestLogInJSON verifies that all that memdbd writes with --log json is JSON, also why it ends.
func TestLogInJSON(t *testing.T) {
	var out, log bytes.Buffer
	p := &program{out: &out, err: &log, getenv: func(string) (string, bool) { return "", false }, now: time.Now}
	if code := p.run(t.Context(), []string{"--db", filepath.Join(t.TempDir(), "no", "\x00"), "--listen", "127.0.0.1:0", "--log", "json"}); code == exitDone {
		t.Fatal("it has opened a database in a folder that cannot be")
	}
	lines := 0
	for line := range strings.Lines(out.String() + log.String()) {
		if lines++; !json.Valid([]byte(line)) {
			t.Errorf("%q is no JSON", line)
		}
	}
	if lines == 0 {
		t.Error("it has not said why it ended")
	}
}
