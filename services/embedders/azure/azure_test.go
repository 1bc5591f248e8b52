package azure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/embedders/embedtest"
)

func list(vectors []string) string {
	var data []string
	for i, v := range vectors {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, v))
	}
	return `{"object":"list","model":"m","data":[` + strings.Join(data, ",") + `],"usage":{"prompt_tokens":7,"total_tokens":7}}`
}

func TestAdapter(t *testing.T) {
	for _, c := range []struct{ name, version, uri, file, route string }{
		{"dated", "", "/openai/deployments/text-embedding-3-small/embeddings?api-version=" + DefaultVersion, "azure-openai/openapi-deployments-2025-03-01-preview.json", "/deployments/{deployment-id}/embeddings"},
		{"v1", "v1", "/openai/v1/embeddings", "azure-openai/openapi-v1.json", "/embeddings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			embedtest.Run(t, embedtest.Adapter{
				Provider: "azure_openai", Variable: Variable, Model: "azure_openai/text-embedding-3-small",
				New: func(base string) (embedders.Source, error) {
					return New(Config{Model: "text-embedding-3-small", Key: wiretest.Key, BaseURL: base, Version: c.version, Dimensions: embedtest.Dim})
				},
				URI: c.uri, Header: "Api-Key", Value: wiretest.Key,
				Schema: func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, c.file, c.route) },
				Texts:  func(body map[string]any) []any { return body["input"].([]any) },
				Reply:  list, Tokens: 7, Limits: embedders.Limits{Texts: 2048, Tokens: 300_000},
				Refuse: func(m string) string { return `{"error":{"code":"BadRequest","message":"` + m + `"}}` },
				Sends:  []string{`"dimensions":3`},
			})
		})
	}
}

func TestConfig(t *testing.T) {
	good := Config{Model: "text-embedding-3-large", Key: wiretest.Key, BaseURL: "https://x.openai.azure.com"}
	for want, change := range map[string]func(*Config){
		Variable:           func(c *Config) { c.Key = "" },
		"MY_KEY":           func(c *Config) { c.Key, c.KeyHint = "", "MY_KEY" },
		"deployment":       func(c *Config) { c.Model = "" },
		"base_url":         func(c *Config) { c.BaseURL = "" },
		"give dimensions":  func(c *Config) { c.Model = "mine" },
		"the deployment i": func(c *Config) { c.Model, c.Dimensions = "../x", 3 },
	} {
		bad := good
		change(&bad)
		s, err := New(bad)
		embedtest.Refused(t, s, err, want)
	}
	if s, err := New(good); err != nil || s.Dim() != 3072 {
		t.Errorf("%v, error %v", s, err)
	}
}
