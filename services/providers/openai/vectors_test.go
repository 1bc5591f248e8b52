package openai

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

// list is a reply, the last vector first: a client goes by the index.
func list(vectors []string) string {
	var data []string
	for i, v := range slices.Backward(vectors) {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, v))
	}
	return `{"object":"list","model":"m","data":[` + strings.Join(data, ",") + `],"usage":{"prompt_tokens":7,"total_tokens":7}}`
}

func TestVectors(t *testing.T) {
	(&providertest.Vectors{
		Endpoint: providertest.Endpoint{
			Provider: &Provider, Base: "/v1",
			URI: "/v1/embeddings", Header: "Authorization", Value: "Bearer " + wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema {
				return wiretest.Request(t, "openai/openapi.json", "/embeddings")
			},
			Refuse: refuse,
		},
		Model: "text-embedding-3-small",
		Texts: func(body map[string]any) []any { return body["input"].([]any) },
		Reply: list, Tokens: 7, Limits: embedders.Limits{Texts: 2048, Tokens: 300_000},
		Sends: []string{`"dimensions":3`, `"encoding_format":"base64"`, `"model":"text-embedding-3-small"`},
	}).Run(t)
}

// TestBase64 reads the form in which OpenAI answers, from the recording of its client.
func TestBase64(t *testing.T) {
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, list([]string{`"zczMPc3MTD6amZk+"`}) })
	source, err := Provider.NewSource(providers.Config{BaseURL: s.URL, Dimensions: 3})
	if err != nil {
		t.Fatal(err)
	}
	b, err := source.Call(t.Context(), []string{"a"})
	if err != nil || fmt.Sprint(b.Vectors) != "[[0.1 0.2 0.3]]" {
		t.Errorf("%v, error %v", b.Vectors, err)
	}
}

// TestIndex refuses a reply that leaves a text without its vector.
func TestIndex(t *testing.T) {
	for _, index := range []int{-1, 0, 2} {
		s := wiretest.Server(t, func(*http.Request, []byte) (int, string) {
			return 200, fmt.Sprintf(`{"data":[{"index":0,"embedding":[1,2,3]},{"index":%d,"embedding":[1,2,3]}]}`, index)
		})
		source, err := Provider.NewSource(providers.Config{BaseURL: s.URL, Dimensions: 3})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := source.Call(t.Context(), []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), "twice, or for no text") {
			t.Errorf("index %d: %v, error %v", index, b, err)
		}
	}
}

// TestOwnDimension sends no dimensions where they are the model's own, or where the model is
// not known: a server of one length refuses the field.
func TestOwnDimension(t *testing.T) {
	for _, c := range []providers.Config{{Dimensions: 1536}, {}, {Model: "my-model", Dimensions: 3}} {
		s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
			if strings.Contains(string(body), "dimensions") {
				t.Errorf("%+v: %s", c, body)
			}
			return 200, list([]string{"[1,2,3]"})
		})
		c.BaseURL = s.URL
		source, err := Provider.NewSource(c)
		if err == nil {
			_, err = source.Call(t.Context(), []string{"a"})
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
