package anthropic

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/llm/modeltest"
)

func said(content, stop string) string {
	return `{"id":"msg","type":"message","role":"assistant","model":"m-1-dated","content":` + content + `,"stop_reason":"` + stop + `","stop_sequence":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":2,"cache_read_input_tokens":5,"output_tokens":3}}`
}

func TestAdapter(t *testing.T) {
	modeltest.Run(t, modeltest.Adapter{
		Provider: "anthropic", Variable: Variable,
		New: func(base string) (llm.Client, error) {
			return New(Config{Model: "m-1", Key: wiretest.Key, BaseURL: base})
		},
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
		Text: said(`[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Ye"},{"type":"text","text":"s."}]`, "end_turn"),
		Cut:  said(`[{"type":"text","text":"Ye"}]`, "max_tokens"),
		Call: said(`[{"type":"text","text":"I note it."},{"type":"tool_use","id":"t","name":"note","input":{ "text": "a" }}]`, "tool_use"),
		Unusable: map[string]string{
			said(`[]`, "refusal"): "refuses",
			`{"type":"message"}`:  "no content",
		},
		Refuse: func(m string) string {
			return `{"type":"error","error":{"type":"invalid_request_error","message":"` + m + `"},"request_id":"r"}`
		},
		Sends: map[string][]string{
			"text":  {`"system":"Be brief."`, `"max_tokens":2000`, `"messages":[{"role":"user"`},
			"JSON":  {`one JSON value`},
			"long":  {`"system":"Be brief.\n\nBe kind."`, `"temperature":0.5`, `"max_tokens":77`},
			"tools": {`"input_schema":{"type":"object","properties":{}}`, `"tool_choice":{"type":"any"}`},
		},
	})
}

func TestConfig(t *testing.T) {
	c, err := New(Config{})
	modeltest.Refused(t, c, err, Variable)
	c, err = New(Config{Key: wiretest.Key + " "})
	modeltest.Refused(t, c, err, "copy the key again to "+Variable)
	if c, err = New(Config{Key: wiretest.Key}); err != nil || c.Model() != DefaultModel {
		t.Errorf("%v, error %v", c, err)
	}
}
