// Package anthropic asks Anthropic's models by the Messages interface.
package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

const (
	// BaseURL is Anthropic's own.
	BaseURL = "https://api.anthropic.com"
	// DefaultModel is asked where none is configured.
	DefaultModel = "claude-haiku-4-5"
	// Variable of the environment that holds the key.
	Variable = "ANTHROPIC_API_KEY"

	version = "2023-06-01"
	// maxReply bounds a reply, in bytes.
	maxReply = 16 << 20
	// onlyJSON asks for JSON in words: the interface offers it for a given schema alone.
	onlyJSON = "Answer with one JSON value and nothing else: no words around it, no code fence."
)

// Config says which model.
type Config struct {
	Model   string // empty: DefaultModel
	Key     string
	KeyHint string // where the key comes from, for errors; empty: Variable
	BaseURL string // empty: BaseURL
	Client  *http.Client
}

type client struct {
	service *httpjson.Service
	model   string
}

// New makes a client, ErrInvalid where the configuration is not valid. Nothing is called.
//
// A temperature of 0 is not sent: newer models refuse every temperature but their own.
func New(c Config) (llm.Client, error) {
	c.KeyHint = cmp.Or(c.KeyHint, Variable)
	if c.Key == "" {
		return nil, fault.Invalid("set up anthropic", "there is no key", "set "+c.KeyHint)
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "anthropic", Kind: llm.ErrModel, BaseURL: cmp.Or(c.BaseURL, BaseURL), Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
		Header: http.Header{"X-Api-Key": {c.Key}, "Anthropic-Version": {version}},
	})
	if err != nil {
		return nil, err
	}
	return &client{service, cmp.Or(c.Model, DefaultModel)}, nil
}

// Model is its name.
func (c *client) Model() string { return c.model }

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type request struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	System      string    `json:"system,omitempty"`
	Messages    []message `json:"messages"`
	Temperature float64   `json:"temperature,omitempty"`
	Tools       []tool    `json:"tools,omitempty"`
	ToolChoice  *choice   `json:"tool_choice,omitempty"`
}

type choice struct {
	Type string `json:"type"`
}

type response struct {
	Model   string `json:"model"`
	Content []struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"content"`
	StopReason string `json:"stop_reason"`
	Usage      struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
		// What was written to the provider's cache, or read from it, is counted apart.
		CacheCreation int64 `json:"cache_creation_input_tokens"`
		CacheRead     int64 `json:"cache_read_input_tokens"`
	} `json:"usage"`
}

// Generate makes one call.
func (c *client) Generate(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := r.Check("ask " + c.model); err != nil {
		return llm.Reply{}, err
	}
	in := request{Model: c.model, MaxTokens: r.Tokens(), Temperature: min(r.Temperature, 1)} // its highest
	var system []string
	for _, m := range r.Messages {
		if m.Role == llm.System {
			system = append(system, m.Text)
			continue
		}
		in.Messages = append(in.Messages, message{string(m.Role), m.Text})
	}
	if r.JSON && len(r.Tools) == 0 {
		system = append(system, onlyJSON)
	}
	in.System = strings.Join(system, "\n\n")
	for i := range r.Tools {
		t := &r.Tools[i]
		in.Tools = append(in.Tools, tool{t.Name, t.Description, t.Schema()})
	}
	if len(in.Tools) > 0 {
		in.ToolChoice = &choice{"any"}
	}
	var out response
	if err := c.service.Post(ctx, httpjson.Call{Path: "/v1/messages", In: &in, Out: &out, Limit: maxReply}); err != nil {
		return llm.Reply{}, err
	}
	return c.reply(&out)
}

// reply reads the blocks of text and the calls of tools; blocks of thought may come before.
func (c *client) reply(out *response) (llm.Reply, error) {
	if out.StopReason == "refusal" {
		return llm.Reply{}, c.service.Fail("the model refuses to answer", "change what is sent", nil)
	}
	u := &out.Usage
	reply := llm.Reply{
		Model: out.Model, PromptTokens: u.InputTokens + u.CacheCreation + u.CacheRead, CompletionTokens: u.OutputTokens,
		Truncated: out.StopReason == "max_tokens" || out.StopReason == "model_context_window_exceeded",
	}
	if out.Content == nil {
		return llm.Reply{}, c.service.Fail("the reply holds no content", "check base_url and the server", nil)
	}
	for _, block := range out.Content {
		switch block.Type {
		case "text":
			reply.Text += block.Text
		case "tool_use":
			var arguments bytes.Buffer
			if json.Compact(&arguments, block.Input) != nil {
				arguments.Write(block.Input)
			}
			reply.Calls = append(reply.Calls, llm.ToolCall{Name: block.Name, Arguments: arguments.String()})
		}
	}
	return reply, nil
}
