// Package llm is what memdb's services ask of a large language model: one call that
// takes messages, and perhaps tools, and returns text, or calls of those tools.
// Providers are packages below it; retries, caches and limits wrap any of them.
package llm

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-7aedc3ff/memdb/scope"
)

// ErrModel: a language model could not be asked, or its reply cannot be used.
var ErrModel = errors.New("the language model failed")

// Client is a model that answers. It is safe for use by several goroutines.
type Client interface {
	// Generate sends one request and waits for the whole reply. Its errors are of
	// package fault's kinds and name the provider and the next step; they never hold a
	// key.
	Generate(ctx context.Context, r Request) (Reply, error)
	// Model is the model's name, as the provider spells it.
	Model() string
}

// Role is who speaks in a message.
type Role string

// The roles of messages.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn of the conversation that is sent.
type Message struct {
	// Role says whose Text it is.
	Role Role
	Text string
}

// Request is one call of a model.
type Request struct {
	// Messages are the conversation, the newest last.
	Messages []Message
	// Tools are what the model is to call one of; none if it is to answer in text. Ollama's
	// models may answer in text all the same.
	Tools []Tool
	// JSON asks for a reply that is one JSON value.
	JSON bool
	// Temperature is how freely the model chooses, 0 to 2.
	Temperature float64
	// MaxTokens bounds the reply; 2000 if it is 0.
	MaxTokens int
	// Owner is whose usage the call counts in, where a Meter counts; the zero Owner is the
	// Meter's.
	Owner scope.Owner
}

// Tool is a function that a model may call.
type Tool struct {
	// Name is what the model calls it by, Description what the model is told of it.
	Name, Description string
	// Parameters is the JSON Schema of the arguments.
	Parameters json.RawMessage
}

// ToolCall is a call that a model asks for. Arguments is as the model wrote it, and may
// be no valid JSON.
type ToolCall struct {
	// Name is that of the Tool, Arguments a JSON object.
	Name      string
	Arguments string
}

// Reply is what a model returned.
type Reply struct {
	// Text is what the model said, Calls the tools that it wants called.
	Text  string
	Calls []ToolCall
	// Model is the one that answered, where the provider says so.
	Model string
	// PromptTokens and CompletionTokens are what the provider counted; 0 if it did not.
	PromptTokens, CompletionTokens int64
	// Truncated tells that the reply was cut at MaxTokens.
	Truncated bool
	// Cached tells that no call was made.
	Cached bool
}
