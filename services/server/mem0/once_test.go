package mem0_test

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/api"
)

// TestIdempotencyKey adds memories twice with one key: the second add gets the first answer, and the
// memories are there once. With another body the key is refused.
func TestIdempotencyKey(t *testing.T) {
	s := newSite(t, nil)
	const path, body = "/v1/memories/", `{"messages":[{"role":"user","content":"I like tea"}],"user_id":"ada","infer":false}`
	first := s.want(200, s.ask("POST", path, body, api.IdempotencyHeader, "k"), "POST", path)
	again := s.want(200, s.ask("POST", path, body, api.IdempotencyHeader, "k"), "POST", path)
	if len(first.body) == 0 || again.body != first.body && again.at("repeated") != true {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	s.want(422, s.ask("POST", path, body+" ", api.IdempotencyHeader, "k"), "POST", path)
	if all := s.want(200, s.ask("GET", path+"?user_id=ada", ""), "GET", path); countOf(all.json) != 1 {
		t.Errorf("%s", all.body)
	}
}

// countOf is how many results an answer has.
func countOf(v any) int {
	if of, ok := v.(map[string]any); ok {
		v = of["results"]
	}
	list, _ := v.([]any)
	return len(list)
}
