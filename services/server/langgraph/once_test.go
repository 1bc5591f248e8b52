package langgraph

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/api"
)

// TestIdempotencyKey puts an item twice with one key, beside another put: the second one gets the first
// answer and changes nothing.
func TestIdempotencyKey(t *testing.T) {
	s := newService(t, nil)
	put := func(id, value string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("PUT", "/store/items", strings.NewReader(`{"namespace":["a"],"key":"k","value":{"v":"`+value+`"}}`))
		r.Header.Set(api.IdempotencyHeader, id)
		w := httptest.NewRecorder()
		s.s.Handler().ServeHTTP(w, r)
		return w
	}
	first, _, again := put("1", "one"), put("2", "two"), put("1", "one")
	if first.Code >= 300 || again.Code != first.Code || again.Header().Get(api.RepeatedHeader) != "true" {
		t.Errorf("%d, %d %s", first.Code, again.Code, again.Body)
	}
	if item := s.ask(200, "", "GET", "/store/items?namespace=a&key=k", ""); !strings.Contains(item, "two") {
		t.Error(item)
	}
}
