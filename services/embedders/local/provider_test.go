package local

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// TestProvider verifies that a configuration can name the provider, and what it refuses.
func TestProvider(t *testing.T) {
	config.Register(&Provider)
	if !slices.Contains(config.Embedders(), config.Local) {
		t.Errorf("the providers are %q", config.Embedders())
	}
	open := func(c config.Calls) (*config.Services, error) {
		return (&config.Config{Embedder: &config.Embedder{Provider: config.Local, Config: config.EmbedderCalls{Calls: c}}}).Open(nil, false)
	}
	for want, c := range map[string]config.Calls{
		"load the model of none: config.json cannot be read": {Model: "none"},
		"load a model: no folder is named":                   {},
		"it calls nobody, and a key or a base_url":           {Model: "m", BaseURL: "http://h"},
	} {
		if _, err := open(c); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
