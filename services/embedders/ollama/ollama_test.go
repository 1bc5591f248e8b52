package ollama

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/embedders/embedtest"
)

func reply(vectors []string) string {
	return `{"model":"m","embeddings":[` + strings.Join(vectors, ",") + `],"total_duration":1,"load_duration":1,"prompt_eval_count":7}`
}

func TestAdapter(t *testing.T) {
	embedtest.Run(t, embedtest.Adapter{
		Provider: "ollama", Variable: Variable, Model: "ollama/" + DefaultModel,
		New: func(base string) (embedders.Source, error) {
			return New(Config{Key: wiretest.Key, BaseURL: base, Dimensions: embedtest.Dim})
		},
		URI: "/api/embed", Header: "Authorization", Value: "Bearer " + wiretest.Key,
		Schema: func(t testing.TB) *wiretest.Schema {
			return wiretest.Request(t, "ollama/openapi.json", "/api/embed")
		},
		Texts: func(body map[string]any) []any { return body["input"].([]any) },
		Reply: reply, Tokens: 7, Limits: embedders.Limits{Texts: 128},
		Refuse: func(m string) string { return `{"error":"` + m + `"}` },
		Sends:  []string{`"dimensions":3`, `"truncate":true`},
	})
}

// TestErrorWithSuccess has an error that comes with status 200.
func TestErrorWithSuccess(t *testing.T) {
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, `{"error":"model runner stopped"}` })
	source, err := New(Config{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Call(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "model runner stopped") {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	s, err := New(Config{Model: "mine"})
	embedtest.Refused(t, s, err, "give dimensions")
	s, err = New(Config{BaseURL: "localhost:11434"})
	embedtest.Refused(t, s, err, "base_url")
	if s, err = New(Config{Model: "all-minilm:latest"}); err != nil || s.Dim() != 384 || s.Model() != "ollama/all-minilm:latest" {
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
	for _, c := range []Config{{Model: "all-minilm:latest"}, {Model: "all-minilm:latest", Dimensions: 384}} {
		c.BaseURL = s.URL
		source, err := New(c)
		if err == nil {
			_, err = source.Call(t.Context(), []string{"a"})
		}
		if err != nil {
			t.Error(err)
		}
	}
}
