// Package azure asks models that are deployed at Azure OpenAI.
package azure

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/llm/chatwire"
)

const (
	// DefaultVersion is the version of the interface where none is configured.
	DefaultVersion = "2024-10-21"
	// Variable of the environment that holds the key.
	Variable = "AZURE_OPENAI_API_KEY"
)

// Config says which deployment of which resource.
type Config struct {
	Model   string // the deployment
	Key     string
	KeyHint string // where the key comes from, for errors; empty: Variable
	BaseURL string // the resource: https://NAME.openai.azure.com
	Version string // empty: DefaultVersion; "v1" is the surface without dates
	Client  *http.Client
}

// New makes a client, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (llm.Client, error) {
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
	service, err := httpjson.New(httpjson.Config{
		Provider: "azure_openai", Kind: llm.ErrModel, BaseURL: c.BaseURL, Header: http.Header{"Api-Key": {c.Key}}, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	client := &chatwire.Client{Service: service, Path: "/openai/v1/chat/completions", Name: c.Model}
	if c.Version != "v1" {
		client.Path = "/openai/deployments/" + c.Model + "/chat/completions"
		client.Query = url.Values{"api-version": {cmp.Or(c.Version, DefaultVersion)}}.Encode()
	}
	return client, service.CheckPath("deployment", c.Model)
}
