package native

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A tenant is a user with a key, and what it has.
type tenant struct {
	user, key, mark string
	ids             map[string]bool // of its memories
}

// tenants are two users with the same kinds of things under other names. Each text and value has
// the mark of its user.
func (f *fixture) tenants() [2]*tenant {
	f.t.Helper()
	var all [2]*tenant
	for i, user := range []string{"ada", "bob"} {
		key, _, err := f.keys.Add(f.t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: user}}})
		testdb.NoError(f.t, err)
		t := &tenant{user: user, key: key, mark: "mark" + user, ids: map[string]bool{}}
		all[i] = t
		for n := range 20 {
			id := fmt.Sprintf("%c%d", user[0], n)
			t.ids[id] = true
			f.made(t, "POST", "/memories", fmt.Sprintf(`{"id":%q,"text":"tea %s %d","run":"run%s%d"}`, id, t.mark, n, user, n%3))
			f.made(t, "PUT", "/kv/"+id, fmt.Sprintf(`"%s"`, t.mark))
			f.made(t, "POST", "/notes", fmt.Sprintf(`{"name":%q,"content":"tea %s"}`, id, t.mark))
			f.made(t, "POST", "/sessions/"+id+"/messages", fmt.Sprintf(`{"text":"tea %s","no_memory":true}`, t.mark))
			f.made(t, "POST", "/graph/entities", fmt.Sprintf(`{"id":%q,"type":"t","name":"tea %s","relations":[{"target":"%c0","type":"knows"}]}`, id, t.mark, user[0]))
		}
		f.made(t, "POST", "/usage", fmt.Sprintf(`{"model":%q,"cost_usd":1}`, t.mark))
	}
	return all
}

func (f *fixture) made(t *tenant, method, target, body string) {
	f.t.Helper()
	if w := f.do(t.key, method, target, body); w.Code/100 != 2 {
		f.t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
	}
}

// reads are requests about an ID, and lists those about a scope. %s is the ID.
var (
	reads = []string{
		"GET /memories/%s", "GET /memories/%s/history", "GET /kv/%s", "GET /notes/%s", "GET /sessions/%s", "GET /sessions/%s/state",
		"GET /graph/entities/%s", "GET /graph/entities/%s/around", "GET /graph/entities/%s/find", "GET /graph/path?from=%s&to=a0",
		"PATCH /memories/%s", "PUT /notes/%s", "POST /sessions/%s/close", "POST /sessions/%s/repair", "GET /graph/rank?id=%s",
		"POST /memories/%s/why", "GET /graph/entities/%s/picture",
	}
	lists = []string{
		"GET /memories", "GET /count", "GET /groups?by=run", "GET /kv", "GET /notes", "GET /notes?query=tea", "GET /sessions", "GET /graph/entities",
		"GET /graph/match", "GET /graph/components", "GET /graph/lookup?name=tea", "GET /graph/degrees", "GET /graph/counts", "GET /graph/stats",
		"GET /graph/export", "GET /graph/duplicates", "GET /usage/total", "GET /usage/by/model", "GET /usage/rank", "GET /log?limit=30", "GET /export",
		"POST /recall", "POST /evict?dry_run=true", "POST /consolidate?dry_run=true", "GET /memories?filter=user+%3D+bob", "GET /memories?order_by=created_at",
	}
	bodies = map[string]string{
		"PATCH /memories/%s": `{"role":"user"}`, "PUT /notes/%s": `{"content":"x"}`, "POST /recall": `{"query":"tea","explain":true}`, "POST /memories/%s/why": `{"query":"tea"}`,
	}
	request = regexp.MustCompile(`"request_id":"[A-Z0-9]+"`)
	times   = regexp.MustCompile(`"(us|duration_ms)":\d+`)
)

// normal is an answer without what differs from one call to the next, and with another ID.
func normal(body, id string) string {
	body = request.ReplaceAllString(times.ReplaceAllString(body, ""), "")
	return strings.ReplaceAll(body, id, "ID")
}

// What belongs to another user is not there: no answer shows it, and an ID of it is answered as one
// that nobody has.
func TestIsolation(t *testing.T) {
	f := newFixture(t, true)
	all := f.tenants()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range race.Times(10_000) {
		i := r.IntN(2)
		me, other := all[i], all[1-i]
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			f.asUnknown(r, me, other)
		case 4:
			f.changes(r, me)
		default:
			f.lists(r, me, other)
		}
		if t.Failed() {
			return
		}
	}
}

// asUnknown asks for an ID of another user, and for one that nobody has.
func (f *fixture) asUnknown(r *rand.Rand, me, other *tenant) {
	what := reads[r.IntN(len(reads))]
	method, path, _ := strings.Cut(what, " ")
	theirs, none := fmt.Sprintf("%c%d", other.user[0], r.IntN(20)), fmt.Sprintf("z%d", 10+r.IntN(20))
	a := f.do(me.key, method, fmt.Sprintf(path, theirs), bodies[what])
	b := f.do(me.key, method, fmt.Sprintf(path, none), bodies[what])
	if a.Code != b.Code || normal(a.Body.String(), theirs) != normal(b.Body.String(), none) {
		f.t.Errorf("%s of %s: %d %s\nof an unknown ID: %d %s", what, other.user, a.Code, a.Body, b.Code, b.Body)
	}
	f.blind(what, me, other, a.Body.String())
}

// lists asks for what there is, and also for what the other user has.
func (f *fixture) lists(r *rand.Rand, me, other *tenant) {
	what := lists[r.IntN(len(lists))]
	method, path, _ := strings.Cut(what, " ")
	body, denied := bodies[what], false
	if r.IntN(4) == 0 && what != "POST /recall" {
		mark := "?"
		if strings.Contains(path, "?") {
			mark = "&"
		}
		path += mark + "user=" + url.QueryEscape(other.user)
		denied = true
	} else if r.IntN(4) == 0 && what == "POST /recall" {
		body, denied = fmt.Sprintf(`{"query":"tea","scopes":[{"user":%q},{"user":%q}]}`, me.user, other.user), true
	}
	w := f.do(me.key, method, path, body)
	if want := map[bool]int{false: 200, true: 403}[denied]; w.Code != want {
		f.t.Errorf("%s %s %s by %s: %d %s, want %d", method, path, body, me.user, w.Code, w.Body, want)
	}
	f.blind(path, me, other, w.Body.String())
}

// blind reports an answer that shows something of another user.
func (f *fixture) blind(what string, me, other *tenant, body string) {
	if strings.Contains(body, other.mark) || strings.Contains(body, `"user":"`+other.user+`"`) {
		f.t.Errorf("%s shows %s what %s has: %s", what, me.user, other.user, body)
	}
}

// changes stores or deletes a memory, under IDs that both users have, and counts.
func (f *fixture) changes(r *rand.Rand, me *tenant) {
	id := fmt.Sprintf("c%d", r.IntN(30))
	method, path, body, want := "DELETE", "/memories/"+id, "", 404
	switch {
	case me.ids[id]:
		want = 200
		delete(me.ids, id)
	case r.IntN(2) == 0:
		method, path, body, want = "POST", "/memories?no_dedup=true", fmt.Sprintf(`{"id":%q,"text":"coffee %s"}`, id, me.mark), 201
		me.ids[id] = true
	}
	if w := f.do(me.key, method, path, body); w.Code != want {
		f.t.Errorf("%s %s by %s: %d %s, want %d", method, path, me.user, w.Code, w.Body, want)
	}
	if w := f.do(me.key, "GET", "/count", ""); w.Body.String() != fmt.Sprintf("{\"count\":%d}\n", len(me.ids)+20) { // and the notes
		f.t.Errorf("%s has %s, want %d", me.user, w.Body, len(me.ids)+20)
	}
}

// A key of a run learns nothing of the other runs of its owner.
func TestKeyOfARun(t *testing.T) {
	f := newFixture(t, true)
	admin, _, err := f.keys.Add(t.Context(), apikeys.Rights{Admin: true})
	testdb.NoError(t, err)
	key, _, err := f.keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: "ada", Run: "r1"}}})
	testdb.NoError(t, err)
	for _, c := range []struct {
		key, method, target, body string
		status                    int
		part                      string
	}{
		{admin, "POST", "/memories", `{"id":"m2","user":"ada","run":"r2","text":"of the other run"}`, 201, ""},
		{admin, "POST", "/sessions/r2/messages?user=ada", `{"text":"of the other session"}`, 201, ""},
		{key, "POST", "/memories", `{"text":"of mine"}`, 201, `"stored":true`},
		{key, "POST", "/memories", `{"id":"m2","text":"x"}`, 403, `without an ID`},
		{key, "POST", "/memories", `{"id":"m3","text":"x"}`, 403, `without an ID`},
		{key, "POST", "/memories?upsert=true", `{"text":"x"}`, 403, `without an ID`},
		{key, "POST", "/memories", `{"run":"r2","text":"x"}`, 403, `denied`},
		{key, "GET", "/memories", "", 200, `"count":1}`},
		{key, "GET", "/memories/m2", "", 404, `not_found`},
		{key, "GET", "/sessions", "", 200, `"count":0}`},
		{key, "GET", "/sessions/r2", "", 403, `denied`},
		{key, "POST", "/sessions/r1/messages", `{"memory_id":"m2"}`, 403, `by ID`},
		{key, "POST", "/sessions/r1/messages", `{"text":"hello"}`, 201, `"messages":1`},
		{key, "PUT", "/sessions/r1", `{"role":"user","text":"x","memory_id":"m2"}`, 403, `by ID`},
		{key, "GET", "/sessions", "", 200, `"count":1}`},
		{key, "GET", "/kv", "", 403, `denied`},
		{key, "GET", "/notes", "", 403, `denied`},
		{key, "GET", "/graph/stats", "", 403, `denied`},
		{key, "GET", "/usage/total", "", 403, `denied`},
		{key, "POST", "/recall", `{"query":"other","graph":0.5}`, 403, `graph`},
		{key, "POST", "/evict", "", 403, `denied`},
		{key, "GET", "/memories?all_scopes=true", "", 403, `administrators`},
		{key, "GET", "/stats", "", 403, `administrator`},
		{key, "GET", "/memories?agent=", "", 400, `scope`},
		{"", "GET", "/memories", "", 401, `unauthorized`},
		{"memdb_nobody", "GET", "/memories", "", 401, `unauthorized`},
		{admin, "GET", "/memories?user=ada", "", 200, `"count":4}`},
	} {
		w := f.do(c.key, c.method, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.part) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.target, c.body, w.Code, w.Body, c.status, c.part)
		}
	}
}

// A key of several scopes sees them as one.
func TestKeyOfScopes(t *testing.T) {
	f := newFixture(t, true)
	admin, _, err := f.keys.Add(t.Context(), apikeys.Rights{Admin: true})
	testdb.NoError(t, err)
	key, _, err := f.keys.Add(t.Context(), apikeys.Rights{Scopes: []memory.Scope{{User: "ada", Run: "r1"}, {User: "bob"}, {User: "bob", Agent: "x"}}})
	testdb.NoError(t, err)
	for i, s := range []memory.Scope{{User: "ada", Run: "r1"}, {User: "ada", Run: "r2"}, {User: "bob"}, {User: "bob", Agent: "x"}, {User: "eve"}} {
		w := f.do(admin, "POST", "/memories", fmt.Sprintf(`{"id":"m%d","user":%q,"agent":%q,"run":%q,"text":"tea %d"}`, i, s.User, s.Agent, s.Run, i))
		testdb.Equal(t, "stored", []int{w.Code}, []int{201})
	}
	for _, c := range []struct {
		method, target, body string
		status               int
		part                 string
	}{
		{"GET", "/memories", "", 200, `"count":3}`},
		{"GET", "/count", "", 200, `{"count":3}`},
		{"GET", "/memories?agent=&user=bob", "", 200, `"count":1}`},
		{"POST", "/recall", `{"query":"tea"}`, 200, `"hits":[`},
		{"GET", "/memories/m0", "", 200, `tea 0`},
		{"GET", "/memories/m1", "", 404, `not_found`},
		{"GET", "/memories/m4", "", 404, `not_found`},
		{"GET", "/memories/m3/history", "", 200, `"count":1}`},
		{"GET", "/memories/m1/history", "", 404, `not_found`},
		{"POST", "/memories", `{"text":"whose?"}`, 400, `name the user`},
		{"PATCH", "/memories/m2", `{"text":"tea two"}`, 200, `tea two`},
		{"DELETE", "/memories?filter=text+contains+tea", "", 200, `{"deleted":3}`},
	} {
		w := f.do(key, c.method, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.part) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.target, c.body, w.Code, w.Body, c.status, c.part)
		}
		if strings.Contains(w.Body.String(), "tea 1") || strings.Contains(w.Body.String(), "tea 4") {
			t.Errorf("%s %s shows what is not the key's: %s", c.method, c.target, w.Body)
		}
	}
	testdb.Equal(t, "what is left", []string{f.do(admin, "GET", "/count?all_scopes=true", "").Body.String()}, []string{"{\"count\":2}\n"})
}
