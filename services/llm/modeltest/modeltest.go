// Package modeltest is what all adapters of language models must pass.
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// Adapter is one under test.
type Adapter struct {
	Provider, Variable string
	// New makes the adapter with wiretest.Key, for the model "m-1".
	New func(base string) (llm.Client, error)
	// URI is what it calls, and Header holds the key.
	URI, Header, Value string
	// Schema is the official description of its requests.
	Schema func(testing.TB) *wiretest.Schema
	// Complete adds to a request what the description wants in its body and the provider's
	// clients send elsewhere.
	Complete func(body map[string]any)
	// Replies in the provider's form: "Yes." of 11 and 3 tokens, a call of the tool note
	// with {"text":"a"}, and a text that was cut.
	Text, Call, Cut string
	// Unusable are replies with status 200 that hold no answer, and what the error says.
	Unusable map[string]string
	// Refuse writes an error in the provider's form.
	Refuse func(message string) string
	// Sends lists parts that the body of the request must hold, by the name of a request.
	Sends map[string][]string
}

var noteTool = llm.Tool{
	Name: "note", Description: "Keeps a text.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
}

// requests are those that every adapter must send as the provider describes them.
func requests() map[string]llm.Request {
	talk := []llm.Message{{Role: llm.System, Text: "Be brief."}, {Role: llm.User, Text: "Hello \u00e9 \"you\""}}
	long := append(slices.Clone(talk), llm.Message{Role: llm.Assistant, Text: "Yes?"}, llm.Message{Role: llm.System, Text: "Be kind."}, llm.Message{Role: llm.User, Text: "Well."})
	return map[string]llm.Request{
		"text":  {Messages: talk},
		"JSON":  {Messages: talk, JSON: true},
		"long":  {Messages: long, Temperature: .5, MaxTokens: 77},
		"tools": {Messages: talk, Tools: []llm.Tool{noteTool, {Name: "stop"}}},
	}
}

// Run tests an adapter.
func Run(t *testing.T, a Adapter) {
	t.Helper()
	t.Run("requests", func(t *testing.T) { a.requests(t, nil) })
	t.Run("requests by the description", func(t *testing.T) { a.requests(t, a.Schema(t)) })
	t.Run("replies", func(t *testing.T) { a.replies(t) })
	t.Run("input", func(t *testing.T) { a.input(t) })
	wiretest.Faults(t, wiretest.Target{
		Provider: a.Provider, Kind: llm.ErrModel, Variable: a.Variable, Reply: a.Text, Refuse: a.Refuse,
		Call: func(ctx context.Context, base string) error {
			c, err := a.New(base)
			if err != nil {
				return err
			}
			_, err = c.Generate(ctx, requests()["text"])
			return err
		},
	})
}

func (a *Adapter) client(t *testing.T, base string) llm.Client {
	t.Helper()
	c, err := a.New(base)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requests looks at what is sent, and holds it against the description where there is one.
func (a *Adapter) requests(t *testing.T, schema *wiretest.Schema) {
	for name, r := range requests() {
		t.Run(name, func(t *testing.T) {
			calls := 0
			s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
				calls++
				if r.Method != http.MethodPost || r.URL.RequestURI() != a.URI || a.Header != "" && r.Header.Get(a.Header) != a.Value {
					t.Errorf("%s %s %v", r.Method, r.URL.RequestURI(), r.Header)
				}
				for _, part := range a.Sends[name] {
					if !strings.Contains(string(body), part) {
						t.Errorf("no %s in %s", part, body)
					}
				}
				if schema != nil {
					if err := schema.Check(a.complete(t, body)); err != nil {
						t.Error(err)
					}
				}
				return 200, a.Text
			})
			if reply, err := a.client(t, s.URL).Generate(t.Context(), r); err != nil || reply.Text != "Yes." || calls != 1 {
				t.Errorf("%+v after %d calls, error %v", reply, calls, err)
			}
		})
	}
}

func (a *Adapter) complete(t *testing.T, body []byte) []byte {
	t.Helper()
	if a.Complete == nil {
		return body
	}
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	a.Complete(object)
	b, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ask sends a request to a stand-in that answers with a body.
func (a *Adapter) ask(t *testing.T, body string) (llm.Reply, error) {
	t.Helper()
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, body })
	return a.client(t, s.URL).Generate(t.Context(), requests()["tools"])
}

func (a *Adapter) replies(t *testing.T) {
	reply, err := a.ask(t, a.Text)
	if err != nil || reply.Text != "Yes." || reply.PromptTokens != 11 || reply.CompletionTokens != 3 || reply.Truncated || len(reply.Calls) > 0 || reply.Model != "m-1-dated" {
		t.Errorf("text: %+v, error %v", reply, err)
	}
	reply, err = a.ask(t, a.Call)
	if want := []llm.ToolCall{{Name: "note", Arguments: `{"text":"a"}`}}; err != nil || !slices.Equal(reply.Calls, want) {
		t.Errorf("call: %+v, error %v", reply, err)
	}
	if reply, err = a.ask(t, a.Cut); err != nil || !reply.Truncated {
		t.Errorf("cut: %+v, error %v", reply, err)
	}
	for body, want := range a.Unusable {
		reply, err := a.ask(t, body)
		if !errors.Is(err, llm.ErrModel) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), a.Provider) {
			t.Errorf("%s: %+v, %v, want %q", body, reply, err, want)
		}
	}
}

// input has requests that are refused before anything is sent.
func (a *Adapter) input(t *testing.T) {
	calls := 0
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { calls++; return 200, a.Text })
	c := a.client(t, s.URL)
	if c.Model() != "m-1" {
		t.Errorf("the model is %q", c.Model())
	}
	for _, r := range []llm.Request{{}, {Messages: []llm.Message{{Role: "robot", Text: "x"}}}, {Messages: []llm.Message{{Role: llm.User, Text: "\xff"}}}} {
		if _, err := c.Generate(t.Context(), r); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if calls != 0 {
		t.Errorf("%d calls for bad requests", calls)
	}
}

// Refused wants an error of the configuration that says something, and no key.
func Refused(t *testing.T, c llm.Client, err error, want string) {
	t.Helper()
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), wiretest.Key) {
		t.Errorf("%v, %v: want %q", c, err, want)
	}
}
