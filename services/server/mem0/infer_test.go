package mem0_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// model is a stand-in for a language model: it finds one fact in all that is said.
type model struct {
	fact   string
	decide string
	err    error
}

func (m *model) Model() string { return "stand-in" }

func (m *model) Generate(_ context.Context, r llm.Request) (llm.Reply, error) {
	switch {
	case m.err != nil:
		return llm.Reply{}, m.err
	case strings.HasPrefix(r.Messages[1].Text, "New fact: "):
		return llm.Reply{Text: m.decide}, nil
	}
	return llm.Reply{Text: `["` + m.fact + `"]`}, nil
}

func TestInfer(t *testing.T) {
	m := &model{fact: "Alice lives in Berlin", decide: `[{"event":"ADD"}]`}
	s := newSite(t, m)
	const said = `{"messages":[{"role":"user","content":"well, I moved to Berlin"}],"user_id":"alice","timestamp":1735689600,"metadata":{"k":1}}`
	r := s.plain(200, "POST", "/memories", said)
	if r.at("results", 0, "event") != "ADD" || r.at("results", 0, "memory") != "Alice lives in Berlin" || !strings.Contains(r.note, "timestamp") {
		t.Fatalf("added %s, note %q", r.body, r.note)
	}
	id := r.at("results", 0, "id").(string)
	m.fact, m.decide = "Alice lives in Bonn", `[{"event":"UPDATE","id":"1","data":"Alice lives in Bonn"}]`
	r = s.platform(200, "POST", "/v3/memories/add/", said)
	event := s.platform(200, "GET", "/v1/event/"+r.at("event_id").(string)+"/", "")
	if event.at("results", 0, "event") != "UPDATE" || event.at("results", 0, "id") != id {
		t.Errorf("event %s", event.body)
	}
	if got := s.platform(200, "GET", "/v1/memories/"+id+"/", "").at("memory"); got != "Alice lives in Bonn" {
		t.Errorf("it is %v now", got)
	}
	// Without infer no model is asked.
	m.err = errors.New("the provider is down, the key is sk-123")
	s.add("verbatim", `"user_id":"alice"`)
	// A model that fails adds nothing, and the client is told.
	r = s.plain(502, "POST", "/memories", said)
	if !strings.Contains(r.body, "provider_unavailable") || strings.Contains(r.body, "sk-123") {
		t.Errorf("error %s", r.body)
	}
	s.platform(502, "POST", "/v3/memories/add/", said)
	if got := s.plain(200, "GET", "/memories?user_id=alice", "").texts(); !slices.Equal(got, []string{"verbatim", "Alice lives in Bonn"}) {
		t.Errorf("kept %q", got)
	}
	if got := s.plain(200, "GET", "/configure", "").at("llm", "model"); got != "stand-in" {
		t.Errorf("model %v", got)
	}
}
