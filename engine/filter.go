package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Filter is a condition on memories: Eq, In or And.
//
// A field is one of user, agent, run (also user_id, agent_id, run_id), id, role,
// kind, source, name, text (also memory, content), pinned, or the name of a
// metadata field; metadata.x forces metadata, and a dot goes one object deeper.
// Values are strings, numbers, booleans or nil (JSON null); types are never
// coerced. A missing field equals nothing.
type Filter interface {
	// match evaluates the condition on a record.
	match(r *record, meta map[string]any) bool
	// check bounds the condition: nodes counts down.
	check(depth int, nodes *int) error
}

// Eq holds where the field equals the value.
type Eq struct {
	Field string
	Value any
}

// In holds where the field equals one of the values.
type In struct {
	Field  string
	Values []any
}

// And holds where all its parts hold; an empty And always holds.
type And []Filter

const doingFilter = "read a filter"

func (f Eq) match(r *record, meta map[string]any) bool {
	return equalValue(fieldOf(f.Field).value(r, meta), f.Value)
}

func (f In) match(r *record, meta map[string]any) bool {
	have := fieldOf(f.Field).value(r, meta)
	for _, v := range f.Values {
		if equalValue(have, v) {
			return true
		}
	}
	return false
}

func (f And) match(r *record, meta map[string]any) bool {
	for _, g := range f {
		if !g.match(r, meta) {
			return false
		}
	}
	return true
}

func equalValue(have, want any) bool {
	if have == (any)(missing{}) {
		return false
	}
	a, ok := exactKey(have)
	if !ok {
		return false
	}
	b, ok := exactKey(want)
	return ok && a == b
}

func (f Eq) check(_ int, nodes *int) error {
	return checkCondition(f.Field, []any{f.Value}, nodes)
}

func (f In) check(_ int, nodes *int) error { return checkCondition(f.Field, f.Values, nodes) }

func (f And) check(depth int, nodes *int) error {
	if depth > MaxFilterDepth {
		return invalid(doingFilter, fmt.Sprintf("it nests deeper than %d", MaxFilterDepth), "flatten it")
	}
	for _, g := range f {
		if g == nil {
			return invalid(doingFilter, "a part of it is nil", "leave it out")
		}
		if err := g.check(depth+1, nodes); err != nil {
			return err
		}
	}
	return spend(nodes, 1)
}

func checkCondition(name string, values []any, nodes *int) error {
	if name == "" || name == metadataPrefix {
		return invalid(doingFilter, "a condition has no field", "name one")
	}
	for _, v := range values {
		if _, ok := exactKey(v); !ok {
			return invalid(doingFilter, fmt.Sprintf("%s is compared with a %T", truncate(name), v), "compare with a string, a number, true, false or null")
		}
	}
	return spend(nodes, 1+len(values))
}

func spend(nodes *int, n int) error {
	if *nodes -= n; *nodes < 0 {
		return invalid(doingFilter, fmt.Sprintf("it has more than %d conditions and values", MaxFilterNodes), "split the query")
	}
	return nil
}

func checkFilter(f Filter) error {
	if f == nil {
		return nil
	}
	nodes := MaxFilterNodes
	return f.check(0, &nodes)
}

// ParseFilter reads a filter from JSON: {"field": …, "operator": "eq", "value": …}
// (or "op"), and {"AND": [ … ]}.
func ParseFilter(b []byte) (Filter, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, invalid(doingFilter, fmt.Sprintf("it is no JSON: %s in %s", err, truncate(string(b))), `write it as {"field":"role","operator":"eq","value":"user"}`)
	}
	f, err := parseFilter(b, 0)
	if err != nil {
		return nil, err
	}
	return f, checkFilter(f)
}

type filterNode struct {
	Field    *string           `json:"field"`
	Operator string            `json:"operator"`
	Op       string            `json:"op"`
	Value    json.RawMessage   `json:"value"`
	And      []json.RawMessage `json:"AND"`
}

func parseFilter(b []byte, depth int) (Filter, error) {
	if depth > MaxFilterDepth {
		return nil, invalid(doingFilter, fmt.Sprintf("it nests deeper than %d", MaxFilterDepth), "flatten it")
	}
	var n filterNode
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&n); err != nil {
		return nil, invalid(doingFilter, strings.TrimPrefix(err.Error(), "json: "), "use field, operator and value, or AND")
	}
	if n.And != nil {
		if n.Field != nil {
			return nil, invalid(doingFilter, "AND stands beside a field", "put the condition into the list")
		}
		all := make(And, 0, len(n.And))
		for _, raw := range n.And {
			f, err := parseFilter(raw, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		return all, nil
	}
	if n.Field == nil {
		return nil, invalid(doingFilter, "a condition has no field", "name one")
	}
	return n.condition()
}

func (n *filterNode) condition() (Filter, error) {
	op := n.Operator
	if op == "" {
		op = n.Op
	}
	value, err := filterValue(n.Value)
	if err != nil {
		return nil, err
	}
	switch op {
	case "eq":
		return Eq{*n.Field, value}, nil
	case "in":
		values, ok := value.([]any)
		if !ok {
			return nil, invalid(doingFilter, "the value of in is no list", "write [ … ]")
		}
		return In{*n.Field, values}, nil
	}
	return nil, invalid(doingFilter, fmt.Sprintf("unknown operator %q", truncate(op)), "use eq, in or AND")
}

func filterValue(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, invalid(doingFilter, "a condition has no value", "give one")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil && !errors.Is(err, io.EOF) {
		return nil, invalid(doingFilter, err.Error(), "")
	}
	return v, nil
}
