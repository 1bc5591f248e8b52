// Package chatwire is the wire form of chat completions, which OpenAI, Azure and many
// compatible servers speak.
package chatwire

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// Client asks a server for chat completions. It is a llm.Client.
type Client struct {
	// Service is how the server is called.
	Service *httpjson.Service
	Path    string // below the base URL
	Query   string
	Name    string // of the model or the deployment
}

// Model is its name.
func (c *Client) Model() string { return c.Name }

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type format struct {
	Type string `json:"type"`
}

type request struct {
	Model       string    `json:"model"`
	Messages    []message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	// Models that reason take the second, and older servers the first alone.
	MaxTokens           int     `json:"max_tokens,omitempty"`
	MaxCompletionTokens int     `json:"max_completion_tokens,omitempty"`
	Format              *format `json:"response_format,omitempty"`
	Tools               []tool  `json:"tools,omitempty"`
	// ToolChoice is "required" where there are tools: a word, since some compatible servers take
	// no object that names one.
	ToolChoice string `json:"tool_choice,omitempty"`
}

type response struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content   *string `json:"content"`
			Refusal   string  `json:"refusal"`
			ToolCalls []struct {
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// maxReply bounds a reply, in bytes: more than 100,000 tokens take.
const maxReply = 16 << 20

// reasons reports whether a model thinks before it answers: such models choose their
// temperature themselves.
func reasons(model string) bool {
	if _, rest, ok := strings.Cut(model, "/"); ok {
		model = rest // of a router: "openai/o3"
	}
	for _, family := range []string{"o1", "o3", "o4", "gpt-5"} {
		if rest, ok := strings.CutPrefix(model, family); ok && (rest == "" || rest[0] == '-' || rest[0] == '.') {
			return !strings.Contains(rest, "-chat")
		}
	}
	return false
}

// Generate makes one call.
func (c *Client) Generate(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := r.Check("ask " + c.Name); err != nil {
		return llm.Reply{}, err
	}
	in := request{Model: c.Name}
	if reasons(c.Name) {
		in.MaxCompletionTokens = r.Tokens()
	} else {
		in.MaxTokens, in.Temperature = r.Tokens(), &r.Temperature
	}
	for _, m := range r.Messages {
		in.Messages = append(in.Messages, message{string(m.Role), m.Text})
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		in.Tools = append(in.Tools, tool{"function", function{t.Name, t.Description, t.Schema()}})
	}
	switch {
	case len(r.Tools) > 0:
		in.ToolChoice = "required"
	case r.JSON:
		in.Format = &format{"json_object"}
		in.Messages = sayJSON(in.Messages)
	}
	var out response
	if err := c.Service.Post(ctx, httpjson.Call{Path: c.Path, Query: c.Query, In: &in, Out: &out, Limit: maxReply}); err != nil {
		return llm.Reply{}, err
	}
	return c.reply(&out)
}

// onlyJSON is said where nothing else says it.
const onlyJSON = "Answer with JSON and nothing else."

// sayJSON has the word JSON in the messages: without it the mode is refused.
func sayJSON(messages []message) []message {
	for _, m := range messages {
		if strings.Contains(strings.ToLower(m.Content), "json") {
			return messages
		}
	}
	return append([]message{{"system", onlyJSON}}, messages...)
}

// reply reads the first choice.
func (c *Client) reply(out *response) (llm.Reply, error) {
	if len(out.Choices) == 0 {
		return llm.Reply{}, c.Service.Fail("the reply holds no choice", "check base_url and the server", nil)
	}
	choice := &out.Choices[0]
	reply := llm.Reply{
		Model: out.Model, PromptTokens: out.Usage.PromptTokens, CompletionTokens: out.Usage.CompletionTokens,
		Truncated: choice.FinishReason == "length",
	}
	if choice.Message.Content != nil {
		reply.Text = *choice.Message.Content
	}
	for _, call := range choice.Message.ToolCalls {
		reply.Calls = append(reply.Calls, llm.ToolCall{Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	switch {
	case choice.FinishReason == "content_filter":
		return llm.Reply{}, c.Service.Fail("the provider has filtered the reply", "change what is sent", nil)
	case choice.Message.Refusal != "" && reply.Text == "":
		return llm.Reply{}, c.Service.Fail("the model refuses to answer", "change what is sent", nil)
	}
	return reply, nil
}
