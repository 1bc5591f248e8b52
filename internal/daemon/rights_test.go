package daemon

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
)

// hostileClient runs command lines in a server as memdbctl does, but keeps to none of its own rules.
type hostileClient struct {
	address, key string
	// files and variables are those of the client.
	files, variables map[string]string
}

// run returns what the command wrote and its exit code.
func (h hostileClient) run(t *testing.T, in string, args ...string) (out, told string, code int) {
	t.Helper()
	c, err := beside.DialURL(t.Context(), h.address, h.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var o, e bytes.Buffer
	code, err = c.Run(t.Context(), &beside.Request{Args: args}, &beside.Terms{
		In: strings.NewReader(in), Out: &o, Err: &e,
		Getenv: func(name string) (string, bool) { return h.variables[name], true },
		Open: func(name string) (io.ReadCloser, error) {
			text, ok := h.files[name]
			if !ok {
				return nil, fmt.Errorf("%s: there is no such file", name)
			}
			return io.NopCloser(strings.NewReader(text)), nil
		},
		Create: func(beside.NewFile) (beside.Writing, error) { return discarded{}, nil },
	})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return o.String(), e.String(), code
}

// discarded is a file of the client that is not kept.
type discarded struct{}

func (discarded) Write(b []byte) (int, error) { return len(b), nil }
func (discarded) End(error) error             { return nil }

// arguments make a command do something.
var arguments = map[string][]string{
	"store": {"Bob's tea"}, "get": {"m1"}, "update": {"m1", "changed"}, "delete": {"m1"}, "recall": {"tea"}, "why": {"m1", "tea"}, "history": {"m1"},
	"kv put": {"k", "1"}, "kv get": {"k"}, "kv delete": {"k"},
	"session append": {"r1", "hello"}, "session show": {"r1"}, "session open": {"r2"}, "session close": {"r1"}, "session archive": {"r1"}, "session delete": {"r1"},
	"session save": {"r1", "-"}, "session compact": {"r1"}, "session repair": {"r1"},
	"note add": {"n", "text"}, "note get": {"n"}, "note rename": {"n", "o"}, "note alias": {"n", "p"}, "note write": {"n", "text"}, "note remove": {"n"}, "note search": {"text"},
	"graph add": {`{"id":"e1","type":"person","name":"Bob"}`}, "graph relate": {"e1", "knows", "e2"}, "graph end": {"e1", "knows", "e2"}, "graph get": {"e1"},
	"graph delete": {"e1"}, "graph query": {"e1"}, "graph find": {"e1"}, "graph path": {"e1", "e2"}, "graph rank": {"e1"}, "graph link": {"e1", "m1"},
	"graph lookup": {"Bob"}, "graph show": {"e1", "--svg", "g.svg"}, "graph merge": {"e1", "e2"}, "graph unmerge": {"e1"}, "graph import": {"-"},
	"usage add": {"--model", "m", "--prompt", "1"}, "usage by": {"model"}, "usage rollup": {"--before", "2020-01-01"}, "usage budget set": {"1"},
	"agent add": {"a"}, "agent get": {"a"}, "agent delete": {"a", "--yes"}, "user show": {"ada"}, "user delete": {"ada", "--yes"}, "erase": {"--user", "ada", "--yes"},
	"fact add": {"I like tea"}, "fact search": {"tea"}, "fact get": {"m1"}, "fact update": {"m1", "changed"}, "fact delete": {"m1"}, "fact history": {"m1"}, "fact reset": {"--yes"},
	"import": {"-"}, "export": {"-"}, "policy set": {"log_ms=1000"}, "backup": {"repo"}, "rescue": {"a", "b"}, "rebuild": {"text"}, "archive": {"arch"},
	"key add": {"--admin"}, "key revoke": {"key_0"}, "key rotate": {"key_0"}, "key clear": {"--yes"},
	"replica": {"rep", "--from", "arch"}, "replica promote": {"rep"}, "embed": {"--config", "c.toml"}, "reembed": {"--config", "c.toml"}, "reset": {"--yes"},
	"plot growth": {"--svg", "g.svg"}, "plot latency": {"--svg", "g.svg"}, "plot ageing": {"--svg", "g.svg"}, "plot graph": {"e1", "--svg", "g.svg"}, "plot session": {"r1", "--svg", "g.svg"},
	"__complete": {"get", ""}, "__completeNoDesc": {"get", ""},
	"backup list": {"repo"}, "backup verify": {"repo"}, "backup prune": {"repo"}, "restore": {"repo"}, "convert": {"a", "b"}, "analyze": {"tea"},
	"cluster move": {"0", "n"}, "cluster drain": {"n"}, "cluster import": {"-"}, "cluster export": {"-"},
}

// TestRightsOfKeys runs every command in a server with every kind of key: what the table of rights
// does not give to a key is refused, and changes neither the database nor the server's files.
func TestRightsOfKeys(t *testing.T) {
	files := t.TempDir()
	d := start(t, filepath.Join(t.TempDir(), "db"), "--files", files)
	user, agent, run := addKey(t, d.dir, "--user", "bob"), addKey(t, d.dir, "--agent", "planner"), addKey(t, d.dir, "--user", "bob", "--run", "r1")
	root := hostileClient{address: d.address, key: addKey(t, d.dir, "--admin").Key}
	if _, told, code := root.run(t, "", "store", "Zeppelin", "--user", "ada", "--run", "r1", "--id", "a1"); code != 0 {
		t.Fatal(told)
	}
	if _, told, code := root.run(t, "", "archive", "arch"); code != 0 {
		t.Fatal(told)
	}
	state := func() string {
		out, told, code := root.run(t, "", "export", "-")
		if code != 0 {
			t.Fatal(told)
		}
		var there []string
		for _, f := range must(os.ReadDir(files))(t) {
			there = append(there, f.Name())
		}
		return strings.Join(there, " ") + "\n" + out
	}
	for _, k := range []struct {
		kind string
		of   keyJSON
	}{{"user", user}, {"agent", agent}, {"run", run}} {
		client := hostileClient{address: d.address, key: k.of.Key}
		run := func(refused bool) {
			for _, name := range slices.Sorted(maps.Keys(cli.Rights())) {
				right := cli.Rights()[name]
				if refused != (right >= cli.AdminRead || right == cli.OnClient) {
					continue
				}
				args := append(strings.Fields(name), arguments[name]...)
				if name == "memdbctl" {
					args = []string{"--version"}
				}
				out, told, code := client.run(t, "", args...)
				switch {
				case strings.Contains(out+told, "Zeppelin"):
					t.Errorf("%s key, %s: leak: %s%s", k.kind, name, out, told)
				case refused && (code == 0 || out != "" || !strings.Contains(told, "is not for this") && !strings.Contains(told, "a server does not run it")):
					t.Errorf("%s key, %s (%v): exit %d, %s%s", k.kind, name, right, code, out, told)
				case !refused && strings.Contains(told, "takes a key of an administrator"):
					t.Errorf("%s key, %s (%v): %s", k.kind, name, right, told)
				}
			}
		}
		before := state()
		run(true)
		if after := state(); after != before {
			t.Errorf("refused commands of the %s key have changed the database or the files: %s, before %s", k.kind, after, before)
		}
		run(false)
		wide := [][]string{
			{"list", "--all-scopes"},
			{"recall", "Zeppelin", "--scope", `{"user":"ada"}`},
			{"recall", "--queries", "q.jsonl"},
			{"evict", "--undo", "1"},
			{"consolidate", "--undo", "1"},
			{"get", "a1", "--user", "ada"},
			{"replica", "rep", "--from", "arch", "--follow"},
			{"no-such-command"},
			{"replica", "no-such-command", "--from", "arch"},
		}
		if k.kind != "agent" { // for whom it is what the agent has of this user
			wide = append(wide, []string{"list", "--user", "ada"}, []string{"export", "-", "--user", "ada"}, []string{"log", "tail", "--user", "ada"})
		}
		for _, args := range wide {
			if out, told, code := client.run(t, "", args...); code == 0 || strings.Contains(out, "Zeppelin") {
				t.Errorf("%s key, %v: exit %d, %s%s", k.kind, args, code, out, told)
			}
		}
	}
	// The key of a run learns nothing of the other runs of its owner.
	if _, told, code := root.run(t, "", "store", "Walrus", "--user", "bob", "--run", "r9", "--id", "w1"); code != 0 {
		t.Fatal(told)
	}
	client := hostileClient{address: d.address, key: run.Key}
	for _, args := range [][]string{
		{"store", "x", "--id", "w1"},
		{"store", "x", "--id", "w1", "--upsert"},
		{"store", "x", "--name", "n"},
		{"store", "x", "--kind", "note"},
		{"store", "x", "--extract"},
		{"update", "w1", "--name", "n"},
		{"recall", "Walrus", "--graph", "1"},
		{"graph", "extract"},
	} {
		if out, told, code := client.run(t, "", args...); code == 0 || !strings.Contains(told, "is not for this") {
			t.Errorf("%v: exit %d, %s%s", args, code, out, told)
		}
	}
	if out, told, code := client.run(t, "", "store", "mine", "--json"); code != 0 {
		t.Error(out, told)
	}
	if code, log := d.end(); code != 0 {
		t.Error(code, log)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestModelsOfClients verifies that a server asks a model that a client names only for an
// administrator, or where its own configuration goes.
func TestModelsOfClients(t *testing.T) {
	asked := func() (address string, connections *atomic.Int64) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		connections = new(atomic.Int64)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				connections.Add(1)
				_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 27\r\nConnection: close\r\n\r\n{\"error\":\"the secret word\"}")
				_ = c.Close()
			}
		}()
		return "http://" + l.Addr().String(), connections
	}
	other, others := asked()
	own, owns := asked()
	model := func(part, provider, base string) string {
		return fmt.Sprintf("[%s]\nprovider = %q\n[%s.config]\n%s = %q\n", part, provider, part, map[bool]string{true: "url", false: "base_url"}[provider == "neo4j"], base)
	}
	config := filepath.Join(t.TempDir(), "memdbd.toml")
	if err := os.WriteFile(config, []byte(model("llm", "ollama", own)+"model = \"m\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, filepath.Join(t.TempDir(), "db"), "--config", config)
	client := hostileClient{
		address: d.address, key: addKey(t, d.dir, "--user", "bob").Key,
		files: map[string]string{
			"llm.toml":    model("llm", "ollama", other) + "model = \"m\"\n",
			"openai.toml": model("llm", "openai", other) + "model = \"m\"\napi_key = \"k\"\n",
			"embed.toml":  model("embedder", "ollama", other) + "model = \"m\"\ndimensions = 3\n",
			"local.toml":  "[embedder]\nprovider = \"local\"\n[embedder.config]\nmodel = \"/etc\"\n",
			"graph.toml":  model("graph_store", "neo4j", other) + "password = \"p\"\n",
			"own.toml":    model("llm", "ollama", own) + "model = \"m\"\n",
		},
		variables: map[string]string{},
	}
	if _, told, code := client.run(t, "", "store", "Bob likes tea"); code != 0 {
		t.Fatal(told)
	}
	for range 60 {
		if _, told, code := client.run(t, "", "session", "append", "r1", "hello"); code != 0 {
			t.Fatal(told)
		}
	}
	for _, file := range []string{"llm.toml", "openai.toml", "embed.toml", "local.toml", "graph.toml"} {
		for _, args := range [][]string{
			{"fact", "add", "I like tea"},
			{"fact", "search", "tea"},
			{"fact", "update", "m1", "x"},
			{"fact", "list"},
			{"graph", "extract"},
			{"session", "compact", "r1"},
			{"recall", "tea"},
			{"why", "m1", "tea"},
			{"store", "tea"},
			{"mcp"},
		} {
			out, told, code := client.run(t, "", append(args, "--config", file)...)
			if n := others.Load(); n > 0 || strings.Contains(out+told, "secret word") {
				t.Fatalf("%v with %s: %d connections, exit %d, %s%s", args, file, n, code, out, told)
			}
			uses := slices.Contains([]string{"fact", "graph", "session"}, args[0])
			if uses && (code == 0 || !strings.Contains(told, "it is not one of the server's configuration")) {
				t.Errorf("%v with %s: exit %d, %s%s", args, file, code, out, told)
			}
		}
	}
	maps.Copy(client.variables, map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": other, "NEO4J_URL": other})
	for _, args := range [][]string{{"fact", "add", "I like tea"}, {"session", "compact", "r1", "--llm"}} {
		if out, told, code := client.run(t, "", args...); code == 0 || !strings.Contains(told, "it is not one of the server's configuration") {
			t.Errorf("%v: exit %d, %s%s", args, code, out, told)
		}
	}
	if out, told, code := client.run(t, "", "fact", "list"); code != 0 {
		t.Error(out, told)
	}
	if n := others.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
	// Where the server's own configuration goes, a client's may go, too.
	if out, told, code := client.run(t, "", "session", "compact", "r1", "--config", "own.toml"); code == 0 || owns.Load() == 0 || !strings.Contains(told, "call ollama: it failed") {
		t.Errorf("exit %d, %s%s, %d connections", code, out, told, owns.Load())
	} else if strings.Contains(told, "secret word") || strings.Contains(told, "127.0.0.1") {
		t.Errorf("the client reads what the model or the network said: %s", told)
	}
	// So do the dialects that ask the server's own model.
	for _, call := range [][2]string{
		{"/memdb/v1/facts", `{"text":"I like tea"}`},
		{"/v3/memories/add", `{"user_id":"bob","messages":[{"role":"user","content":"I like tea"}]}`},
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"facts","arguments":{"action":"add","text":"I like tea"}}}`},
	} {
		asked := owns.Load()
		status, said := ask(t, d.address+call[0], client.key, http.Header{"Accept": {"application/json, text/event-stream"}}, call[1])
		if strings.Contains(said, "secret word") || strings.Contains(said, "127.0.0.1") || owns.Load() == asked {
			t.Errorf("%s: %d, %d connections, %s", call[0], status, owns.Load()-asked, said)
		}
	}
	if code, log := d.end(); code != 0 {
		t.Error(code, log)
	}
}
