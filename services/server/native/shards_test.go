package native

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// world is a cluster of databases in memory, and which node serves each.
type world struct {
	t       *testing.T
	dbs     []*engine.DB
	owner   []atomic.Int32
	stale   []atomic.Int32 // who has served it, and cannot ask
	nodes   []*httptest.Server
	keys    *apikeys.Keys
	refused atomic.Int64 // how often a node was asked for a shard that it does not serve
	client  *http.Client // by which nodes ask each other
}

// member is a node of the world.
type member struct {
	w     *world
	n     int
	stale map[int]string // where it takes shards to be
}

func (m *member) Count() int { return len(m.w.dbs) }

func (m *member) Of(o scope.Owner) int {
	h := fnv.New32a()
	name := "u" + o.User
	if o.User == "" {
		name = "a" + o.Agent
	}
	_, _ = io.WriteString(h, name)
	return int(h.Sum32() % uint32(len(m.w.dbs)))
}

func (m *member) Use(_ context.Context, shard int) (server.Tenant, func(), error) {
	if int(m.w.owner[shard].Load()) != m.n {
		m.w.refused.Add(1)
		return server.Tenant{}, nil, &memory.Error{Kind: memory.ErrNotOwner, What: "use a shard"}
	}
	return server.Tenant{DB: m.w.dbs[shard]}, func() {}, nil
}

func (m *member) Stale(_ context.Context, shard int) (server.Tenant, time.Duration, func(), error) {
	if int(m.w.stale[shard].Load()) != m.n {
		return server.Tenant{}, 0, nil, &memory.Error{Kind: memory.ErrNotOwner, What: "use a shard"}
	}
	return server.Tenant{DB: m.w.dbs[shard]}, 1500 * time.Millisecond, func() {}, nil
}

func (m *member) Where(_ context.Context, shard int, anew bool) (string, error) {
	if at, known := m.stale[shard]; known && !anew {
		return at, nil
	}
	of := m.w.owner[shard].Load()
	if of < 0 {
		return "", &memory.Error{Kind: memory.ErrUnavailable, What: "find the shard", Why: "no node serves it"}
	}
	return m.w.nodes[of].URL, nil
}

func (m *member) Secret() []byte          { return []byte("of the cluster") }
func (m *member) Client() *http.Client    { return m.w.client }
func (m *member) Writable() error         { return nil }
func (m *member) Metrics(io.Writer) error { return nil }

func newWorld(t *testing.T, shards, nodes int, keyed bool) *world {
	t.Helper()
	return newWorldOf(t, shards, nodes, keyed, nil)
}

// newWorldOf is newWorld with options of its databases.
func newWorldOf(t *testing.T, shards, nodes int, keyed bool, o *engine.Options) *world {
	t.Helper()
	w := &world{t: t, client: http.DefaultClient, owner: make([]atomic.Int32, shards), stale: make([]atomic.Int32, shards)}
	for i := range shards {
		db, err := engine.OpenMemory(o)
		testdb.NoError(t, err)
		t.Cleanup(func() { testdb.NoError(t, db.Close()) })
		w.dbs = append(w.dbs, db)
		w.owner[i].Store(int32(i % nodes))
		w.stale[i].Store(-1)
	}
	if keyed {
		w.keys = testdb.Keys(t, time.Now)
	}
	for n := range nodes {
		s := server.New(nil, server.Options{Keys: w.keys, MoveWait: 300 * time.Millisecond, Shards: &member{w: w, n: n, stale: map[int]string{}}})
		s.Mount(New())
		h := httptest.NewServer(s.Handler())
		t.Cleanup(h.Close)
		w.nodes = append(w.nodes, h)
	}
	return w
}

// ask asks a node.
func (w *world) ask(node int, method, path, body string, headers ...string) (status int, answer string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.nodes[node].URL+base+path, strings.NewReader(body))
	testdb.NoError(w.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := http.DefaultClient.Do(r)
	testdb.NoError(w.t, err)
	defer func() { _ = reply.Body.Close() }()
	b, err := io.ReadAll(reply.Body)
	testdb.NoError(w.t, err)
	return reply.StatusCode, string(b)
}

func (w *world) want(node int, method, path, body string, status int, part string, headers ...string) string {
	w.t.Helper()
	got, answer := w.ask(node, method, path, body, headers...)
	if got != status || !strings.Contains(answer, part) {
		w.t.Errorf("node %d, %s %s %.100s: %d %s, want %d %s", node, method, path, body, got, answer, status, part)
	}
	return answer
}

// TestShards: any node answers for any user, and each user is in one shard.
func TestShards(t *testing.T) {
	w := newWorld(t, 7, 3, false)
	const users = 40
	for u := range users {
		w.want(u%3, "POST", "/memories", fmt.Sprintf(`{"id":"m","user":"user%d","agent":"planner","text":"user%d likes tea number %d"}`, u, u, u), 201, `"stored":true`)
	}
	for u := range users {
		for node := range 3 {
			w.want(node, "GET", fmt.Sprintf("/memories/m?user=user%d", u), "", 200, fmt.Sprintf("user%d likes", u))
			w.want(node, "POST", "/recall", fmt.Sprintf(`{"user":"user%d","query":"tea"}`, u), 200, fmt.Sprintf("user%d likes", u))
			w.want(node, "GET", fmt.Sprintf("/memories?user=user%d", u), "", 200, `"count":1`)
		}
	}
	all, filled := 0, 0
	for _, db := range w.dbs {
		n, err := db.Memories().Count(t.Context(), memory.ListQuery{AllScopes: true})
		testdb.NoError(t, err)
		all += n
		if n > 0 {
			filled++
		}
	}
	if all != users || filled != 7 {
		t.Errorf("%d memories in %d shards", all, filled)
	}
	w.want(1, "GET", "/count?all_scopes=true", "", 200, `{"count":40}`)
	w.want(1, "GET", "/count?agent=planner", "", 200, `{"count":40}`)
	w.want(1, "GET", "/users", "", 200, `"count":40`)
	w.want(1, "GET", "/groups?all_scopes=true&by=agent", "", 200, `"memories":40`)
	lines := strings.Split(w.want(2, "GET", "/memories?agent=planner&limit=30&descending=true", "", 200, `"next":"shards.`), "\n")
	last := time.Now()
	for _, line := range lines[:30] {
		var r exchange.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.CreatedAt.After(last) {
			t.Fatal(line, last, err)
		}
		last = r.CreatedAt.Time
	}
	if len(lines) != 32 {
		t.Error(lines)
	}
	w.want(0, "GET", "/memories?agent=planner&order_by=importance", "", 400, "created_at")
}

// TestShardsListForm verifies that a cluster sends lists as one object to clients that ask for it: of one shard, here and on
// another node, and merged from all.
func TestShardsListForm(t *testing.T) {
	w := newWorld(t, 4, 2, false)
	for _, user := range []string{"a", "b", "c", "d"} {
		w.want(0, "POST", "/memories", fmt.Sprintf(`{"id":"m","user":%q,"agent":"planner","text":"tea"}`, user), 201, "")
	}
	accept := []string{"Accept", "application/json"}
	for node := range 2 {
		for _, user := range []string{"a", "b", "c", "d"} {
			answer := w.want(node, "GET", "/memories?user="+user, "", 200, `{"items":[{"type":"memory"`, accept...)
			if !json.Valid([]byte(answer)) || !strings.HasSuffix(strings.TrimSpace(answer), `],"count":1}`) {
				t.Errorf("node %d, user %s: %s", node, user, answer)
			}
		}
		answer := w.want(node, "GET", "/memories?agent=planner&limit=3", "", 200, `"count":3,"next":"shards.`, accept...)
		if !json.Valid([]byte(answer)) {
			t.Errorf("node %d: %s", node, answer)
		}
		w.want(node, "GET", "/memories?agent=planner", "", 200, `{"end":true,"count":4}`)
	}
}

// TestShardsPages: the pages of a list of all shards are what one database with everything lists, whatever their size:
// none twice, none missing, also where many have one time, and while others are stored.
func TestShardsPages(t *testing.T) {
	w, one := newWorld(t, 4, 3, false), newFixture(t, false)
	const memories = 150
	for n := range memories {
		at := time.Date(2026, 1, 1, 0, 0, n/3*7%60, 0, time.UTC) // three and more at a time, not in their order
		body := fmt.Sprintf(`{"id":"m%d","user":"u%d","agent":"planner","text":"tea %d","created_at":%q}`, n, n%17, n, at.Format(time.RFC3339))
		w.want(n%3, "POST", "/memories", body, 201, "")
		if reply := one.do("", "POST", "/memories", body); reply.Code != 201 {
			t.Fatal(reply.Code, reply.Body)
		}
	}
	type item struct {
		ID        string    `json:"id"`
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
	}
	read := func(body string) (items []item, next string) {
		lines := strings.Split(strings.TrimSpace(body), "\n")
		for _, l := range lines[:len(lines)-1] {
			var i item
			testdb.NoError(t, json.Unmarshal([]byte(l), &i))
			items = append(items, i)
		}
		var e api.ListEnd
		testdb.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &e))
		return items, e.Next
	}
	for _, query := range []string{"agent=planner", "agent=planner&descending=true", "all_scopes=true&order_by=created_at", "agent=planner&order_by=updated_at", "agent=planner&order_by=updated_at&descending=true"} {
		at := func(i item) time.Time { return i.CreatedAt }
		if strings.Contains(query, "updated_at") {
			at = func(i item) time.Time { return i.UpdatedAt }
		}
		asked := query
		if !strings.Contains(query, "order_by") {
			asked += "&order_by=created_at"
		}
		want, _ := read(one.do("", "GET", "/memories?all=true&"+asked, "").Body.String())
		for _, limit := range []int{1, 7, 50, memories - 1, memories, 1000} {
			var got []item
			for after, n := "", 0; n == 0 || after != ""; n++ {
				page, next := read(w.want(n%3, "GET", fmt.Sprintf("/memories?%s&limit=%d&after=%s", query, limit, after), "", 200, `"end":true`))
				if len(page) > limit || next != "" && len(page) != limit {
					t.Errorf("%s: a page of %d has %d", query, limit, len(page))
				}
				got, after = append(got, page...), next
			}
			seen := map[string]bool{}
			for i, g := range got {
				if seen[g.ID] || i >= len(want) || strings.Contains(query, "created_at") && !at(g).Equal(at(want[i])) || i > 0 && at(g).Before(at(got[i-1])) != strings.Contains(query, "descending") && !at(g).Equal(at(got[i-1])) {
					t.Fatalf("%s, %d a page: %s in place %d", query, limit, g.ID, i)
				}
				seen[g.ID] = true
			}
			if len(got) != memories {
				t.Errorf("%s, %d a page: %d", query, limit, len(got))
			}
		}
	}
	_, next := read(w.want(0, "GET", "/memories?agent=planner&limit=10", "", 200, ""))
	for _, query := range []string{"after=x", "after=" + next + "&order_by=updated_at", "after=" + next + "&descending=true", "after=" + next[:len(next)-1], "after=shards.AQAEAAAA"} {
		w.want(1, "GET", "/memories?agent=planner&"+query, "", 400, "the mark in after")
	}
	w.want(1, "GET", "/memories?user=u1&after="+next, "", 400, "the cursor is none")
	// The rest of all, page after page within the shards.
	rest, _ := read(w.want(0, "GET", "/memories?agent=planner&all=true&after="+next, "", 200, ""))
	if len(rest) != memories-10 {
		t.Errorf("the rest has %d", len(rest))
	}
}

// TestShardsRefuse: what a shard alone can answer is refused by name where none is named.
func TestShardsRefuse(t *testing.T) {
	w := newWorld(t, 4, 2, false)
	w.want(0, "POST", "/memories", `{"id":"m","user":"ada","text":"tea"}`, 201, "")
	of := (&member{w: w}).Of(scope.Owner{User: "ada"})
	w.want(0, "GET", "/stats", "", 400, "Memdb-Shard")
	for node := range 2 {
		w.want(node, "GET", "/stats", "", 200, `"memories":1`, server.ShardHeader, fmt.Sprint(of))
		w.want(node, "GET", "/count?all_scopes=true", "", 200, `{"count":0}`, server.ShardHeader, fmt.Sprint((of+1)%4))
	}
	w.want(0, "GET", "/stats", "", 400, "0 to 3", server.ShardHeader, "4")
	w.want(0, "DELETE", "/memories?all_scopes=true&all=true", "", 400, "name the user")
	w.want(0, "POST", "/memories", `{"id":"x","user":"ada","text":"tea"}`, 400, "", server.ShardHeader, fmt.Sprint((of+1)%4))
	two := `{"memories":[{"user":"ada","text":"a"},{"user":"%s","text":"b"}]}`
	other := "bob"
	for i := 0; (&member{w: w}).Of(scope.Owner{User: other}) == of; i++ {
		other = fmt.Sprint("bob", i)
	}
	w.want(0, "POST", "/memories/batch", fmt.Sprintf(two, other), 400, "a call for each user")
	w.want(0, "POST", "/import", `{"type":"memory","user":"ada","text":"tea"}`, 400, "Memdb-Shard")
	w.want(0, "POST", "/facts/reset?yes=true", "", 400, "Memdb-Shard")
	w.want(0, "PUT", "/kv/k?user=ada", `{"value":1}`, 200, "")
	w.want(1, "GET", "/kv/k?user=ada", "", 200, "1")
	// An agent's own has a shard, and is not what users have beside the agent.
	w.want(1, "PUT", "/kv/k?agent=planner", `{"value":2}`, 200, "")
	w.want(0, "GET", "/kv/k?agent=planner", "", 200, "2")
	w.want(1, "POST", "/memories", `{"id":"own","agent":"planner","text":"plans"}`, 201, "")
	w.want(0, "GET", "/memories/own?agent=planner&user=", "", 200, "plans")
}

// TestShardsMoved: a node that has not heard of a move finds the shard, and a shard that nobody
// serves is said to be unavailable.
func TestShardsMoved(t *testing.T) {
	w := newWorld(t, 2, 3, false)
	of := (&member{w: w}).Of(scope.Owner{User: "ada"})
	w.owner[of].Store(1)
	w.want(0, "POST", "/memories", `{"id":"m","user":"ada","text":"tea"}`, 201, "")
	stale := server.New(nil, server.Options{Shards: &member{w: w, n: 2, stale: map[int]string{of: w.nodes[0].URL}}})
	stale.Mount(New())
	h := httptest.NewServer(stale.Handler())
	defer h.Close()
	reply, err := http.Get(h.URL + base + "/memories/m?user=ada")
	testdb.NoError(t, err)
	if _ = reply.Body.Close(); reply.StatusCode != 200 {
		t.Errorf("behind a move: %d", reply.StatusCode)
	}
	// A call waits for a shard that moves.
	w.owner[of].Store(-1)
	back := time.AfterFunc(100*time.Millisecond, func() { w.owner[of].Store(2) })
	w.want(0, "GET", "/memories/m?user=ada", "", 200, "tea")
	w.want(1, "GET", "/count?all_scopes=true", "", 200, `{"count":1}`)
	back.Stop()
	w.owner[of].Store(-1)
	w.want(1, "GET", "/count?all_scopes=true", "", 503, "unavailable")
	w.want(0, "GET", "/memories/m?user=ada", "", 503, "unavailable")
	// Reads go on where who has served it cannot ask, and say how old they may be; writes do not.
	w.stale[of].Store(0)
	w.want(0, "GET", "/memories/m?user=ada", "", 200, "tea")
	w.want(0, "POST", "/recall", `{"user":"ada","query":"tea"}`, 200, "tea")
	w.want(0, "POST", "/memories", `{"user":"ada","text":"more tea"}`, 503, "unavailable")
	reply, err = http.Get(w.nodes[0].URL + base + "/memories/m?user=ada")
	testdb.NoError(t, err)
	if _ = reply.Body.Close(); reply.Header.Get(api.StaleHeader) != "1500" {
		t.Errorf("%v", reply.Header)
	}
}

// TestShardsForeign: what claims to come from a node and does not is refused, and so is what a
// client says of shards.
func TestShardsForeign(t *testing.T) {
	w := newWorld(t, 2, 2, true)
	ada, _, err := w.keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: "ada"}}})
	testdb.NoError(t, err)
	key := []string{"Authorization", "Bearer " + ada}
	for node := range 2 {
		w.want(node, "POST", "/memories", fmt.Sprintf(`{"id":"m%d","text":"tea %d"}`, node, node), 201, "", key...)
		w.want(node, "GET", "/memories/m0?user=bob", "", 403, "", key...)
		w.want(node, "GET", "/memories/m0", "", 200, "tea 0", key...)
		w.want(node, "GET", "/memories/m0?user=ada", "", 401, "")
		w.want(node, "GET", "/memories/m0?user=ada", "", 403, "", append(key, server.ShardHeader, "0")...)
		w.want(node, "GET", "/memories/m0?user=ada", "", 401, "", "Memdb-Inner", "e30.e30")
		w.want(node, "GET", "/memories/m0?user=ada", "", 401, "", "Memdb-Inner", "nonsense")
	}
	alone := newFixture(t, false)
	r := httptest.NewRequest("GET", base+"/memories/m?user=ada", nil)
	r.Header.Set("Memdb-Inner", "e30.e30")
	out := httptest.NewRecorder()
	alone.h.ServeHTTP(out, r)
	if out.Code != 401 {
		t.Errorf("without a cluster: %d", out.Code)
	}
}

// A tap keeps what goes over the network.
type tap struct {
	mu   sync.Mutex
	sent []*http.Request
	body [][]byte
}

func (p *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.sent, p.body = append(p.sent, r.Clone(context.Background())), append(p.body, body)
	p.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(r)
}

// TestShardsReplay: who reads what nodes say to each other cannot say it again, to whichever node, also behind a new
// beginning of the node that it was for.
func TestShardsReplay(t *testing.T) {
	w := newWorld(t, 1, 2, false)
	heard := &tap{}
	w.client = &http.Client{Transport: heard}
	for n := range 3 {
		w.want(1, "POST", "/memories", fmt.Sprintf(`{"user":"ada","text":"tea %d"}`, n), 201, "")
	}
	if len(heard.sent) != 4 { // the first one was sent for an unknown run, and again
		t.Fatalf("%d requests", len(heard.sent))
	}
	replay := func(want ...int) {
		t.Helper()
		for i, r := range heard.sent {
			for node, h := range w.nodes {
				out := httptest.NewRecorder()
				again := r.Clone(t.Context())
				again.RequestURI, again.Body = r.URL.RequestURI(), io.NopCloser(bytes.NewReader(heard.body[i]))
				h.Config.Handler.ServeHTTP(out, again)
				if !slices.Contains(want, out.Code) {
					t.Errorf("request %d again to node %d: %d %s", i, node, out.Code, out.Body)
				}
			}
		}
	}
	replay(http.StatusUnauthorized, http.StatusConflict)
	w.want(0, "GET", "/count?user=ada", "", 200, `{"count":3}`)
	// The node begins anew at its address: others notice, and what was said before counts for nothing.
	s := server.New(nil, server.Options{Shards: &member{w: w, n: 0, stale: map[int]string{}}})
	s.Mount(New())
	w.nodes[0].Config.Handler = s.Handler()
	replay(http.StatusConflict, http.StatusUnauthorized)
	w.want(1, "POST", "/memories", `{"user":"ada","text":"tea 3"}`, 201, "")
	w.want(0, "GET", "/count?user=ada", "", 200, `{"count":4}`)
}

// TestShardsAnswer: no route fails for want of a database, whatever it is asked.
func TestShardsAnswer(t *testing.T) {
	w := newWorld(t, 3, 2, false)
	for _, d := range New().Routes {
		method, path, _ := strings.Cut(d.Pattern, " ")
		path = strings.TrimPrefix(strings.NewReplacer("{id}", "x", "{what}", "user", "{index}", "text", "{user}", "ada", "{run}", "r", "{name}", "n", "{key}", "k").Replace(path), base)
		for _, query := range []string{"", "?user=ada", "?agent=planner", "?yes=true"} {
			status, answer := w.ask(0, method, path+query, `{}`)
			var told struct {
				Error struct{ Code string }
			}
			_ = json.Unmarshal([]byte(answer), &told)
			if status == http.StatusInternalServerError || told.Error.Code == "internal" {
				t.Errorf("%s%s: %d %s", d.Pattern, query, status, answer)
			}
		}
	}
}

// letterEmbedder makes vectors of how often each letter is in a text, and counts how often it is asked.
type letterEmbedder struct{ asked atomic.Int64 }

func (e *letterEmbedder) Dim() int      { return 26 }
func (e *letterEmbedder) Model() string { return "letters" }

func (e *letterEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	e.asked.Add(1)
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		vecs[i] = make([]float32, 26)
		for _, r := range text {
			if r >= 'a' && r <= 'z' {
				vecs[i][r-'a']++
			}
		}
	}
	return vecs, nil
}

// foundHit is what tests look at of a hit.
type foundHit struct {
	ID    string
	Score float64
	Near  bool
}

// hitsOf are the hits of an answer.
func hitsOf(t *testing.T, answer string) []foundHit {
	t.Helper()
	var of struct{ Hits []foundHit }
	testdb.NoError(t, json.Unmarshal([]byte(answer), &of))
	return of.Hits
}

// TestShardsRecall: a recall of all shards finds what one database with everything finds, in its order, by each
// profile, and embeds the query once.
func TestShardsRecall(t *testing.T) {
	letters := &letterEmbedder{}
	o := &engine.Options{Embedder: letters}
	w, one := newWorldOf(t, 5, 3, false, o), newWorldOf(t, 1, 1, false, o)
	words := strings.Fields("tea green black garden train journey doctor music piano plan")
	for i := range 120 {
		kind := []string{"message", "message", "fact"}[i%3]
		body := fmt.Sprintf(`{"id":"m%d","user":"user%d","agent":"planner","run":"r%d","kind":%q,"text":"%s and %s with %s, number %d","created_at":"2026-01-01T00:%02d:%02dZ"}`,
			i, i%17, i%4, kind, words[i*i%10], words[(i/3)%10], words[(i*7)%10], i, i/60, i%60)
		w.want(i%3, "POST", "/memories", body, 201, "")
		one.want(0, "POST", "/memories", body, 201, "")
	}
	read := func(answer string) []foundHit { return hitsOf(t, answer) }
	for _, profile := range []string{"text", "best", "vector", "hybrid"} {
		for _, query := range []string{`"query":"green tea"`, `"query":"a journey by train","limit":120`, `"query":"number 17"`, `"query":"music","limit":3`, `"query":"zebra"`, `"query":"tea","filter":{"field":"kind","operator":"eq","value":"fact"}`} {
			body := fmt.Sprintf(`{"agent":"planner",%s,"profile":%q,"no_touch":true}`, query, profile)
			want := read(one.want(0, "POST", "/recall", body, 200, "", server.ShardHeader, "0"))
			for node := range 3 {
				before := letters.asked.Load()
				got := read(w.want(node, "POST", "/recall", body, 200, ""))
				if !slices.EqualFunc(got, want, func(a, b foundHit) bool { return a.ID == b.ID && math.Abs(a.Score-b.Score) < 1e-3 }) {
					t.Errorf("node %d, %s %s:\n%v\nwant\n%v", node, profile, query, got, want)
				}
				if n := letters.asked.Load() - before; n > 1 {
					t.Errorf("%s %s: the query was embedded %d times", profile, query, n)
				}
			}
			if len(want) == 0 && (query != `"query":"zebra"` || profile != "text") {
				t.Error(profile, query, "found nothing")
			}
		}
	}
	w.want(0, "POST", "/recall", `{"agent":"planner","query":"tea","profile":"substrate"}`, 400, "substrate")
	w.want(0, "POST", "/recall", `{"agent":"planner","query":"tea","explain":true}`, 400, "a plan")
	w.want(0, "POST", "/recall", `{"user":"user1","query":"tea","parts":{"count":true}}`, 400, "nodes of a cluster")
	w.want(0, "POST", "/recall", `{"query":"tea"}`, 400, "scope")
	w.want(0, "POST", "/recall", `{"all_scopes":true,"query":"number 17","limit":1}`, 200, "m17")
	w.want(0, "POST", "/recall", `{"scopes":[{"user":"user1"},{"user":"user2"},{"user":"user3"}],"query":"number","limit":100,"only_words":true}`, 200, "user3")
}

// TestShardsRecallNotes: notes, without an embedder, are found by all shards as by one database where a query says
// nothing of how it is answered: with a second look, and by words near its own.
func TestShardsRecallNotes(t *testing.T) {
	w, one := newWorld(t, 5, 3, false), newWorld(t, 1, 1, false)
	words := strings.Fields("tea green black garden train journey doctor music piano plan museum harbour lecture bread")
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 200 {
		text := []string{"note", fmt.Sprint(i)}
		for range 3 + r.IntN(8) {
			text = append(text, words[min(r.IntN(len(words)), r.IntN(len(words)))])
		}
		body := fmt.Sprintf(`{"id":"m%d","user":"user%d","agent":"writer","text":%q,"created_at":"2026-01-01T00:%02d:%02dZ"}`, i, i%17, strings.Join(text, " "), i/60, i%60)
		w.want(i%3, "POST", "/memories", body, 201, "")
		one.want(0, "POST", "/memories", body, 201, "")
	}
	looked, near := 0, 0
	for i, query := range []string{
		`"query":"green tea in the garden of a zebra"`, `"query":"a journey by train to the zebras","limit":100`, `"query":"bread with zebra","limit":3`, `"query":"zebra"`,
		`"query":"pianno"`, `"query":"a lecure in the musem","limit":100`, `"query":"note 17 pianno"`, `"query":"harbor teas","profile":"text","limit":200`, `"query":"gardn","profile":"text"`,
	} {
		body := fmt.Sprintf(`{"agent":"writer",%s,"no_touch":true}`, query)
		want := hitsOf(t, one.want(0, "POST", "/recall", body, 200, "", server.ShardHeader, "0"))
		got := hitsOf(t, w.want(i%3, "POST", "/recall", body, 200, ""))
		if !slices.EqualFunc(got, want, func(a, b foundHit) bool { return a.ID == b.ID && a.Near == b.Near && math.Abs(a.Score-b.Score) < 1e-9 }) {
			t.Errorf("%s:\n%v\nwant\n%v", query, got, want)
		}
		explained := one.want(0, "POST", "/recall", strings.Replace(body, "{", `{"explain":true,`, 1), 200, "", server.ShardHeader, "0")
		if strings.Contains(explained, `"second_look":[`) {
			looked++
		}
		if slices.ContainsFunc(got, func(h foundHit) bool { return h.Near }) {
			near++
		}
	}
	if looked < 3 || near < 4 {
		t.Errorf("of the queries %d were looked at again, and %d found by near words", looked, near)
	}
}

// TestShardsRecallTouches: what was given counts as recalled, and nothing else that a shard has found.
func TestShardsRecallTouches(t *testing.T) {
	w := newWorld(t, 4, 2, false)
	for u := range 12 {
		w.want(0, "POST", "/memories", fmt.Sprintf(`{"id":"m%d","user":"user%d","agent":"planner","text":"tea%s"}`, u, u, strings.Repeat(" and more", u)), 201, "")
	}
	recalled := func() (ids []string) {
		t.Helper()
		for _, db := range w.dbs {
			for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
				testdb.NoError(t, err)
				for range m.AccessCount {
					ids = append(ids, m.ID)
				}
			}
		}
		slices.Sort(ids)
		return ids
	}
	w.want(1, "POST", "/recall", `{"agent":"planner","query":"tea","limit":3,"no_touch":true}`, 200, `"m0"`)
	if ids := recalled(); ids != nil {
		t.Errorf("without touch: %q", ids)
	}
	for node := range 2 {
		w.want(node, "POST", "/recall", `{"agent":"planner","query":"tea","limit":3}`, 200, `"m0"`)
	}
	if ids := recalled(); !slices.Equal(ids, []string{"m0", "m0", "m1", "m1", "m2", "m2"}) {
		t.Errorf("recalled: %q", ids)
	}
	testdb.NoError(t, w.dbs[0].Memories().Touch(t.Context(), []uint64{1 << 40})) // there is none
	if ids := recalled(); len(ids) != 6 {
		t.Errorf("behind a touch of nothing: %q", ids)
	}
}

// TestShardsRecallRealData: what is asked of five real conversations, each in the shard of its user, is answered as one
// database with all of them answers it, in the order of its hits and with their scores.
func TestShardsRecallRealData(t *testing.T) {
	text, err := os.ReadFile(realdata.Path(t, "locomo/locomo5.json"))
	testdb.NoError(t, err)
	var talks []struct {
		ID           string                     `json:"sample_id"`
		Conversation map[string]json.RawMessage `json:"conversation"`
		QA           []struct {
			Question string `json:"question"`
		} `json:"qa"`
	}
	testdb.NoError(t, json.Unmarshal(text, &talks))
	w, one := newWorld(t, 4, 2, false), newWorld(t, 1, 1, false)
	var turns []memory.Memory
	var questions []string
	for _, c := range talks {
		for run, session := range c.Conversation {
			var said []struct {
				ID      string `json:"dia_id"`
				Speaker string `json:"speaker"`
				Text    string `json:"text"`
			}
			var date string
			if json.Unmarshal(c.Conversation[run+"_date_time"], &date) != nil || json.Unmarshal(session, &said) != nil {
				continue // the name of a speaker, or a date without a session
			}
			at, err := time.Parse("3:04 pm on 2 January, 2006", date)
			testdb.NoError(t, err)
			for i, turn := range said {
				turns = append(turns, memory.Memory{
					ID: c.ID + "/" + turn.ID, Scope: memory.Scope{User: c.ID, Agent: "planner", Run: run}, Text: turn.Text, Name: turn.Speaker,
					CreatedAt: at.Add(time.Duration(i) * time.Millisecond), Metadata: map[string]any{"speaker": turn.Speaker},
				})
			}
		}
		for i, q := range c.QA {
			switch i % 16 {
			case 0:
				questions = append(questions, q.Question)
			case 8: // its longest word is misspelt
				word := slices.MaxFunc(strings.Fields(q.Question), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
				questions = append(questions, strings.Replace(q.Question, word, word[:2]+word[3:], 1))
			}
		}
	}
	if len(turns) != 2760 {
		t.Fatalf("%d turns were read", len(turns))
	}
	slices.SortFunc(turns, func(a, b memory.Memory) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	m := &member{w: w}
	for _, turn := range turns {
		for _, db := range []*engine.DB{one.dbs[0], w.dbs[m.Of(turn.Owner())]} {
			_, err := db.Memories().Store(t.Context(), turn, nil)
			testdb.NoError(t, err)
		}
	}
	read := func(answer string) []foundHit { return hitsOf(t, answer) }
	found := 0
	for i, question := range questions {
		profile := []string{"best", "text", "best", "hybrid", "best", "vector"}[i%6]
		filter := []string{"null", `{"field":"created_at","operator":"gte","value":"2023-06-01T00:00:00Z"}`}[i/6%2]
		body := fmt.Sprintf(`{"agent":"planner","query":%q,"profile":%q,"filter":%s,"limit":50,"no_touch":true}`, question, profile, filter)
		want := read(one.want(0, "POST", "/recall", body, 200, "", server.ShardHeader, "0"))
		got := read(w.want(i%2, "POST", "/recall", body, 200, ""))
		if !slices.EqualFunc(got, want, func(a, b foundHit) bool { return a.ID == b.ID && math.Abs(a.Score-b.Score) < 1e-9 }) {
			t.Errorf("%s %q:\n%v\nwant\n%v", profile, question, got, want)
		}
		found += len(want)
	}
	if found < 1000 {
		t.Errorf("%d hits were compared", found)
	}
}
