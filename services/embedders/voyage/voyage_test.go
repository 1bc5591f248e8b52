package voyage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/embedders/embedtest"
)

func list(vectors []string) string {
	var data []string
	for i, v := range slices.Backward(vectors) {
		data = append(data, fmt.Sprintf(`{"object":"embedding","embedding":%s,"index":%d}`, v, i))
	}
	return `{"object":"list","data":[` + strings.Join(data, ",") + `],"model":"m","usage":{"total_tokens":7}}`
}

func TestAdapter(t *testing.T) {
	embedtest.Run(t, embedtest.Adapter{
		Provider: "voyage", Variable: Variable, Model: "voyage/voyage-3-large",
		New: func(base string) (embedders.Source, error) {
			return New(Config{Model: "voyage-3-large", Key: wiretest.Key, BaseURL: base + "/v1", Dimensions: embedtest.Dim, InputType: "document"})
		},
		URI: "/v1/embeddings", Header: "Authorization", Value: "Bearer " + wiretest.Key,
		Schema: func(t testing.TB) *wiretest.Schema {
			return wiretest.Request(t, "voyage/openapi.json", "/embeddings")
		},
		Texts: func(body map[string]any) []any { return body["input"].([]any) },
		Reply: list, Tokens: 7, Limits: embedders.Limits{Texts: 1000, Tokens: 120_000},
		Refuse: func(m string) string { return `{"detail":"` + m + `"}` },
		Sends:  []string{`"input_type":"document"`, `"output_dimension":3`, `"truncation":true`},
	})
}

func TestLimits(t *testing.T) {
	for model, tokens := range map[string]int{
		"voyage-4-lite": 1_000_000, "voyage-3.5-lite": 1_000_000, "voyage-3.5": 320_000, "voyage-4": 320_000, "voyage-3-large": 120_000, "voyage-code-3": 120_000,
	} {
		s, err := New(Config{Model: model, Key: wiretest.Key})
		if err != nil || s.Limits() != (embedders.Limits{Texts: 1000, Tokens: tokens}) {
			t.Errorf("%s: %+v, error %v", model, s.Limits(), err)
		}
	}
}

func TestConfig(t *testing.T) {
	s, err := New(Config{})
	embedtest.Refused(t, s, err, Variable)
	s, err = New(Config{Key: wiretest.Key, InputType: "image"})
	embedtest.Refused(t, s, err, "query or document")
	s, err = New(Config{Key: wiretest.Key, Model: "new"})
	embedtest.Refused(t, s, err, "give dimensions")
	if s, err = New(Config{Key: wiretest.Key}); err != nil || s.Dim() != 1024 || s.Model() != "voyage/"+DefaultModel {
		t.Errorf("%v, error %v", s, err)
	}
}
