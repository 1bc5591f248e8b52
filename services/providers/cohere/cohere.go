// Package cohere describes Cohere's models of embeddings.
package cohere

import (
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

// Provider is Cohere. The service wants a type of input; that for what is stored comes first.
var Provider = providers.Provider{
	Name: "cohere", Variable: "COHERE_API_KEY", BaseURL: "https://api.cohere.com",
	Prepare: providers.InputTypes("cohere", "search_document", "search_query", "classification", "clustering"),
	Vectors: &providers.Vectors{
		Model: "embed-v4.0", // the only one that can shorten vectors
		Known: map[string]int{
			"embed-v4.0": 1536, "embed-english-v3.0": 1024, "embed-english-light-v3.0": 384, "embed-multilingual-v3.0": 1024, "embed-multilingual-light-v3.0": 384,
		},
		Limits: providers.Most(embedders.Limits{Texts: 96}), Call: providers.At("/v2/embed"), Request: embed, Batch: func() providers.Batch { return &response{} },
	},
}

type request struct {
	Model      string   `json:"model"`
	Texts      []string `json:"texts"`
	InputType  string   `json:"input_type"`
	Types      []string `json:"embedding_types"`
	Truncate   string   `json:"truncate"`
	Dimensions int      `json:"output_dimension,omitempty"`
}

func embed(c *providers.Config, texts []string, dimensions int) any {
	return &request{c.Model, texts, c.InputType, []string{"float"}, "END", dimensions}
}

type response struct {
	Embeddings struct {
		Float []providers.Vector `json:"float"`
	} `json:"embeddings"`
	Meta struct {
		Billed struct {
			InputTokens float64 `json:"input_tokens"`
		} `json:"billed_units"`
	} `json:"meta"`
}

// Read returns the vectors, which are in the order of the texts.
func (r *response) Read(*httpjson.Service, int, int) ([]providers.Vector, error) {
	return r.Embeddings.Float, nil
}

// Tokens are those that are billed.
func (r *response) Tokens() int64 { return int64(r.Meta.Billed.InputTokens) }
