package native

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// accepting sends a GET with an Accept header.
func (f *fixture) accepting(accept, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", base+target, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	f.documented(r, w)
	return w
}

// TestListForm verifies that the Accept header alone decides whether a list is JSON lines or one JSON object.
func TestListForm(t *testing.T) {
	f := newFixture(t, false)
	f.want("POST", "/memories", `{"id":"m","user":"ada","text":"tea"}`, 201, "")
	const array, lines = "application/json", "application/x-ndjson"
	for accept, want := range map[string]string{
		"": lines, "*/*": lines, "application/*": lines, "text/html, */*;q=0.8": lines, lines: lines,
		"application/x-ndjson, application/json": lines, "application/json;q=0": lines, "application/json;q=x": lines,
		"application/json;q=0.5, application/x-ndjson": lines, "application/jsonl": lines,
		array: array, "APPLICATION/JSON; charset=utf-8": array, "application/json, text/plain, */*": array,
		"application/x-ndjson;q=0.5, application/json;q=0.9": array,
	} {
		w := f.accepting(accept, "/memories?user=ada")
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("Accept %q: %s, want %s", accept, got, want)
		}
		begin, end := `{"type":"memory"`, `{"end":true,"count":1}`
		if want == array {
			begin, end = `{"items":[{"type":"memory"`, `],"count":1}`
		}
		if body := strings.TrimSpace(w.Body.String()); !strings.HasPrefix(body, begin) || !strings.HasSuffix(body, end) || !json.Valid([]byte(body)) && want == array {
			t.Errorf("Accept %q: %s", accept, body)
		}
	}
	// An empty list, a failure, a route that is JSON lines for everybody, and a list that does not end.
	if got := f.accepting(array, "/memories?user=bob").Body.String(); got != `{"items":[],"count":0}`+"\n" {
		t.Errorf("an empty list: %s", got)
	}
	if w := f.accepting(array, "/memories?user=ada&after=x"); w.Code != 400 || !strings.Contains(w.Body.String(), `"code":"invalid"`) {
		t.Errorf("a bad cursor: %d %s", w.Code, w.Body)
	}
	if got := f.accepting(array, "/export?user=ada").Header().Get("Content-Type"); got != lines {
		t.Errorf("an export: %s", got)
	}
	if w := f.accepting(array, "/log?all_scopes=true&follow=true"); w.Code != 400 || !strings.Contains(w.Body.String(), lines) {
		t.Errorf("a log that is followed: %d %s", w.Code, w.Body)
	}
}

// TestListArrayPages verifies that the cursor of each page leads to the end of a list: every item once.
func TestListArrayPages(t *testing.T) {
	f := newFixture(t, false)
	var want []string
	for i := range 7 {
		want = append(want, fmt.Sprintf("k%d", i))
		f.want("PUT", "/kv/"+want[i]+"?user=ada", `1`, 200, "")
	}
	var got []string
	for next := ""; ; {
		w := f.accepting("application/json", "/kv?user=ada&limit=3&after="+next)
		var page struct {
			Items []struct{ Key string }
			Count int
			Next  string
		}
		testdb.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, e := range page.Items {
			got = append(got, e.Key)
		}
		if page.Count != len(page.Items) || page.Count == 0 {
			t.Fatalf("a page of %d items counts %d", len(page.Items), page.Count)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %v, want %v", got, want)
	}
}

// TestListArrayShare verifies that arrays count as bytes that requests hold, and are given back.
func TestListArrayShare(t *testing.T) {
	f := newFixture(t, false)
	for i := range 4 {
		f.want("PUT", fmt.Sprintf("/kv/k%d?user=ada", i), `"`+strings.Repeat("x", 500<<10)+`"`, 200, "")
	}
	f.s = server.New(f.db, server.Options{MaxBody: 64 << 10}) // all requests together hold 1 MiB, and one client half of it
	f.s.Mount(New())
	f.h = f.s.Handler()
	if w := f.accepting("application/json", "/kv?user=ada"); w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"busy"`) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	for range 3 {
		if w := f.accepting("application/json", "/kv?user=ada&limit=1"); w.Code != 200 {
			t.Errorf("%d %.200s", w.Code, w.Body)
		}
		if w := f.accepting("", "/kv?user=ada"); w.Code != 200 {
			t.Errorf("%d %.200s", w.Code, w.Body)
		}
	}
}

// TestListArrayBound verifies that a list which is too long for one JSON object is an error, and never a part of it.
func TestListArrayBound(t *testing.T) {
	f := newFixture(t, false)
	value := `"` + strings.Repeat("x", 900<<10) + `"`
	for i := range 10 {
		f.want("PUT", fmt.Sprintf("/kv/k%d?user=ada", i), value, 200, "")
	}
	if w := f.accepting("application/json", "/kv?user=ada&all=true"); w.Code != 413 || !strings.Contains(w.Body.String(), `"code":"too_large"`) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	if w := f.accepting("application/json", "/kv?user=ada&limit=5"); w.Code != 200 || !strings.Contains(w.Body.String(), `"count":5,"next":`) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	if w := f.accepting("", "/kv?user=ada&all=true"); w.Code != 200 || !strings.Contains(w.Body.String(), `{"end":true,"count":10}`) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}
