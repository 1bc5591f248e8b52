// Package anthropic describes Anthropic's models, which are asked by the Messages interface.
package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

const (
	version = "2023-06-01"
	// onlyJSON asks for JSON in words: the interface offers it for a given schema alone.
	onlyJSON = "Answer with one JSON value and nothing else: no words around it, no code fence."
)

// Provider is Anthropic. A temperature of 0 is not sent: newer models refuse every temperature but
// their own.
var Provider = providers.Provider{
	Name: "anthropic", Variable: "ANTHROPIC_API_KEY", BaseURL: "https://api.anthropic.com",
	Header: func(key string) http.Header { return http.Header{"X-Api-Key": {key}, "Anthropic-Version": {version}} },
	Chat: &providers.Chat{
		Model: "claude-haiku-4-5", Call: providers.At("/v1/messages"), Request: ask, Reply: func() providers.Reply { return &response{} },
	},
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type request struct {
	Model       string              `json:"model"`
	MaxTokens   int                 `json:"max_tokens"`
	System      string              `json:"system,omitempty"`
	Messages    []providers.Message `json:"messages"`
	Temperature float64             `json:"temperature,omitempty"`
	Tools       []tool              `json:"tools,omitempty"`
	ToolChoice  *choice             `json:"tool_choice,omitempty"`
}

type choice struct {
	Type string `json:"type"`
}

func ask(model string, r *llm.Request) any {
	in := &request{Model: model, MaxTokens: r.Tokens(), Temperature: min(r.Temperature, 1)} // its highest
	var system []string
	for _, m := range r.Messages {
		if m.Role == llm.System {
			system = append(system, m.Text)
			continue
		}
		in.Messages = append(in.Messages, providers.Message{Role: string(m.Role), Content: m.Text})
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
	return in
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

// Read reads the blocks of text and the calls of tools; blocks of thought may come before.
func (r *response) Read(s *httpjson.Service) (llm.Reply, error) {
	switch {
	case r.StopReason == "refusal":
		return llm.Reply{}, s.Fail("the model refuses to answer", "change what is sent", nil)
	case r.Content == nil:
		return llm.Reply{}, s.Fail("the reply holds no content", "check base_url and the server", nil)
	}
	u := &r.Usage
	reply := llm.Reply{
		Model: r.Model, PromptTokens: u.InputTokens + u.CacheCreation + u.CacheRead, CompletionTokens: u.OutputTokens,
		Truncated: r.StopReason == "max_tokens" || r.StopReason == "model_context_window_exceeded",
	}
	for _, block := range r.Content {
		switch block.Type {
		case "text":
			reply.Text += block.Text
		case "tool_use":
			reply.Calls = append(reply.Calls, llm.ToolCall{Name: block.Name, Arguments: providers.Arguments(block.Input)})
		}
	}
	return reply, nil
}
