package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A shape is what a value of JSON must be. It makes the schema of a tool, and checks its
// arguments, with the words of the reference memory server.
type shape struct {
	kind   string // string, array, object, boolean
	about  string
	items  *shape
	fields []field
}

// A field is a key of an object. All are required; other keys are ignored.
type field struct {
	name string
	of   *shape
}

func text(about string) *shape { return &shape{kind: "string", about: about} }

func list(about string, items *shape) *shape {
	return &shape{kind: "array", about: about, items: items}
}

func object(fields ...field) *shape { return &shape{kind: "object", fields: fields} }

// schema is the JSON schema of the shape. That of an answer says that there are no other keys.
func (s *shape) schema(input bool) map[string]any {
	m := map[string]any{"type": s.kind}
	if s.about != "" {
		m["description"] = s.about
	}
	switch s.kind {
	case "array":
		m["items"] = s.items.schema(input)
	case "object":
		properties, required := map[string]any{}, []string{}
		for _, f := range s.fields {
			properties[f.name] = f.of.schema(input)
			required = append(required, f.name)
		}
		m["properties"] = properties
		if len(required) > 0 {
			m["required"] = required
		}
		if !input {
			m["additionalProperties"] = false
		}
	}
	return m
}

// arguments reads the arguments of a call, and says what is wrong with them.
func (s *shape) arguments(raw json.RawMessage) (args map[string]any, wrong string) {
	args = map[string]any{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, "Invalid input: expected object"
		}
	}
	return args, strings.Join(s.check(args, true, ""), "\n")
}

// check says where a value differs from the shape.
func (s *shape) check(v any, there bool, at string) (wrong []string) {
	if got := kindOf(v, there); got != s.kind {
		return []string{fmt.Sprintf("Invalid input: expected %s, received %s at %s", s.kind, got, at)}
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			wrong = append(wrong, s.items.check(item, true, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		for _, f := range s.fields {
			path := f.name
			if at != "" {
				path = at + "." + f.name
			}
			value, there := v[f.name]
			wrong = append(wrong, f.of.check(value, there, path)...)
		}
	}
	return wrong
}

func kindOf(v any, there bool) string {
	switch v.(type) {
	case nil:
		if there {
			return "null"
		}
		return "undefined"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

// indented is a value as JSON.stringify writes it, indented by two.
func indented(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return separators(strings.TrimSuffix(b.String(), "\n")), nil
}

// separators writes the two separators of lines as themselves, which encoding/json escapes.
func separators(s string) string {
	if !strings.Contains(s, `\u202`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch rest := s[i:]; {
		case strings.HasPrefix(rest, `\u2028`):
			b.WriteRune('\u2028')
			i += 5
		case strings.HasPrefix(rest, `\u2029`):
			b.WriteRune('\u2029')
			i += 5
		default:
			b.WriteString(rest[:2])
			i++
		}
	}
	return b.String()
}
