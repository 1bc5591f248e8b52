package config

import (
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	azureembed "github.com/seed-7aedc3ff/memdb/services/embedders/azure"
	"github.com/seed-7aedc3ff/memdb/services/embedders/cohere"
	geminiembed "github.com/seed-7aedc3ff/memdb/services/embedders/gemini"
	"github.com/seed-7aedc3ff/memdb/services/embedders/huggingface"
	"github.com/seed-7aedc3ff/memdb/services/embedders/local"
	ollamaembed "github.com/seed-7aedc3ff/memdb/services/embedders/ollama"
	openaiembed "github.com/seed-7aedc3ff/memdb/services/embedders/openai"
	"github.com/seed-7aedc3ff/memdb/services/embedders/voyage"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/llm/anthropic"
	"github.com/seed-7aedc3ff/memdb/services/llm/azure"
	"github.com/seed-7aedc3ff/memdb/services/llm/gemini"
	"github.com/seed-7aedc3ff/memdb/services/llm/ollama"
	"github.com/seed-7aedc3ff/memdb/services/llm/openai"
)

// Variables of the environment that hold a base URL.
const (
	openaiBase = "OPENAI_BASE_URL"
	azureBase  = "AZURE_OPENAI_ENDPOINT"
)

// OpenAIKey is the variable of OpenAI's key.
const OpenAIKey = openai.Variable

// model is a provider of language models.
type model struct {
	variable, baseVariable string
	open                   func(access) (llm.Client, error)
}

var models = map[string]model{
	"openai": {openai.Variable, openaiBase, func(a access) (llm.Client, error) {
		return openai.New(openai.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base})
	}},
	"azure_openai": {azure.Variable, azureBase, func(a access) (llm.Client, error) {
		return azure.New(azure.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Version: a.version})
	}},
	"anthropic": {anthropic.Variable, "", func(a access) (llm.Client, error) {
		return anthropic.New(anthropic.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base})
	}},
	"google": {gemini.Variable, "", func(a access) (llm.Client, error) {
		return gemini.New(gemini.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base})
	}},
	"ollama": {ollama.Variable, "", func(a access) (llm.Client, error) {
		return ollama.New(ollama.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base})
	}},
}

// Models are the providers of language models.
func Models() []string { return slices.Sorted(maps.Keys(models)) }

// source is a provider of vectors.
type source struct {
	variable, baseVariable string
	open                   func(access, *EmbedderCalls) (embedders.Source, error)
}

var sources = map[string]source{
	"openai": {openaiembed.Variable, openaiBase, func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return openaiembed.New(openaiembed.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Dimensions: c.Dimensions})
	}},
	"azure_openai": {azureembed.Variable, azureBase, func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return azureembed.New(azureembed.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Version: a.version, Dimensions: c.Dimensions})
	}},
	"google": {geminiembed.Variable, "", func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return geminiembed.New(geminiembed.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Dimensions: c.Dimensions, InputType: c.InputType})
	}},
	"ollama": {ollamaembed.Variable, "", func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return ollamaembed.New(ollamaembed.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Dimensions: c.Dimensions})
	}},
	Local: {"", "", func(a access, c *EmbedderCalls) (embedders.Source, error) {
		if a.key != "" || a.base != "" {
			return nil, fault.Invalid("set up local", "it calls nobody, and a key or a base_url is given", "leave it out, and give model as the path of a folder")
		}
		return local.New(local.Config{Dir: a.model, Dimensions: c.Dimensions})
	}},
	"huggingface": {huggingface.Variable, "", func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return huggingface.New(huggingface.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Dimensions: c.Dimensions, PromptName: c.PromptName})
	}},
	"tei": {huggingface.Variable, "", func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return huggingface.New(huggingface.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, TEI: true, Dimensions: c.Dimensions, PromptName: c.PromptName})
	}},
	"voyage": {voyage.Variable, "", func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return voyage.New(voyage.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Dimensions: c.Dimensions, InputType: c.InputType})
	}},
	"cohere": {cohere.Variable, "", func(a access, c *EmbedderCalls) (embedders.Source, error) {
		return cohere.New(cohere.Config{Model: a.model, Key: a.key, KeyHint: a.hint, BaseURL: a.base, Dimensions: c.Dimensions, InputType: c.InputType})
	}},
}

// Embedders are the providers of vectors.
func Embedders() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(sources)), Lexical)))
}
