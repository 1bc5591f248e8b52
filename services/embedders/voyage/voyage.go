// Package voyage embeds texts with Voyage AI's models.
package voyage

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

const (
	// BaseURL is Voyage's own.
	BaseURL = "https://api.voyageai.com/v1"
	// DefaultModel is used where none is configured.
	DefaultModel = "voyage-3.5"
	// Variable of the environment that holds the key.
	Variable = "VOYAGE_API_KEY"
)

// known are the dimensions of models.
var known = map[string]int{
	"voyage-4": 1024, "voyage-4-large": 1024, "voyage-4-lite": 1024, "voyage-3.5": 1024, "voyage-3.5-lite": 1024, "voyage-3-large": 1024, "voyage-3": 1024,
	"voyage-3-lite": 512, "voyage-code-3": 1024, "voyage-finance-2": 1024, "voyage-law-2": 1024, "voyage-multilingual-2": 1024,
}

// Config says which model.
type Config struct {
	Model      string // empty: DefaultModel
	Key        string
	KeyHint    string // where the key comes from, for errors; empty: Variable
	BaseURL    string // empty: BaseURL
	Dimensions int    // 0: the model's own, where it is known
	InputType  string // "query", "document", or empty: neither
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
	c.KeyHint, c.Model = cmp.Or(c.KeyHint, Variable), cmp.Or(c.Model, DefaultModel)
	switch {
	case c.Key == "":
		return nil, fault.Invalid("set up voyage", "there is no key", "set "+c.KeyHint)
	case c.InputType != "" && c.InputType != "query" && c.InputType != "document":
		return nil, fault.Invalid("set up voyage", fmt.Sprintf("input_type is %.80q", c.InputType), "give query or document, or none")
	}
	dim, err := embedders.Dimensions("voyage", c.Model, c.Dimensions, known)
	if err != nil {
		return nil, err
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "voyage", Kind: fault.ErrEmbedder, BaseURL: cmp.Or(c.BaseURL, BaseURL), Header: http.Header{"Authorization": {"Bearer " + c.Key}}, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	return &source{service, c.Model, c.InputType, dim, known[c.Model] > 0 && dim != known[c.Model]}, nil
}

func (s *source) Model() string { return "voyage/" + s.model }
func (s *source) Dim() int      { return s.dim }

// Limits depend on the model: small ones take more tokens at once.
func (s *source) Limits() embedders.Limits {
	switch {
	case strings.HasSuffix(s.model, "-lite"):
		return embedders.Limits{Texts: 1000, Tokens: 1_000_000}
	case s.model == "voyage-3.5" || s.model == "voyage-4":
		return embedders.Limits{Texts: 1000, Tokens: 320_000}
	}
	return embedders.Limits{Texts: 1000, Tokens: 120_000}
}

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	InputType  string   `json:"input_type,omitempty"`
	Truncation bool     `json:"truncation"`
	Dimensions int      `json:"output_dimension,omitempty"`
}

type response struct {
	Data []struct {
		Index     int              `json:"index"`
		Embedding embedders.Vector `json:"embedding"`
	} `json:"data"`
	Usage struct {
		TotalTokens int64 `json:"total_tokens"`
	} `json:"usage"`
}

// Call makes one call.
func (s *source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	in := request{Model: s.model, Input: texts, InputType: s.inputType, Truncation: true}
	if s.shorten {
		in.Dimensions = s.dim
	}
	var out response
	err := s.service.Post(ctx, httpjson.Call{Path: "/embeddings", In: &in, Out: &out, Limit: embedders.ReplyLimit(len(texts), s.dim)})
	if err != nil {
		return embedders.Batch{}, err
	}
	if len(out.Data) != len(texts) {
		return embedders.Batch{}, s.service.Fail(fmt.Sprintf("it returned %d vectors for %d texts", len(out.Data), len(texts)), "check base_url", nil)
	}
	b := embedders.Batch{Vectors: make([][]float32, len(texts)), Tokens: out.Usage.TotalTokens}
	for _, d := range out.Data {
		if d.Index < 0 || d.Index >= len(texts) || b.Vectors[d.Index] != nil {
			return embedders.Batch{}, s.service.Fail(fmt.Sprintf("it returned vector %d twice, or for no text", d.Index), "check base_url", nil)
		}
		b.Vectors[d.Index] = d.Embedding
	}
	return b, nil
}
