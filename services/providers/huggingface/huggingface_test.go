package huggingface

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func reply(vectors []string) string { return "[" + strings.Join(vectors, ",") + "]" }

func TestVectors(t *testing.T) {
	input := func(t testing.TB) *wiretest.Schema {
		return wiretest.Definition(t, "huggingface/feature-extraction-input.schema.json", "")
	}
	embed := func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, "tei/openapi.json", "/embed") }
	for _, c := range []struct {
		name, model string
		provider    *providers.Provider
		uri         string
		schema      func(testing.TB) *wiretest.Schema
		sends       string
	}{
		{"endpoint", "mine", &Provider, "/", input, `"truncate":true`},
		{"text-embeddings-inference", "BAAI/bge-small-en-v1.5", &TEI, "/embed", embed, `"dimensions":3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			(&providertest.Vectors{
				Endpoint: providertest.Endpoint{
					Provider: c.provider, Config: providers.Config{Model: c.model, PromptName: "query"},
					URI: c.uri, Header: "Authorization", Value: "Bearer " + wiretest.Key, Schema: c.schema,
					Refuse: func(m string) string { return `{"error":"` + m + `","error_type":"Validation"}` },
				},
				Model: c.model,
				Texts: func(body map[string]any) []any { return body["inputs"].([]any) },
				Reply: reply, Limits: embedders.Limits{Texts: 32},
				Sends: []string{`"normalize":true`, `"prompt_name":"query"`, c.sends},
			}).Run(t)
		})
	}
}

// TestHosted calls the inference service, which is stood in for by a transport.
func TestHosted(t *testing.T) {
	var got string
	client := &http.Client{Transport: through(func(r *http.Request) (*http.Response, error) {
		got = r.URL.String()
		return nil, http.ErrHandlerTimeout
	})}
	s, err := Provider.NewSource(providers.Config{Key: wiretest.Key, Client: client})
	if err != nil || s.Dim() != 384 {
		t.Fatalf("%v, error %v", s, err)
	}
	if _, err := s.Call(t.Context(), []string{"a"}); err == nil {
		t.Error("a transport that fails is no error")
	}
	if want := hosted + "/models/" + model + "/pipeline/feature-extraction"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestConfig(t *testing.T) {
	for want, c := range map[string]providers.Config{
		"HF_TOKEN": {}, "the model is": {Key: wiretest.Key, Model: "a/../b", Dimensions: 3}, "give dimensions": {Key: wiretest.Key, Model: "new/model"},
	} {
		_, err := Provider.NewSource(c)
		providertest.Refused(t, err, want)
	}
	if s, err := TEI.NewSource(providers.Config{}); err != nil || s.Model() != "tei/"+model {
		t.Errorf("%v, error %v", s, err)
	}
}
