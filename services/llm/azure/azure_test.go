package azure

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/llm/modeltest"
)

func chat(message, finish string) string {
	return `{"id":"c","model":"m-1-dated","choices":[{"index":0,"content_filter_results":{},"finish_reason":"` + finish + `","message":` + message + `}],"prompt_filter_results":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}}`
}

// TestAdapter tests both surfaces.
func TestAdapter(t *testing.T) {
	for version, surface := range map[string]struct{ uri, spec, route string }{
		"":   {"/openai/deployments/m-1/chat/completions?api-version=2024-10-21", "azure-openai/openapi-deployments-2025-03-01-preview.json", "/deployments/{deployment-id}/chat/completions"},
		"v1": {"/openai/v1/chat/completions", "azure-openai/openapi-v1.json", "/chat/completions"},
	} {
		t.Run("version "+version, func(t *testing.T) {
			modeltest.Run(t, modeltest.Adapter{
				Provider: "azure_openai", Variable: Variable,
				New: func(base string) (llm.Client, error) {
					return New(Config{Model: "m-1", Key: wiretest.Key, BaseURL: base, Version: version})
				},
				URI: surface.uri, Header: "Api-Key", Value: wiretest.Key,
				Schema: func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, surface.spec, surface.route) },
				// The deployment is the model, and stands in the path; the official client sends it in
				// the body, too.
				Complete: func(body map[string]any) {
					if version == "" {
						delete(body, "model")
					}
				},
				Text: chat(`{"role":"assistant","content":"Yes."}`, "stop"),
				Cut:  chat(`{"role":"assistant","content":"Ye"}`, "length"),
				Call: chat(`{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"note","arguments":"{\"text\":\"a\"}"}}]}`, "tool_calls"),
				Unusable: map[string]string{
					chat(`{"role":"assistant"}`, "content_filter"): "filtered",
				},
				Refuse: func(m string) string {
					return `{"error":{"code":"content_filter","message":"` + m + `","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`
				},
				Sends: map[string][]string{"text": {`"temperature":0,`}, "JSON": {`"json_object"`}},
			})
		})
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		Variable:                {Model: "m", BaseURL: "https://x.openai.azure.com"},
		"model":                 {Key: wiretest.Key, BaseURL: "https://x.openai.azure.com"},
		"AZURE_OPENAI_ENDPOINT": {Key: wiretest.Key, Model: "m"},
		"deployment is":         {Key: wiretest.Key, Model: "../m", BaseURL: "https://x.openai.azure.com"},
	} {
		client, err := New(c)
		modeltest.Refused(t, client, err, want)
	}
}
