package ollama

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func reply(vectors []string) string {
	return `{"model":"m","embeddings":[` + strings.Join(vectors, ",") + `],"total_duration":1,"load_duration":1,"prompt_eval_count":7}`
}

func TestVectors(t *testing.T) {
	(&providertest.Vectors{
		Endpoint: providertest.Endpoint{
			Provider: &Provider,
			URI:      "/api/embed", Header: "Authorization", Value: "Bearer " + wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema {
				return wiretest.Request(t, "ollama/openapi.json", "/api/embed")
			},
			Refuse: func(m string) string { return `{"error":"` + m + `"}` },
		},
		Model: "nomic-embed-text",
		Texts: func(body map[string]any) []any { return body["input"].([]any) },
		Reply: reply, Tokens: 7, Limits: embedders.Limits{Texts: 128},
		Sends: []string{`"dimensions":3`, `"truncate":true`},
	}).Run(t)
}

// TestErrorWithSuccess has an error that comes with status 200.
func TestErrorWithSuccess(t *testing.T) {
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, `{"error":"model runner stopped"}` })
	source, err := Provider.NewSource(providers.Config{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Call(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "model runner stopped") {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	_, err := Provider.NewSource(providers.Config{Model: "mine"})
	providertest.Refused(t, err, "give dimensions")
	_, err = Provider.NewSource(providers.Config{BaseURL: "localhost:11434"})
	providertest.Refused(t, err, "base_url")
	if s, err := Provider.NewSource(providers.Config{Model: "all-minilm:latest"}); err != nil || s.Dim() != 384 || s.Model() != "ollama/all-minilm:latest" {
		t.Errorf("%v, error %v", s, err)
	}
}

// TestTag knows a model's own dimension by its name before the tag, and then asks for no
// other.
func TestTag(t *testing.T) {
	s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
		if strings.Contains(string(body), "dimensions") {
			t.Errorf("%s", body)
		}
		return 200, reply([]string{"[1,2,3]"})
	})
	for _, c := range []providers.Config{{Model: "all-minilm:latest"}, {Model: "all-minilm:latest", Dimensions: 384}} {
		c.BaseURL = s.URL
		source, err := Provider.NewSource(c)
		if err == nil {
			_, err = source.Call(t.Context(), []string{"a"})
		}
		if err != nil {
			t.Error(err)
		}
	}
}
