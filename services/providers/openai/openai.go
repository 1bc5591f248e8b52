// Package openai describes OpenAI, any server that speaks its chat completions and embeddings (vLLM,
// llama.cpp, LM Studio, Groq, Mistral, OpenRouter, LiteLLM and many more), and models that are
// deployed at Azure OpenAI.
package openai

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

// DefaultVersion is the version of Azure's interface where none is configured.
const DefaultVersion = "2024-10-21"

// known are the lengths of vectors; deployments at Azure may be named after their model.
var known = map[string]int{"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}

var limits = providers.Most(embedders.Limits{Texts: 2048, Tokens: 300_000})

// Provider is OpenAI, or a server that is like it.
var Provider = providers.Provider{
	Name: "openai", Variable: "OPENAI_API_KEY", BaseVariable: "OPENAI_BASE_URL",
	BaseURL: "https://api.openai.com/v1", NeedsKey: providers.AtBaseURL,
	Chat: &providers.Chat{Model: "gpt-4o-mini", Call: providers.At("/chat/completions"), Request: ask, Reply: newCompletion},
	Vectors: &providers.Vectors{
		Model: "text-embedding-3-small", Known: known, Limits: limits, Call: providers.At("/embeddings"), Request: embed, Batch: newList,
	},
}

// Azure is Azure OpenAI.
var Azure = providers.Provider{
	Name: "azure_openai", Variable: "AZURE_OPENAI_API_KEY", BaseVariable: "AZURE_OPENAI_ENDPOINT",
	Header:  func(key string) http.Header { return http.Header{"Api-Key": {key}} },
	Prepare: checkAzure,
	Chat:    &providers.Chat{Call: deployed("/chat/completions"), Request: ask, Reply: newCompletion},
	Vectors: &providers.Vectors{Known: known, AnyLength: true, Limits: limits, Call: deployed("/embeddings"), Request: embed, Batch: newList},
}

func checkAzure(c *providers.Config) error {
	const doing = "set up azure_openai"
	switch {
	case c.Model == "":
		return fault.Invalid(doing, "there is no deployment", "give its name as model")
	case c.BaseURL == "":
		return fault.Invalid(doing, "there is no resource", "give base_url as https://NAME.openai.azure.com, or set AZURE_OPENAI_ENDPOINT")
	}
	return nil
}

// deployed is a path of a deployment, or of the surface without dates.
func deployed(path string) providers.Call {
	return func(s *httpjson.Service, c *providers.Config) (httpjson.Call, error) {
		if err := s.CheckPath("deployment", c.Model); err != nil || c.Version == "v1" {
			return httpjson.Call{Path: "/openai/v1" + path}, err
		}
		query := url.Values{"api-version": {cmp.Or(c.Version, DefaultVersion)}}
		return httpjson.Call{Path: "/openai/deployments/" + c.Model + path, Query: query.Encode()}, nil
	}
}

type format struct {
	Type string `json:"type"`
}

type request struct {
	Model       string              `json:"model"`
	Messages    []providers.Message `json:"messages"`
	Temperature *float64            `json:"temperature,omitempty"`
	// Models that reason take the second, and older servers the first alone.
	MaxTokens           int              `json:"max_tokens,omitempty"`
	MaxCompletionTokens int              `json:"max_completion_tokens,omitempty"`
	Format              *format          `json:"response_format,omitempty"`
	Tools               []providers.Tool `json:"tools,omitempty"`
	// ToolChoice is "required" where there are tools: a word, since some compatible servers take
	// no object that names one.
	ToolChoice string `json:"tool_choice,omitempty"`
}

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

// ask is a request for a chat completion.
func ask(model string, r *llm.Request) any {
	in := &request{Model: model, Messages: providers.Messages(r.Messages), Tools: providers.Tools(r.Tools)}
	if reasons(model) {
		in.MaxCompletionTokens = r.Tokens()
	} else {
		in.MaxTokens, in.Temperature = r.Tokens(), &r.Temperature
	}
	switch {
	case len(r.Tools) > 0:
		in.ToolChoice = "required"
	case r.JSON:
		in.Format = &format{"json_object"}
		in.Messages = sayJSON(in.Messages)
	}
	return in
}

// onlyJSON is said where nothing else says it.
const onlyJSON = "Answer with JSON and nothing else."

// sayJSON has the word JSON in the messages: without it the mode is refused.
func sayJSON(messages []providers.Message) []providers.Message {
	for _, m := range messages {
		if strings.Contains(strings.ToLower(m.Content), "json") {
			return messages
		}
	}
	return append([]providers.Message{{Role: "system", Content: onlyJSON}}, messages...)
}

// completion is the reply to a request for one.
type completion struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content   string `json:"content"`
			Refusal   string `json:"refusal"`
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

func newCompletion() providers.Reply { return &completion{} }

// Read reads the first choice.
func (c *completion) Read(s *httpjson.Service) (llm.Reply, error) {
	if len(c.Choices) == 0 {
		return llm.Reply{}, s.Fail("the reply holds no choice", "check base_url and the server", nil)
	}
	choice := &c.Choices[0]
	switch {
	case choice.FinishReason == "content_filter":
		return llm.Reply{}, s.Fail("the provider has filtered the reply", "change what is sent", nil)
	case choice.Message.Refusal != "" && choice.Message.Content == "":
		return llm.Reply{}, s.Fail("the model refuses to answer", "change what is sent", nil)
	}
	reply := llm.Reply{
		Text: choice.Message.Content, Model: c.Model, PromptTokens: c.Usage.PromptTokens, CompletionTokens: c.Usage.CompletionTokens,
		Truncated: choice.FinishReason == "length",
	}
	for _, call := range choice.Message.ToolCalls {
		reply.Calls = append(reply.Calls, llm.ToolCall{Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return reply, nil
}

type embedding struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

// embed is a request for embeddings. It asks for base64, a quarter of the bytes; servers that do
// not know it answer with numbers.
func embed(c *providers.Config, texts []string, dimensions int) any {
	return &embedding{c.Model, texts, "base64", dimensions}
}

func newList() providers.Batch { return &providers.List{} }
