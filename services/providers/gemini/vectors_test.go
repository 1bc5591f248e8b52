package gemini

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func reply(vectors []string) string {
	var all []string
	for _, v := range vectors {
		all = append(all, `{"values":`+v+`}`)
	}
	return `{"embeddings":[` + strings.Join(all, ",") + `]}`
}

func texts(body map[string]any) (all []any) {
	for _, r := range body["requests"].([]any) {
		parts := r.(map[string]any)["content"].(map[string]any)["parts"].([]any)
		all = append(all, parts[0].(map[string]any)["text"])
	}
	return all
}

func TestVectors(t *testing.T) {
	const model = "models/gemini-embedding-001"
	(&providertest.Vectors{
		Endpoint: providertest.Endpoint{
			Provider: &Provider, Config: providers.Config{Model: model},
			URI: "/v1beta/" + model + ":batchEmbedContents", Header: "X-Goog-Api-Key", Value: wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema {
				return wiretest.Request(t, "gemini/openapi.json", "/v1beta/{model}:batchEmbedContents")
			},
			Complete: func(body map[string]any) { body["model"] = model }, // it is in the path
			Refuse:   refuse,
		},
		Model: "gemini-embedding-001", Texts: texts, Reply: reply, Limits: embedders.Limits{Texts: 100},
		Sends: []string{`"model":"` + model + `"`, `"taskType":"SEMANTIC_SIMILARITY"`, `"outputDimensionality":3`},
	}).Run(t)
}

// TestNormalised gives shortened vectors the length 1, and sends no dimension for whole ones.
func TestNormalised(t *testing.T) {
	s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) { return 200, reply([]string{"[3,0,4]"}) })
	source, err := Provider.NewSource(providers.Config{Key: wiretest.Key, BaseURL: s.URL, Dimensions: 3})
	if err != nil {
		t.Fatal(err)
	}
	b, err := source.Call(t.Context(), []string{"a"})
	if err != nil || math.Abs(float64(b.Vectors[0][0])-.6) > 1e-6 || math.Abs(float64(b.Vectors[0][2])-.8) > 1e-6 {
		t.Errorf("%v, error %v", b.Vectors, err)
	}
	whole := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
		if strings.Contains(string(body), "outputDimensionality") {
			t.Errorf("%s", body)
		}
		return 200, reply([]string{"[3,0,4]"})
	})
	if source, err = Provider.NewSource(providers.Config{Key: wiretest.Key, BaseURL: whole.URL}); err == nil {
		b, err = source.Call(t.Context(), []string{"a"})
	}
	if err != nil || b.Vectors[0][0] != 3 {
		t.Errorf("%v, error %v", b.Vectors, err)
	}
}
