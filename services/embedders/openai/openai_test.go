package openai

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/embedders/embedtest"
)

// list is a reply, the last vector first: a client goes by the index.
func list(vectors []string) string {
	var data []string
	for i, v := range slices.Backward(vectors) {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, v))
	}
	return `{"object":"list","model":"m","data":[` + strings.Join(data, ",") + `],"usage":{"prompt_tokens":7,"total_tokens":7}}`
}

func TestAdapter(t *testing.T) {
	embedtest.Run(t, embedtest.Adapter{
		Provider: "openai", Variable: Variable, Model: "openai/text-embedding-3-small",
		New: func(base string) (embedders.Source, error) {
			return New(Config{Key: wiretest.Key, BaseURL: base + "/v1", Dimensions: embedtest.Dim})
		},
		URI: "/v1/embeddings", Header: "Authorization", Value: "Bearer " + wiretest.Key,
		Schema: func(t testing.TB) *wiretest.Schema {
			return wiretest.Request(t, "openai/openapi.json", "/embeddings")
		},
		Texts: func(body map[string]any) []any { return body["input"].([]any) },
		Reply: list, Tokens: 7, Limits: embedders.Limits{Texts: 2048, Tokens: 300_000},
		Refuse: func(m string) string {
			return `{"error":{"message":"` + m + `","type":"invalid_request_error","param":null,"code":null}}`
		},
		Sends: []string{`"dimensions":3`, `"encoding_format":"base64"`, `"model":"text-embedding-3-small"`},
	})
}

// TestBase64 reads the form in which OpenAI answers, from the recording of its client.
func TestBase64(t *testing.T) {
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, list([]string{`"zczMPc3MTD6amZk+"`}) })
	source, err := New(Config{BaseURL: s.URL, Dimensions: 3})
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
		source, err := New(Config{BaseURL: s.URL, Dimensions: 3})
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
	for _, c := range []Config{{Dimensions: 1536}, {}, {Model: "my-model", Dimensions: 3}} {
		s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
			if strings.Contains(string(body), "dimensions") {
				t.Errorf("%+v: %s", c, body)
			}
			return 200, list([]string{"[1,2,3]"})
		})
		c.BaseURL = s.URL
		source, err := New(c)
		if err == nil {
			_, err = source.Call(t.Context(), []string{"a"})
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestConfig(t *testing.T) {
	s, err := New(Config{})
	embedtest.Refused(t, s, err, Variable)
	s, err = New(Config{KeyHint: "MY_KEY"})
	embedtest.Refused(t, s, err, "MY_KEY")
	s, err = New(Config{Key: wiretest.Key, BaseURL: "nowhere"})
	embedtest.Refused(t, s, err, "base_url")
	s, err = New(Config{Key: wiretest.Key, Model: "new-model"})
	embedtest.Refused(t, s, err, "give dimensions")
	s, err = New(Config{Key: wiretest.Key, Dimensions: -1})
	embedtest.Refused(t, s, err, "dimensions is -1")
	if s, err = New(Config{Key: wiretest.Key}); err != nil || s.Model() != "openai/"+DefaultModel || s.Dim() != 1536 {
		t.Errorf("%v, error %v", s, err)
	}
}
