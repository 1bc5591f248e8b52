package cohere

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func reply(vectors []string) string {
	return `{"id":"e","texts":[],"embeddings":{"float":[` + strings.Join(vectors, ",") + `]},"meta":{"billed_units":{"input_tokens":7}},"response_type":"embeddings_by_type"}`
}

func TestVectors(t *testing.T) {
	(&providertest.Vectors{
		Endpoint: providertest.Endpoint{
			Provider: &Provider,
			URI:      "/v2/embed", Header: "Authorization", Value: "Bearer " + wiretest.Key,
			Refuse: func(m string) string { return `{"id":"x","message":"` + m + `"}` },
		},
		Model: "embed-v4.0",
		Texts: func(body map[string]any) []any { return body["texts"].([]any) },
		Reply: reply, Tokens: 7, Limits: embedders.Limits{Texts: 96},
		Sends: []string{`"input_type":"search_document"`, `"embedding_types":["float"]`, `"output_dimension":3`, `"truncate":"END"`},
	}).Run(t)
}

// TestRecorded sends the same keys as the provider's own client, since its description may
// not be kept.
func TestRecorded(t *testing.T) {
	want := wiretest.Recorded(t, "cohere/wire-recording.json", "v2 embed")
	s := wiretest.Server(t, func(_ *http.Request, body []byte) (int, string) {
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s, want the keys of %v, error %v", body, want, err)
		}
		return 200, reply([]string{"[1,2,3]"})
	})
	source, err := Provider.NewSource(providers.Config{Key: wiretest.Key, BaseURL: s.URL, Dimensions: 256})
	if err == nil {
		_, err = source.Call(t.Context(), []string{"a"})
	}
	if err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]providers.Config{
		"COHERE_API_KEY": {}, "search_query": {Key: wiretest.Key, InputType: "image"}, "give dimensions": {Key: wiretest.Key, Model: "new"},
	} {
		_, err := Provider.NewSource(c)
		providertest.Refused(t, err, want)
	}
	if s, err := Provider.NewSource(providers.Config{Key: wiretest.Key}); err != nil || s.Dim() != 1536 {
		t.Errorf("%v, error %v", s, err)
	}
}
