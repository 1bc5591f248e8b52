// Package providertest is what all providers of models must pass.
package providertest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

// Endpoint is what is asked of a provider under test, and how.
type Endpoint struct {
	Provider *providers.Provider
	// Config is that of the model. Its key is wiretest.Key, and its base URL the stand-in's with Base.
	Config providers.Config
	Base   string
	// URI is what is called, and Header holds the key.
	URI, Header, Value string
	// Schema is the official description of requests, nil where none may be kept.
	Schema func(testing.TB) *wiretest.Schema
	// Complete adds to a request what the description wants in its body and the provider's
	// clients send elsewhere.
	Complete func(body map[string]any)
	// Refuse writes an error in the provider's form.
	Refuse func(message string) string
}

func (e *Endpoint) config(base string) providers.Config {
	c := e.Config
	c.Key, c.BaseURL = wiretest.Key, base+e.Base
	return c
}

// check looks at a request, and holds it against the description where there is one.
func (e *Endpoint) check(t *testing.T, r *http.Request, body []byte, schema *wiretest.Schema, sends []string) {
	t.Helper()
	if r.Method != http.MethodPost || r.URL.RequestURI() != e.URI || r.Header.Get(e.Header) != e.Value || strings.Contains(r.URL.RequestURI(), wiretest.Key) {
		t.Errorf("%s %s %v", r.Method, r.URL.RequestURI(), r.Header)
	}
	for _, part := range sends {
		if !strings.Contains(string(body), part) {
			t.Errorf("no %s in %s", part, body)
		}
	}
	if schema != nil {
		if err := schema.Check(e.complete(t, body)); err != nil {
			t.Error(err)
		}
	}
}

func (e *Endpoint) complete(t *testing.T, body []byte) []byte {
	t.Helper()
	if e.Complete == nil {
		return body
	}
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	e.Complete(object)
	b, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// described runs a test of requests without the description, and with it.
func (e *Endpoint) described(t *testing.T, test func(*testing.T, *wiretest.Schema)) {
	t.Run("requests", func(t *testing.T) { test(t, nil) })
	t.Run("requests by the description", func(t *testing.T) {
		if e.Schema == nil {
			t.Skip("the provider's description may not be kept; its recorded calls are compared by hand")
		}
		test(t, e.Schema(t))
	})
}

// Refused wants an error of the configuration that says something, and no key.
func Refused(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), wiretest.Key) {
		t.Errorf("%v: want %q", err, want)
	}
}
