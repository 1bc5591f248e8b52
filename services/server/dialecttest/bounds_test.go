package dialecttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/functions"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// TestBoundOfLists verifies that every dialect refuses a list of more than memory.MaxItems, whatever it is of, and takes
// one of that many where it knows the route.
func TestBoundOfLists(t *testing.T) {
	s := newSite(t)
	s.s.Mount(native.New())
	s.s.Mount((&functions.Functions{}).Dialect())
	list := func(n int, of string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(of+",", n), ",") + "]"
	}
	const (
		message = `{"role":"user","content":"tea"}`
		over    = memory.MaxItems + 1
	)
	for _, c := range []struct{ request, body string }{
		{"POST /v1/memories/", `{"user_id":"ada","infer":false,"messages":` + list(over, message) + `}`},
		{"POST /memories", `{"user_id":"ada","messages":` + list(over, message) + `}`},
		{"POST /memdb/v1/memories/batch", `{"memories":` + list(over, `{"text":"tea"}`) + `}`},
		{"PUT /memdb/v1/sessions/r1?user=ada", list(over, message)},
		{"PUT /memdb/v1/sessions/r1?user=ada", strings.Repeat(message+"\n", over)},
		{"POST /functions/memory::store", `{"agentId":"a","content":"tea","tags":` + list(over, `"t"`) + `}`},
		{"PUT /store/items", `{"namespace":["a"],"key":"k","value":{"x":` + list(over, "[]") + `}}`},
		{"POST /mcp?user=ada", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remember","arguments":{"text":"tea","tags":` + list(over, `"t"`) + `}}}`},
		{"POST /v1/memory_stores", `{"name":"x","metadata":{"x":` + list(over, `"t"`) + `}}`},
		{"POST /api/agents/a/memories", `{"content":"tea","tags":` + list(over, `"t"`) + `}`},
	} {
		v := s.ask(413, c.request, c.body)
		if said, err := json.Marshal(v); err != nil || !bytes.Contains(said, fmt.Append(nil, memory.MaxItems)) {
			t.Errorf("%s: %s, %v", c.request, said, err)
		}
	}
	if stats, err := s.db.Stats(t.Context()); err != nil || stats.Memories != 0 {
		t.Errorf("%d memories were stored, %v", stats.Memories, err)
	}
	s.ask(204, "PUT /store/items", `{"namespace":["a"],"key":"k","value":{"vector":`+list(2*memory.MaxItems, "1")+`}}`)
}

// TestBoundOfFilters verifies that a filter that would take too long is refused, also where a part of it does or a recall has
// it, and that one that takes little is answered.
func TestBoundOfFilters(t *testing.T) {
	s := newSite(t)
	s.s = server.New(s.db, server.Options{MaxWork: 1 << 20})
	s.s.Mount(native.New())
	for i := range 3 {
		m := memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("tea ", i), Metadata: map[string]any{"m": strings.Repeat("abcdefg", 10_000)}}
		if _, err := s.db.Memories().Store(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	const (
		pattern = `{"field":"metadata.m","operator":"regex","value":"(?i)(a|b|c|d|e|f|g){1,100}zq$"}`
		base    = "/memdb/v1/"
	)
	nested := `{"OR":[{"NOT":` + pattern + `},{"AND":[` + pattern + `]}]}`
	for _, f := range []string{pattern, nested} {
		query := "?user=ada&filter=" + url.QueryEscape(f)
		for _, c := range []struct{ request, body string }{
			{"GET " + base + "memories" + query, ""},
			{"GET " + base + "count" + query, ""},
			{"POST " + base + "recall", `{"user":"ada","query":"tea","filter":` + f + `}`},
		} {
			v := s.ask(400, c.request, c.body)
			if said, err := json.Marshal(v); err != nil || !bytes.Contains(said, []byte("narrow the scope")) {
				t.Errorf("%s: %s, %v", c.request, said, err)
			}
		}
	}
	s.ask(200, "GET "+base+"count?user=ada&filter="+url.QueryEscape(`{"field":"metadata.m","operator":"regex","value":"zebra.*q"}`), "")
}
