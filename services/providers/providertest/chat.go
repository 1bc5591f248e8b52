package providertest

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

// Chat is a provider of language models under test. Its model is "m-1".
type Chat struct {
	Endpoint
	// Replies in the provider's form: "Yes." of 11 and 3 tokens, a call of the tool note
	// with {"text":"a"}, and a text that was cut.
	Text, Call, Cut string
	// Unusable are replies with status 200 that hold no answer, and what the error says.
	Unusable map[string]string
	// Sends lists parts that the body of the request must hold, by the name of a request.
	Sends map[string][]string
}

var noteTool = llm.Tool{
	Name: "note", Description: "Keeps a text.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
}

// requests are those that every provider must be sent as the provider describes them.
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

// Run tests the provider.
func (a *Chat) Run(t *testing.T) {
	t.Helper()
	a.described(t, a.requests)
	t.Run("replies", a.replies)
	t.Run("input", a.input)
	wiretest.Faults(t, wiretest.Target{
		Provider: a.Provider.Name, Kind: llm.ErrModel, Variable: a.Provider.Variable, Reply: a.Text, Refuse: a.Refuse,
		Call: func(ctx context.Context, base string) error {
			c, err := a.Provider.NewChat(a.config(base))
			if err != nil {
				return err
			}
			_, err = c.Generate(ctx, requests()["text"])
			return err
		},
	})
}

func (a *Chat) client(t *testing.T, base string) llm.Client {
	t.Helper()
	c, err := a.Provider.NewChat(a.config(base))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *Chat) requests(t *testing.T, schema *wiretest.Schema) {
	for name, r := range requests() {
		t.Run(name, func(t *testing.T) {
			calls := 0
			s := wiretest.Server(t, func(r *http.Request, body []byte) (int, string) {
				calls++
				a.check(t, r, body, schema, a.Sends[name])
				return 200, a.Text
			})
			if reply, err := a.client(t, s.URL).Generate(t.Context(), r); err != nil || reply.Text != "Yes." || calls != 1 {
				t.Errorf("%+v after %d calls, error %v", reply, calls, err)
			}
		})
	}
}

// ask sends a request to a stand-in that answers with a body.
func (a *Chat) ask(t *testing.T, body string) (llm.Reply, error) {
	t.Helper()
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, body })
	return a.client(t, s.URL).Generate(t.Context(), requests()["tools"])
}

func (a *Chat) replies(t *testing.T) {
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
		if !errors.Is(err, llm.ErrModel) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), a.Provider.Name) {
			t.Errorf("%s: %+v, %v, want %q", body, reply, err, want)
		}
	}
}

// input has requests that are refused before anything is sent.
func (a *Chat) input(t *testing.T) {
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
