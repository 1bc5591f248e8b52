// Package ollama asks models that an Ollama server runs, most often on the same machine.
package ollama

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

const (
	// BaseURL is that of a server on this machine.
	BaseURL = "http://localhost:11434"
	// DefaultModel is asked where none is configured.
	DefaultModel = "llama3.2"
	// Variable of the environment that holds the key of a server behind a login.
	Variable = "OLLAMA_API_KEY"

	// maxReply bounds a reply, in bytes.
	maxReply = 16 << 20
)

// Config says which model of which server.
type Config struct {
	Model   string // empty: DefaultModel
	Key     string // mostly empty
	KeyHint string // where the key comes from, for errors; empty: Variable
	BaseURL string // empty: BaseURL
	Client  *http.Client
}

type client struct {
	service *httpjson.Service
	model   string
}

// New makes a client, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (llm.Client, error) {
	header := http.Header{}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "ollama", Kind: llm.ErrModel, BaseURL: cmp.Or(c.BaseURL, BaseURL), Header: header, Key: c.Key, KeyHint: cmp.Or(c.KeyHint, Variable), Client: c.Client,
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

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type options struct {
	Temperature float64 `json:"temperature"`
	NumPredict  int     `json:"num_predict"`
}

type request struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Stream   bool      `json:"stream"`
	Format   string    `json:"format,omitempty"`
	Options  options   `json:"options"`
	Tools    []tool    `json:"tools,omitempty"`
}

type response struct {
	Error   string `json:"error"` // may come with status 200
	Model   string `json:"model"`
	Message *struct {
		Content   string `json:"content"`
		ToolCalls []struct {
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	DoneReason string `json:"done_reason"`
	Prompt     int64  `json:"prompt_eval_count"`
	Completion int64  `json:"eval_count"`
}

// Generate makes one call.
func (c *client) Generate(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := r.Check("ask " + c.model); err != nil {
		return llm.Reply{}, err
	}
	in := request{Model: c.model, Options: options{r.Temperature, r.Tokens()}}
	for _, m := range r.Messages {
		in.Messages = append(in.Messages, message{string(m.Role), m.Text})
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		in.Tools = append(in.Tools, tool{"function", function{t.Name, t.Description, t.Schema()}})
	}
	if r.JSON && len(r.Tools) == 0 {
		in.Format = "json"
	}
	var out response
	if err := c.service.Post(ctx, httpjson.Call{Path: "/api/chat", In: &in, Out: &out, Limit: maxReply}); err != nil {
		return llm.Reply{}, err
	}
	switch {
	case out.Error != "":
		return llm.Reply{}, c.service.Fail("it answered: "+out.Error, "check the model and the server's log", nil)
	case out.Message == nil:
		return llm.Reply{}, c.service.Fail("the reply holds no message", "check base_url and the server", nil)
	}
	reply := llm.Reply{
		Text: out.Message.Content, Model: out.Model, PromptTokens: out.Prompt, CompletionTokens: out.Completion,
		Truncated: out.DoneReason == "length",
	}
	for _, call := range out.Message.ToolCalls {
		reply.Calls = append(reply.Calls, llm.ToolCall{Name: call.Function.Name, Arguments: compact(call.Function.Arguments)})
	}
	return reply, nil
}

// compact is a value without spaces. Some models write a string that holds JSON in the place
// of the object.
func compact(raw json.RawMessage) string {
	if text := ""; json.Unmarshal(raw, &text) == nil && text != "" {
		return text
	}
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return "{}"
	}
	return b.String()
}
