package providers

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// maxReply bounds the reply of a language model, in bytes: more than 100,000 tokens take.
const maxReply = 16 << 20

// Chat is how language models of a provider are asked.
type Chat struct {
	Model string // where none is configured
	Call  Call
	// Request returns the body of a request.
	Request func(model string, r *llm.Request) any
	// Reply returns an empty reply.
	Reply func() Reply
}

// Reply is the reply of a language model in the form of its provider.
type Reply interface {
	// Read returns what was replied, or an error of the service.
	Read(*httpjson.Service) (llm.Reply, error)
}

// client is the llm.Client that NewChat makes.
type client struct {
	of      *Chat
	service *httpjson.Service
	call    httpjson.Call
	model   string
}

func (c *client) Model() string { return c.model }

// Generate makes one call.
func (c *client) Generate(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := r.Check("ask " + c.model); err != nil {
		return llm.Reply{}, err
	}
	reply, call := c.of.Reply(), c.call
	call.In, call.Out = c.of.Request(c.model, &r), reply
	if err := c.service.Post(ctx, call); err != nil {
		return llm.Reply{}, err
	}
	return reply.Read(c.service)
}

// Message is a message in the form that most providers have.
type Message struct {
	// Role is that of llm.Message, and Content its text.
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Messages returns messages in the form that most providers have.
func Messages(from []llm.Message) []Message {
	to := make([]Message, len(from))
	for i, m := range from {
		to[i] = Message{string(m.Role), m.Text}
	}
	return to
}

// Tool is a tool in the form of OpenAI.
type Tool struct {
	// Type is "function".
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is what a Tool calls.
type Function struct {
	// The fields are those of llm.Tool.
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Tools returns tools in the form of OpenAI, nil if there are none.
func Tools(from []llm.Tool) (to []Tool) {
	for i := range from {
		to = append(to, Tool{"function", Function{from[i].Name, from[i].Description, from[i].Schema()}})
	}
	return to
}

// Arguments returns the arguments of a call as text, without spaces. A call without arguments has
// an empty object.
func Arguments(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return "{}"
	}
	return b.String()
}
