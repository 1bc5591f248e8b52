package voyage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func list(vectors []string) string {
	var data []string
	for i, v := range slices.Backward(vectors) {
		data = append(data, fmt.Sprintf(`{"object":"embedding","embedding":%s,"index":%d}`, v, i))
	}
	return `{"object":"list","data":[` + strings.Join(data, ",") + `],"model":"m","usage":{"total_tokens":7}}`
}

func TestVectors(t *testing.T) {
	(&providertest.Vectors{
		Endpoint: providertest.Endpoint{
			Provider: &Provider, Config: providers.Config{Model: "voyage-3-large", InputType: "document"}, Base: "/v1",
			URI: "/v1/embeddings", Header: "Authorization", Value: "Bearer " + wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema {
				return wiretest.Request(t, "voyage/openapi.json", "/embeddings")
			},
			Refuse: func(m string) string { return `{"detail":"` + m + `"}` },
		},
		Model: "voyage-3-large",
		Texts: func(body map[string]any) []any { return body["input"].([]any) },
		Reply: list, Tokens: 7, Limits: embedders.Limits{Texts: 1000, Tokens: 120_000},
		Sends: []string{`"input_type":"document"`, `"output_dimension":3`, `"truncation":true`},
	}).Run(t)
}

func TestLimits(t *testing.T) {
	for model, tokens := range map[string]int{
		"voyage-4-lite": 1_000_000, "voyage-3.5-lite": 1_000_000, "voyage-3.5": 320_000, "voyage-4": 320_000, "voyage-3-large": 120_000, "voyage-code-3": 120_000,
	} {
		s, err := Provider.NewSource(providers.Config{Model: model, Key: wiretest.Key})
		if err != nil || s.Limits() != (embedders.Limits{Texts: 1000, Tokens: tokens}) {
			t.Errorf("%s: %+v, error %v", model, s.Limits(), err)
		}
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]providers.Config{
		"VOYAGE_API_KEY": {}, "give one of query, document, or leave it out": {Key: wiretest.Key, InputType: "image"}, "give dimensions": {Key: wiretest.Key, Model: "new"},
	} {
		_, err := Provider.NewSource(c)
		providertest.Refused(t, err, want)
	}
	if s, err := Provider.NewSource(providers.Config{Key: wiretest.Key}); err != nil || s.Dim() != 1024 || s.Model() != "voyage/voyage-3.5" {
		t.Errorf("%v, error %v", s, err)
	}
}
