// Package providers is how the models of a provider are configured, made and called. A package
// below it describes one provider: its addresses, its models, and the form of its requests and
// replies.
package providers

import (
	"cmp"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// Config says which model of which server. Its zero fields are the defaults of the provider.
type Config struct {
	Model      string // a deployment at Azure
	Key        string
	KeyHint    string // where the key comes from, for errors; empty: the provider's Variable
	BaseURL    string
	Version    string // of Azure's interface; "v1" is the surface without dates
	Dimensions int    // of vectors; 0: the model's own, where it is known
	InputType  string // what the vectors are for, in the provider's words
	PromptName string // the prompt that a model of Hugging Face puts before each text
	Client     *http.Client
}

// Provider describes a provider of language models, of embeddings, or of both.
type Provider struct {
	Name         string // in configurations and errors
	Variable     string // of the environment, that holds the key
	BaseVariable string // of the environment, that holds the base URL; empty: none
	BaseURL      string // where no other is configured; empty: one must be
	NeedsKey     NeedsKey
	Header       func(key string) http.Header // that a key is sent in; nil: Authorization with Bearer
	// Prepare completes a configuration and refuses one that is not valid. nil: it is as it is.
	Prepare func(*Config) error

	Chat    *Chat    // nil: no language models
	Vectors *Vectors // nil: no embeddings
	// Open makes the embeddings of a provider that is not called over HTTP, in place of Vectors.
	Open func(Config) (embedders.Source, error)
}

// NeedsKey says when a provider cannot be called without a key.
type NeedsKey int

// The values of NeedsKey.
const (
	Always    NeedsKey = iota
	AtBaseURL          // other servers of its form may need none
	Never
)

// Call returns where requests of a configured model go. It refuses a model that cannot be named in
// a path.
type Call func(*httpjson.Service, *Config) (httpjson.Call, error)

// At returns a Call to a path that is the same for every model.
func At(path string) Call {
	return func(*httpjson.Service, *Config) (httpjson.Call, error) { return httpjson.Call{Path: path}, nil }
}

// EmbedsTexts reports whether the provider has embeddings.
func (p *Provider) EmbedsTexts() bool { return p.Vectors != nil || p.Open != nil }

// NewChat returns a client of a language model, ErrInvalid where the configuration is not valid.
// Nothing is called.
func (p *Provider) NewChat(c Config) (llm.Client, error) {
	c.Model = cmp.Or(c.Model, p.Chat.Model)
	service, call, err := p.service(&c, llm.ErrModel, p.Chat.Call)
	if err != nil {
		return nil, err
	}
	call.Limit = maxReply
	return &client{p.Chat, service, call, c.Model}, nil
}

// NewSource returns a source of embeddings, ErrInvalid where the configuration is not valid.
// Nothing is called.
func (p *Provider) NewSource(c Config) (embedders.Source, error) {
	if p.Open != nil {
		return p.Open(c)
	}
	c.Model = cmp.Or(c.Model, p.Vectors.Model)
	service, call, err := p.service(&c, fault.ErrEmbedder, p.Vectors.Call)
	if err != nil {
		return nil, err
	}
	own, s := p.Vectors.Known[c.Model], &source{of: p.Vectors, service: service, call: call, config: c}
	if s.config.Dimensions, err = dimensions(p.Name, c.Model, c.Dimensions, p.Vectors.Known); err != nil {
		return nil, err
	}
	// A server of an unknown model may have one length alone, and refuse to be asked for it.
	if s.Dim() != own && (own > 0 || p.Vectors.AnyLength) {
		s.shorter = s.Dim()
	}
	return s, nil
}

// service completes a configuration and returns how its server is called.
func (p *Provider) service(c *Config, kind error, at Call) (*httpjson.Service, httpjson.Call, error) {
	c.KeyHint, c.BaseURL = cmp.Or(c.KeyHint, p.Variable), cmp.Or(c.BaseURL, p.BaseURL)
	if c.Key == "" && (p.NeedsKey == Always || p.NeedsKey == AtBaseURL && c.BaseURL == p.BaseURL) {
		return nil, httpjson.Call{}, fault.Invalid("set up "+p.Name, "there is no key", "set "+c.KeyHint)
	}
	if p.Prepare != nil {
		if err := p.Prepare(c); err != nil {
			return nil, httpjson.Call{}, err
		}
	}
	var header http.Header
	switch {
	case c.Key == "":
	case p.Header != nil:
		header = p.Header(c.Key)
	default:
		header = http.Header{"Authorization": {"Bearer " + c.Key}}
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: p.Name, Kind: kind, BaseURL: c.BaseURL, Header: header, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, httpjson.Call{}, err
	}
	c.Key = "" // the service has it, and prints it nowhere
	call, err := at(service, c)
	return service, call, err
}
