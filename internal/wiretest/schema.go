// Package wiretest tests the adapters of providers: it holds their requests against the
// official descriptions, and stands in for a provider that fails.
package wiretest

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/realdata"
)

// Schema is a part of a description in OpenAPI or JSON Schema.
type Schema struct {
	root map[string]any // the document, where references lead
	node any
}

// Request is the schema of the body of a POST in an OpenAPI description, which lies in the
// data sets. The test skips where it is missing.
func Request(t testing.TB, file, route string) *Schema {
	t.Helper()
	return load(t, file, "paths", route, "post", "requestBody", "content", "application/json", "schema")
}

// Definition is a named schema of a file in JSON Schema, or the file itself without a name.
func Definition(t testing.TB, file, name string) *Schema {
	t.Helper()
	if name == "" {
		return load(t, file)
	}
	return load(t, file, "definitions", name)
}

func load(t testing.TB, file string, keys ...string) *Schema {
	t.Helper()
	return At(t, file, read(t, file), keys...)
}

// At is the schema under keys of a document.
func At(t testing.TB, file string, document any, keys ...string) *Schema {
	t.Helper()
	root, ok := document.(map[string]any)
	if !ok {
		t.Fatalf("%s is no object", file)
	}
	return (&Schema{root: root, node: root}).At(t, keys...)
}

// At is the part of the schema under keys.
func (s *Schema) At(t testing.TB, keys ...string) *Schema {
	t.Helper()
	at := *s
	for _, key := range keys {
		node, ok := at.resolve(at.node).(map[string]any)
		if !ok || node[key] == nil {
			t.Fatalf("the description has no %s of %v", key, keys)
		}
		at.node = node[key]
	}
	return &at
}

func read(t testing.TB, file string) (value any) {
	t.Helper()
	b, err := os.ReadFile(realdata.Path(t, path.Join("specs", file)))
	if err == nil {
		err = json.Unmarshal(b, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Recorded is the body that the provider's own client sent in a step of a recording.
func Recorded(t testing.TB, file, step string) map[string]any {
	t.Helper()
	steps, _ := read(t, file).([]any)
	for _, s := range steps {
		s := s.(map[string]any)
		if s["step"] != step {
			continue
		}
		if requests, _ := s["requests"].([]any); len(requests) > 0 {
			body, _ := requests[0].(map[string]any)["body"].(map[string]any)
			return body
		}
	}
	t.Fatalf("%s has no step %q with a request", file, step)
	return nil
}

// Check holds a value of JSON against the schema. A key that the schema does not know is an
// error, also where the schema would let it pass: a server ignores it in silence.
func (s *Schema) Check(body []byte) error {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	problems, _ := s.check(s.node, value, "body", true)
	if len(problems) > 0 {
		return fmt.Errorf("%s in %.2000s", strings.Join(problems, "; "), body)
	}
	return nil
}

// resolve follows references.
func (s *Schema) resolve(node any) any {
	for range 100 {
		m, ok := node.(map[string]any)
		ref, isRef := m["$ref"].(string)
		if !ok || !isRef {
			return node
		}
		node = s.root
		for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			m, _ := node.(map[string]any)
			node = m[strings.NewReplacer("~1", "/", "~0", "~", "%3C", "<", "%3E", ">").Replace(key)]
		}
	}
	return node
}

// check returns the problems of a value, and the keys of an object that the schema knows;
// open says that it knows all. With closed, other keys are a problem.
func (s *Schema) check(node, value any, at string, closed bool) (problems []string, known []string) {
	m, ok := s.resolve(node).(map[string]any)
	if !ok || len(m) == 0 {
		return nil, []string{"*"} // anything
	}
	if value == nil && m["nullable"] == true {
		return nil, nil
	}
	problems = s.plain(m, value, at)
	object, isObject := value.(map[string]any)
	if isObject {
		more, keys := s.object(m, object, at)
		problems, known = append(problems, more...), append(known, keys...)
	}
	if list, ok := value.([]any); ok {
		problems = append(problems, s.list(m, list, at)...)
	}
	for _, part := range list(m["allOf"]) {
		more, keys := s.check(part, value, at, false)
		problems, known = append(problems, more...), append(known, keys...)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		more, keys := s.some(list(m[word]), value, at)
		problems, known = append(problems, more...), append(known, keys...)
	}
	if closed && isObject && !slices.Contains(known, "*") {
		for key := range object {
			if !slices.Contains(known, key) {
				problems = append(problems, fmt.Sprintf("%s.%s is not described", at, key))
			}
		}
	}
	return problems, known
}

// some wants one of several schemas at least. Descriptions write oneOf where several fit.
func (s *Schema) some(parts []any, value any, at string) (problems, known []string) {
	fits := len(parts) == 0
	for _, part := range parts {
		more, keys := s.check(part, value, at, true)
		if len(more) == 0 {
			fits, known = true, append(known, keys...)
		}
		problems = append(problems, more...)
	}
	if fits {
		return nil, known
	}
	return []string{at + " fits none of: " + strings.Join(problems, " | ")}, []string{"*"}
}

// plain checks type, enum, const and bounds.
func (s *Schema) plain(m map[string]any, value any, at string) (problems []string) {
	bad := func(format string, args ...any) {
		problems = append(problems, at+" "+fmt.Sprintf(format, args...))
	}
	var types []string
	switch t := m["type"].(type) {
	case string:
		types = []string{t}
	case []any:
		for _, one := range t {
			types = append(types, one.(string))
		}
	}
	if len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return isOf(value, t) }) {
		bad("is %T, not %v", value, types)
	}
	if enum := list(m["enum"]); len(enum) > 0 && !slices.Contains(enum, value) {
		bad("is %v, none of %v", value, enum)
	}
	if c, ok := m["const"]; ok && c != value {
		bad("is %v, not %v", value, c)
	}
	if n, ok := value.(float64); ok {
		if least, ok := m["minimum"].(float64); ok && n < least {
			bad("is %v, less than %v", n, least)
		}
		if most, ok := m["maximum"].(float64); ok && n > most {
			bad("is %v, more than %v", n, most)
		}
	}
	if text, ok := value.(string); ok {
		if least, ok := m["minLength"].(float64); ok && float64(len(text)) < least {
			bad("is %q, shorter than %v", text, least)
		}
	}
	return problems
}

// object checks the keys of an object, and says which are described.
func (s *Schema) object(m, object map[string]any, at string) (problems, known []string) {
	for _, key := range list(m["required"]) {
		if _, ok := object[key.(string)]; !ok {
			problems = append(problems, fmt.Sprintf("%s has no %s", at, key))
		}
	}
	properties, _ := m["properties"].(map[string]any)
	for key, schema := range properties {
		known = append(known, key)
		if value, ok := object[key]; ok {
			more, _ := s.check(schema, value, at+"."+key, true)
			problems = append(problems, more...)
		}
	}
	switch rest := m["additionalProperties"].(type) {
	case bool:
		if rest {
			known = append(known, "*")
		}
	case map[string]any:
		for key, value := range object {
			if properties[key] == nil {
				more, _ := s.check(rest, value, at+"."+key, true)
				problems = append(problems, more...)
			}
		}
		known = append(known, "*")
	case nil:
		if properties == nil && m["allOf"] == nil && m["anyOf"] == nil && m["oneOf"] == nil {
			known = append(known, "*") // any object
		}
	}
	if m["unevaluatedProperties"] != nil && m["unevaluatedProperties"] != false {
		known = append(known, "*")
	}
	return problems, known
}

// list checks the elements of a list.
func (s *Schema) list(m map[string]any, values []any, at string) (problems []string) {
	if most, ok := m["maxItems"].(float64); ok && float64(len(values)) > most {
		problems = append(problems, fmt.Sprintf("%s has %d elements, more than %v", at, len(values), most))
	}
	if least, ok := m["minItems"].(float64); ok && float64(len(values)) < least {
		problems = append(problems, fmt.Sprintf("%s has %d elements, less than %v", at, len(values), least))
	}
	if items, ok := m["items"]; ok {
		for i, v := range values {
			more, _ := s.check(items, v, fmt.Sprintf("%s[%d]", at, i), true)
			problems = append(problems, more...)
		}
	}
	return problems
}

// isOf reports whether a value is of a type of JSON Schema.
func isOf(value any, name string) bool {
	switch v := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

func list(value any) []any {
	l, _ := value.([]any)
	return l
}
