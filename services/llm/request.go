package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// The limits of a Request.
const (
	// DefaultMaxTokens bounds the reply to a request that says nothing else.
	DefaultMaxTokens = 2000
	// MaxTemperature is the highest that providers take.
	MaxTemperature = 2
	// MaxRequestBytes bounds the messages of a request: more than models read.
	MaxRequestBytes = 32 << 20
	// MaxTools bounds the tools of a request, as providers do.
	MaxTools = 128
	// maxToolName is the shortest bound among the providers.
	maxToolName = 64
)

// Check refuses a request that no provider takes, with ErrInvalid. doing says what it is
// for.
func (r *Request) Check(doing string) error {
	bad := func(why, do string) error { return fault.Invalid(doing, why, do) }
	switch {
	case len(r.Messages) == 0:
		return bad("there are no messages", "give one of the user at least")
	case !(r.Temperature >= 0 && r.Temperature <= MaxTemperature):
		return bad(fmt.Sprintf("the temperature is %v", r.Temperature), "give 0 to 2")
	case r.MaxTokens < 0:
		return bad("the number of tokens is negative", "give 1 or more, or 0 for 2000")
	case len(r.Tools) > MaxTools:
		return bad(fmt.Sprintf("there are %d tools", len(r.Tools)), fmt.Sprintf("give up to %d", MaxTools))
	}
	size, spoken := 0, false
	for i, m := range r.Messages {
		switch m.Role {
		case System:
		case User, Assistant:
			spoken = true
		default:
			return bad(fmt.Sprintf("message %d has the role %q", i+1, m.Role), "give system, user or assistant")
		}
		if !utf8.ValidString(m.Text) {
			return bad(fmt.Sprintf("message %d is no UTF-8", i+1), "convert it")
		}
		size += len(m.Text)
	}
	switch {
	case size > MaxRequestBytes:
		return bad(fmt.Sprintf("the messages have %d bytes", size), fmt.Sprintf("send up to %d", MaxRequestBytes))
	case !spoken:
		return bad("there are messages of the system alone", "give one of the user at least")
	}
	return r.checkTools(bad)
}

func (r *Request) checkTools(bad func(why, do string) error) error {
	for i, t := range r.Tools {
		if t.Name == "" || len(t.Name) > maxToolName || !plain(t.Name) {
			return bad(fmt.Sprintf("tool %d has the name %.80q", i+1, t.Name), "give up to 64 letters, digits, _ and -, with a letter or _ first")
		}
		if p := bytes.TrimSpace(t.Parameters); len(p) > 0 && (p[0] != '{' || !json.Valid(p)) {
			return bad("the parameters of the tool "+t.Name+" are no JSON Schema", "give a JSON object, or none")
		}
	}
	return nil
}

// plain reports whether all providers take a name.
func plain(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-') {
			return false
		}
	}
	return true
}

// Tokens bounds the reply: MaxTokens, or its default.
func (r *Request) Tokens() int {
	if r.MaxTokens == 0 {
		return DefaultMaxTokens
	}
	return r.MaxTokens
}

// noParameters is the schema of a tool without arguments.
var noParameters = json.RawMessage(`{"type":"object","properties":{}}`)

// Schema is the JSON Schema of the arguments, also of a tool that has none.
func (t *Tool) Schema() json.RawMessage {
	if len(bytes.TrimSpace(t.Parameters)) == 0 {
		return noParameters
	}
	return t.Parameters
}
