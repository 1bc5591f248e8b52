package ollama

import (
	"net/http"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func said(message, reason string) string {
	return `{"model":"m-1-dated","created_at":"2026-01-01T00:00:00Z","message":` + message + `,"done":true,"done_reason":"` + reason + `","prompt_eval_count":11,"eval_count":3}`
}

func TestChat(t *testing.T) {
	(&providertest.Chat{
		Endpoint: providertest.Endpoint{
			Provider: &Provider, Config: providers.Config{Model: "m-1"},
			URI: "/api/chat", Header: "Authorization", Value: "Bearer " + wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, "ollama/openapi.json", "/api/chat") },
			Refuse: func(m string) string { return `{"error":"` + m + `"}` },
		},
		Text: said(`{"role":"assistant","content":"Yes."}`, "stop"),
		Cut:  said(`{"role":"assistant","content":"Ye"}`, "length"),
		Call: said(`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"note","arguments":{ "text": "a" }}}]}`, "stop"),
		Unusable: map[string]string{
			`{"error":"out of memory"}`: "out of memory",
			`{"done":true}`:             "no message",
		},
		Sends: map[string][]string{
			"text":  {`"stream":false`, `"temperature":0,`, `"num_predict":2000`},
			"JSON":  {`"format":"json"`},
			"long":  {`"temperature":0.5`, `"num_predict":77`},
			"tools": {`"parameters":{"type":"object","properties":{}}`},
		},
	}).Run(t)
}

// TestArgumentsAsText takes a string of JSON in the place of an object, which some models write.
func TestArgumentsAsText(t *testing.T) {
	for arguments, want := range map[string]string{`"{\"a\":1}"`: `{"a":1}`, `"{"`: `{`, `null`: `null`, `{}`: `{}`} {
		s := wiretest.Server(t, func(r *http.Request, _ []byte) (int, string) {
			if r.Header.Get("Authorization") != "" {
				t.Error("a key is sent that there is not")
			}
			return 200, said(`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"note","arguments":`+arguments+`}}]}`, "stop")
		})
		c, err := Provider.NewChat(providers.Config{BaseURL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		reply, err := c.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "?"}}})
		if err != nil || len(reply.Calls) != 1 || reply.Calls[0].Arguments != want {
			t.Errorf("%s: %+v, error %v", arguments, reply, err)
		}
	}
}
