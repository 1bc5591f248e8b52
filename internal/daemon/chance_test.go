package daemon

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

var chanceRequests = flag.Int("rights.requests", 600, "requests of TestRightsByChance")

// planted are those whose things are in the database of TestRightsByChance. Each text and value has
// the mark of its owner.
var planted = []struct {
	scope memory.Scope
	mark  string
}{
	{memory.Scope{User: "ada"}, "qzwalnut"}, {memory.Scope{User: "ada", Agent: "planner"}, "qzpecan"}, {memory.Scope{User: "bob", Run: "r1"}, "qzalmond"},
	{memory.Scope{User: "bob", Run: "r2"}, "qzhazel"}, {memory.Scope{User: "bob"}, "qzcashew"}, {memory.Scope{Agent: "planner"}, "qzmacadamia"},
	{memory.Scope{Agent: "vault"}, "qzpistachio"}, {memory.Scope{User: "vera", Agent: "vault", Run: "r1"}, "qzbrazil"},
}

// kinds are the kinds of keys: how each is made, and what it sees.
var kinds = []struct {
	name  string
	flags []string
	sees  []memory.Scope
}{
	{"user", []string{"--user", "ada"}, []memory.Scope{{User: "ada"}}},
	{"agent", []string{"--agent", "planner"}, []memory.Scope{{Agent: "planner"}}},
	{"run", []string{"--user", "bob", "--run", "r1"}, []memory.Scope{{User: "bob", Run: "r1"}}},
	{"two scopes", []string{"--scope", `{"user":"bob","run":"r2"}`, "--scope", `{"agent":"planner"}`}, []memory.Scope{{User: "bob", Run: "r2"}, {Agent: "planner"}}},
	{"no key", nil, nil},
	{"unknown key", nil, nil},
	{"admin", []string{"--admin"}, []memory.Scope{{}}},
}

// TestRightsByChance sends requests by keys of every kind over every route, and has the server run
// every command: no answer shows what a key does not see, nothing that it does not see changes, the
// server calls nobody for it, and no answer says that the server failed.
func TestRightsByChance(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newChance(t, rand.New(rand.NewPCG(seed, 1)))
	const phases = 3
	each := *chanceRequests/(phases*len(kinds)) + 1
	for phase := range phases {
		for i := range kinds {
			switch kinds[i].name {
			case "admin": // what an administrator deletes, nobody would see afterwards
				if phase < phases-1 {
					continue
				}
			case "no key", "unknown key":
				if phase > 0 {
					continue
				}
			}
			c.by(i, each)
		}
	}
	t.Logf("%d requests over %d routes, %d commands, statuses %v", c.requests, len(c.routes), c.commands, c.statuses)
	if n := c.calls.Load(); n > 0 {
		t.Errorf("the server has connected %d times to an address of a client", n)
	}
	if code, log := c.d.end(); code != 0 || strings.Contains(log, "panic") {
		t.Error(code, log)
	}
}

// chance is a server and what is asked of it.
type chance struct {
	t      *testing.T
	r      *rand.Rand
	d      *daemon
	files  string
	keys   []string
	routes []server.Route
	names  []string // of commands
	calls  atomic.Int64
	other  string // an address that clients name

	requests, commands int
	statuses           map[int]int
}

func newChance(t *testing.T, r *rand.Rand) *chance {
	t.Helper()
	c := &chance{t: t, r: r, files: t.TempDir(), statuses: map[int]int{}, names: slices.Sorted(maps.Keys(cli.Rights()))}
	c.d = start(t, filepath.Join(t.TempDir(), "db"), "--files", c.files)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c.other = "http://" + l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.calls.Add(1)
			_ = conn.Close()
		}
	}()
	srv := server.New(nil, server.Options{})
	for _, d := range append(dialects(&config.Server{}, nil), (&verbs{}).dialect()) {
		srv.Mount(d)
	}
	c.routes = srv.Routes()
	for _, k := range kinds {
		key := ""
		switch {
		case k.flags != nil:
			key = addKey(t, c.d.dir, k.flags...).Key
		case k.name == "unknown key":
			key = "memdb_unknown"
		}
		c.keys = append(c.keys, key)
	}
	c.plant()
	return c
}

// admin is the key of an administrator.
func (c *chance) admin() string { return c.keys[len(c.keys)-1] }

// plant stores things of each owner.
func (c *chance) plant() {
	c.t.Helper()
	for i, o := range planted {
		who := url.Values{}
		for name, value := range map[string]string{"user": o.scope.User, "agent": o.scope.Agent} {
			if value != "" {
				who.Set(name, value)
			}
		}
		for _, call := range [][3]string{
			{"POST", "/memories", fmt.Sprintf(`{"id":"m%d","user":%q,"agent":%q,"run":%q,"text":"tea %s in Ghent"}`, i, o.scope.User, o.scope.Agent, o.scope.Run, o.mark)},
			{"POST", "/facts?run=" + o.scope.Run + "&" + who.Encode(), fmt.Sprintf(`{"text":"%s likes tea"}`, o.mark)},
			{"PUT", "/kv/k1?" + who.Encode(), fmt.Sprintf("%q", o.mark)},
			{"POST", "/notes?" + who.Encode(), fmt.Sprintf(`{"name":"n1","content":"tea %s"}`, o.mark)},
			{"POST", "/sessions/r1/messages?" + who.Encode(), fmt.Sprintf(`{"text":"tea %s","no_memory":true}`, o.mark)},
			{"POST", "/graph/entities?" + who.Encode(), fmt.Sprintf(`{"id":"e1","type":"t","name":"tea %s"}`, o.mark)},
			{"POST", "/usage?" + who.Encode(), fmt.Sprintf(`{"model":%q,"cost_usd":1}`, o.mark)},
		} {
			if o.scope.Run != "" && !strings.HasPrefix(call[1], "/memories") && !strings.HasPrefix(call[1], "/facts") {
				continue // it belongs to no run
			}
			target := strings.Replace(call[1], "run=&", "", 1)
			if status, body := c.send(c.admin(), call[0], "/memdb/v1"+target, nil, call[2]); status/100 != 2 {
				c.t.Fatalf("%v: %d %s", call, status, body)
			}
		}
	}
}

// send returns the status of an answer, and the answer.
func (c *chance) send(key, method, target string, header http.Header, body string) (int, string) {
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.d.address+target, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	maps.Copy(r.Header, header)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s %s %v %s: %v", method, target, header, body, err)
	}
	b, err := io.ReadAll(w.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, target, err)
	}
	return w.StatusCode, string(b) + fmt.Sprint(w.Header)
}

// by makes requests with a key, and looks afterwards whether what it does not see is as it was.
func (c *chance) by(kind, n int) {
	before := c.unseen(kind)
	for range n {
		if c.r.IntN(4) == 0 {
			c.command(kind)
		} else {
			c.request(kind)
		}
		if c.t.Failed() {
			return
		}
	}
	if after := c.unseen(kind); after != before {
		was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
		for _, line := range was {
			if !slices.Contains(is, line) {
				c.t.Errorf("requests of the kind %s have changed what they do not see: it was %s", kinds[kind].name, line)
			}
		}
		for _, line := range is {
			if !slices.Contains(was, line) {
				c.t.Errorf("requests of the kind %s have changed what they do not see: it is %s", kinds[kind].name, line)
			}
		}
	}
}

// counted is what reading changes, and a background pass.
var counted = regexp.MustCompile(`"(access_count|last_access|accessed_at|accesses|seconds|lsn|decayed_at)":("[^"]*"|[0-9.]+),?`)

// unseen are the lines of an export that a key does not see, and the server's files.
func (c *chance) unseen(kind int) string {
	var lines []string
	if kinds[kind].name != "admin" {
		status, body := c.send(c.admin(), "GET", "/memdb/v1/export?all_scopes=true", nil, "")
		if status != http.StatusOK {
			c.t.Fatal(status, body)
		}
		for line := range strings.Lines(body) {
			var of struct {
				memory.Scope
				Session string `json:"session"` // which is a run
			}
			if json.Unmarshal([]byte(line), &of) != nil || strings.Contains(line, `"type":"end"`) {
				continue
			}
			of.Run = cmp.Or(of.Run, of.Session)
			if !slices.ContainsFunc(kinds[kind].sees, func(s memory.Scope) bool { return scope.Contains(s, of.Scope) }) {
				lines = append(lines, counted.ReplaceAllString(strings.TrimSpace(line), ""))
			}
		}
		there, err := os.ReadDir(c.files)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, f := range there {
			lines = append(lines, f.Name())
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func one[T any](c *chance, of ...T) T { return of[c.r.IntN(len(of))] }

// word is a value for whatever has a name.
func (c *chance) word(name string) string {
	var of []string
	switch l := strings.ToLower(name); {
	case strings.Contains(l, "user"), strings.Contains(l, "entity") && c.r.IntN(2) == 0:
		of = []string{"ada", "bob", "vera", "", "*", "nobody"}
	case strings.Contains(l, "agent"):
		of = []string{"planner", "vault", "", "nobody"}
	case strings.Contains(l, "run"), strings.Contains(l, "session"):
		of = []string{"r1", "r2", "", "r3"}
	case l == "filter":
		of = []string{"user = bob", `{"user":"vera"}`, "agent = vault", "tea", "(", `metadata.x > 3`}
	case strings.Contains(l, "query"), strings.Contains(l, "text"), strings.Contains(l, "content"), strings.Contains(l, "q"):
		of = []string{"tea", "Ghent", "", "likes tea", "\x00", strings.Repeat("tea ", 200)}
	case strings.Contains(l, "id"), strings.Contains(l, "memory"):
		of = []string{"m0", "m1", "m2", "m3", "m6", "m7", "e1", "k1", "n1", "none", ""}
	case strings.Contains(l, "limit"), strings.Contains(l, "top"), strings.Contains(l, "page"), strings.Contains(l, "depth"):
		of = []string{"1", "5", "0", "-1", "10000", "x", "99999999999999999999"}
	case strings.Contains(l, "time"), strings.Contains(l, "since"), strings.Contains(l, "as_of"), strings.Contains(l, "until"), strings.Contains(l, "before"):
		of = []string{"2026-11-01", "2026-11-01T10:00:00Z", "yesterday", "9999-12-31T00:00:00Z"}
	case l == "what", l == "by", l == "index":
		of = []string{"user", "agent", "run", "model", "day", "text", "all"}
	case l == "type":
		of = []string{"user", "agent", "run", "t", "memory"}
	case l == "name":
		of = []string{"n1", "e1", "tea", "graph::query", "mem::remember", "none"}
	default:
		of = []string{"true", "false", "1", "0.5", "a", "k1", "n1", "e1", "m1", "r1", "ada", "/memories/n1", "", "../x", "äß", "\xff"}
	}
	return one(c, of...)
}

// bodyKeys are keys of bodies, of all dialects.
var bodyKeys = []string{
	"user", "agent", "run", "user_id", "agent_id", "run_id", "app_id", "id", "text", "query", "filter", "filters", "limit", "top_k", "messages", "message", "content", "name",
	"key", "value", "namespace", "namespace_prefix", "scopes", "all_scopes", "metadata", "type", "relations", "role", "memory", "memories", "memory_ids", "infer", "upsert",
	"from", "to", "target", "path", "command", "args", "arguments", "method", "params", "jsonrpc", "model", "stream", "items", "data", "graph", "as_of", "kind", "ttl", "file_text",
	"old_str", "new_str", "base_url", "config", "url", "file", "cost_usd", "threshold", "keep_recent", "expires_at", "importance", "limit_usd", "per", "prefix", "source", "target_id",
}

// value is one for a parameter of a query, of its type unless wild.
func (c *chance) value(p server.Param, wild bool) string {
	switch {
	case wild:
	case p.Type == "boolean":
		return one(c, "true", "false")
	case p.Type == "integer":
		return one(c, "1", "2", "5")
	case p.Type == "number":
		return one(c, "0.5", "1")
	}
	return c.word(p.Name)
}

// json is a value by chance.
func (c *chance) json(depth int, name string) any {
	switch n := c.r.IntN(12); {
	case n < 6:
		return strings.ToValidUTF8(c.word(name), "?")
	case n == 6:
		return c.r.IntN(20)
	case n == 7:
		return c.r.IntN(2) == 0
	case n == 8:
		return one[any](c, nil, 1.5, -1, 1e300, c.other)
	case depth == 0:
		return name
	case n == 9:
		return []any{c.json(depth-1, name), c.json(depth-1, name)}
	}
	return c.object(depth - 1)
}

func (c *chance) object(depth int, more ...string) map[string]any {
	o := map[string]any{}
	for range c.r.IntN(5) {
		name := one(c, bodyKeys...)
		o[name] = c.json(depth, name)
	}
	for _, name := range more {
		if c.r.IntN(3) > 0 {
			o[name] = c.json(depth, name)
		}
	}
	return o
}

// bodyKeysOf are the keys of a body as a route describes it.
func bodyKeysOf(body any) []string {
	b, err := json.Marshal(body)
	var o map[string]any
	if err != nil || json.Unmarshal(b, &o) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(o))
}

// pathPart matches a variable part of the pattern of a route.
var pathPart = regexp.MustCompile(`\{[a-z_A-Z]+(\.\.\.)?\}`)

// request makes a request of a route.
func (c *chance) request(kind int) {
	route := one(c, c.routes...)
	method, path, found := strings.Cut(route.Pattern, " ")
	if !found {
		method, path = one(c, "GET", "POST", "DELETE"), method
	}
	if c.r.IntN(30) == 0 {
		method = one(c, "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
	}
	target := pathPart.ReplaceAllStringFunc(strings.TrimSuffix(path, "{$}"), func(part string) string { return url.PathEscape(c.word(strings.Trim(part, "{}."))) })
	q := url.Values{}
	wild := c.r.IntN(2) == 0 // with what the route does not take
	for _, p := range route.Doc.Query {
		if p.Required || c.r.IntN(4) == 0 {
			if p.Name != "follow" { // whose answer does not end
				q.Add(p.Name, c.value(p, wild))
			}
		}
	}
	for range c.r.IntN(3) {
		if !wild {
			break
		}
		name := one(c, "user", "agent", "run", "user_id", "agent_id", "run_id", "all_scopes", "tools", "limit", "yes", "query", "after", "page")
		q.Add(name, c.word(name))
	}
	if q.Encode() != "" {
		target += "?" + q.Encode()
	}
	header := http.Header{}
	if path == "/mcp" {
		header.Set("Accept", "application/json, text/event-stream")
	}
	if c.r.IntN(20) == 0 {
		header.Set("Idempotency-Key", one(c, "a", "b", "\"c\""))
	}
	body := ""
	if wild || method != "GET" {
		body = c.body(route, header, wild)
	}
	c.requests++
	status, said := c.send(c.keys[kind], method, target, header, body)
	c.statuses[status]++
	what := fmt.Sprintf("%s: %s %s %v %.300q", kinds[kind].name, method, target, header, body)
	if status >= 500 && status != http.StatusNotImplemented {
		c.t.Errorf("%s: %d %s", what, status, said)
	}
	c.blind(kind, what, body+target, said)
}

// body is a body by chance, and some of them are no JSON.
func (c *chance) body(route server.Route, header http.Header, wild bool) string {
	var v any = c.object(2, bodyKeysOf(route.Doc.Body)...)
	if documented := bodyKeysOf(route.Doc.Body); !wild && len(documented) > 0 {
		of := map[string]any{}
		for _, name := range documented {
			if c.r.IntN(3) == 0 || slices.Contains([]string{"text", "name", "id", "content", "query", "type", "target", "model", "value"}, name) {
				of[name] = strings.ToValidUTF8(c.word(name), "?")
			}
		}
		v = of
	}
	if strings.HasSuffix(route.Pattern, "/mcp") {
		v = map[string]any{"jsonrpc": "2.0", "id": 1, "method": one(c, "initialize", "tools/list", "tools/call", "no/such", "resources/list", "ping"), "params": map[string]any{
			"name": one(c, "remember", "recall", "forget", "facts", "notes", "graph", "session", "read_graph", "search_nodes", "memory", "create_entities"), "arguments": c.object(2),
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "a", "version": "1"},
		}}
		if c.r.IntN(10) == 0 {
			v = []any{v, v}
			header.Set("Mcp-Protocol-Version", one(c, "2025-03-26", "2025-06-18", "2024-11-05"))
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	text := string(b)
	if !wild {
		return text
	}
	switch c.r.IntN(24) {
	case 0:
		text = text[:c.r.IntN(len(text))]
	case 1:
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(b)
		_ = w.Close()
		text = z.String()
		if c.r.IntN(2) == 0 {
			header.Set("Content-Encoding", "gzip")
		}
	case 2:
		text += "\xff\xfe"
	case 3:
		header.Set("Content-Type", one(c, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "application/x-ndjson", "multipart/form-data", "a/b/c"))
	case 4:
		text = strings.Repeat(`{"a":`, c.r.IntN(200)) + text
	case 5:
		text = ""
	case 6:
		text = one(c, "null", "[]", "1", `"a"`, "[null]", "{}{}", "[[],{}]", text+"\n"+text+"\n")
	case 7:
		text = strings.Replace(text, "{", `{"user":"vera","user":"ada","user_id":"vera",`, 1)
	case 8:
		text = `{"type":"memory","id":"m7","user":"vera","agent":"vault","text":"x"}` + "\n" + text
	}
	return text
}

// flagWords are flags of commands with their values.
var flagWords = []string{
	"--user=ada", "--user=bob", "--user=vera", "--user=", "--agent=planner", "--agent=vault", "--run=r1", "--run=r2", "--all-scopes", "--all", "--yes", "--json",
	"--id=m7", "--id=m3", "--upsert", "--extract", "--name=n1", "--kind=note", "--graph=2", "--scope={\"user\":\"vera\"}", "--queries=q.jsonl", "--filter=user = vera",
	"--config=c.toml", "--llm", "--undo=3", "--dry-run", "--from=1", "--from=arch", "--limit=3", "--db=/", "--salvage", "--messages=-", "--format=json", "--svg=g.svg", "--session=r1",
	"--exact-scope=false", "--accesses", "--as-of=2026-11-01", "--help", "--with-memories", "--again", "--explain", "--no-such-flag", "--force", "--tools=reference",
}

// command has the server run a command line.
func (c *chance) command(kind int) {
	if c.keys[kind] == "" || kinds[kind].name == "unknown key" {
		return // the connection is refused: see TestVerbsOfKeys
	}
	name := one(c, c.names...)
	if name == "mcp" && c.r.IntN(4) > 0 {
		name = "export"
	}
	args := strings.Fields(name)
	if c.r.IntN(4) > 0 {
		args = append(args, arguments[name]...)
	} else {
		args = append(args, c.word("id"))
	}
	for range c.r.IntN(4) {
		args = append(args, one(c, flagWords...))
	}
	client := hostileClient{
		address: c.d.address, key: c.keys[kind],
		files:     map[string]string{"c.toml": "[llm]\nprovider = \"ollama\"\n[llm.config]\nbase_url = \"" + c.other + "\"\nmodel = \"m\"\n", "q.jsonl": `{"query":"tea","user":"vera"}` + "\n"},
		variables: map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": c.other},
	}
	if kinds[kind].name == "admin" { // for whom a server asks any model
		client.variables, client.files["c.toml"] = nil, "[llm]\n"
	}
	c.commands++
	out, told, _ := client.run(c.t, `{"role":"user","content":"tea"}`+"\n", args...)
	if strings.Contains(told, "the server failed") || strings.Contains(told, c.d.dir) || strings.Contains(told, c.files) {
		c.t.Errorf("%s: %q: %s", kinds[kind].name, args, told)
	}
	c.blind(kind, fmt.Sprintf("%s: %q", kinds[kind].name, args), "", out+told)
}

// blind reports an answer that shows what the key does not see.
func (c *chance) blind(kind int, what, asked, said string) {
	if strings.Contains(said, c.d.dir) || strings.Contains(said, c.files) {
		c.t.Errorf("%s: a path of the server: %s", what, said)
	}
	for _, o := range planted {
		sees := slices.ContainsFunc(kinds[kind].sees, func(s memory.Scope) bool { return scope.Contains(s, o.scope) })
		if !sees && strings.Contains(said, o.mark) && !strings.Contains(asked, o.mark) {
			c.t.Errorf("%s shows what is of %+v: %s", what, o.scope, said)
		}
	}
}
