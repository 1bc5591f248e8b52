// Package config says which language model and which embedder are used, and makes them: from
// a Go value, a file of JSON or TOML, or the environment. Keys of providers that it reads are
// shown by nothing that it returns: no error, no log, no export.
//
// A file in TOML, where the key lies in the environment:
//
//	[llm]
//	provider = "anthropic"
//	[llm.config]
//	model = "claude-haiku-4-5"
//	api_key_env = "MY_ANTHROPIC_KEY"
//
//	[embedder]
//	provider = "openai"
//	[embedder.config]
//	model = "text-embedding-3-small"
//	dimensions = 512
//
// The same keys are those of JSON.
package config

import (
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// Config names a language model and an embedder, and what a memory of facts stands on. The
// zero Config has no language model, the lexical embedder, and memdb's own engine and graph.
type Config struct {
	// LLM is the language model, nil for none; Embedder makes vectors, nil for the lexical one.
	LLM      *LLM      `json:"llm,omitempty"`
	Embedder *Embedder `json:"embedder,omitempty"`
	// VectorStore is where memories lie; nil: in memdb's own engine.
	VectorStore *VectorStore `json:"vector_store,omitempty"`
	// GraphStore is where the entities and relations of facts lie; nil: in memdb's own graph.
	GraphStore *GraphStore `json:"graph_store,omitempty"`
	// History is accepted and has no effect.
	History *History `json:"history,omitempty"`
	// CustomPrompts stand in for the prompts of a memory of facts.
	CustomPrompts *Prompts `json:"custom_prompts,omitempty"`
	// Version is the form of the replies of a memory of facts, "v1.0" or "v1.1"; empty: v1.1.
	Version string `json:"version,omitempty"`
	// ExactScope has a model see and change only facts of exactly the scope of a call; nil: true.
	ExactScope *bool `json:"exact_scope,omitempty"`
	// Usage is whose calls they are that name no owner; nil: the agent DefaultAgent's.
	Usage *Usage `json:"usage,omitempty"`
	// Server is how memdbd serves the database; nil: by its defaults. Other programs pass it over.
	Server *Server `json:"server,omitempty"`
}

// LLM is a language model.
type LLM struct {
	// Provider is one of [Models].
	Provider string   `json:"provider"`
	Config   LLMCalls `json:"config"`
}

// Embedder makes vectors.
type Embedder struct {
	// Provider is one of [Embedders].
	Provider string        `json:"provider"`
	Config   EmbedderCalls `json:"config"`
}

// Usage names an owner.
type Usage struct {
	// User and Agent are as in scope.Owner.
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
}

// Calls is what all providers are configured by.
type Calls struct {
	// Model is the provider's name of it; empty: the provider's default here. For
	// azure_openai it is the deployment.
	Model string `json:"model,omitempty"`
	// APIKey is the key itself, APIKeyEnv the variable of the environment that holds it, whose
	// name has KEY, TOKEN, SECRET, PASSWORD or PASS in it; with neither it is the provider's own
	// variable, as OPENAI_API_KEY.
	APIKey    Secret `json:"api_key,omitzero"`
	APIKeyEnv string `json:"api_key_env,omitempty"`
	// BaseURL is another server than the provider's own.
	BaseURL string `json:"base_url,omitempty"`
	// APIVersion is for azure_openai alone: a date, or "v1".
	APIVersion string `json:"api_version,omitempty"`
	// Timeout bounds each try; 0: 120 s for a language model, 60 s for an embedder.
	Timeout Duration `json:"timeout,omitzero"`
	// Retries is how often a call that failed is repeated; nil: 3.
	Retries *int `json:"retries,omitempty"`
	// Concurrency is how many calls run at once; 0: 8 of a language model, 4 of an embedder.
	Concurrency int `json:"concurrency,omitempty"`
	// Cache is how many replies or vectors are kept for what comes again; nil: 1,000
	// replies, 10,000 vectors.
	Cache *int `json:"cache,omitempty"`
	// Price is what is recorded as cost.
	Price *Price `json:"price,omitempty"`
}

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	// Prompt is the price of what goes in, Completion that of what comes out.
	Prompt     usage.USD `json:"prompt,omitzero"`
	Completion usage.USD `json:"completion,omitzero"`
}

// LLMCalls configures a language model.
type LLMCalls struct {
	Calls
	// Temperature is how freely the model chooses, 0 to 2.
	Temperature float64 `json:"temperature,omitempty"`
	// MaxTokens bounds a reply; 0: 2,000.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// EmbedderCalls configures an embedder.
type EmbedderCalls struct {
	Calls
	// Dimensions is the length of the vectors; 0: the model's own, where it is known.
	Dimensions int `json:"dimensions,omitempty"`
	// Batch is how many texts go into one call; 0: as many as the provider takes.
	Batch int `json:"batch,omitempty"`
	// InputType is what a text is to google, cohere and voyage, in their words, as
	// "search_document".
	InputType string `json:"input_type,omitempty"`
	// PromptName is the prompt that a model at huggingface or tei puts before a text.
	PromptName string `json:"prompt_name,omitempty"`
}

// Duration is a time.Duration that is written as "30s" or "2m".
type Duration time.Duration

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return fault.Invalid("read a duration", fmt.Sprintf("%.40q is none", b), `give one as "30s" or "2m"`)
	}
	*d = Duration(v)
	return nil
}

// Secret is a key. What prints, logs or encodes it shows a mark instead.
type Secret struct {
	// key is behind a pointer, since fmt goes past methods where a verb does not fit a type
	// around them, but never follows a pointer within.
	key *string
}

// NewSecret makes a Secret of a key.
func NewSecret(key string) Secret {
	if key == "" {
		return Secret{}
	}
	return Secret{&key}
}

// hidden stands for a key.
const hidden = "[key]"

// IsZero reports whether there is no key.
func (s Secret) IsZero() bool { return s.key == nil }

// value is the key itself.
func (s Secret) value() string {
	if s.key == nil {
		return ""
	}
	return *s.key
}

// String is the mark, or empty where there is no key.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return hidden
}

// Format prints String, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// MarshalText writes String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a key.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
