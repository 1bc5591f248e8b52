package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/llm/modeltest"
)

// chat is a completion with one choice.
func chat(message, finish string) string {
	return `{"id":"c","object":"chat.completion","created":1,"model":"m-1-dated","choices":[{"index":0,"logprobs":null,"finish_reason":"` + finish + `","message":` + message + `}],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}}`
}

func call(arguments string) string {
	return chat(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"note","arguments":"`+arguments+`"}}]}`, "tool_calls")
}

func TestAdapter(t *testing.T) {
	modeltest.Run(t, modeltest.Adapter{
		Provider: "openai", Variable: Variable,
		New: func(base string) (llm.Client, error) {
			return New(Config{Model: "m-1", Key: wiretest.Key, BaseURL: base + "/v1"})
		},
		URI: "/v1/chat/completions", Header: "Authorization", Value: "Bearer " + wiretest.Key,
		Schema: func(t testing.TB) *wiretest.Schema {
			return wiretest.Request(t, "openai/openapi.json", "/chat/completions")
		},
		Text: chat(`{"role":"assistant","content":"Yes.","refusal":null}`, "stop"),
		Cut:  chat(`{"role":"assistant","content":"Ye","refusal":null}`, "length"),
		Call: call(`{\"text\":\"a\"}`),
		Unusable: map[string]string{
			`{"choices":[]}`: "no choice",
			chat(`{"role":"assistant","content":"","refusal":null}`, "content_filter"): "filtered",
			chat(`{"role":"assistant","content":null,"refusal":"No."}`, "stop"):        "refuses",
		},
		Refuse: func(m string) string {
			return `{"error":{"message":"` + m + `","type":"invalid_request_error","param":null,"code":null}}`
		},
		Sends: map[string][]string{
			"text":  {`"temperature":0,`, `"max_tokens":2000`, `"role":"system"`},
			"JSON":  {`"response_format":{"type":"json_object"}`, `"content":"Answer with JSON and nothing else."`},
			"long":  {`"temperature":0.5`, `"max_tokens":77`},
			"tools": {`"parameters":{"type":"object","properties":{}}`, `"tool_choice":"required"`},
		},
	})
}

// TestBadToolJSON hands on what the model wrote, as it is.
func TestBadToolJSON(t *testing.T) {
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, call(`{\"text\":`) })
	c, err := New(Config{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "?"}}})
	if err != nil || len(reply.Calls) != 1 || reply.Calls[0].Arguments != `{"text":` {
		t.Errorf("%+v, error %v", reply, err)
	}
}

// TestWordJSON: the mode of JSON is refused without the word; where it is there, nothing is added.
func TestWordJSON(t *testing.T) {
	for text, added := range map[string]bool{"List the facts.": true, "": true, "Answer in JSON.": false, "as json": false} {
		var got struct {
			Messages []struct{ Role, Content string }
			Choice   any `json:"tool_choice"`
		}
		s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
			if err := json.Unmarshal(body, &got); err != nil {
				t.Error(err)
			}
			return 200, chat(`{"role":"assistant","content":"[]"}`, "stop")
		})
		c, err := New(Config{BaseURL: s.URL})
		if err == nil {
			_, err = c.Generate(t.Context(), llm.Request{JSON: true, Messages: []llm.Message{{Role: llm.User, Text: text}}})
		}
		if err != nil || (len(got.Messages) == 2) != added || !strings.Contains(strings.ToLower(fmt.Sprint(got.Messages)), "json") || got.Choice != nil {
			t.Errorf("%q: %+v, error %v", text, got, err)
		}
	}
}

// TestReasoningModels sends neither a temperature nor max_tokens to models that refuse them.
func TestReasoningModels(t *testing.T) {
	for model, reasons := range map[string]bool{
		"gpt-4o-mini": false, "gpt-5-mini": true, "gpt-5": true, "gpt-5.1": true, "gpt-5-chat-latest": false, "o3": true, "o4-mini": true, "openai/o1-mini": true, "o1x": false, "llama-3": false,
	} {
		var got string
		s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
			got = string(body)
			return 200, chat(`{"role":"assistant","content":"Yes."}`, "stop")
		})
		c, err := New(Config{Model: model, BaseURL: s.URL})
		if err == nil {
			_, err = c.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "?"}}})
		}
		if err != nil || strings.Contains(got, "temperature") == reasons || strings.Contains(got, "max_completion_tokens") != reasons {
			t.Errorf("%s: %s, error %v", model, got, err)
		}
	}
}

func TestConfig(t *testing.T) {
	c, err := New(Config{})
	modeltest.Refused(t, c, err, Variable)
	c, err = New(Config{KeyHint: "MY_KEY"})
	modeltest.Refused(t, c, err, "MY_KEY")
	c, err = New(Config{Key: wiretest.Key, BaseURL: "nowhere"})
	modeltest.Refused(t, c, err, "base_url")
	if c, err = New(Config{Key: wiretest.Key}); err != nil || c.Model() != DefaultModel {
		t.Errorf("%v, error %v", c, err)
	}
}
