package filter

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// Subject is what a filter is tried on: a memory, or what is at hand of it.
type Subject interface {
	// Value is the value of a field, false where the subject does not have it. A value is
	// what encoding/json reads, numbers as a json.Number or of any type of Go; a time is
	// an int64 of Unix milliseconds.
	Value(f Field) (v any, ok bool)
}

// Test reports whether a filter holds for a subject. Its error is that of the context,
// at which it looks for every few conditions and on the way through long strings.
type Test func(ctx context.Context, s Subject) (bool, error)

// Compile makes the test of a filter, which is not for several goroutines at once. What
// Compile refuses, [Check] does.
func Compile(f Filter) (Test, error) {
	if err := Check(f); err != nil {
		return nil, err
	}
	t, holds := &trial{}, testOf(f)
	return func(ctx context.Context, s Subject) (bool, error) {
		t.begin(ctx, s)
		ok := holds(t)
		return ok, t.err
	}, nil
}

// test reports whether a part of a filter holds in a trial.
type test func(t *trial) bool

// testOf is the test of a filter that was checked.
func testOf(f Filter) test {
	switch f := f.(type) {
	case All:
		return testEach(f, true)
	case Any:
		return testEach(f, false)
	case Negation:
		holds := testOf(f.Filter)
		return func(t *trial) bool { return !holds(t) }
	case Condition:
		return newLook(f).holds
	}
	return func(*trial) bool { return true } // nil
}

// look is a condition made ready to look at many values.
type look struct {
	Condition
	field Field
	keys  map[string]bool // scalar.Key of the values, where it asks whether one is equal
	times map[int64]bool  // likewise of a field of times
	none  bool            // "" is one of them, and means a field that is missing
	when  int64           // Unix milliseconds, where a field of the metadata is ordered against a time
	timed bool
	word  string // the value of contains or prefix, as it stands in a string
	match *regexp.Regexp
}

func newLook(c Condition) *look {
	l := &look{Condition: c}
	l.field, _ = Lookup(c.Field) // it was checked
	switch {
	case c.Op == OpIContains:
		l.word = analysis.FoldCase(c.Values[0].(string))
	case c.Op == OpContains, c.Op == OpPrefix:
		l.word = wordOf(c.Values[0])
	case c.Op == OpRegexp:
		l.match = regexp.MustCompile(c.Values[0].(string)) // it was checked
	case c.Op.IsOrder():
		l.when, l.timed = timeOf(c.Values[0])
	case !c.Op.IsEquality():
	case l.field.IsTime():
		l.times = map[int64]bool{}
		for _, v := range c.Values {
			if ms, ok := scalar.Millis(v); ok {
				l.times[ms] = true
			}
		}
	default:
		l.keys = map[string]bool{}
		for _, v := range c.Values {
			if key, ok := scalar.Key(v); ok {
				l.keys[key] = true
			}
		}
		l.none = l.field.orNone && l.keys[scalar.TextKey("")]
	}
	return l
}

// holds reports whether the condition holds in a trial.
func (l *look) holds(t *trial) bool {
	have, ok := t.subject.Value(l.field)
	switch l.Op {
	case OpExists:
		return ok
	case OpNe, OpNin:
		return !l.equals(have, ok)
	case OpEq, OpIn:
		return l.equals(have, ok)
	}
	if !ok {
		return false
	}
	switch l.Op {
	case OpContains, OpIContains:
		return l.contains(have, t)
	case OpPrefix:
		text, isText := have.(string)
		return isText && strings.HasPrefix(text, l.word)
	case OpRegexp:
		text, isText := have.(string)
		return isText && t.match(l.match, text)
	}
	order, ok := l.order(have, l.Values[0])
	if !ok {
		return false
	}
	switch l.Op {
	case OpGt:
		return order > 0
	case OpGte:
		return order >= 0
	case OpLt:
		return order < 0
	}
	return order <= 0
}

// equals reports whether the value of a field that a subject has, or has not, is one of
// the condition's.
func (l *look) equals(have any, ok bool) bool {
	if !ok {
		return l.none
	}
	if l.field.IsTime() {
		ms, ok := have.(int64)
		return ok && l.times[ms]
	}
	key, ok := scalar.Key(have)
	return ok && l.keys[key]
}

// contains reports whether a string has the value within it, or a list as an element.
func (l *look) contains(have any, t *trial) bool {
	switch have := have.(type) {
	case string:
		if l.Op == OpIContains {
			have = t.fold(have)
		}
		return strings.Contains(have, l.word)
	case []any:
		return slices.ContainsFunc(have, func(e any) bool {
			if text, ok := e.(string); ok && l.Op == OpIContains {
				return t.fold(text) == l.word
			}
			return equal(e, l.Values[0])
		})
	}
	return false
}

// wordOf is how a value stands in a string.
func wordOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v) // JSON can write it: it was checked
	return string(b)
}

func equal(have, want any) bool {
	a, ok := scalar.Key(have)
	if !ok {
		return false
	}
	b, ok := scalar.Key(want)
	return ok && a == b
}

// timeOf is a value that asks for an order of times, in Unix milliseconds: a time, or a
// string in the form of one. An integer asks for that of numbers.
func timeOf(v any) (int64, bool) {
	switch v := v.(type) {
	case time.Time:
		return v.UnixMilli(), true
	case string:
		t, ok := scalar.Written(v)
		return t.UnixMilli(), ok
	}
	return 0, false
}

// order compares two values of one type, false where they have none in common. A time of the
// metadata, in whatever form, is compared with a time as what it is.
func (l *look) order(have, want any) (int, bool) {
	if l.field.IsTime() {
		a, ok := have.(int64)
		b, valid := scalar.Millis(want)
		return cmp.Compare(a, b), ok && valid
	}
	a, isText := have.(string)
	if l.timed {
		_, isWritten := timeOf(have)
		if a, ok := scalar.Millis(have); ok && (isWritten || !isText) {
			return cmp.Compare(a, l.when), true
		}
	}
	if isText {
		b, ok := want.(string)
		return strings.Compare(a, b), ok
	}
	return orderNumbers(have, want)
}

// orderNumbers compares two numbers, false where one of the values is none.
func orderNumbers(have, want any) (int, bool) {
	a, ok := scalar.NumberOf(have)
	if !ok {
		return 0, false
	}
	b, ok := scalar.NumberOf(want)
	if !ok {
		return 0, false
	}
	return a.Compare(b), true
}
