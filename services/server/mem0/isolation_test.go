package mem0_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// anonymous is an answer without what differs from request to request.
func anonymous(r reply, id string) string {
	text := regexp.MustCompile(`"request_id":"[^"]*"`).ReplaceAllString(r.body, "")
	return fmt.Sprint(r.status, strings.ReplaceAll(text, id, "ID"))
}

// An ID of another scope is answered as one that nobody has.
func TestForeignIsUnknown(t *testing.T) {
	s := newSite(t, nil)
	theirs := s.add("a secret", `"user_id":"bob"`)
	event := s.platform(200, "POST", "/v3/memories/add/", `{"messages":"another secret","user_id":"bob"}`).at("event_id").(string)
	key := "Token " + s.key(memory.Scope{User: "alice"})
	const unknown = "00000000-0000-4000-8000-000000000000"
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/v1/memories/ID/", ""},
		{"PUT", "/v1/memories/ID/", `{"text":"x"}`},
		{"PUT", "/v1/memories/ID/", `{"expiration_date":null}`},
		{"DELETE", "/v1/memories/ID/", ""},
		{"GET", "/v1/memories/ID/history/", ""},
		{"PUT", "/v1/batch/", `{"memories":[{"memory_id":"ID","text":"x"}]}`},
		{"DELETE", "/v1/batch/", `{"memories":[{"memory_id":"ID"}]}`},
		{"POST", "/v1/feedback/", `{"memory_id":"ID","feedback":"POSITIVE"}`},
		{"GET", "/memories/ID", ""},
		{"PUT", "/memories/ID", `{"text":"x"}`},
		{"DELETE", "/memories/ID", ""},
		{"GET", "/memories/ID/history", ""},
	} {
		ask := func(id string) string {
			return anonymous(s.ask(c.method, strings.ReplaceAll(c.target, "ID", id), strings.ReplaceAll(c.body, "ID", id), "Authorization", key), id)
		}
		if a, b := ask(theirs), ask(unknown); a != b || strings.Contains(a, "secret") {
			t.Errorf("%s %s: %s for another's, %s for nobody's", c.method, c.target, a, b)
		}
	}
	a := anonymous(s.ask("GET", "/v1/event/"+event+"/", "", "Authorization", key), event)
	b := anonymous(s.ask("GET", "/v1/event/"+unknown+"/", "", "Authorization", key), unknown)
	if a != b {
		t.Errorf("event: %s for another's, %s for nobody's", a, b)
	}
	for _, c := range []struct{ method, target, body string }{
		{"POST", "/v3/memories/add/", `{"messages":"x","user_id":"bob"}`},
		{"POST", "/v3/memories/", `{"filters":{"user_id":"bob"}}`},
		{"POST", "/v3/memories/", `{"filters":{"OR":[{"user_id":"alice"},{"user_id":"bob"}]}}`},
		{"POST", "/v3/memories/search/", `{"query":"secret","filters":{"user_id":{"in":["bob"]}}}`},
		{"GET", "/v1/memories/?user_id=bob", ""},
		{"GET", "/v1/memories/user/bob/", ""},
		{"DELETE", "/v1/memories/?user_id=bob", ""},
		{"DELETE", "/v2/entities/user/bob/", ""},
		{"GET", "/v2/entities/user/bob/", ""},
		{"POST", "/v1/entities/", `{"user_id":"bob"}`},
		{"GET", "/memories?user_id=bob", ""},
		{"POST", "/search", `{"query":"secret","user_id":"bob"}`},
		{"POST", "/reset", ""},
		{"POST", "/v1/reset/", ""},
	} {
		if r := s.ask(c.method, c.target, c.body, "Authorization", key); r.status != 403 || strings.Contains(r.body, "secret") {
			t.Errorf("%s %s %s: status %d, want 403: %s", c.method, c.target, c.body, r.status, r.body)
		}
	}
	if r := s.ask("GET", "/v1/memories/?user_id=bob", "", "Authorization", "Token x"); r.status != 401 {
		t.Errorf("with a wrong key: status %d", r.status)
	}
}

// kept is a memory that an oracle knows of.
type kept struct {
	scope memory.Scope
	text  string
}

// oracle knows what there is, and so what a key may see.
type oracle struct {
	*site
	random *rand.Rand
	all    []kept
	admin  string
}

var oracleUsers, oracleAgents = []string{"", "u1", "u2"}, []string{"", "a1", "a2"}

// scope is one at random, which may be empty.
func (o *oracle) scope() memory.Scope {
	return memory.Scope{User: oracleUsers[o.random.IntN(3)], Agent: oracleAgents[o.random.IntN(3)]}
}

// newOracle fills a site.
func newOracle(t *testing.T, seed uint64) *oracle {
	t.Logf("seed %d", seed)
	o := &oracle{site: newSite(t, nil), random: rand.New(rand.NewPCG(seed, 1))}
	o.admin = "Token " + o.key()
	for n := range 60 {
		k := kept{o.scope(), fmt.Sprintf("tea number %d", n)}
		if k.scope == (memory.Scope{}) {
			continue
		}
		o.all = append(o.all, k)
		body := fmt.Sprintf(`{"messages":%q,"infer":false,"user_id":%q,"agent_id":%q}`, k.text, k.scope.User, k.scope.Agent)
		o.want(200, o.ask("POST", "/v3/memories/add/", body, "Authorization", o.admin), "POST", "add")
	}
	return o
}

// texts are those of the memories for which something holds, in order.
func (o *oracle) texts(holds func(kept) bool) []string {
	texts := []string{}
	for _, k := range o.all {
		if holds(k) {
			texts = append(texts, k.text)
		}
	}
	slices.Sort(texts)
	return texts
}

// request asks for what is in a scope, in one of several ways.
func (o *oracle) request(asked memory.Scope, key string) reply {
	filters, q := `{}`, url.Values{}
	var conditions []string
	for _, f := range [][2]string{{"user_id", asked.User}, {"agent_id", asked.Agent}} {
		if f[1] != "" {
			conditions = append(conditions, fmt.Sprintf("{%q:%q}", f[0], f[1]))
			q.Set(f[0], f[1])
			filters = `{"AND":[` + strings.Join(conditions, ",") + `]}`
		}
	}
	switch o.random.IntN(4) {
	case 0:
		return o.ask("POST", "/v3/memories/?page_size=200", `{"filters":`+filters+`}`, "Authorization", key)
	case 1:
		return o.ask("POST", "/v3/memories/search/", `{"query":"tea","top_k":1000,"threshold":0,"filters":`+filters+`}`, "Authorization", key)
	case 2:
		return o.ask("GET", "/v1/memories/?"+q.Encode(), "", "Authorization", key)
	}
	return o.ask("GET", "/memories?"+q.Encode(), "", "Authorization", key)
}

// Keys of two scopes list, search and delete at random; an oracle knows what they may see.
func TestIsolationAgainstAnOracle(t *testing.T) {
	o := newOracle(t, 20260301)
	scopes := [][]memory.Scope{{{User: "u1"}}, {{User: "u2", Agent: "a1"}, {Agent: "a2"}}}
	keys := make([]string, len(scopes))
	for i := range keys {
		keys[i] = "Token " + o.key(scopes[i]...)
	}
	for n := range 400 {
		i, asked := o.random.IntN(len(keys)), o.scope()
		want := o.texts(func(k kept) bool {
			return scope.Contains(asked, k.scope) && slices.ContainsFunc(scopes[i], func(of memory.Scope) bool { return scope.Contains(of, k.scope) })
		})
		r := o.request(asked, keys[i])
		if r.status == 403 && len(want) == 0 {
			continue
		}
		got := r.texts()
		slices.Sort(got)
		if r.status != 200 || !slices.Equal(got, want) {
			t.Fatalf("request %d of %v for %v: status %d, %q, want %q", n, scopes[i], asked, r.status, got, want)
		}
	}
	// What one deletes is missing to nobody else.
	o.want(200, o.ask("DELETE", "/v1/memories/?agent_id=*", "", "Authorization", keys[0]), "DELETE", "all agents")
	got := o.want(200, o.ask("GET", "/memories", "", "Authorization", o.admin), "GET", "/memories").texts()
	slices.Sort(got)
	if want := o.texts(func(k kept) bool { return k.scope.User != "u1" || k.scope.Agent == "" }); !slices.Equal(got, want) {
		t.Errorf("after a delete there are %q, want %q", got, want)
	}
}
