package filter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Parse reads a filter from its short text or from JSON, and checks it.
//
// The short text is a condition such as role = user, or several with and, or, not and
// parentheses:
//
//	priority >= 3 and (tag in (work, home) or not text icontains "draft")
//
// Its operators are those of JSON, and = (also ==) != (also <>) > >= < <=. A value
// without quotes is a number, true, false or null where it reads as one, else a string.
// Quotes are double or single; within them a backslash begins an escape as in JSON, or a
// single quote. and (…) and or (…) join any number of filters, with commas between.
//
// Parse returns the error of a context that is over, else one of the kind ErrInvalid.
func Parse(ctx context.Context, b []byte) (Filter, error) {
	t := bytes.TrimSpace(b)
	var f Filter
	var err error
	switch {
	case len(t) == 0:
		return nil, fault.Invalid(doing, "it is empty", "leave it out, or write it as role = user")
	case t[0] == '{':
		f, err = parseJSON(t)
	default:
		f, err = parseText(string(t))
	}
	if err != nil {
		return nil, err
	}
	if err := check(ctx, f); err != nil {
		return nil, err
	}
	return f, nil
}

func parseJSON(b []byte) (Filter, error) {
	var raw json.RawMessage
	err := json.Unmarshal(b, &raw)
	if err == nil {
		err = valid.JSON(b)
	}
	if err == nil {
		return parseNode(b, 0)
	}
	if strings.Contains(err.Error(), "exceeded max depth") { // the decoder's own, far beyond ours
		return nil, tooDeep()
	}
	return nil, fault.Invalid(doing, fmt.Sprintf("it is no JSON: %s in %s", err, valid.Short(string(b))), `write it as {"field":"role","operator":"eq","value":"user"}`)
}

// plainJSON is an error of the JSON decoder without the words of Go.
func plainJSON(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		is := "a " + wrong.Value
		if wrong.Value == "array" {
			is = "a list"
		}
		if wrong.Field == "" {
			return "a condition is " + is + ", not an object"
		}
		return wrong.Field + " is " + is
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// node is an object of the JSON form.
type node struct {
	Field    *string           `json:"field"`
	Operator string            `json:"operator"`
	Op       string            `json:"op"`
	Value    json.RawMessage   `json:"value"`
	And      []json.RawMessage `json:"AND"`
	Or       []json.RawMessage `json:"OR"`
	Not      json.RawMessage   `json:"NOT"`
}

// parseNode reads an object. Its recursion has a limit of its own: conditions may stand
// one deeper than what joins them.
func parseNode(b []byte, depth int) (Filter, error) {
	if depth > MaxDepth+1 {
		return nil, tooDeep()
	}
	var n node
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&n); err != nil {
		return nil, fault.Invalid(doing, plainJSON(err), "use field, operator and value, or AND, OR or NOT")
	}
	if key := repeatedKey(b); key != "" {
		return nil, fault.Invalid(doing, fmt.Sprintf("%s is given twice in one object", key), "give it once, or nest AND, OR and NOT")
	}
	forms := 0
	for _, given := range []bool{n.Field != nil, n.And != nil, n.Or != nil, n.Not != nil} {
		if given {
			forms++
		}
	}
	switch {
	case forms > 1:
		return nil, fault.Invalid(doing, "AND, OR, NOT or a field stand beside each other in one object", "nest them")
	case n.And != nil:
		parts, err := parseNodes(n.And, depth)
		return All(parts), err
	case n.Or != nil:
		parts, err := parseNodes(n.Or, depth)
		return Any(parts), err
	case n.Not != nil:
		f, err := parseNode(n.Not, depth+1)
		return Negation{f}, err
	case n.Field == nil:
		return nil, fault.Invalid(doing, "a condition has no field", "name one")
	}
	return n.condition()
}

// condition is that of an object with a field.
func (n *node) condition() (Filter, error) {
	name := n.Operator
	if name == "" {
		name = n.Op
	}
	switch {
	case name == OpExists.String():
		if v := string(n.Value); v != "" && v != "true" {
			return nil, fault.Invalid(doing, "exists has the value "+valid.Short(v), "leave it out, or use NOT for what does not exist")
		}
		return Exists(*n.Field), nil
	case len(n.Value) == 0:
		return nil, fault.Invalid(doing, "a condition has no value", "give one")
	}
	dec := json.NewDecoder(bytes.NewReader(n.Value))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fault.Invalid(doing, plainJSON(err), "")
	}
	return newCondition(*n.Field, name, v)
}

// repeatedKey is a key that an object has twice, in whatever case, of which a decoder
// would drop one, and with it a condition.
func repeatedKey(object []byte) string {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return ""
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ""
		}
		name, _ := key.(string)
		same := strings.ToLower(name)
		if same == "op" {
			same = "operator"
		}
		if seen[same] {
			return name
		}
		seen[same] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return ""
		}
	}
	return ""
}

func parseNodes(raw []json.RawMessage, depth int) ([]Filter, error) {
	parts := make([]Filter, 0, len(raw))
	for _, r := range raw {
		f, err := parseNode(r, depth+1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
	return parts, nil
}

// newCondition is the condition of an operator's name.
func newCondition(field, operator string, value any) (Filter, error) {
	for i, name := range opNames {
		if name != operator {
			continue
		}
		op := Op(i)
		if op != OpIn && op != OpNin {
			return one(field, op, value), nil
		}
		list, ok := value.([]any)
		if !ok {
			return nil, fault.Invalid(doing, fmt.Sprintf("the value of %s is no list", operator), "give a list")
		}
		return Condition{Field: field, Op: op, Values: list}, nil
	}
	return nil, fault.Invalid(doing, fmt.Sprintf("unknown operator %q", valid.Short(operator)), "use one of "+strings.Join(opNames, ", "))
}

// MarshalJSON is the JSON form of the filter.
func (f Condition) MarshalJSON() ([]byte, error) { return checkedJSON(f) }

// MarshalJSON is the JSON form of the filter.
func (f All) MarshalJSON() ([]byte, error) { return checkedJSON(f) }

// MarshalJSON is the JSON form of the filter.
func (f Any) MarshalJSON() ([]byte, error) { return checkedJSON(f) }

// MarshalJSON is the JSON form of the filter.
func (f Negation) MarshalJSON() ([]byte, error) { return checkedJSON(f) }

func checkedJSON(f Filter) ([]byte, error) {
	if err := Check(f); err != nil {
		return nil, err
	}
	var b strings.Builder
	writeJSON(&b, f)
	return []byte(b.String()), nil
}

// writeJSON writes a filter that was checked.
func writeJSON(b *strings.Builder, f Filter) {
	list := func(open string, parts []Filter) {
		b.WriteString(open)
		for i, g := range parts {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, g)
		}
		b.WriteString("]}")
	}
	switch f := f.(type) {
	case All:
		list(`{"AND":[`, f)
	case Any:
		list(`{"OR":[`, f)
	case Negation:
		b.WriteString(`{"NOT":`)
		writeJSON(b, f.Filter)
		b.WriteByte('}')
	case Condition:
		b.WriteString(`{"field":` + literal(f.Field) + `,"operator":"` + f.Op.String() + `"`)
		switch values := f.literals(); f.Op {
		case OpExists:
		case OpIn, OpNin:
			b.WriteString(`,"value":[` + strings.Join(values, ",") + `]`)
		default:
			b.WriteString(`,"value":` + values[0])
		}
		b.WriteByte('}')
	}
}
