package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Filter is a condition on memories: Eq, Ne, Gt, Gte, Lt, Lte, In, Nin, Contains,
// IContains, And, Or or Not.
//
// A field is one of user, agent, run (also user_id, agent_id, run_id), id, role,
// kind, source, name, text (also memory, content), pinned, importance,
// confidence, created_at, updated_at, event_time, expires_at, last_accessed,
// access_count, or the name of a metadata field; metadata.x forces metadata, and a
// dot goes one object deeper.
//
// Values are strings, numbers, booleans or nil (JSON null); types are never
// coerced: a string is not less than a number, and 1 is not "1". Strings are
// ordered by their bytes. The times of a memory are compared with a time.Time, a
// string in RFC 3339 or a bare date (midnight UTC), or a number of Unix
// milliseconds. A field that a memory does not have fails every condition but Ne,
// Nin and Not.
type Filter interface {
	// check bounds the filter: nodes counts down.
	check(depth int, nodes *int) error
}

// The conditions on a field. Lists in metadata contain their elements, and equal
// nothing.
type (
	// Eq holds where the field equals the value.
	Eq struct {
		Field string
		Value any
	}
	// Ne holds where Eq does not, also where the field is missing.
	Ne struct {
		Field string
		Value any
	}
	// Gt holds where the field is greater than the value.
	Gt struct {
		Field string
		Value any
	}
	// Gte holds where the field is greater than or equal to the value.
	Gte struct {
		Field string
		Value any
	}
	// Lt holds where the field is less than the value.
	Lt struct {
		Field string
		Value any
	}
	// Lte holds where the field is less than or equal to the value.
	Lte struct {
		Field string
		Value any
	}
	// In holds where the field equals one of the values.
	In struct {
		Field  string
		Values []any
	}
	// Nin holds where In does not, also where the field is missing.
	Nin struct {
		Field  string
		Values []any
	}
	// Contains holds where the field is a string that has the value within it, or
	// a list that has it as an element. A string has numbers, booleans and nil within
	// it as JSON writes them.
	Contains struct {
		Field string
		Value any
	}
	// IContains is Contains of a string without regard to upper and lower case.
	IContains struct {
		Field string
		Value string
	}
)

// And holds where all its parts hold; an empty And always holds.
type And []Filter

// Or holds where one of its parts holds; an empty Or never holds.
type Or []Filter

// Not holds where its filter does not.
type Not struct{ Filter Filter }

// op is an operator on a field.
type op uint8

const (
	opEq op = iota
	opNe
	opGt
	opGte
	opLt
	opLte
	opIn
	opNin
	opContains
	opIContains
)

var opNames = []string{"eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains"}

func (o op) String() string { return opNames[o] }

// condition is a condition on a field in one shape.
type condition struct {
	name   string
	field  field
	op     op
	values []any // one, or those of In and Nin
}

func newCondition(name string, o op, values ...any) condition {
	return condition{name, fieldOf(name), o, values}
}

// conditionOf is the condition on a field that f is, false for And, Or and Not.
func conditionOf(f Filter) (condition, bool) {
	switch f := f.(type) {
	case Eq:
		return newCondition(f.Field, opEq, f.Value), true
	case Ne:
		return newCondition(f.Field, opNe, f.Value), true
	case Gt:
		return newCondition(f.Field, opGt, f.Value), true
	case Gte:
		return newCondition(f.Field, opGte, f.Value), true
	case Lt:
		return newCondition(f.Field, opLt, f.Value), true
	case Lte:
		return newCondition(f.Field, opLte, f.Value), true
	case In:
		return newCondition(f.Field, opIn, f.Values...), true
	case Nin:
		return newCondition(f.Field, opNin, f.Values...), true
	case Contains:
		return newCondition(f.Field, opContains, f.Value), true
	case IContains:
		return newCondition(f.Field, opIContains, f.Value), true
	}
	return condition{}, false
}

const doingFilter = "read a filter"

func (f Eq) check(_ int, n *int) error        { return checkOne(f, n) }
func (f Ne) check(_ int, n *int) error        { return checkOne(f, n) }
func (f Gt) check(_ int, n *int) error        { return checkOne(f, n) }
func (f Gte) check(_ int, n *int) error       { return checkOne(f, n) }
func (f Lt) check(_ int, n *int) error        { return checkOne(f, n) }
func (f Lte) check(_ int, n *int) error       { return checkOne(f, n) }
func (f In) check(_ int, n *int) error        { return checkOne(f, n) }
func (f Nin) check(_ int, n *int) error       { return checkOne(f, n) }
func (f Contains) check(_ int, n *int) error  { return checkOne(f, n) }
func (f IContains) check(_ int, n *int) error { return checkOne(f, n) }

func (f And) check(depth int, nodes *int) error { return checkParts(f, depth, nodes) }
func (f Or) check(depth int, nodes *int) error  { return checkParts(f, depth, nodes) }
func (f Not) check(depth int, nodes *int) error {
	return checkParts([]Filter{f.Filter}, depth, nodes)
}

// checkType refuses what has the methods of a filter and is none: a pointer to one.
func checkType(f Filter) error {
	switch f.(type) {
	case nil:
		return fault.Invalid(doingFilter, "a part of it is nil", "leave it out")
	case And, Or, Not:
		return nil
	}
	if _, ok := conditionOf(f); !ok {
		return fault.Invalid(doingFilter, fmt.Sprintf("a part of it is a %T", f), "pass it by value")
	}
	return nil
}

func checkParts(parts []Filter, depth int, nodes *int) error {
	if depth > MaxFilterDepth {
		return tooDeep()
	}
	for _, g := range parts {
		if err := checkType(g); err != nil {
			return err
		}
		if err := g.check(depth+1, nodes); err != nil {
			return err
		}
	}
	return spend(nodes, 1)
}

func tooDeep() error {
	return fault.Invalid(doingFilter, fmt.Sprintf("it nests deeper than %d", MaxFilterDepth), "flatten it")
}

func checkOne(f Filter, nodes *int) error {
	c, _ := conditionOf(f)
	if c.name == "" || c.name == metadataPrefix {
		return fault.Invalid(doingFilter, "a condition has no field", "name one")
	}
	for _, v := range c.values {
		if err := c.checkValue(v); err != nil {
			return err
		}
	}
	return spend(nodes, 1+len(c.values))
}

// checkValue refuses what a field of its kind can never be compared with.
func (c *condition) checkValue(v any) error {
	if c.field.time {
		if _, ok := timeValue(v); !ok {
			return fault.Invalid(doingFilter, fmt.Sprintf("%s is a time and is compared with %s", c.name, valid.Short(fmt.Sprint(v))),
				"write it as 2026-01-31, as 2026-01-31T12:00:00Z, or in Unix milliseconds")
		}
		if c.op == opContains || c.op == opIContains {
			return fault.Invalid(doingFilter, c.name+" is a time and contains nothing", "compare it with gt, gte, lt or lte")
		}
		return nil
	}
	switch key, ok := exactKey(v); {
	case key == "nNaN":
		return fault.Invalid(doingFilter, valid.Short(c.name)+" is compared with NaN", "compare with a number")
	case !ok:
		return fault.Invalid(doingFilter, valid.Short(c.name)+" is compared with "+kindOf(v), "compare with a string, a number, true, false or null")
	case !c.isEquality() && !isPlain(v):
		return fault.Invalid(doingFilter, valid.Short(c.name)+" is compared with "+kindOf(v), "convert it to a string or a number")
	}
	switch c.op {
	case opGt, opGte, opLt, opLte:
		if n, ok := v.(json.Number); ok && beyondFloats(n) {
			return fault.Invalid(doingFilter, fmt.Sprintf("%s is ordered against %s, which is beyond all numbers of 64 bits", valid.Short(c.name), valid.Short(string(n))), "compare with a smaller one")
		}
		if v == nil {
			return fault.Invalid(doingFilter, fmt.Sprintf("%s is ordered against null", valid.Short(c.name)), "compare with a string or a number")
		}
		if _, isBool := v.(bool); isBool {
			return fault.Invalid(doingFilter, fmt.Sprintf("%s is ordered against a boolean", valid.Short(c.name)), "compare with a string or a number")
		}
	}
	return nil
}

// kindOf names what kind of a value one is.
func kindOf(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}

func beyondFloats(n json.Number) bool {
	_, err := n.Float64()
	return errors.Is(err, strconv.ErrRange)
}

func spend(nodes *int, n int) error {
	if *nodes -= n; *nodes < 0 {
		return fault.Invalid(doingFilter, fmt.Sprintf("it has more than %d conditions and values", MaxFilterNodes), "split the query")
	}
	return nil
}

func checkFilter(f Filter) error {
	if f == nil {
		return nil
	}
	if err := checkType(f); err != nil {
		return err
	}
	nodes := MaxFilterNodes
	if err := f.check(0, &nodes); err != nil {
		return err
	}
	left := MaxContained
	return checkContained(f, &left)
}

// test tells whether a filter holds for a memory.
type test func(m *filtered) bool

// testOf is the test of a filter.
func testOf(f Filter) test {
	switch f := f.(type) {
	case And:
		return testEach(f, true)
	case Or:
		return testEach(f, false)
	case Not:
		t := testOf(f.Filter)
		return func(m *filtered) bool { return !t(m) }
	}
	c, _ := conditionOf(f)
	return c.look().holdsFor
}

// look is a condition made ready to look at many values.
type look struct {
	*condition
	keys  map[string]bool // exactKey of the values, where it asks whether one is equal
	times map[int64]bool  // likewise of a field of times
	word  string          // the value of contains, as it stands in a string
}

func (c *condition) look() *look {
	l := &look{condition: c}
	switch {
	case c.op == opIContains:
		l.word = analysis.FoldCase(c.values[0].(string))
	case c.op == opContains:
		l.word = wordOf(c.values[0])
	case !c.isEquality():
	case c.field.time:
		l.times = map[int64]bool{}
		for _, v := range c.values {
			if ms, ok := timeValue(v); ok {
				l.times[ms] = true
			}
		}
	default:
		l.keys = map[string]bool{}
		for _, v := range c.values {
			if key, ok := exactKey(v); ok {
				l.keys[key] = true
			}
		}
	}
	return l
}

func (l *look) holdsFor(m *filtered) bool { return l.holds(l.field.value(m), m) }

// holds evaluates the condition on the field's value; m is the memory, if there is one.
func (l *look) holds(have any, m *filtered) bool {
	switch l.op {
	case opNe, opNin:
		return !l.equals(have)
	case opEq, opIn:
		return l.equals(have)
	}
	if have == any(missing{}) {
		return false
	}
	switch l.op {
	case opContains, opIContains:
		return l.contains(have, m)
	}
	cmp, ok := l.order(have, l.values[0])
	if !ok {
		return false
	}
	switch l.op {
	case opGt:
		return cmp > 0
	case opGte:
		return cmp >= 0
	case opLt:
		return cmp < 0
	}
	return cmp <= 0
}

func (l *look) equals(have any) bool {
	if have == any(missing{}) {
		return false
	}
	if l.field.time {
		ms, ok := have.(int64)
		return ok && l.times[ms]
	}
	key, ok := exactKey(have)
	return ok && l.keys[key]
}

// contains tells whether a string has the value within it, or a list as an element.
func (l *look) contains(have any, m *filtered) bool {
	switch have := have.(type) {
	case string:
		if l.op == opIContains {
			have = m.fold(have)
		}
		return strings.Contains(have, l.word)
	case []any:
		return slices.ContainsFunc(have, func(e any) bool {
			if s, ok := e.(string); ok && l.op == opIContains {
				return m.fold(s) == l.word
			}
			return equalValue(e, l.values[0])
		})
	}
	return false
}

// wordOf is how a value stands in a string.
func wordOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // an infinity
	}
	return string(b)
}

func equalValue(have, want any) bool {
	a, ok := exactKey(have)
	if !ok {
		return false
	}
	b, ok := exactKey(want)
	return ok && a == b
}

// order compares two values of one type, false where they have none in common.
func (c *condition) order(have, want any) (int, bool) {
	if c.field.time {
		a, ok := have.(int64)
		b, valid := timeValue(want)
		return cmp.Compare(a, b), ok && valid
	}
	if a, ok := have.(string); ok {
		b, ok := want.(string)
		return strings.Compare(a, b), ok
	}
	a, ok := numberOf(have)
	if !ok {
		return 0, false
	}
	b, ok := numberOf(want)
	if !ok {
		return 0, false
	}
	return a.compare(b), true
}
