package config

import (
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/anthropic"
	"github.com/seed-7aedc3ff/memdb/services/providers/cohere"
	"github.com/seed-7aedc3ff/memdb/services/providers/gemini"
	"github.com/seed-7aedc3ff/memdb/services/providers/huggingface"
	"github.com/seed-7aedc3ff/memdb/services/providers/ollama"
	"github.com/seed-7aedc3ff/memdb/services/providers/openai"
	"github.com/seed-7aedc3ff/memdb/services/providers/voyage"
)

// known are the providers by their names.
var known = byName(
	&anthropic.Provider, &cohere.Provider, &gemini.Provider, &huggingface.Provider, &huggingface.TEI,
	&ollama.Provider, &openai.Provider, &openai.Azure, &voyage.Provider,
)

// Register adds a provider to those that every program has. A program calls it before it reads a
// configuration.
func Register(p *providers.Provider) { known[p.Name] = p }

func byName(all ...*providers.Provider) map[string]*providers.Provider {
	m := map[string]*providers.Provider{}
	for _, p := range all {
		m[p.Name] = p
	}
	return m
}

// named is the provider of a name; one without a name that is known has no variables.
func named(name string) *providers.Provider {
	if p := known[name]; p != nil {
		return p
	}
	return &providers.Provider{}
}

// OpenAIKey is the variable of OpenAI's key.
var OpenAIKey = openai.Provider.Variable

// Models are the providers of language models.
func Models() []string {
	return names(func(p *providers.Provider) bool { return p.Chat != nil })
}

// Embedders are the providers of vectors.
func Embedders() []string {
	return slices.Sorted(slices.Values(append(names((*providers.Provider).EmbedsTexts), Lexical)))
}

func names(has func(*providers.Provider) bool) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if has(known[name]) {
			all = append(all, name)
		}
	}
	return all
}
