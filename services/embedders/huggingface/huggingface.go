// Package huggingface embeds texts with models at Hugging Face: its inference service, a
// dedicated endpoint, or a server of text-embeddings-inference.
package huggingface

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

const (
	// BaseURL is the inference service.
	BaseURL = "https://router.huggingface.co/hf-inference"
	// TEIBaseURL is a server of text-embeddings-inference on this machine.
	TEIBaseURL = "http://localhost:8080"
	// DefaultModel is used where none is configured.
	DefaultModel = "sentence-transformers/all-MiniLM-L6-v2"
	// Variable of the environment that holds the key.
	Variable = "HF_TOKEN"
)

// known are the dimensions of models.
var known = map[string]int{
	"sentence-transformers/all-MiniLM-L6-v2": 384, "sentence-transformers/all-mpnet-base-v2": 768, "BAAI/bge-small-en-v1.5": 384, "BAAI/bge-base-en-v1.5": 768,
	"BAAI/bge-large-en-v1.5": 1024, "BAAI/bge-m3": 1024, "intfloat/multilingual-e5-large": 1024, "thenlper/gte-large": 1024,
}

// Config says which model, and where.
type Config struct {
	Model      string // empty: DefaultModel; a server of TEI has one model, and this is its name
	Key        string // needed by the inference service alone
	KeyHint    string // where the key comes from, for errors; empty: Variable
	BaseURL    string // a dedicated endpoint; empty: BaseURL, or TEIBaseURL
	TEI        bool   // the server is text-embeddings-inference
	Dimensions int    // 0: the model's own, where it is known; only TEI can shorten vectors
	PromptName string // the prompt that the model puts before each text; mostly empty
	Client     *http.Client
}

type source struct {
	service  *httpjson.Service
	name     string // with the provider
	path     string
	prompt   string
	dim      int
	shorten  bool
	provider string
}

// New makes a Source, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (embedders.Source, error) {
	s := &source{provider: "huggingface", prompt: c.PromptName}
	base := BaseURL
	if c.TEI {
		s.provider, base = "tei", TEIBaseURL
	}
	c.Model, c.KeyHint = cmp.Or(c.Model, DefaultModel), cmp.Or(c.KeyHint, Variable)
	hosted := !c.TEI && cmp.Or(c.BaseURL, BaseURL) == BaseURL
	if hosted && c.Key == "" {
		return nil, fault.Invalid("set up huggingface", "there is no key", "set "+c.KeyHint)
	}
	var err error
	if s.dim, err = embedders.Dimensions(s.provider, c.Model, c.Dimensions, known); err != nil {
		return nil, err
	}
	header := http.Header{}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	s.service, err = httpjson.New(httpjson.Config{
		Provider: s.provider, Kind: fault.ErrEmbedder, BaseURL: cmp.Or(c.BaseURL, base), Header: header, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	s.name = s.provider + "/" + c.Model
	switch {
	case c.TEI:
		s.path, s.shorten = "/embed", known[c.Model] > 0 && s.dim != known[c.Model]
	case hosted:
		s.path = "/models/" + c.Model + "/pipeline/feature-extraction"
		for part := range strings.SplitSeq(c.Model, "/") {
			if err := s.service.CheckPath("model", part); err != nil {
				return nil, err
			}
		}
	default:
		s.path = "/"
	}
	return s, nil
}

func (s *source) Model() string { return s.name }
func (s *source) Dim() int      { return s.dim }

// Limits are what a server of text-embeddings-inference takes unless it is told otherwise.
func (s *source) Limits() embedders.Limits { return embedders.Limits{Texts: 32} }

type request struct {
	Inputs     []string `json:"inputs"`
	Normalize  bool     `json:"normalize"`
	Truncate   bool     `json:"truncate"`
	PromptName string   `json:"prompt_name,omitempty"`
	Dimensions int      `json:"dimensions,omitempty"`
}

// Call makes one call.
func (s *source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	in := request{Inputs: texts, Normalize: true, Truncate: true, PromptName: s.prompt}
	if s.shorten {
		in.Dimensions = s.dim
	}
	var out []json.RawMessage
	err := s.service.Post(ctx, httpjson.Call{Path: s.path, In: &in, Out: &out, Limit: embedders.ReplyLimit(len(texts), s.dim)})
	if err != nil {
		return embedders.Batch{}, err
	}
	var b embedders.Batch
	for _, raw := range out {
		var v embedders.Vector
		if bytes.HasPrefix(raw, []byte("[[")) || json.Unmarshal(raw, &v) != nil {
			return embedders.Batch{}, s.service.Fail("it returned no list of vectors; a model without pooling returns one vector for each token", "use a model for sentence similarity", nil)
		}
		b.Vectors = append(b.Vectors, v)
	}
	return b, nil
}
