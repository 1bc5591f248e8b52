package openai

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func azureChat(message, finish string) string {
	return `{"id":"c","model":"m-1-dated","choices":[{"index":0,"content_filter_results":{},"finish_reason":"` + finish + `","message":` + message + `}],"prompt_filter_results":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}}`
}

// TestAzure tests both surfaces.
func TestAzure(t *testing.T) {
	for version, surface := range map[string]struct{ deployment, query, spec, route string }{
		"":   {"/openai/deployments/", "?api-version=2024-10-21", "azure-openai/openapi-deployments-2025-03-01-preview.json", "/deployments/{deployment-id}"},
		"v1": {"/openai/v1", "", "azure-openai/openapi-v1.json", ""},
	} {
		endpoint := func(model, path string) providertest.Endpoint {
			uri := surface.deployment + path + surface.query
			if version == "" {
				uri = surface.deployment + model + path + surface.query
			}
			return providertest.Endpoint{
				Provider: &Azure, Config: providers.Config{Model: model, Version: version},
				URI: uri, Header: "Api-Key", Value: wiretest.Key,
				Schema: func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, surface.spec, surface.route+path) },
				Refuse: func(m string) string {
					return `{"error":{"code":"content_filter","message":"` + m + `","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`
				},
			}
		}
		t.Run("chat of version "+version, func(t *testing.T) {
			e := endpoint("m-1", "/chat/completions")
			// The deployment is the model, and stands in the path; the official client sends it in
			// the body, too.
			e.Complete = func(body map[string]any) {
				if version == "" {
					delete(body, "model")
				}
			}
			(&providertest.Chat{
				Endpoint: e,
				Text:     azureChat(`{"role":"assistant","content":"Yes."}`, "stop"),
				Cut:      azureChat(`{"role":"assistant","content":"Ye"}`, "length"),
				Call:     azureChat(`{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"note","arguments":"{\"text\":\"a\"}"}}]}`, "tool_calls"),
				Unusable: map[string]string{azureChat(`{"role":"assistant"}`, "content_filter"): "filtered"},
				Sends:    map[string][]string{"text": {`"temperature":0,`}, "JSON": {`"json_object"`}},
			}).Run(t)
		})
		t.Run("vectors of version "+version, func(t *testing.T) {
			(&providertest.Vectors{
				Endpoint: endpoint("text-embedding-3-small", "/embeddings"), Model: "text-embedding-3-small",
				Texts: func(body map[string]any) []any { return body["input"].([]any) },
				Reply: list, Tokens: 7, Limits: embedders.Limits{Texts: 2048, Tokens: 300_000},
				Sends: []string{`"dimensions":3`},
			}).Run(t)
		})
	}
}

// TestAzureConfig verifies what a configuration must have.
func TestAzureConfig(t *testing.T) {
	good := providers.Config{Model: "text-embedding-3-large", Key: wiretest.Key, BaseURL: "https://x.openai.azure.com"}
	for want, change := range map[string]func(*providers.Config){
		"AZURE_OPENAI_API_KEY":  func(c *providers.Config) { c.Key = "" },
		"MY_KEY":                func(c *providers.Config) { c.Key, c.KeyHint = "", "MY_KEY" },
		"name as model":         func(c *providers.Config) { c.Model = "" },
		"AZURE_OPENAI_ENDPOINT": func(c *providers.Config) { c.BaseURL = "" },
		"the deployment is":     func(c *providers.Config) { c.Model, c.Dimensions = "../x", 3 },
	} {
		bad := good
		change(&bad)
		_, err := Azure.NewSource(bad)
		providertest.Refused(t, err, want)
		_, err = Azure.NewChat(bad)
		providertest.Refused(t, err, want)
	}
	bad := good
	bad.Model = "mine"
	_, err := Azure.NewSource(bad)
	providertest.Refused(t, err, "give dimensions")
	if s, err := Azure.NewSource(good); err != nil || s.Dim() != 3072 {
		t.Errorf("%v, error %v", s, err)
	}
}
