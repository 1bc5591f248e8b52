// Package gemini describes Google's models, which are asked by the Gemini API.
package gemini

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

// inputType has documents and questions in one space, as an embedder needs that does not know which
// a text is; the others can be configured.
var inputType = providers.InputTypes("google",
	"SEMANTIC_SIMILARITY", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "CLASSIFICATION", "CLUSTERING", "QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY")

// Provider is Google.
var Provider = providers.Provider{
	Name: "google", Variable: "GOOGLE_API_KEY", BaseURL: "https://generativelanguage.googleapis.com",
	Header: func(key string) http.Header { return http.Header{"X-Goog-Api-Key": {key}} },
	Prepare: func(c *providers.Config) error {
		c.Model = strings.TrimPrefix(c.Model, "models/")
		return inputType(c)
	},
	Chat: &providers.Chat{
		Model: "gemini-2.5-flash", Call: method("generateContent"), Request: ask, Reply: func() providers.Reply { return &response{} },
	},
	Vectors: &providers.Vectors{
		Model: "gemini-embedding-001", Known: map[string]int{"gemini-embedding-001": 3072, "text-embedding-004": 768}, AnyLength: true,
		Limits: providers.Most(embedders.Limits{Texts: 100}), Call: method("batchEmbedContents"), Request: embed, Batch: func() providers.Batch { return &vectors{} },
	},
}

// method is the path of a method of a model.
func method(name string) providers.Call {
	return func(s *httpjson.Service, c *providers.Config) (httpjson.Call, error) {
		return httpjson.Call{Path: "/v1beta/models/" + c.Model + ":" + name}, s.CheckPath("model", c.Model)
	}
}

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

func ask(_ string, r *llm.Request) any {
	in := &request{Generation: generation{Temperature: r.Temperature, MaxOutputTokens: r.Tokens()}}
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
	return in
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

// Read reads the first candidate, without its thoughts.
func (r *response) Read(s *httpjson.Service) (llm.Reply, error) {
	blocked := func(why string) (llm.Reply, error) {
		return llm.Reply{}, s.Fail("the provider has blocked it: "+why, "change what is sent", nil)
	}
	switch {
	case r.Feedback.BlockReason != "":
		return blocked(r.Feedback.BlockReason)
	case len(r.Candidates) == 0:
		return llm.Reply{}, s.Fail("the reply holds no candidate", "check base_url and the server", nil)
	}
	first := &r.Candidates[0]
	switch first.FinishReason {
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return blocked(first.FinishReason)
	case "MALFORMED_FUNCTION_CALL":
		return llm.Reply{}, s.Fail("the model wrote a call of a tool that is no JSON", "try again, or use a larger model", nil)
	}
	reply := llm.Reply{
		Model: r.ModelVersion, PromptTokens: r.Usage.Prompt, CompletionTokens: r.Usage.Candidates + r.Usage.Thoughts,
		Truncated: first.FinishReason == "MAX_TOKENS",
	}
	for _, p := range first.Content.Parts {
		switch {
		case p.Call != nil:
			reply.Calls = append(reply.Calls, llm.ToolCall{Name: p.Call.Name, Arguments: providers.Arguments(p.Call.Args)})
		case !p.Thought:
			reply.Text += p.Text
		}
	}
	return reply, nil
}

type embedding struct {
	Model      string  `json:"model"`
	Content    content `json:"content"`
	TaskType   string  `json:"taskType"`
	Dimensions int     `json:"outputDimensionality,omitempty"`
}

type embeddings struct {
	Requests []embedding `json:"requests"`
}

func embed(c *providers.Config, texts []string, dimensions int) any {
	in := &embeddings{}
	for _, text := range texts {
		in.Requests = append(in.Requests, embedding{"models/" + c.Model, content{Parts: []part{{text}}}, c.InputType, dimensions})
	}
	return in
}

type vectors struct {
	Embeddings []struct {
		Values providers.Vector `json:"values"`
	} `json:"embeddings"`
}

// Read gives the length 1 to vectors that the service shortened, which it leaves as they are.
func (v *vectors) Read(_ *httpjson.Service, _, dimensions int) ([]providers.Vector, error) {
	var all []providers.Vector
	for _, e := range v.Embeddings {
		if dimensions > 0 {
			normalise(e.Values)
		}
		all = append(all, e.Values)
	}
	return all, nil
}

// Tokens are not counted.
func (*vectors) Tokens() int64 { return 0 }

// normalise gives a vector the length 1. Zeros stay.
func normalise(v []float32) {
	squares := 0.0
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return
	}
	length := math.Sqrt(squares)
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
}
