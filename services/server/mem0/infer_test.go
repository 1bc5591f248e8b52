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
	case len(r.Tools) > 0 && r.Tools[0].Name == "extract_entities":
		return llm.Reply{Calls: []llm.ToolCall{{Name: r.Tools[0].Name, Arguments: `{"entities":[{"name":"Alice","type":"person"},{"name":"Berlin","type":"location"}]}`}}}, nil
	case len(r.Tools) > 0:
		return llm.Reply{Calls: []llm.ToolCall{{Name: r.Tools[0].Name, Arguments: `{"relations":[{"source":"Alice","relation":"lives_in","target":"Berlin"}]}`}}}, nil
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

// What the graph has of a memory goes and changes with it.
func TestInferWithAGraph(t *testing.T) {
	m := &model{fact: "Alice lives in Berlin", decide: `[{"event":"ADD"}]`}
	s := newSite(t, m)
	const said = `{"messages":[{"role":"user","content":"Alice lives in Berlin"}],"user_id":"alice"}`
	entities := func() int {
		list, _ := s.plain(200, "POST", "/v1/entities/", `{"user_id":"alice"}`).at("results").([]any)
		return len(list)
	}
	forget := map[string]func(id string){
		"one":    func(id string) { s.platform(200, "DELETE", "/v1/memories/"+id+"/", "") },
		"batch":  func(id string) { s.platform(200, "DELETE", "/v1/batch/", `{"memories":[{"memory_id":"`+id+`"}]}`) },
		"all":    func(string) { s.platform(200, "DELETE", "/v1/memories/?user_id=alice", "") },
		"entity": func(string) { s.platform(200, "DELETE", "/v2/entities/user/alice/", "") },
		"reset":  func(string) { s.plain(200, "POST", "/reset", "") },
		"update": func(id string) { s.platform(200, "PUT", "/v1/memories/"+id+"/", `{"text":"it rains","metadata":{"k":1}}`) },
	}
	for name, do := range forget {
		r := s.plain(200, "POST", "/memories", said)
		id, _ := r.at("results", 0, "id").(string)
		if n := entities(); n != 2 {
			t.Fatalf("%s: %d entities after %s", name, n, r.body)
		}
		if do(id); entities() != 0 {
			t.Errorf("%s: the graph still has what the memory told", name)
		}
		if name == "update" {
			if r := s.platform(200, "GET", "/v1/memories/"+id+"/", ""); r.at("memory") != "it rains" || r.at("metadata", "k") != 1.0 {
				t.Errorf("updated to %s", r.body)
			}
		}
	}
}
