package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
	"github.com/seed-7aedc3ff/memdb/services/cluster/ram"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// clusterOf are programs that are nodes of one cluster, over a backend in RAM.
func clusterOf(store *ram.Store) *Clustering {
	return &Clustering{Connect: func(context.Context, ClusterOptions) (cluster.Backend, error) { return store.Client(), nil }}
}

// startNode runs memdbd as a node.
func startNode(t *testing.T, store *ram.Store, name string, flags ...string) *daemon {
	t.Helper()
	var log bytes.Buffer
	listening := make(chan string, 1)
	dir := filepath.Join(t.TempDir(), name)
	p := &program{
		out: io.Discard, err: &log, getenv: func(string) (string, bool) { return "", false }, now: time.Now,
		listening: func(a string) { listening <- a }, clustering: clusterOf(store),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	args := append([]string{"--db", dir, "--listen", "127.0.0.1:0", "--log", "json", "--cluster", "ram://", "--node", name, "--shards", "5"}, flags...)
	go func() { ended <- p.run(ctx, args) }()
	d := &daemon{dir: dir, end: func() (int, string) { cancel(); return <-ended, log.String() }}
	select {
	case d.address = <-listening:
	case code := <-ended:
		t.Fatalf("it ended with %d: %s", code, log.String())
	}
	return d
}

// owners waits until every shard has an owner among so many nodes, and returns how many each has.
func owners(t *testing.T, v verb, address string, nodes int) map[string]int {
	t.Helper()
	var last string
	for deadline := time.Now().Add(testdb.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		out, told, code := v.run(t, "--db", address, "cluster", "status", "--json")
		if last = out + told; code != 0 {
			t.Fatal(last)
		}
		counts := map[string]int{}
		for line := range strings.Lines(out) {
			var s cluster.ShardState
			testdb.NoError(t, json.Unmarshal([]byte(line), &s))
			if s.Epoch > 0 {
				counts[s.Owner]++
			}
		}
		all := 0
		for _, n := range counts {
			all += n
		}
		if all == 5 && len(counts) == nodes {
			return counts
		}
	}
	t.Fatal("the shards have no owners: ", last)
	return nil
}

// TestCluster: two nodes are one database for memdbctl and for programs, whichever they ask; shards move,
// and a node that ends loses nothing.
func TestCluster(t *testing.T) {
	store := ram.New(&ram.Options{TTL: 1200 * time.Millisecond})
	files := t.TempDir() // of all nodes
	a, b := startNode(t, store, "a", "--files", files), startNode(t, store, "b", "--files", files)
	here := t.TempDir()
	v := verb{dir: here}
	owners(t, v, a.address, 2)
	const users = 12
	for u := range users {
		at := []string{a.address, b.address}[u%2]
		if out, told, code := v.run(t, "--db", at, "store", fmt.Sprint("tea number ", u), "--user", fmt.Sprint("user", u), "--agent", "planner", "--id", fmt.Sprint("m", u)); code != 0 {
			t.Fatal(out, told)
		}
	}
	for u := range users {
		for _, at := range []string{a.address, b.address} {
			if out, told, code := v.run(t, "--db", at, "recall", "tea", "--user", fmt.Sprint("user", u)); code != 0 || !strings.Contains(out, fmt.Sprint("tea number ", u)) {
				t.Error(at, u, out, told)
			}
		}
	}
	for i, at := range []string{a.address, b.address, a.address} {
		out, told, code := v.run(t, "--db", at, "usage", "add", "--user", "spender", "--model", "m", "--request-id", "r1", "--json")
		if code != 0 || strings.Contains(out, `"repeated":true`) != (i > 0) {
			t.Error(i, out, told, code)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"usage", "total", "--user", "spender", "--json"}, 0, `"records":1`},
		{[]string{"recall", "tea", "--agent", "planner"}, 0, "tea number 7"},
		{[]string{"recall", "number 7", "--all-scopes", "--limit", "1", "--highlight"}, 0, "tea «number» «7»"},
		{[]string{"recall", "tea", "--scope", `{"user":"user3"}`, "--scope", `{"user":"user4"}`, "--json"}, 0, `"id":"m4"`},
		{[]string{"recall", "tea", "--all-scopes", "--filter", `user = 'user5'`}, 0, "tea number 5"},
		{[]string{"recall", "tea", "--user", "user5", "--filter", `user = 'user5'`}, 0, "tea number 5"},
		{[]string{"recall", "tea", "--all-scopes", "--explain"}, exitFailed, "leave"},
		{[]string{"list", "--all-scopes", "--order-by", "created_at", "--limit", "2"}, 0, "tea number 1\n"},
		{[]string{"list", "--agent", "planner", "--all", "--json"}, 0, `"id":"m11"`},
		{[]string{"list", "--all-scopes", "--count", "--filter", "text contains number"}, 0, "12\n"},
		{[]string{"list", "--all-scopes", "--order-by", "importance"}, exitFailed, "created_at"},
		{[]string{"groups", "--all-scopes", "--by", "agent"}, 0, "12"},
		{[]string{"recall", "--queries", "none", "--all-scopes"}, exitUsage, "--user"},
		{[]string{"stats"}, exitUsage, "/shards/0"},
		{[]string{"cluster", "move", "0", "c"}, exitNotFound, "no node named c"},
		{[]string{"cluster", "move", "9", "a"}, exitFailed, "no such shard"},
		{[]string{"cluster", "move", "x", "a"}, exitUsage, "number of a shard"},
		{[]string{"cluster", "verify"}, 0, "shard 4"},
		{[]string{"cluster", "export", "all.jsonl"}, 0, "lines"},
		{[]string{"cluster", "export", "one.jsonl", "--user", "user3"}, 0, "1 lines"},
		{[]string{"cluster", "import", "all.jsonl"}, 0, "unchanged 13"},
		{[]string{"cluster", "export", "past.jsonl", "--user", "user3", "--to-time", "2100-01-01"}, 0, "1 lines"},
		{[]string{"cluster", "export", "before.jsonl", "--user", "user3", "--to-time", "2000-01-01"}, 0, "0 lines"},
		{[]string{"cluster", "export", "-", "--shard", "0", "--to-lsn", "999999"}, exitFailed, "is none yet"},
		{[]string{"cluster", "export", "-", "--to-lsn", "1"}, exitUsage, "--shard"},
		{[]string{"cluster", "export", "-", "--shard", "77", "--to-lsn", "1"}, exitFailed, "the shards are 0 to 4"},
		{[]string{"cluster", "move", "0", "a"}, 0, "owned by a"},
		{[]string{"cluster", "move", "0", "b"}, 0, "owned by b"},
		{[]string{"cluster", "drain", "b"}, 0, "owns no shard"},
	} {
		out, told, code := v.run(t, append([]string{"--db", a.address}, c.args...)...)
		if code != c.code || !strings.Contains(out+told, c.want) {
			t.Errorf("%v: %d, want %d with %q\n%s%s", c.args, code, c.code, c.want, out, told)
		}
	}
	// A shard is backed up as a database is, by its owner, and the backup is one of its own.
	if out, told, code := v.run(t, "--db", b.address+"/shards/0", "backup", "kept"); code != 0 {
		t.Error(out, told)
	}
	if out, told, code := v.run(t, "--db", "restored", "restore", filepath.Join(files, "kept")); code != 0 {
		t.Error(out, told)
	}
	if out, told, code := v.run(t, "--db", "restored", "stats", "--json"); code != 0 || !strings.Contains(out, `"memories"`) {
		t.Error(out, told)
	}
	for _, args := range [][]string{{"kv", "put", "k", "1", "--agent", "of-a-shard"}, {"kv", "get", "k", "--agent", "of-a-shard"}} {
		if out, told, code := v.run(t, append([]string{"--db", b.address}, args...)...); code != 0 {
			t.Errorf("%v: exit %d, %s%s", args, code, out, told)
		}
	}
	holders := 0
	for shard := range 4 {
		if _, _, code := v.run(t, "--db", fmt.Sprintf("%s/shards/%d", b.address, shard), "kv", "get", "k", "--agent", "of-a-shard"); code == 0 {
			holders++
		}
	}
	if holders != 1 {
		t.Errorf("%d shards have a value of one agent", holders)
	}
	if out, told, code := v.run(t, "--db", b.address, "usage", "total"); code != exitUsage || !strings.Contains(told, "/shards/0") {
		t.Errorf("of everyone: exit %d, %s%s", code, out, told)
	}
	if out, told, code := v.run(t, "--db", b.address+"/shards/0", "stats", "--json"); code != 0 || !strings.Contains(out, `"memories"`) {
		t.Error(out, told)
	}
	body := strings.NewReader(`{"agent":"planner","query":"tea","limit":100}`)
	reply, err := http.Post(b.address+"/memdb/v1/recall", "application/json", body)
	testdb.NoError(t, err)
	found, err := io.ReadAll(reply.Body)
	testdb.NoError(t, err)
	if _ = reply.Body.Close(); bytes.Count(found, []byte("tea number")) != users {
		t.Errorf("%s", found)
	}
	reply, err = http.Get(a.address + "/metrics")
	testdb.NoError(t, err)
	figures, err := io.ReadAll(reply.Body)
	testdb.NoError(t, err)
	if _ = reply.Body.Close(); !bytes.Contains(figures, []byte("memdb_shards 5")) || !bytes.Contains(figures, []byte(`memdb_shard_epoch{shard="3"}`)) {
		t.Errorf("%s", figures)
	}
	// What was exported is a database of its own again.
	alone := filepath.Join(here, "alone")
	if out, told, code := v.run(t, "--db", alone, "import", "all.jsonl"); code != 0 || !strings.Contains(out, "stored 13") {
		t.Error(out, told)
	}
	if code, log := b.end(); code != 0 {
		t.Error(code, log)
	}
	owners(t, v, a.address, 1)
	for u := range users {
		if out, told, code := v.run(t, "--db", a.address, "get", fmt.Sprint("m", u), "--user", fmt.Sprint("user", u)); code != 0 || !strings.Contains(out, fmt.Sprint("tea number ", u)) {
			t.Error(u, out, told)
		}
	}
	if code, log := a.end(); code != 0 {
		t.Error(code, log)
	}
}

// keysOf runs a verb of keys on those of a cluster.
func keysOf(t *testing.T, store *ram.Store, code int, args ...string) string {
	t.Helper()
	var out, told bytes.Buffer
	p := &program{out: &out, err: &told, getenv: func(string) (string, bool) { return "", false }, now: time.Now, clustering: clusterOf(store)}
	if got := p.run(t.Context(), append([]string{"key", "--cluster", "ram://", "--json"}, args...)); got != code {
		t.Fatalf("%v: %d, want %d: %s", args, got, code, told.String())
	}
	return out.String() + told.String()
}

// newKey makes a key of a cluster.
func newKey(t *testing.T, store *ram.Store, flags ...string) (k keyJSON) {
	t.Helper()
	testdb.NoError(t, json.Unmarshal([]byte(keysOf(t, store, exitDone, append([]string{"add"}, flags...)...)), &k))
	return k
}

// TestClusterKeys: a key that was made anywhere is known to all nodes, is checked by the node that is asked, holds on
// the one that answers, and is revoked for all.
func TestClusterKeys(t *testing.T) {
	store := ram.New(&ram.Options{TTL: 1200 * time.Millisecond})
	root := newKey(t, store, "--admin") // before there is a node
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	owners(t, verb{key: root.Key}, a.address, 2)
	ada, bob := newKey(t, store, "--user", "ada"), newKey(t, store, "--user", "bob")
	for _, at := range []string{a.address, b.address} {
		testdb.Soon(t, "the keys are known", func() bool {
			_, _, code := (verb{key: bob.Key}).run(t, "--db", at, "list")
			return code == exitDone
		})
	}
	for _, at := range []string{a.address, b.address} {
		for _, c := range []struct {
			key  string
			args []string
			code int
			want string
		}{
			{"", []string{"list", "--user", "ada"}, 1, "MEMDB_KEY"},
			{ada.Key, []string{"store", "Ada's tea", "--id", "m1"}, 0, "m1"},
			{bob.Key, []string{"store", "Bob's milk", "--id", "m2"}, 0, "m2"},
			{ada.Key, []string{"list"}, 0, "Ada's tea"},
			{ada.Key, []string{"get", "m2", "--user", "bob"}, 1, `is not one of user "bob"`},
			{ada.Key, []string{"get", "m2"}, 3, "there is none in this scope"},
			{bob.Key, []string{"list"}, 0, "Bob's milk"},
			{ada.Key, []string{"cluster", "status"}, 1, "administrator"},
			{root.Key, []string{"cluster", "status", "--json"}, 0, `"owner":"a"`},
		} {
			out, told, code := (verb{key: c.key}).run(t, append([]string{"--db", at}, c.args...)...)
			if code != c.code || !strings.Contains(out+told, c.want) || c.key == ada.Key && strings.Contains(out, "Bob") {
				t.Errorf("%s %v: %d, want %d with %q\n%s%s", at, c.args, code, c.code, c.want, out, told)
			}
		}
	}
	keysOf(t, store, exitDone, "revoke", ada.ID)
	for _, at := range []string{a.address, b.address} {
		testdb.Soon(t, "the key is revoked", func() bool {
			_, told, code := (verb{key: ada.Key}).run(t, "--db", at, "list")
			return code == exitFailed && strings.Contains(told, "MEMDB_KEY")
		})
		if out, told, code := (verb{key: bob.Key}).run(t, "--db", at, "list"); code != exitDone {
			t.Error(out, told)
		}
	}
	for _, d := range []*daemon{a, b} {
		if code, log := d.end(); code != 0 || strings.Contains(log, ada.Key) {
			t.Error(code, log)
		}
	}
}

// TestClusterKeysVerbs: the keys of a server go into a cluster, the folder of a node has none, and what is wrong is
// said.
func TestClusterKeysVerbs(t *testing.T) {
	store, alone := ram.New(nil), filepath.Join(t.TempDir(), "db")
	ada, bob := addKey(t, alone, "--user", "ada"), addKey(t, alone, "--user", "bob")
	if out := keysOf(t, store, exitDone, "import", alone); out != "{\"keys\":2}\n" {
		t.Error(out)
	}
	keysOf(t, store, exitDone, "revoke", ada.ID)
	keysOf(t, store, exitDone, "import", alone) // makes nothing good that was revoked
	list := keysOf(t, store, exitDone, "list")
	if strings.Count(list, "\n") != 2 || strings.Count(list, "revoked_at") != 1 || strings.Contains(list, bob.Key) {
		t.Error(list)
	}
	bad := filepath.Join(t.TempDir(), "keys")
	testdb.NoError(t, os.WriteFile(bad, []byte("{\"id\":\"a b\",\"hash\":\""+strings.Repeat("ab", 32)+"\",\"created_at\":\"2026-01-01T00:00:00Z\"}\n"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"import", bad}, exitDamaged, "no ID of a key"},
		{[]string{"import", filepath.Join(bad, "none")}, exitFailed, "import the keys of"},
		{[]string{"import"}, exitUsage, "a file of keys"},
		{[]string{"revoke", "key_none"}, exitNotFound, "key_none"},
		{[]string{"add"}, exitUsage, "user"},
		{[]string{"list", "--cluster", "dev"}, exitUsage, "servers of the logs"},
	} {
		if out := keysOf(t, store, c.code, c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: %s, want %q", c.args, out, c.want)
		}
	}
	node := filepath.Join(t.TempDir(), "node")
	testdb.NoError(t, os.MkdirAll(filepath.Join(node, shardsDir), 0o700))
	testdb.NoError(t, os.WriteFile(filepath.Join(node, "memdbd.keys"), nil, 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"key", "list", "--db", node}, "--cluster URL"},
		{[]string{"--db", node, "--listen", "127.0.0.1:0", "--cluster", "ram://", "--node", "a"}, "key import"},
	} {
		var told bytes.Buffer
		p := &program{out: io.Discard, err: &told, getenv: func(string) (string, bool) { return "", false }, now: time.Now, clustering: clusterOf(store)}
		if code := p.run(t.Context(), c.args); code != exitFailed || !strings.Contains(told.String(), c.want) {
			t.Errorf("%v: %d %s, want %q", c.args, code, told.String(), c.want)
		}
	}
}

// TestClusterPlain: a node asks no other one over plain HTTP that is on another machine, and says which flag allows
// it; what it has itself it answers.
func TestClusterPlain(t *testing.T) {
	store := ram.New(&ram.Options{TTL: 1200 * time.Millisecond})
	a := startNode(t, store, "a")
	b := startNode(t, store, "b", "--insecure", "--address", "http://192.0.2.1:7070")
	testdb.Soon(t, "b owns a shard", func() bool {
		out, _, _ := (verb{}).run(t, "--db", a.address, "cluster", "status", "--json")
		return strings.Contains(out, `"owner":"a"`) && strings.Contains(out, `"owner":"b"`)
	})
	answered, refused := 0, 0
	for u := range 20 {
		reply, err := http.Post(a.address+"/memdb/v1/recall", "application/json", strings.NewReader(fmt.Sprintf(`{"user":"user%d","query":"tea"}`, u)))
		testdb.NoError(t, err)
		told, err := io.ReadAll(reply.Body)
		testdb.NoError(t, err)
		switch _ = reply.Body.Close(); {
		case reply.StatusCode == http.StatusOK:
			answered++
		case reply.StatusCode == http.StatusBadRequest && strings.Contains(string(told), "without encryption") && strings.Contains(string(told), "--insecure"):
			refused++
			if out, told, code := (verb{}).run(t, "--db", a.address, "list", "--user", fmt.Sprint("user", u)); code == 0 || !strings.Contains(told, "--insecure") {
				t.Error(out, told)
			}
		default:
			t.Errorf("%d %s", reply.StatusCode, told)
		}
	}
	if answered == 0 || refused == 0 {
		t.Errorf("%d were answered, and %d refused", answered, refused)
	}
	client := between(nil, false)
	if reply, err := client.Get("http://192.0.2.1:7070/healthz"); err == nil || !strings.Contains(err.Error(), "--insecure") {
		t.Error(reply, err)
	}
	for _, d := range []*daemon{b, a} {
		if code, log := d.end(); code != 0 {
			t.Error(code, log)
		}
	}
}

// TestClusterUsage: what cannot be a node is refused.
func TestClusterUsage(t *testing.T) {
	for _, c := range []struct {
		with *Clustering
		args []string
		code int
		want string
	}{
		{nil, []string{"--cluster", "nats://127.0.0.1:4222", "--node", "a"}, exitUsage, "go -C services/cluster/jetstream build ./cmd/memdbd"},
		{nil, []string{"--node", "a"}, exitUsage, "--cluster"},
		{clusterOf(nil), []string{"--cluster", "nats://127.0.0.1:4222"}, exitUsage, "--node NAME"},
		{clusterOf(nil), []string{"--cluster", "nats://127.0.0.1:4222", "--node", "a", "--listen", "0.0.0.0:0"}, exitUsage, "--address"},
		{clusterOf(nil), []string{"--cluster", "nats://127.0.0.1:4222", "--node", "a", "--address", "here"}, exitUsage, "http://HOST:PORT"},
		{clusterOf(nil), []string{"--cluster", "nats://127.0.0.1:4222", "--node", "a", "--address", "http://a:7070"}, exitUsage, "--insecure"},
		{clusterOf(nil), []string{"--cluster", "nats://127.0.0.1:4222", "--node", "a", "--listen", "192.0.2.1:7070"}, exitUsage, "http://192.0.2.1:7070 without encryption"},
	} {
		var told bytes.Buffer
		p := &program{out: io.Discard, err: &told, getenv: func(string) (string, bool) { return "", false }, now: time.Now, clustering: c.with}
		dir := filepath.Join(t.TempDir(), "db")
		if code := p.run(t.Context(), append(c.args, "--db", dir)); code != c.code || !strings.Contains(told.String(), c.want) {
			t.Errorf("%v: %d %s, want %d with %q", c.args, code, told.String(), c.code, c.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v: the folder was made", c.args)
		}
	}
	dir := filepath.Join(t.TempDir(), "db")
	addKey(t, dir, "--user", "ada") // makes a database
	var told bytes.Buffer
	p := &program{out: io.Discard, err: &told, getenv: func(string) (string, bool) { return "", false }, now: time.Now, clustering: clusterOf(ram.New(nil))}
	if code := p.run(t.Context(), []string{"--db", dir, "--listen", "127.0.0.1:0", "--cluster", "ram://", "--node", "a"}); code != exitFailed || !strings.Contains(told.String(), "cluster import") {
		t.Error(code, told.String())
	}
}

// TestClusterDialects: no route of a dialect fails for want of a database, whatever it is asked, and what
// names a user is answered by any node.
func TestClusterDialects(t *testing.T) {
	store := ram.New(&ram.Options{TTL: 1200 * time.Millisecond})
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	owners(t, verb{}, a.address, 2)
	ask := func(at, method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
		testdb.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		reply, err := http.DefaultClient.Do(r)
		testdb.NoError(t, err)
		defer func() { _ = reply.Body.Close() }()
		out, err := io.ReadAll(reply.Body)
		testdb.NoError(t, err)
		return reply.StatusCode, string(out)
	}
	hole := regexp.MustCompile(`\{[^}]*\}`)
	for _, d := range dialects(&config.Server{}, func(string) (string, bool) { return "", false }) {
		for _, route := range d.Routes {
			method, path, said := strings.Cut(route.Pattern, " ")
			if !said {
				method, path = http.MethodGet, route.Pattern
			}
			for _, query := range []string{"", "?user=ada", "?agent=planner", "?user_id=ada"} {
				if status, out := ask(a.address, method, hole.ReplaceAllString(path, "x")+query, "{}"); status == http.StatusInternalServerError {
					t.Errorf("%s %s%s: %d %s", d.Name, route.Pattern, query, status, out)
				}
			}
		}
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/store/items?user=ada", `{"namespace":["notes"],"key":"k","value":{"text":"tea"}}`, 204, ""},
		{"GET", "/store/items?user=ada&namespace=notes&key=k", "", 200, "tea"},
		{"POST", "/memories", `{"messages":[{"role":"user","content":"likes tea"}],"user_id":"ada","infer":false}`, 200, "tea"},
		{"GET", "/memories?user_id=ada", "", 200, "likes tea"},
		{"GET", "/memories?agent_id=planner", "", 400, "name the user"},
		{"PUT", "/api/agents/planner/kv/k", `{"value":1}`, 200, ""},
		{"GET", "/api/agents/planner/kv/k", "", 200, "1"},
		{"POST", "/api/agents/planner/memories", `{"content":"plans"}`, 0, "id"},
		{"POST", "/api/agents/planner/recall", `{"query":"plans"}`, 400, "name the user"},
		{"POST", "/api/agents/planner/consolidate", `{}`, 400, "a call for each user"},
		{"POST", "/mcp?user=ada", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200, "tools"},
	} {
		for _, at := range []string{a.address, b.address} {
			if status, out := ask(at, c.method, c.path, c.body); c.status != 0 && status != c.status || !strings.Contains(out, c.want) {
				t.Errorf("%s %s: %d %.300s, want %d %s", c.method, c.path, status, out, c.status, c.want)
			}
		}
	}
	for _, d := range []*daemon{a, b} {
		if code, log := d.end(); code != 0 {
			t.Error(code, log)
		}
	}
}
