// Package gemini asks Google's models by the Gemini API.
package gemini

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
	// BaseURL is Google's own.
	BaseURL = "https://generativelanguage.googleapis.com"
	// DefaultModel is asked where none is configured.
	DefaultModel = "gemini-2.5-flash"
	// Variable of the environment that holds the key.
	Variable = "GOOGLE_API_KEY"

	// maxReply bounds a reply, in bytes.
	maxReply = 16 << 20
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
func New(c Config) (llm.Client, error) {
	c.KeyHint = cmp.Or(c.KeyHint, Variable)
	if c.Key == "" {
		return nil, fault.Invalid("set up google", "there is no key", "set "+c.KeyHint)
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "google", Kind: llm.ErrModel, BaseURL: cmp.Or(c.BaseURL, BaseURL), Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
		Header: http.Header{"X-Goog-Api-Key": {c.Key}},
	})
	if err != nil {
		return nil, err
	}
	model := strings.TrimPrefix(cmp.Or(c.Model, DefaultModel), "models/")
	return &client{service, model}, service.CheckPath("model", model)
}

// Model is its name.
func (c *client) Model() string { return c.model }

type part struct {
	Text string `json:"text"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parametersJsonSchema"`
}

type declarations struct {
	Functions []declaration `json:"functionDeclarations"`
}

type generation struct {
	Temperature     float64 `json:"temperature"`
	MaxOutputTokens int     `json:"maxOutputTokens"`
	MimeType        string  `json:"responseMimeType,omitempty"`
}

type toolConfig struct {
	Calling struct {
		Mode string `json:"mode"`
	} `json:"functionCallingConfig"`
}

type request struct {
	Contents   []content      `json:"contents"`
	System     *content       `json:"systemInstruction,omitempty"`
	Generation generation     `json:"generationConfig"`
	Tools      []declarations `json:"tools,omitempty"`
	ToolConfig *toolConfig    `json:"toolConfig,omitempty"`
}

type response struct {
	ModelVersion string `json:"modelVersion"`
	Candidates   []struct {
		FinishReason string `json:"finishReason"`
		Content      struct {
			Parts []struct {
				Text    string `json:"text"`
				Thought bool   `json:"thought"`
				Call    *struct {
					Name string          `json:"name"`
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
	} `json:"candidates"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage struct {
		Prompt     int64 `json:"promptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
}

// Generate makes one call.
func (c *client) Generate(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := r.Check("ask " + c.model); err != nil {
		return llm.Reply{}, err
	}
	in := request{Generation: generation{Temperature: r.Temperature, MaxOutputTokens: r.Tokens()}}
	for _, m := range r.Messages {
		switch m.Role {
		case llm.System:
			if in.System == nil {
				in.System = &content{}
			}
			in.System.Parts = append(in.System.Parts, part{m.Text})
		case llm.Assistant:
			in.Contents = append(in.Contents, content{"model", []part{{m.Text}}})
		case llm.User:
			in.Contents = append(in.Contents, content{"user", []part{{m.Text}}})
		}
	}
	if r.JSON && len(r.Tools) == 0 {
		in.Generation.MimeType = "application/json"
	}
	if len(r.Tools) > 0 {
		in.Tools, in.ToolConfig = make([]declarations, 1), &toolConfig{}
		in.ToolConfig.Calling.Mode = "ANY"
		for i := range r.Tools {
			t := &r.Tools[i]
			in.Tools[0].Functions = append(in.Tools[0].Functions, declaration{t.Name, t.Description, t.Schema()})
		}
	}
	var out response
	if err := c.service.Post(ctx, httpjson.Call{Path: "/v1beta/models/" + c.model + ":generateContent", In: &in, Out: &out, Limit: maxReply}); err != nil {
		return llm.Reply{}, err
	}
	return c.reply(&out)
}

// reply reads the first candidate, without its thoughts.
func (c *client) reply(out *response) (llm.Reply, error) {
	blocked := func(why string) (llm.Reply, error) {
		return llm.Reply{}, c.service.Fail("the provider has blocked it: "+why, "change what is sent", nil)
	}
	switch {
	case out.Feedback.BlockReason != "":
		return blocked(out.Feedback.BlockReason)
	case len(out.Candidates) == 0:
		return llm.Reply{}, c.service.Fail("the reply holds no candidate", "check base_url and the server", nil)
	}
	first := &out.Candidates[0]
	switch first.FinishReason {
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return blocked(first.FinishReason)
	case "MALFORMED_FUNCTION_CALL":
		return llm.Reply{}, c.service.Fail("the model wrote a call of a tool that is no JSON", "try again, or use a larger model", nil)
	}
	reply := llm.Reply{
		Model: out.ModelVersion, PromptTokens: out.Usage.Prompt, CompletionTokens: out.Usage.Candidates + out.Usage.Thoughts,
		Truncated: first.FinishReason == "MAX_TOKENS",
	}
	for _, p := range first.Content.Parts {
		switch {
		case p.Call != nil:
			reply.Calls = append(reply.Calls, llm.ToolCall{Name: p.Call.Name, Arguments: compact(p.Call.Args)})
		case !p.Thought:
			reply.Text += p.Text
		}
	}
	return reply, nil
}

// compact is a value without spaces; a call without arguments has an empty object.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return "{}"
	}
	return b.String()
}
