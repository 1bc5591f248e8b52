// Package cohere embeds texts with Cohere's models.
package cohere

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

const (
	// BaseURL is Cohere's own.
	BaseURL = "https://api.cohere.com"
	// DefaultModel is used where none is configured.
	DefaultModel = "embed-v4.0"
	// DefaultInputType is for what is stored. The service wants one.
	DefaultInputType = "search_document"
	// Variable of the environment that holds the key.
	Variable = "COHERE_API_KEY"
)

// known are the dimensions of models.
var known = map[string]int{
	"embed-v4.0": 1536, "embed-english-v3.0": 1024, "embed-english-light-v3.0": 384, "embed-multilingual-v3.0": 1024, "embed-multilingual-light-v3.0": 384,
}

var inputTypes = []string{"search_document", "search_query", "classification", "clustering"}

// Config says which model.
type Config struct {
	Model      string // empty: DefaultModel
	Key        string
	KeyHint    string // where the key comes from, for errors; empty: Variable
	BaseURL    string // empty: BaseURL
	Dimensions int    // 0: the model's own, where it is known; embed-v4.0 alone can shorten
	InputType  string // empty: DefaultInputType
	Client     *http.Client
}

type source struct {
	service   *httpjson.Service
	model     string
	inputType string
	dim       int
	shorten   bool
}

// New makes a Source, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (embedders.Source, error) {
	c.KeyHint, c.Model, c.InputType = cmp.Or(c.KeyHint, Variable), cmp.Or(c.Model, DefaultModel), cmp.Or(c.InputType, DefaultInputType)
	switch {
	case c.Key == "":
		return nil, fault.Invalid("set up cohere", "there is no key", "set "+c.KeyHint)
	case !slices.Contains(inputTypes, c.InputType):
		return nil, fault.Invalid("set up cohere", fmt.Sprintf("input_type is %.80q", c.InputType), "give one of "+strings.Join(inputTypes, ", "))
	}
	dim, err := embedders.Dimensions("cohere", c.Model, c.Dimensions, known)
	if err != nil {
		return nil, err
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "cohere", Kind: fault.ErrEmbedder, BaseURL: cmp.Or(c.BaseURL, BaseURL), Header: http.Header{"Authorization": {"Bearer " + c.Key}}, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	return &source{service, c.Model, c.InputType, dim, known[c.Model] > 0 && dim != known[c.Model]}, nil
}

func (s *source) Model() string            { return "cohere/" + s.model }
func (s *source) Dim() int                 { return s.dim }
func (s *source) Limits() embedders.Limits { return embedders.Limits{Texts: 96} }

type request struct {
	Model      string   `json:"model"`
	Texts      []string `json:"texts"`
	InputType  string   `json:"input_type"`
	Types      []string `json:"embedding_types"`
	Truncate   string   `json:"truncate"`
	Dimensions int      `json:"output_dimension,omitempty"`
}

type response struct {
	Embeddings struct {
		Float []embedders.Vector `json:"float"`
	} `json:"embeddings"`
	Meta struct {
		Billed struct {
			InputTokens float64 `json:"input_tokens"`
		} `json:"billed_units"`
	} `json:"meta"`
}

// Call makes one call.
func (s *source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	in := request{Model: s.model, Texts: texts, InputType: s.inputType, Types: []string{"float"}, Truncate: "END"}
	if s.shorten {
		in.Dimensions = s.dim
	}
	var out response
	err := s.service.Post(ctx, httpjson.Call{Path: "/v2/embed", In: &in, Out: &out, Limit: embedders.ReplyLimit(len(texts), s.dim)})
	if err != nil {
		return embedders.Batch{}, err
	}
	return embedders.Batch{Vectors: embedders.Float32s(out.Embeddings.Float), Tokens: int64(out.Meta.Billed.InputTokens)}, nil
}
