package anthropic

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func said(content, stop string) string {
	return `{"id":"msg","type":"message","role":"assistant","model":"m-1-dated","content":` + content + `,"stop_reason":"` + stop + `","stop_sequence":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":2,"cache_read_input_tokens":5,"output_tokens":3}}`
}

func TestChat(t *testing.T) {
	(&providertest.Chat{
		Endpoint: providertest.Endpoint{
			Provider: &Provider, Config: providers.Config{Model: "m-1"},
			URI: "/v1/messages", Header: "X-Api-Key", Value: wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema {
				return wiretest.Definition(t, "anthropic/messages.schema.json", "MessageCreateParamsNonStreaming")
			},
			// The description is of a later version of the interface, without a temperature.
			Complete: func(body map[string]any) {
				if body["temperature"] == .5 {
					delete(body, "temperature")
				}
			},
			Refuse: func(m string) string {
				return `{"type":"error","error":{"type":"invalid_request_error","message":"` + m + `"},"request_id":"r"}`
			},
		},
		Text: said(`[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Ye"},{"type":"text","text":"s."}]`, "end_turn"),
		Cut:  said(`[{"type":"text","text":"Ye"}]`, "max_tokens"),
		Call: said(`[{"type":"text","text":"I note it."},{"type":"tool_use","id":"t","name":"note","input":{ "text": "a" }}]`, "tool_use"),
		Unusable: map[string]string{
			said(`[]`, "refusal"): "refuses",
			`{"type":"message"}`:  "no content",
		},
		Sends: map[string][]string{
			"text":  {`"system":"Be brief."`, `"max_tokens":2000`, `"messages":[{"role":"user"`},
			"JSON":  {`one JSON value`},
			"long":  {`"system":"Be brief.\n\nBe kind."`, `"temperature":0.5`, `"max_tokens":77`},
			"tools": {`"input_schema":{"type":"object","properties":{}}`, `"tool_choice":{"type":"any"}`},
		},
	}).Run(t)
}

func TestConfig(t *testing.T) {
	_, err := Provider.NewChat(providers.Config{})
	providertest.Refused(t, err, "ANTHROPIC_API_KEY")
	_, err = Provider.NewChat(providers.Config{Key: wiretest.Key + " "})
	providertest.Refused(t, err, "copy the key again to ANTHROPIC_API_KEY")
	if c, err := Provider.NewChat(providers.Config{Key: wiretest.Key}); err != nil || c.Model() != "claude-haiku-4-5" {
		t.Errorf("%v, error %v", c, err)
	}
}
