// Package ollama describes the models that an Ollama server runs, most often on the same machine.
package ollama

import (
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

// Provider is Ollama. The key is that of a server behind a login.
var Provider = providers.Provider{
	Name: "ollama", Variable: "OLLAMA_API_KEY", BaseURL: "http://localhost:11434", NeedsKey: providers.Never,
	Chat: &providers.Chat{
		Model: "llama3.2", Call: providers.At("/api/chat"), Request: ask, Reply: func() providers.Reply { return &response{} },
	},
	Vectors: &providers.Vectors{
		Model: "nomic-embed-text",
		Known: map[string]int{
			"nomic-embed-text": 768, "mxbai-embed-large": 1024, "all-minilm": 384, "bge-m3": 1024, "bge-large": 1024, "snowflake-arctic-embed2": 1024, "embeddinggemma": 768,
		},
		Limits: providers.Most(embedders.Limits{Texts: 128}), // not the server's, which has none: they keep a call short
		// The vectors of /api/embed have the length 1. Those of the older /api/embeddings do not, and
		// would not fit beside them.
		Call: providers.At("/api/embed"), Request: embed, Batch: func() providers.Batch { return &vectors{} },
	},
}

type options struct {
	Temperature float64 `json:"temperature"`
	NumPredict  int     `json:"num_predict"`
}

type request struct {
	Model    string              `json:"model"`
	Messages []providers.Message `json:"messages"`
	Stream   bool                `json:"stream"`
	Format   string              `json:"format,omitempty"`
	Options  options             `json:"options"`
	Tools    []providers.Tool    `json:"tools,omitempty"`
}

func ask(model string, r *llm.Request) any {
	in := &request{
		Model: model, Messages: providers.Messages(r.Messages), Options: options{r.Temperature, r.Tokens()}, Tools: providers.Tools(r.Tools),
	}
	if r.JSON && len(r.Tools) == 0 {
		in.Format = "json"
	}
	return in
}

// answered is an error that may come with status 200.
func answered(s *httpjson.Service, text string) error {
	return s.Fail("it answered: "+text, "check the model and the server's log", nil)
}

type response struct {
	Error   string `json:"error"`
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

// Read reads the one message.
func (r *response) Read(s *httpjson.Service) (llm.Reply, error) {
	switch {
	case r.Error != "":
		return llm.Reply{}, answered(s, r.Error)
	case r.Message == nil:
		return llm.Reply{}, s.Fail("the reply holds no message", "check base_url and the server", nil)
	}
	reply := llm.Reply{
		Text: r.Message.Content, Model: r.Model, PromptTokens: r.Prompt, CompletionTokens: r.Completion, Truncated: r.DoneReason == "length",
	}
	for _, call := range r.Message.ToolCalls {
		reply.Calls = append(reply.Calls, llm.ToolCall{Name: call.Function.Name, Arguments: arguments(call.Function.Arguments)})
	}
	return reply, nil
}

// arguments are those of a call. Some models write a string that holds JSON in the place of the
// object.
func arguments(raw json.RawMessage) string {
	if text := ""; json.Unmarshal(raw, &text) == nil && text != "" {
		return text
	}
	return providers.Arguments(raw)
}

type embedding struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Truncate   bool     `json:"truncate"`
	Dimensions int      `json:"dimensions,omitempty"`
}

func embed(c *providers.Config, texts []string, dimensions int) any {
	return &embedding{c.Model, texts, true, dimensions}
}

type vectors struct {
	Error      string             `json:"error"`
	Embeddings []providers.Vector `json:"embeddings"`
	Prompt     int64              `json:"prompt_eval_count"`
}

// Read refuses the error that may come with status 200.
func (v *vectors) Read(s *httpjson.Service, _, _ int) ([]providers.Vector, error) {
	if v.Error != "" {
		return nil, answered(s, v.Error)
	}
	return v.Embeddings, nil
}

// Tokens are those of the texts.
func (v *vectors) Tokens() int64 { return v.Prompt }
