package mem0_test

import (
	"slices"
	"strings"
	"testing"
)

func TestFilters(t *testing.T) {
	s := newSite(t, nil)
	s.add("A", `"user_id":"u","metadata":{"n":1,"tag":"work","categories":["food","art"],"role":"cook","deep":{"x":"y"}}`)
	s.add("B", `"user_id":"u","agent_id":"a","metadata":{"n":2,"tag":"home"}`)
	s.add("C", `"user_id":"v","app_id":"shop","metadata":{"n":3}`)
	s.add("D", `"run_id":"r","timestamp":1735689600`) // 2025-01-01
	for _, c := range []struct{ filters, want string }{
		{`{"user_id":"u"}`, "BA"},
		{`{"user_id":"*"}`, "CBA"},
		{`{"user_id":["u","v"]}`, "CBA"},
		{`{"user_id":{"in":["u","v"]},"n":{"gte":2}}`, "CB"},
		{`{"user_id":{"ne":"u"},"app_id":"*"}`, "C"},
		{`{"app_id":"shop"}`, "C"},
		{`{"run_id":"r"}`, "D"},
		{`{"AND":[{"user_id":"u"},{"agent_id":"a"}]}`, "B"},
		{`{"and":[{"user_id":"u"},{"agent_id":null}]}`, "A"},
		{`{"OR":[{"user_id":"u"},{"run_id":"r"}]}`, "DBA"},
		{`{"AND":[{"user_id":"u"},{"user_id":"v"}]}`, ""},
		{`{"AND":[{"user_id":"*"},{"NOT":[{"tag":"work"},{"tag":"home"}]}]}`, "C"},
		{`{"AND":[{"user_id":"*"},{"NOT":{"n":1}}]}`, "CB"},
		{`{"user_id":"*","n":{"gt":1,"lt":3}}`, "B"},
		{`{"user_id":"*","tag":{"nin":["work"]}}`, "CB"},
		{`{"user_id":"*","tag":{"contains":"or"}}`, "A"},
		{`{"user_id":"*","tag":{"icontains":"WO"}}`, "A"},
		{`{"user_id":"*","tag":"*"}`, "BA"},
		{`{"user_id":"*","metadata":{"tag":"home","n":2}}`, "B"},
		{`{"user_id":"*","metadata":{"n":{"lte":2}}}`, "BA"},
		{`{"user_id":"*","deep.x":"y"}`, "A"},
		{`{"user_id":"*","role":"cook"}`, "A"}, // not memdb's role
		{`{"user_id":"*","categories":{"in":["art","sea"]}}`, "A"},
		{`{"user_id":"*","categories":{"contains":"food"}}`, "A"},
		{`{"user_id":"*","keywords":{"icontains":"b"}}`, "B"},
		{`{"run_id":"*","created_at":{"lt":"2025-06-01"}}`, "D"},
		{`{"run_id":"*","created_at":{"gte":"2025-01-01T00:00:00","lte":1735689600}}`, "D"},
		{`{"user_id":"*","created_at":{"lt":"2025-06-01T00:00:00Z"}}`, ""},
		{`{"field":"user_id","operator":"eq","value":"u"}`, "BA"},
		{`{"AND":[{"field":"user_id","op":"in","value":["u"]},{"field":"memory","operator":"icontains","value":"a"}]}`, "A"},
		{`{"user_id":"u","field":"x"}`, ""}, // field is metadata here
	} {
		got := strings.Join(s.platform(200, "POST", "/v3/memories/", `{"filters":`+c.filters+`}`).texts(), "")
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.filters, got, c.want)
		}
	}
	deep := strings.Repeat(`{"AND":[`, 70) + `{"user_id":"u"}` + strings.Repeat(`]}`, 70)
	for _, bad := range []string{
		`{"n":1}`, `{"NOT":[{"user_id":"u"}]}`, `{"user_id":{"ne":"u"}}`, `{"OR":[{"user_id":"u"},{"n":1}]}`,
		`{"user_id":"u","n":{"near":1}}`, `{"user_id":"u","n":{}}`, `{"user_id":"u","n":{"eq":[1]}}`, `{"user_id":"u","n":{"in":[{"a":1}]}}`,
		`{"user_id":7}`, `{"user_id":"u","user_id":"v"}`, `{"AND":{}}`, `{"AND":[]}`, `{"AND":[1]}`, `[]`, `"u"`,
		`{"user_id":"u","created_at":{"gte":"soon"}}`, `{"user_id":"u","created_at":{"gte":1e300}}`, `{"user_id":"u","tag":{"icontains":1}}`,
		`{"field":"user_id","operator":"like","value":"u"}`, deep,
	} {
		s.platform(400, "POST", "/v3/memories/", `{"filters":`+bad+`}`)
		s.platform(400, "POST", "/v3/memories/search/", `{"query":"x","filters":`+bad+`}`)
	}
	r := s.platform(200, "GET", "/v1/memories/?user_id=u&metadata[tag]=work&categories=art,sea&keywords=a&start_date=2026-03-01&end_date=2026-03-01", "")
	if got := r.texts(); !slices.Equal(got, []string{"A"}) {
		t.Errorf("by the query: %q", got)
	}
}
