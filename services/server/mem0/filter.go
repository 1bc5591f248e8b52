package mem0

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	doingFilter = "read the filters"
	// own is where mem0's part of the metadata lies, for a filter.
	own = "metadata." + products.Mem0Field + "."
	// wildcard stands for any value that there is.
	wildcard = "*"
	// dateForm is how mem0 writes a day.
	dateForm = products.Mem0DayForm
)

// wanted is what a filter of mem0 asks for.
type wanted struct {
	filter filter.Filter
	// scopes are those outside of which the filter never holds; an empty one is any.
	scopes []memory.Scope
	// named: the filter never holds for a memory but of a user, an agent, a run or an app that it
	// names.
	named bool
}

// anything asks for everything.
func anything() wanted { return wanted{filter: filter.And(), scopes: []memory.Scope{{}}} }

// and joins two that must both hold. Where the scopes become too many, those of one side do.
func (w wanted) and(v wanted) wanted {
	both := wanted{filter: filter.And(w.filter, v.filter), named: w.named || v.named}
	if len(w.scopes)*len(v.scopes) > memory.MaxScopes {
		both.scopes = w.scopes
		return both
	}
	for _, s := range w.scopes {
		for _, t := range v.scopes {
			if m, ok := meet(s, t); ok && !slices.Contains(both.scopes, m) {
				both.scopes = append(both.scopes, m)
			}
		}
	}
	return both
}

// meet is the scope that lies in two; false where nothing does.
func meet(s, t memory.Scope) (memory.Scope, bool) {
	for _, f := range []struct{ s, t *string }{{&s.User, &t.User}, {&s.Agent, &t.Agent}, {&s.Run, &t.Run}} {
		switch {
		case *f.s == "":
			*f.s = *f.t
		case *f.t != "" && *f.s != *f.t:
			return s, false
		}
	}
	return s, true
}

// anyOf joins some of which one must hold.
func anyOf(all []wanted) wanted {
	one := wanted{named: len(all) > 0}
	parts := make([]filter.Filter, len(all))
	for i, w := range all {
		parts[i] = w.filter
		one.named = one.named && w.named
		for _, s := range w.scopes {
			if !slices.Contains(one.scopes, s) {
				one.scopes = append(one.scopes, s)
			}
		}
	}
	if len(one.scopes) > memory.MaxScopes {
		one.scopes = []memory.Scope{{}}
	}
	one.filter = filter.Or(parts...)
	return one
}

func badFilter(why, do string) error { return invalid(doingFilter, why, do) }

// readFilter reads the filters of mem0: an object of fields and AND, OR, NOT, or a condition as
// {"field", "operator", "value"}. nil, null and {} ask for everything.
func readFilter(b json.RawMessage) (wanted, error) {
	if b = bytes.TrimSpace(b); len(b) == 0 || string(b) == "null" {
		return anything(), nil
	}
	w, err := readObject(b, 0)
	if err != nil {
		return wanted{}, err
	}
	return w, filter.Check(w.filter)
}

// member is a key of an object with its value.
type member struct {
	key   string
	value json.RawMessage
}

// members are the keys of an object, in their order. One that is there twice is refused.
func members(b []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, badFilter("a part of them is no object", `write them as {"AND": [{"user_id": "alice"}]}`)
	}
	var all []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, badFilter(err.Error(), "")
		}
		m := member{key: t.(string)} // the key of an object
		if slices.ContainsFunc(all, func(o member) bool { return o.key == m.key }) {
			return nil, badFilter(fmt.Sprintf("%q is there twice in one object", m.key), "join its conditions by AND")
		}
		if err := d.Decode(&m.value); err != nil {
			return nil, badFilter(err.Error(), "")
		}
		all = append(all, m)
	}
	return all, nil
}

func readObject(b []byte, depth int) (wanted, error) {
	if depth > filter.MaxDepth {
		return wanted{}, badFilter(fmt.Sprintf("they are deeper than %d", filter.MaxDepth), "join what can be joined")
	}
	all, err := members(b)
	if err != nil {
		return wanted{}, err
	}
	if w, is, err := explicit(all); is || err != nil {
		return w, err
	}
	result := anything()
	for _, m := range all {
		var w wanted
		switch strings.ToUpper(m.key) {
		case "AND", "OR", "NOT":
			w, err = join(strings.ToUpper(m.key), m.value, depth)
		default:
			w, err = readField(m.key, m.value)
		}
		if err != nil {
			return wanted{}, err
		}
		result = result.and(w)
	}
	return result, nil
}

// explicit reads {"field", "operator", "value"}; false where it is none.
func explicit(all []member) (w wanted, is bool, err error) {
	var field, operator, value json.RawMessage
	for _, m := range all {
		switch m.key {
		case "field":
			field = m.value
		case "operator", "op":
			operator = m.value
		case "value":
			value = m.value
		default:
			return wanted{}, false, nil
		}
	}
	if field == nil || operator == nil {
		return wanted{}, false, nil
	}
	var name, op string
	if json.Unmarshal(field, &name) != nil || json.Unmarshal(operator, &op) != nil {
		return wanted{}, true, badFilter("a field or an operator is no string", "")
	}
	v, err := scalarOrList(name, value)
	if err != nil {
		return wanted{}, true, err
	}
	w, err = condition(name, op, v)
	return w, true, err
}

func join(how string, b json.RawMessage, depth int) (wanted, error) {
	list := []json.RawMessage{b}
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '[' {
		list = nil
		if err := json.Unmarshal(b, &list); err != nil {
			return wanted{}, badFilter(err.Error(), "")
		}
	} else if how != "NOT" {
		return wanted{}, badFilter(how+" is no list", fmt.Sprintf(`write it as {%q: [{"user_id": "alice"}]}`, how))
	}
	if len(list) == 0 {
		return wanted{}, badFilter(how+" is an empty list", "leave it out")
	}
	parts := make([]wanted, len(list))
	result := anything()
	for i, item := range list {
		var err error
		if parts[i], err = readObject(item, depth+1); err != nil {
			return wanted{}, err
		}
		if how == "AND" {
			result = result.and(parts[i])
		}
	}
	switch how {
	case "OR":
		return anyOf(parts), nil
	case "NOT":
		result.filter = filter.Not(anyOf(parts).filter)
	}
	return result, nil
}

// readField reads what is asked of a field: a value, a list of which one is to be it, or an object
// of operators.
func readField(field string, b json.RawMessage) (wanted, error) {
	if b = bytes.TrimSpace(b); b[0] != '{' {
		v, err := scalarOrList(field, b)
		if err != nil {
			return wanted{}, err
		}
		op := "eq"
		if _, list := v.([]any); list {
			op = "in"
		}
		return condition(field, op, v)
	}
	all, err := members(b)
	if err != nil {
		return wanted{}, err
	}
	if len(all) == 0 {
		return wanted{}, badFilter(fmt.Sprintf("nothing is asked of %q", field), `give a value, or an operator as {"gte": 3}`)
	}
	result := anything()
	for _, m := range all {
		var w wanted
		if field == "metadata" {
			w, err = readField("metadata."+m.key, m.value)
		} else {
			var v any
			if v, err = scalarOrList(field, m.value); err == nil {
				w, err = condition(field, m.key, v)
			}
		}
		if err != nil {
			return wanted{}, err
		}
		result = result.and(w)
	}
	return result, nil
}

func scalarOrList(field string, b json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, badFilter(fmt.Sprintf("%q has no value", field), "give one")
	}
	list, _ := v.([]any)
	for _, item := range append(list, v) {
		switch item.(type) {
		case map[string]any:
			return nil, badFilter(fmt.Sprintf("the value of %q is an object", field), "compare its fields, as metadata.field")
		case []any:
			if list == nil {
				return nil, badFilter(fmt.Sprintf("%q has a list in a list", field), "")
			}
		}
	}
	return v, nil
}

// ids are the fields of entities, as mem0 and as memdb names them.
var ids = map[string]string{"user_id": "user", "agent_id": "agent", "run_id": "run", "app_id": own + products.Mem0App}

// fieldOf is the field of memdb that one of mem0 stands for. What mem0 has no name for is metadata.
func fieldOf(field string) string {
	if name, ok := ids[field]; ok {
		return name
	}
	switch field {
	case "id", "memory_id", "memory_ids":
		return "id"
	case "memory", "text", "content", "keywords":
		return "text"
	case "created_at", "updated_at":
		return field
	case "timestamp":
		return "created_at"
	case products.Mem0Expiration, products.Mem0Immutable, products.Mem0Feedback, products.Mem0FeedbackReason, products.Mem0Actor:
		return own + field
	}
	return "metadata." + strings.TrimPrefix(field, "metadata.")
}

// operators are those of mem0 that are one of memdb with the same name.
var operators = map[string]func(field string, v any) filter.Filter{
	"eq": filter.Eq, "ne": filter.Ne, "gt": filter.Gt, "gte": filter.Gte, "lt": filter.Lt, "lte": filter.Lte, "contains": filter.Contains,
}

// condition is what is asked of a field.
func condition(field, op string, v any) (wanted, error) {
	if field == products.Mem0Categories {
		return ofCategories(op, v)
	}
	return conditionOf(field, fieldOf(field), op, v)
}

// ofCategories is a condition of the categories: those that mem0 gave a memory, or those of the
// metadata of a client.
func ofCategories(op string, v any) (wanted, error) {
	given, err := conditionOf(products.Mem0Categories, own+products.Mem0Categories, op, v)
	if err != nil {
		return given, err
	}
	named, err := conditionOf(products.Mem0Categories, "metadata."+products.Mem0Categories, op, v)
	w := anything()
	if op == "ne" || op == "nin" {
		w.filter = filter.And(given.filter, named.filter)
	} else {
		w.filter = filter.Or(given.filter, named.filter)
	}
	return w, err
}

// conditionOf is what is asked of a field of mem0 that memdb has under a name.
func conditionOf(field, name, op string, v any) (wanted, error) {
	w := anything()
	if name == "created_at" || name == "updated_at" {
		var err error
		if v, err = eachValue(v, readTime); err != nil {
			return w, err
		}
	}
	list, isList := v.([]any)
	var err error
	switch {
	case op == "in" || op == "nin":
		if !isList {
			list = []any{v}
		}
		w.filter = among(field, name, list)
		if op == "nin" {
			w.filter = filter.Not(w.filter)
		}
	case isList:
		err = badFilter(fmt.Sprintf("%s of %q has a list", op, field), "use in or nin")
	default:
		w.filter, err = compare(field, name, op, v)
	}
	if err != nil {
		return w, err
	}
	w.narrow(field, op, v, list)
	return w, nil
}

// among holds where a field is one of some values, or, of categories, has one of them.
func among(field, name string, list []any) filter.Filter {
	switch {
	case field == "categories":
		return hasOne(name, list)
	case slices.Contains(list, any(wildcard)):
		return filter.Exists(name)
	}
	return filter.In(name, list...)
}

// compare is a condition of one value.
func compare(field, name, op string, v any) (filter.Filter, error) {
	loose := op == "eq" || op == "contains"
	switch {
	case op == "eq" && v == nil && ids[field] != "":
		return filter.Not(filter.Exists(name)), nil
	case op == "eq" && v == wildcard:
		return filter.Exists(name), nil
	case op == "ne" && v == wildcard:
		return filter.Not(filter.Exists(name)), nil
	case field == "categories" && loose:
		return filter.Contains(name, v), nil
	case field == "keywords" && loose || op == "icontains":
		text, ok := v.(string)
		if !ok {
			return nil, badFilter(fmt.Sprintf("what %q is to contain is no string", field), "give a string")
		}
		return filter.IContains(name, text), nil
	case operators[op] != nil:
		return operators[op](name, v), nil
	}
	return nil, badFilter(fmt.Sprintf("%.40q is no operator", op), "use eq, ne, gt, gte, lt, lte, in, nin, contains or icontains")
}

// narrow notes which entity a condition names, and the scopes outside of which it does not hold.
func (w *wanted) narrow(field, op string, v any, list []any) {
	name := ids[field]
	if name == "" || op == "ne" || op == "nin" || v == nil {
		return
	}
	w.named = true
	if op == "eq" {
		list = []any{v}
	} else if op != "in" || len(list) > memory.MaxScopes {
		return
	}
	var scopes []memory.Scope
	for _, item := range list {
		id, ok := item.(string)
		if !ok || id == wildcard || field == "app_id" {
			return
		}
		s := memory.Scope{}
		switch name {
		case "user":
			s.User = id
		case "agent":
			s.Agent = id
		case "run":
			s.Run = id
		}
		scopes = append(scopes, s)
	}
	w.scopes = scopes
}

// hasOne holds where a list of the metadata has one of the values.
func hasOne(field string, values []any) filter.Filter {
	parts := make([]filter.Filter, len(values))
	for i, v := range values {
		parts[i] = filter.Contains(field, v)
	}
	return filter.Or(parts...)
}

// eachValue reads a value, or each of a list.
func eachValue(v any, read func(any) (any, error)) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return read(v)
	}
	out := make([]any, len(list))
	for i, item := range list {
		var err error
		if out[i], err = read(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readTime reads a time as mem0's clients write it: a number that can be one of seconds since 1970
// is, whatever its size. null and * stay what they are.
func readTime(v any) (any, error) {
	if n, ok := v.(json.Number); ok {
		if seconds, err := n.Float64(); err == nil && -maxSeconds <= seconds && seconds <= maxSeconds {
			return time.UnixMilli(int64(seconds * 1000)).UTC(), nil
		}
	} else if _, ok := v.(string); !ok || v == wildcard {
		return v, nil
	}
	m, err := parseTime(v)
	return m.Time, err
}

// maxSeconds bounds a time in seconds since 1970, before or after it: the year 9999.
const maxSeconds = 253_402_300_799

func parseTime(v any) (scalar.Moment, error) {
	m, err := scalar.Read(v)
	if err != nil {
		return m, badFilter(fmt.Sprintf("%.100q is no time", fmt.Sprint(v)), "write it as 2026-01-31 or 2026-01-31T12:00:00Z")
	}
	return m, nil
}

// errNoEntity: a request names no user, agent, app or run, and its key is one of everybody.
var errNoEntity = errors.New("at least one of user_id, agent_id, app_id or run_id is required")
