// Package openai embeds texts with models of OpenAI, and of any server that speaks its
// embeddings: vLLM, llama.cpp, LM Studio, LiteLLM and many more.
package openai

import (
	"cmp"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/embedders/openaiwire"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

const (
	// BaseURL is OpenAI's own.
	BaseURL = "https://api.openai.com/v1"
	// DefaultModel is used where none is configured.
	DefaultModel = "text-embedding-3-small"
	// Variable of the environment that holds the key.
	Variable = "OPENAI_API_KEY"
)

// known are the dimensions of models.
var known = map[string]int{"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}

// Config says which model of which server.
type Config struct {
	Model      string // empty: DefaultModel
	Key        string // may be empty for a server of another base URL
	KeyHint    string // where the key comes from, for errors; empty: Variable
	BaseURL    string // empty: BaseURL
	Dimensions int    // 0: the model's own, where it is known
	Client     *http.Client
}

// New makes a Source, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (embedders.Source, error) {
	c.KeyHint, c.Model = cmp.Or(c.KeyHint, Variable), cmp.Or(c.Model, DefaultModel)
	if c.Key == "" && cmp.Or(c.BaseURL, BaseURL) == BaseURL {
		return nil, fault.Invalid("set up openai", "there is no key", "set "+c.KeyHint)
	}
	dim, err := embedders.Dimensions("openai", c.Model, c.Dimensions, known)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "openai", Kind: fault.ErrEmbedder, BaseURL: cmp.Or(c.BaseURL, BaseURL), Header: header, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	// A model of another server may have one length alone, and refuse the field.
	shorten := known[c.Model] > 0 && dim != known[c.Model]
	return &openaiwire.Source{Service: service, Path: "/embeddings", Name: c.Model, Length: dim, Shorten: shorten}, nil
}
