package filter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// The limits of a filter, so that a small request cannot ask for much work.
const (
	// MaxNodes bounds the conditions, their values, and what joins them.
	MaxNodes = 10_000
	// MaxDepth bounds how deep All, Any and Negation nest in one another.
	MaxDepth = 64
	// MaxContained bounds the values of contains and icontains in one filter together, in
	// bytes: they are folded and made tables of before the first memory is looked at, which
	// takes some 20 ms.
	MaxContained = 1 << 20
	// MaxPattern bounds the pattern of a regular expression, in bytes.
	MaxPattern = 1000
	// MaxPatterns bounds the regular expressions of one filter.
	MaxPatterns = 64
	// MaxProgram bounds the steps of all regular expressions of one filter together, with each
	// repetition written out: x{1000} has a thousand. A step takes some 40 bytes, and matching
	// may look at every step for each letter.
	MaxProgram = 10_000
)

const doing = "read a filter"

// Check refuses a filter that is over a limit, is put together wrongly, or compares a
// built-in field with what it can never be. Its error is of the kind ErrInvalid. nil is
// a filter that chooses everything.
func Check(f Filter) error { return check(context.Background(), f) }

func check(ctx context.Context, f Filter) error {
	if f == nil {
		return nil
	}
	c := checker{ctx: ctx, nodes: MaxNodes, contained: MaxContained, patterns: MaxPatterns, program: MaxProgram}
	return c.check(f, 0)
}

// checker counts down what a filter may still have.
type checker struct {
	ctx                                 context.Context
	nodes, contained, patterns, program int
}

// check refuses what has the methods of a filter and is none, such as a pointer to one.
func (c *checker) check(f Filter, depth int) error {
	switch f := f.(type) {
	case nil:
		return fault.Invalid(doing, "a part of it is nil", "leave it out")
	case Condition, All, Any, Negation:
		return f.check(c, depth)
	}
	return fault.Invalid(doing, fmt.Sprintf("a part of it is a %T", f), "pass it by value, as the functions of package filter make it")
}

func (f All) check(c *checker, depth int) error      { return c.parts(f, depth) }
func (f Any) check(c *checker, depth int) error      { return c.parts(f, depth) }
func (f Negation) check(c *checker, depth int) error { return c.parts([]Filter{f.Filter}, depth) }

func (c *checker) parts(parts []Filter, depth int) error {
	if depth > MaxDepth {
		return tooDeep()
	}
	for _, f := range parts {
		if err := c.check(f, depth+1); err != nil {
			return err
		}
	}
	return c.spend(1)
}

func tooDeep() error {
	return fault.Invalid(doing, fmt.Sprintf("it nests deeper than %d", MaxDepth), "flatten it")
}

func (c *checker) spend(n int) error {
	if c.nodes -= n; c.nodes < 0 {
		return fault.Invalid(doing, fmt.Sprintf("it has more than %d conditions and values", MaxNodes), "split the query")
	}
	return nil
}

func (f Condition) check(c *checker, _ int) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	field, err := Lookup(f.Field)
	if err != nil {
		return err
	}
	name := valid.Short(f.Field)
	switch n := len(f.Values); {
	case !utf8.ValidString(f.Field):
		return fault.Invalid(doing, fmt.Sprintf("the field %q is no UTF-8", name), "convert it to UTF-8")
	case int(f.Op) >= len(opNames):
		return fault.Invalid(doing, fmt.Sprintf("the operator on %s is none", name), "use one of those of package filter")
	case f.Op == OpExists && n != 0:
		return fault.Invalid(doing, fmt.Sprintf("%s exists is given a value", name), "leave it out")
	case f.Op != OpExists && f.Op != OpIn && f.Op != OpNin && n != 1:
		return fault.Invalid(doing, fmt.Sprintf("%s %s has %d values", name, f.Op, n), "give it one, or use in")
	case field.ops != nil && !slices.Contains(field.ops, f.Op):
		return fault.Invalid(doing, fmt.Sprintf("%s is %s, to which %s does not apply", name, field.is, f.Op), "use "+valid.OneOf(namesOf(field.ops)))
	}
	for _, v := range f.Values {
		if err := f.checkValue(field, v); err != nil {
			return err
		}
	}
	switch f.Op {
	case OpContains, OpIContains:
		if c.contained -= contained(f); c.contained < 0 {
			return fault.Invalid(doing, fmt.Sprintf("the values of contains and icontains are longer than %d bytes together", MaxContained), "split the query")
		}
	case OpRegexp:
		if err := c.pattern(name, f.Values[0].(string)); err != nil {
			return err
		}
	}
	return c.spend(1 + len(f.Values))
}

// checkValue refuses what the field can never be compared with.
func (f Condition) checkValue(field Field, v any) error {
	name := valid.Short(f.Field)
	wrong := func(with, do string) error {
		return fault.Invalid(doing, fmt.Sprintf("%s is compared with %s", name, with), do)
	}
	if field.IsTime() {
		return checkTime(name, v)
	}
	if _, isTime := v.(time.Time); isTime && (f.Op.IsOrder() || f.Op.IsEquality()) && field.kind == anything {
		return checkTime(name, v)
	}
	key, ok := scalar.Key(v)
	text, isText := v.(string)
	switch {
	case !ok && slices.Contains([]Op{OpIn, OpNin}, f.Op):
		return wrong(typeOf(v), "give the values one by one: strings, numbers, true, false or null")
	case !ok:
		return wrong(typeOf(v), "compare with a string, a number, true, false or null")
	case !f.Op.IsEquality() && !isPlain(v):
		return wrong(typeOf(v), "convert it to a string or a number")
	case !utf8.ValidString(key):
		return wrong(fmt.Sprintf("%q, which is no UTF-8", valid.Short(text)), "convert it to UTF-8")
	case key[0] == 'n' && !isNumber(v):
		return wrong(valid.Short(fmt.Sprint(v)), "compare with a number that JSON can write")
	case slices.Contains([]Op{OpIContains, OpPrefix, OpRegexp}, f.Op) && !isText:
		return fault.Invalid(doing, fmt.Sprintf("the value of %s is no string", f.Op), "give a string, or use contains")
	}
	if f.Op.IsOrder() {
		if err := checkOrder(name, field, key, v); err != nil {
			return err
		}
	}
	return f.checkKind(field, v)
}

// checkOrder refuses a value that has no place in an order, by its key.
func checkOrder(name string, field Field, key string, v any) error {
	if n, ok := v.(json.Number); ok && beyondFloats(n) {
		return fault.Invalid(doing, fmt.Sprintf("%s is ordered against %s, which is beyond all numbers of 64 bits", name, valid.Short(string(n))), "compare with a smaller one")
	}
	if field.kind == anything && slices.Contains([]string{"0", scalar.BoolKey(true), scalar.BoolKey(false)}, key) {
		what := map[bool]string{true: "null", false: "a boolean"}[v == nil]
		return fault.Invalid(doing, fmt.Sprintf("%s is ordered against %s", name, what), "compare with a string or a number")
	}
	return nil
}

// checkKind refuses values of a type that a built-in field never has.
func (f Condition) checkKind(field Field, v any) error {
	key, _ := scalar.Key(v)
	text, isText := scalar.TextOf(key)
	fits, do := true, ""
	switch field.kind {
	case texts:
		fits = isText || f.Op == OpContains
		do = "write " + strconv.Quote(literal(v)) + " for the string"
		if v == nil {
			do = `write "" for none`
		}
	case lists:
		fits, do = isText, "its elements are strings"
	case numbers:
		fits, do = key[0] == 'n', "compare with a number"
	case flags:
		fits, do = key == scalar.BoolKey(true) || key == scalar.BoolKey(false), fmt.Sprintf("write %s = true or %s = false", f.Field, f.Field)
	case roles, kinds:
		fits = isText && (!f.Op.IsEquality() || slices.Contains(field.choices, text)) || f.Op == OpContains
		do = "use " + valid.OneOf(field.choices)
	}
	switch {
	case fits:
		return nil
	case field.choices != nil && isText:
		return fault.Invalid(doing, fmt.Sprintf("there is no %s %s", field.Name, valid.Short(literal(v))), do)
	}
	return fault.Invalid(doing, fmt.Sprintf("%s is %s and is compared with %s", valid.Short(f.Field), field.is, valid.Short(literal(v))), do)
}

// checkTime refuses a value that is no time. Instants that mean "not set" elsewhere are valid bounds.
func checkTime(name string, v any) error {
	if _, err := scalar.Read(v); err != nil {
		what, do, _ := strings.Cut(err.Error(), " is no time: ")
		if errors.Is(err, scalar.ErrUnset) {
			what, do = valid.Short(fmt.Sprint(v)), "a number of nine digits at least is a time; "+scalar.TimeForms
		}
		return fault.Invalid(doing, fmt.Sprintf("%s is a time and is compared with %s", name, valid.Short(what)), do)
	}
	return nil
}

func namesOf(ops []Op) (names []string) {
	for _, o := range ops {
		names = append(names, o.String())
	}
	return names
}

// typeOf names the type of a value.
func typeOf(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}

// isPlain reports whether a value is of a type without a name.
func isPlain(v any) bool {
	switch v.(type) {
	case nil, json.Number:
		return true
	}
	return reflect.TypeOf(v).PkgPath() == ""
}

// isNumber reports whether JSON can write a value that has the key of a number.
func isNumber(v any) bool {
	n, ok := scalar.NumberOf(v)
	if written, isJSON := v.(json.Number); isJSON {
		return ok && json.Valid([]byte(written))
	}
	return ok && !math.IsInf(n.Float, 0)
}

func beyondFloats(n json.Number) bool {
	_, err := n.Float64()
	return errors.Is(err, strconv.ErrRange)
}
