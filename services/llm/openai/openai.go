// Package openai asks models of OpenAI, and of any server that speaks its chat completions:
// vLLM, llama.cpp, LM Studio, Groq, Mistral, OpenRouter and many more.
package openai

import (
	"cmp"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/llm/chatwire"
)

const (
	// BaseURL is OpenAI's own.
	BaseURL = "https://api.openai.com/v1"
	// DefaultModel is asked where none is configured.
	DefaultModel = "gpt-4o-mini"
	// Variable of the environment that holds the key.
	Variable = "OPENAI_API_KEY"
)

// Config says which model of which server.
type Config struct {
	Model   string // empty: DefaultModel
	Key     string // may be empty for a server of another base URL
	KeyHint string // where the key comes from, for errors; empty: Variable
	BaseURL string // empty: BaseURL
	Client  *http.Client
}

// New makes a client, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (llm.Client, error) {
	c.KeyHint = cmp.Or(c.KeyHint, Variable)
	if c.Key == "" && cmp.Or(c.BaseURL, BaseURL) == BaseURL {
		return nil, fault.Invalid("set up openai", "there is no key", "set "+c.KeyHint)
	}
	header := http.Header{}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "openai", Kind: llm.ErrModel, BaseURL: cmp.Or(c.BaseURL, BaseURL), Header: header, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	return &chatwire.Client{Service: service, Path: "/chat/completions", Name: cmp.Or(c.Model, DefaultModel)}, nil
}
