package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

// chat is a completion with one choice.
func chat(message, finish string) string {
	return `{"id":"c","object":"chat.completion","created":1,"model":"m-1-dated","choices":[{"index":0,"logprobs":null,"finish_reason":"` + finish + `","message":` + message + `}],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}}`
}

func call(arguments string) string {
	return chat(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"note","arguments":"`+arguments+`"}}]}`, "tool_calls")
}

func TestChat(t *testing.T) {
	(&providertest.Chat{
		Endpoint: providertest.Endpoint{
			Provider: &Provider, Config: providers.Config{Model: "m-1"}, Base: "/v1",
			URI: "/v1/chat/completions", Header: "Authorization", Value: "Bearer " + wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema {
				return wiretest.Request(t, "openai/openapi.json", "/chat/completions")
			},
			Refuse: refuse,
		},
		Text: chat(`{"role":"assistant","content":"Yes.","refusal":null}`, "stop"),
		Cut:  chat(`{"role":"assistant","content":"Ye","refusal":null}`, "length"),
		Call: call(`{\"text\":\"a\"}`),
		Unusable: map[string]string{
			`{"choices":[]}`: "no choice",
			chat(`{"role":"assistant","content":"","refusal":null}`, "content_filter"): "filtered",
			chat(`{"role":"assistant","content":null,"refusal":"No."}`, "stop"):        "refuses",
		},
		Sends: map[string][]string{
			"text":  {`"temperature":0,`, `"max_tokens":2000`, `"role":"system"`},
			"JSON":  {`"response_format":{"type":"json_object"}`, `"content":"Answer with JSON and nothing else."`},
			"long":  {`"temperature":0.5`, `"max_tokens":77`},
			"tools": {`"parameters":{"type":"object","properties":{}}`, `"tool_choice":"required"`},
		},
	}).Run(t)
}

// refuse is an error in the form of OpenAI.
func refuse(m string) string {
	return `{"error":{"message":"` + m + `","type":"invalid_request_error","param":null,"code":null}}`
}

// TestBadToolJSON hands on what the model wrote, as it is.
func TestBadToolJSON(t *testing.T) {
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, call(`{\"text\":`) })
	c, err := Provider.NewChat(providers.Config{BaseURL: s.URL})
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
		c, err := Provider.NewChat(providers.Config{BaseURL: s.URL})
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
		c, err := Provider.NewChat(providers.Config{Model: model, BaseURL: s.URL})
		if err == nil {
			_, err = c.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "?"}}})
		}
		if err != nil || strings.Contains(got, "temperature") == reasons || strings.Contains(got, "max_completion_tokens") != reasons {
			t.Errorf("%s: %s, error %v", model, got, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]providers.Config{
		"OPENAI_API_KEY": {}, "MY_KEY": {KeyHint: "MY_KEY"}, "base_url": {Key: wiretest.Key, BaseURL: "nowhere"},
	} {
		_, err := Provider.NewChat(c)
		providertest.Refused(t, err, want)
	}
	if c, err := Provider.NewChat(providers.Config{Key: wiretest.Key}); err != nil || c.Model() != "gpt-4o-mini" {
		t.Errorf("%v, error %v", c, err)
	}
	for want, c := range map[string]providers.Config{
		"OPENAI_API_KEY": {}, "MY_KEY": {KeyHint: "MY_KEY"}, "base_url": {Key: wiretest.Key, BaseURL: "nowhere"},
		"give dimensions": {Key: wiretest.Key, Model: "new-model"}, "dimensions is -1": {Key: wiretest.Key, Dimensions: -1},
	} {
		_, err := Provider.NewSource(c)
		providertest.Refused(t, err, want)
	}
	if s, err := Provider.NewSource(providers.Config{Key: wiretest.Key}); err != nil || s.Model() != "openai/text-embedding-3-small" || s.Dim() != 1536 {
		t.Errorf("%v, error %v", s, err)
	}
}
