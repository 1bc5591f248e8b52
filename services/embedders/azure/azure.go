// Package azure embeds texts with models that are deployed at Azure OpenAI.
package azure

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/embedders/openaiwire"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

const (
	// DefaultVersion is the version of the interface where none is configured.
	DefaultVersion = "2024-10-21"
	// Variable of the environment that holds the key.
	Variable = "AZURE_OPENAI_API_KEY"
)

// known are the dimensions of models, for deployments that are named after theirs.
var known = map[string]int{"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}

// Config says which deployment of which resource.
type Config struct {
	Model      string // the deployment
	Key        string
	KeyHint    string // where the key comes from, for errors; empty: Variable
	BaseURL    string // the resource: https://NAME.openai.azure.com
	Version    string // empty: DefaultVersion; "v1" is the surface without dates
	Dimensions int    // 0: that of the model after which the deployment is named
	Client     *http.Client
}

// New makes a Source, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (embedders.Source, error) {
	const doing = "set up azure_openai"
	c.KeyHint = cmp.Or(c.KeyHint, Variable)
	switch {
	case c.Key == "":
		return nil, fault.Invalid(doing, "there is no key", "set "+c.KeyHint)
	case c.Model == "":
		return nil, fault.Invalid(doing, "there is no deployment", "give its name as model")
	case c.BaseURL == "":
		return nil, fault.Invalid(doing, "there is no resource", "give base_url as https://NAME.openai.azure.com, or set AZURE_OPENAI_ENDPOINT")
	}
	dim, err := embedders.Dimensions("azure_openai", c.Model, c.Dimensions, known)
	if err != nil {
		return nil, err
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "azure_openai", Kind: fault.ErrEmbedder, BaseURL: c.BaseURL, Header: http.Header{"Api-Key": {c.Key}}, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	s := &openaiwire.Source{Service: service, Path: "/openai/v1/embeddings", Name: c.Model, Length: dim, Shorten: c.Dimensions > 0 && dim != known[c.Model]}
	if c.Version != "v1" {
		s.Path = "/openai/deployments/" + c.Model + "/embeddings"
		s.Query = url.Values{"api-version": {cmp.Or(c.Version, DefaultVersion)}}.Encode()
	}
	return s, service.CheckPath("deployment", c.Model)
}
