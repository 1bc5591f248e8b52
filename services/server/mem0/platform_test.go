package mem0_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestMessageForms verifies that an add keeps turns of tools and contents of any form, leaves out what a
// model thinks, and says so.
func TestMessageForms(t *testing.T) {
	s := newSite(t, nil)
	r := s.platform(200, "POST", "/v3/memories/add/", `{"messages":[
		{"role":"user","content":[{"type":"text","text":"How deep?"},{"type":"image_url","image_url":{"url":"data:"}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"c","name":"sound","input":{"at":"pier"}}]},
		{"role":"tool","tool_call_id":"c","content":"04 fathoms"},
		{"role":"user","parts":[{"functionResponse":{"id":"c","name":"sound","response":{"v":5}}}]},
		{"type":"ai","data":{"content":"Four fathoms."}},
		{"role":"user","content":[{"kind":"smell","of":"tar"}]}],"user_id":"alice","infer":false}`)
	want := []string{"How deep?\n[image_url]", `sound {"at":"pier"}`, "04 fathoms", `{"v":5}`, "Four fathoms.", `{"kind":"smell","of":"tar"}`}
	if got := r.texts(); !slices.Equal(got, want) || !strings.Contains(r.note, "left out: 1") {
		t.Errorf("added %q, note %q", got, r.note)
	}
}

func TestPlatform(t *testing.T) {
	s := newSite(t, nil)
	if got := s.platform(200, "GET", "/v1/ping/", "").at("status"); got != "ok" {
		t.Fatalf("ping: %v", got)
	}
	r := s.platform(200, "POST", "/v3/memories/add/", `{"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"I live in Berlin"},{"role":"assistant","content":"Noted"}],
		"user_id":"alice","agent_id":"bot","run_id":"r","app_id":"shop","metadata":{"k":1},"infer":false,"expiration_date":"2026-03-05","unknown":true}`)
	if got := r.texts(); !slices.Equal(got, []string{"I live in Berlin", "Noted"}) || r.note != "" {
		t.Fatalf("added %q, note %q", got, r.note)
	}
	id := r.at("results", 0, "id").(string)
	r = s.platform(200, "GET", "/v1/memories/"+id+"/", "")
	for key, want := range map[string]any{
		"memory": "I live in Berlin", "user_id": "alice", "agent_id": "bot", "session_id": "r", "run_id": "r", "app_id": "shop",
		"expiration_date": "2026-03-05", "hash": "2669a89e81772f820e11f22ecb61b34e", "created_at": "2026-03-01T12:00:00Z",
	} {
		if got := r.at(key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if got := r.at("metadata").(map[string]any); len(got) != 1 || got["k"] != 1.0 {
		t.Errorf("metadata is %v", got)
	}
	r = s.platform(200, "PUT", "/v1/memories/"+id+"/", `{"text":"I live in Bonn","metadata":{"a":"b"},"expiration_date":null}`)
	if r.at("memory") != "I live in Bonn" || r.at("expiration_date") != nil || r.at("app_id") != "shop" || r.at("metadata", "a") != "b" {
		t.Errorf("updated to %s", r.body)
	}
	r = s.platform(200, "GET", "/v1/memories/"+id+"/history/", "")
	if r.at(0, "event") != "ADD" || r.at(1, "event") != "UPDATE" || r.at(1, "old_memory") != "I live in Berlin" || r.at(1, "new_memory") != "I live in Bonn" {
		t.Errorf("history: %s", r.body)
	}
	r = s.platform(200, "POST", "/v3/memories/search/", `{"query":"where does alice live","filters":{"user_id":"alice"},"fields":["memory"]}`)
	if r.at("results", 0, "memory") != "I live in Bonn" || r.at("results", 0, "id") != id || r.at("results", 0, "hash") != nil {
		t.Errorf("found %s", r.body)
	}
}

func TestBatchesAndFeedback(t *testing.T) {
	s := newSite(t, nil)
	id := s.add("I live in Bonn", `"user_id":"alice"`)
	s.platform(200, "POST", "/v1/feedback/", `{"memory_id":"`+id+`","feedback":"NEGATIVE"}`)
	if got := s.platform(200, "POST", "/v2/memories/", `{"filters":{"AND":[{"user_id":"*"},{"feedback":"NEGATIVE"}]}}`).texts(); !slices.Equal(got, []string{"I live in Bonn"}) {
		t.Errorf("with a feedback: %q", got)
	}
	s.platform(400, "POST", "/v1/feedback/", `{"memory_id":"`+id+`","feedback":"GREAT"}`)
	s.platform(200, "PUT", "/v1/batch/", `{"memories":[{"memory_id":"`+id+`","text":"I live in Ulm"}]}`)
	r := s.platform(404, "DELETE", "/v1/batch/", `{"memories":[{"memory_id":"`+id+`"},{"memory_id":"nobody"}]}`)
	if r.at("error") != "Memory not found!" {
		t.Errorf("error %s", r.body)
	}
	s.platform(200, "GET", "/v1/memories/"+id+"/", "") // a batch with an unknown ID deletes nothing
	s.platform(200, "DELETE", "/v1/batch/", `{"memories":[{"memory_id":"`+id+`"}]}`)
	s.platform(404, "DELETE", "/v1/memories/"+id+"/", "")
	r = s.platform(200, "GET", "/v1/memories/"+id+"/history/", "")
	if list := r.json.([]any); r.at(len(list)-1, "event") != "DELETE" {
		t.Errorf("history after the end: %s", r.body)
	}
	s.platform(501, "GET", "/api/v1/webhooks/projects/memdb/", "")
	s.platform(501, "POST", "/v1/exports/", `{}`)
	s.platform(404, "GET", "/v3/memories/nothing", "")
	s.platform(405, "PATCH", "/v1/memories/", "")
}

// A memory that mem0 does not know stays out of all that it does.
func TestOnlyFacts(t *testing.T) {
	s := newSite(t, nil)
	note, err := s.db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "alice"}, Text: "a message of a session"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.add("a fact", `"user_id":"alice"`)
	s.platform(404, "GET", "/v1/memories/"+note.ID+"/", "")
	s.platform(404, "PUT", "/v1/memories/"+note.ID+"/", `{"text":"x"}`)
	s.platform(404, "DELETE", "/v1/memories/"+note.ID+"/", "")
	s.platform(404, "GET", "/v1/memories/"+note.ID+"/history/", "")
	if got := s.platform(200, "POST", "/v3/memories/", `{"filters":{"user_id":"alice"}}`).texts(); !slices.Equal(got, []string{"a fact"}) {
		t.Errorf("listed %q", got)
	}
	s.platform(200, "DELETE", "/v2/entities/user/alice/", "")
	s.plain(200, "POST", "/reset", "")
	if _, err := s.db.Memories().Get(t.Context(), memory.Scope{User: "alice"}, note.ID); err != nil {
		t.Errorf("the message is gone: %v", err)
	}
}

func TestEvents(t *testing.T) {
	s := newSite(t, nil)
	r := s.platform(200, "POST", "/v3/memories/add/", `{"messages":"I like tea","user_id":"u","run_id":"r"}`)
	if r.at("status") != "PENDING" || !strings.Contains(r.note, "no language model") {
		t.Fatalf("answer %s, note %q", r.body, r.note)
	}
	event := r.at("event_id").(string)
	r = s.platform(200, "GET", "/v1/event/"+event+"/", "")
	if r.at("status") != "SUCCEEDED" || r.at("results", 0, "memory") != "I like tea" || r.at("payload", "run_id") != "r" {
		t.Errorf("event %s", r.body)
	}
	for _, id := range []string{"x", event[:8] + "-0000-8000-8000-000000000000", "00000000-0000-8000-8000-000000000000", strings.Repeat("a", 5000)} {
		s.platform(404, "GET", "/v1/event/"+id+"/", "")
	}
	r = s.platform(200, "POST", "/v1/memories/", `{"messages":[{"role":"user","content":"I like tea"}],"user_id":"u","run_id":"r"}`)
	event = r.at(0, "event_id").(string)
	if got := s.platform(200, "GET", "/v1/event/"+event+"/", "").at("results", 0, "event"); got != "NONE" {
		t.Errorf("the same text again is %v", got)
	}
	r = s.platform(200, "POST", "/v1/memories/", `{"messages":[{"role":"user","content":"I like tea"}],"user_id":"u","run_id":"r","metadata":{"new":true},"async_mode":false,"output_format":"v1.1"}`)
	if r.at("results", 0, "event") != "ADD" {
		t.Errorf("the same text with metadata that is new: %s", r.body)
	}
	// A run alone keeps no events.
	r = s.platform(200, "POST", "/v3/memories/add/", `{"messages":"I like tea","run_id":"r"}`)
	if r.at("status") != "SUCCEEDED" || !slices.Equal(r.texts(), []string{"I like tea"}) {
		t.Errorf("of a run alone: %s", r.body)
	}
	s.clock.Advance(8 * 24 * time.Hour)
	s.platform(404, "GET", "/v1/event/"+event+"/", "")
}

func TestPages(t *testing.T) {
	s := newSite(t, nil)
	for _, text := range []string{"one", "two", "three", "four", "five"} {
		s.add(text, `"user_id":"alice"`)
	}
	r := s.platform(200, "POST", "/v3/memories/?page=2&page_size=2", `{"filters":{"user_id":"alice"},"page":1}`)
	if got := r.texts(); !slices.Equal(got, []string{"three", "two"}) || r.at("count") != 5.0 {
		t.Errorf("page 2: %q of %v", got, r.at("count"))
	}
	for key, want := range map[string]string{"next": "page=3&page_size=2", "previous": "page=1&page_size=2"} {
		if got, _ := r.at(key).(string); !strings.HasSuffix(got, "/v3/memories/?"+want) {
			t.Errorf("%s is %q", key, got)
		}
	}
	r = s.platform(200, "GET", "/v1/memories/?user_id=alice&page=3&page_size=2", "")
	if got := r.texts(); !slices.Equal(got, []string{"one"}) || r.at("next") != nil {
		t.Errorf("page 3: %q, next %v", got, r.at("next"))
	}
	if got := s.platform(200, "GET", "/v1/memories/?user_id=alice&limit=2", "").texts(); !slices.Equal(got, []string{"five", "four"}) {
		t.Errorf("limit 2: %q", got)
	}
	// Memories of several of the scopes that a filter names come once, and in their order.
	s.add("six", `"agent_id":"bot"`)
	s.add("seven", `"user_id":"alice","agent_id":"bot"`)
	r = s.platform(200, "POST", "/v3/memories/?page=1&page_size=3", `{"filters":{"OR":[{"user_id":"alice"},{"agent_id":"bot"}]}}`)
	if got := r.texts(); !slices.Equal(got, []string{"seven", "six", "five"}) || r.at("count") != 7.0 {
		t.Errorf("two scopes: %q of %v", got, r.at("count"))
	}
	for _, query := range []string{"page=0", "page=x", "page_size=201", "page_size=-1", "page=99999999999"} {
		s.platform(400, "POST", "/v3/memories/?"+query, `{"filters":{"user_id":"alice"}}`)
	}
	s.platform(404, "GET", "/v1/memories/user/alice/?page=9", "")
	s.platform(400, "GET", "/v1/memories/planet/alice/", "")
}

func TestExpiry(t *testing.T) {
	s := newSite(t, nil)
	s.add("I am in Rome", `"user_id":"alice","expiration_date":"2026-03-02"`)
	list := func(rest string) []string {
		return s.platform(200, "POST", "/v3/memories/", `{"filters":{"user_id":"alice"}`+rest+`}`).texts()
	}
	s.clock.Advance(24 * time.Hour) // its last day
	if got := list(""); len(got) != 1 {
		t.Errorf("on the last day: %q", got)
	}
	s.clock.Advance(24 * time.Hour)
	if got := list(""); len(got) != 0 {
		t.Errorf("afterwards: %q", got)
	}
	if got := list(`,"show_expired":true`); len(got) != 1 {
		t.Errorf("with show_expired: %q", got)
	}
	if got := s.platform(200, "POST", "/v3/memories/search/", `{"query":"Rome","filters":{"user_id":"alice"}}`).texts(); len(got) != 0 {
		t.Errorf("found %q", got)
	}
	// What is told again is seen again.
	s.platform(200, "POST", "/v3/memories/add/", `{"messages":"I am in Rome","user_id":"alice"}`)
	if got := list(""); len(got) != 1 {
		t.Errorf("told again: %q", got)
	}
	s.platform(400, "POST", "/v3/memories/add/", `{"messages":"x","user_id":"alice","expiration_date":"tomorrow"}`)
}

func TestImmutable(t *testing.T) {
	s := newSite(t, nil)
	id := s.add("it is so", `"user_id":"alice","immutable":true`)
	s.platform(400, "PUT", "/v1/memories/"+id+"/", `{"text":"it is not"}`)
	s.platform(200, "DELETE", "/v1/memories/"+id+"/", "")
}

func TestBadInput(t *testing.T) {
	s := newSite(t, nil)
	id := s.add("a", `"user_id":"alice"`)
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/v3/memories/add/", `{"messages":[{"role":"user","content":"x"}]}`, 400},
		{"POST", "/v3/memories/add/", `{"messages":[{"role":"user","content":"x"}],"app_id":"a"}`, 400},
		{"POST", "/v3/memories/add/", `{"user_id":"alice"}`, 400},
		{"POST", "/v3/memories/add/", `{"messages":[],"user_id":"alice"}`, 400},
		{"POST", "/v3/memories/add/", `{"messages":[7],"user_id":"alice"}`, 400},
		{"POST", "/v3/memories/add/", `{"messages":"x","user_id":"alice","metadata":{"mem0":1}}`, 400},
		{"POST", "/v3/memories/add/", `{"messages":"x","user_id":"alice","timestamp":"never"}`, 400},
		{"POST", "/v3/memories/add/", `{"messages":"x","user_id":7}`, 400},
		{"POST", "/v3/memories/add/", `{"messages":"x","user_id":"*"}`, 400},
		{"POST", "/v3/memories/add/", `[]`, 400},
		{"POST", "/v3/memories/add/", `{"messages"`, 400},
		{"POST", "/v3/memories/search/", `{"query":" ","filters":{"user_id":"alice"}}`, 400},
		{"POST", "/v3/memories/search/", `{"query":"x"}`, 400},
		{"POST", "/v3/memories/search/", `{"query":"x","filters":{}}`, 400},
		{"POST", "/v3/memories/search/", `{"query":"x","filters":{"user_id":"alice"},"user_id":"alice"}`, 400},
		{"POST", "/v3/memories/search/", `{"query":"x","filters":{"user_id":"alice"},"top_k":0}`, 400},
		{"POST", "/v3/memories/search/", `{"query":"x","filters":{"user_id":"alice"},"threshold":2}`, 400},
		{"PUT", "/v1/memories/" + id + "/", `{}`, 400},
		{"PUT", "/v1/memories/" + id + "/", `{"text":""}`, 400},
		{"PUT", "/v1/memories/" + id + "/", `{"expiration_date":"x"}`, 400},
		{"PUT", "/v1/memories/a%2Fb/", `{"text":"x"}`, 404},
		{"GET", "/v1/memories/%25/", "", 404},
		{"GET", "/v1/memories/?user_id=alice&metadata=x", "", 400},
		{"GET", "/v1/memories/?user_id=alice&start_date=x", "", 400},
		{"DELETE", "/v1/memories/", "", 400},
		{"DELETE", "/v2/entities/planet/earth/", "", 400},
		{"DELETE", "/v2/entities/user/*/", "", 400},
		{"DELETE", "/v1/memories/" + id + "/?delete_linked=true", "", 501},
		{"PUT", "/v1/batch/", `{"memories":[]}`, 400},
	} {
		r := s.platform(c.status, c.method, c.target, c.body)
		if text, _ := r.at("error").(string); text == "" || r.at("request_id") == "" {
			t.Errorf("%s %s %s: no error in %s", c.method, c.target, c.body, r.body)
		}
	}
	if n := len(s.platform(http.StatusOK, "POST", "/v3/memories/", `{"filters":{"user_id":"*"}}`).texts()); n != 1 {
		t.Errorf("%d memories, want 1", n)
	}
}
