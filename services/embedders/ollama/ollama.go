// Package ollama embeds texts with models that an Ollama server runs, most often on the same
// machine.
package ollama

import (
	"cmp"
	"context"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

const (
	// BaseURL is that of a server on this machine.
	BaseURL = "http://localhost:11434"
	// DefaultModel is used where none is configured.
	DefaultModel = "nomic-embed-text"
	// Variable of the environment that holds the key of a server behind a login.
	Variable = "OLLAMA_API_KEY"
)

// known are the dimensions of models.
var known = map[string]int{
	"nomic-embed-text": 768, "mxbai-embed-large": 1024, "all-minilm": 384, "bge-m3": 1024, "bge-large": 1024, "snowflake-arctic-embed2": 1024, "embeddinggemma": 768,
}

// Config says which model of which server.
type Config struct {
	Model      string // empty: DefaultModel
	Key        string // mostly empty
	KeyHint    string // where the key comes from, for errors; empty: Variable
	BaseURL    string // empty: BaseURL
	Dimensions int    // 0: the model's own, where it is known
	Client     *http.Client
}

type source struct {
	service *httpjson.Service
	model   string
	dim     int
	shorten bool
}

// New makes a Source, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (embedders.Source, error) {
	c.Model = cmp.Or(c.Model, DefaultModel)
	dim, err := embedders.Dimensions("ollama", c.Model, c.Dimensions, known)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "ollama", Kind: fault.ErrEmbedder, BaseURL: cmp.Or(c.BaseURL, BaseURL), Header: header, Key: c.Key, KeyHint: cmp.Or(c.KeyHint, Variable), Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	return &source{service, c.Model, dim, known[c.Model] > 0 && dim != known[c.Model]}, nil
}

func (s *source) Model() string { return "ollama/" + s.model }
func (s *source) Dim() int      { return s.dim }

// Limits are not the server's, which has none: they keep a call short.
func (s *source) Limits() embedders.Limits { return embedders.Limits{Texts: 128} }

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Truncate   bool     `json:"truncate"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type response struct {
	Error      string             `json:"error"` // may come with status 200
	Embeddings []embedders.Vector `json:"embeddings"`
	Tokens     int64              `json:"prompt_eval_count"`
}

// Call makes one call of /api/embed, whose vectors have the length 1. Those of the older
// /api/embeddings do not, and would not fit beside them.
func (s *source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	in := request{Model: s.model, Input: texts, Truncate: true}
	if s.shorten {
		in.Dimensions = s.dim
	}
	var out response
	err := s.service.Post(ctx, httpjson.Call{Path: "/api/embed", In: &in, Out: &out, Limit: embedders.ReplyLimit(len(texts), s.dim)})
	if err == nil && out.Error != "" {
		err = s.service.Fail("it answered: "+out.Error, "check the model and the server's log", nil)
	}
	if err != nil {
		return embedders.Batch{}, err
	}
	return embedders.Batch{Vectors: embedders.Float32s(out.Embeddings), Tokens: out.Tokens}, nil
}
