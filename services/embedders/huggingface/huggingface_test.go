package huggingface

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/embedders/embedtest"
)

func reply(vectors []string) string { return "[" + strings.Join(vectors, ",") + "]" }

func TestAdapter(t *testing.T) {
	input := func(t testing.TB) *wiretest.Schema {
		return wiretest.Definition(t, "huggingface/feature-extraction-input.schema.json", "")
	}
	embed := func(t testing.TB) *wiretest.Schema { return wiretest.Request(t, "tei/openapi.json", "/embed") }
	for _, c := range []struct {
		name, model, provider, uri string
		tei                        bool
		schema                     func(testing.TB) *wiretest.Schema
		sends                      string
	}{
		{"endpoint", "mine", "huggingface", "/", false, input, `"truncate":true`},
		{"text-embeddings-inference", "BAAI/bge-small-en-v1.5", "tei", "/embed", true, embed, `"dimensions":3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			embedtest.Run(t, embedtest.Adapter{
				Provider: c.provider, Variable: Variable, Model: c.provider + "/" + c.model,
				New: func(base string) (embedders.Source, error) {
					return New(Config{Model: c.model, Key: wiretest.Key, BaseURL: base, TEI: c.tei, Dimensions: embedtest.Dim, PromptName: "query"})
				},
				URI: c.uri, Header: "Authorization", Value: "Bearer " + wiretest.Key,
				Schema: c.schema,
				Texts:  func(body map[string]any) []any { return body["inputs"].([]any) },
				Reply:  reply, Limits: embedders.Limits{Texts: 32},
				Refuse: func(m string) string { return `{"error":"` + m + `","error_type":"Validation"}` },
				Sends:  []string{`"normalize":true`, `"prompt_name":"query"`, c.sends},
			})
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
	s, err := New(Config{Key: wiretest.Key, Client: client})
	if err != nil || s.Dim() != 384 {
		t.Fatalf("%v, error %v", s, err)
	}
	if _, err := s.Call(t.Context(), []string{"a"}); err == nil {
		t.Error("a transport that fails is no error")
	}
	if want := BaseURL + "/models/" + DefaultModel + "/pipeline/feature-extraction"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestConfig(t *testing.T) {
	s, err := New(Config{})
	embedtest.Refused(t, s, err, Variable)
	s, err = New(Config{Key: wiretest.Key, Model: "a/../b", Dimensions: 3})
	embedtest.Refused(t, s, err, "the model is")
	s, err = New(Config{Key: wiretest.Key, Model: "new/model"})
	embedtest.Refused(t, s, err, "give dimensions")
	if s, err = New(Config{TEI: true}); err != nil || s.Model() != "tei/"+DefaultModel {
		t.Errorf("%v, error %v", s, err)
	}
}
