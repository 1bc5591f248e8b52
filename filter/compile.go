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
// at which it looks for every few conditions and on the way through long strings, or that of [WithWork].
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
	times map[int64]bool  // likewise of a field of times, in Unix milliseconds
	none  bool            // "" is one of them, and means a field that is missing
	// when is the time that a field of the metadata is ordered against, and moments are those
	// that it is to be one of. nil: there is none, and values are compared as what they are.
	when    *time.Time
	moments map[moment]bool
	word    string // the value of contains or prefix, as it is written in a string
	match   *regexp.Regexp
	size    int // steps of match for each byte
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
		pattern := c.Values[0].(string)
		l.match = regexp.MustCompile(pattern) // it was checked
		l.size = sizeOf(pattern)
	case c.Op.IsOrder():
		if t, ok := timeOf(l.field, c.Values[0]); ok {
			l.when = &t
		}
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
			if t, ok := timeOf(l.field, v); ok {
				if l.moments == nil {
					l.moments = map[moment]bool{}
				}
				l.moments[momentOf(t)] = true
			}
		}
		l.none = l.field.orNone && l.keys[scalar.TextKey("")]
	}
	return l
}

// holds reports whether the condition holds in a trial.
func (l *look) holds(t *trial) bool {
	t.spend(conditionSteps)
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
		return isText && t.match(l, text)
	}
	return l.inOrder(have)
}

// inOrder reports whether a value has the order to the condition's that it asks for.
func (l *look) inOrder(have any) bool {
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
	if key, ok := scalar.Key(have); ok && l.keys[key] {
		return true
	}
	return l.moments != nil && l.isMoment(have)
}

// isMoment reports whether a value of the metadata is one of the condition's times.
func (l *look) isMoment(have any) bool {
	t, ok := timeIn(have)
	return ok && l.moments[momentOf(t)]
}

// contains reports whether a string has the value within it, or a list as an element.
func (l *look) contains(have any, t *trial) bool {
	switch have := have.(type) {
	case string:
		if l.Op == OpIContains {
			have = t.fold(have)
		}
		t.spend(len(have) / scannedPerStep)
		return strings.Contains(have, l.word)
	case []any:
		t.spend(len(have))
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

// moment is an instant as the key of a map.
type moment struct {
	seconds int64
	nanos   int
}

func momentOf(t time.Time) moment { return moment{t.Unix(), t.Nanosecond()} }

// timeOf is the time that a condition compares a field of the metadata with: a time.Time, or a
// string in the form of a time. A number asks for numbers.
func timeOf(f Field, v any) (time.Time, bool) {
	if f.kind != anything {
		return time.Time{}, false
	}
	switch v := v.(type) {
	case time.Time:
		return v, true
	case string:
		return scalar.Written(v)
	}
	return time.Time{}, false
}

// timeIn is the time that a value of the metadata is where it is compared with times: a string in
// the form of one, or a number.
func timeIn(have any) (time.Time, bool) {
	if text, ok := have.(string); ok {
		return scalar.Written(text)
	}
	m, err := scalar.Read(have)
	return m.Time, err == nil
}

// IsOfTimes reports whether a condition compares values of the metadata with times.
func IsOfTimes(f Field, c Condition) bool {
	return (c.Op.IsOrder() || c.Op.IsEquality()) && slices.ContainsFunc(c.Values, func(v any) bool {
		_, ok := timeOf(f, v)
		return ok
	})
}

// TimeTest is the test by which a condition on times passes a scalar of the metadata: whether it is
// in the order that the condition asks for, or one of its times. What is no time never passes.
func TimeTest(c Condition) func(v any) bool {
	l := newLook(c)
	if c.Op.IsOrder() {
		return l.inOrder
	}
	return l.isMoment
}

// order compares two values of one type, false where they have none in common. A value of the
// metadata is compared with a time as a time.
func (l *look) order(have, want any) (int, bool) {
	switch {
	case l.field.IsTime():
		a, ok := have.(int64)
		b, valid := scalar.Millis(want)
		return cmp.Compare(a, b), ok && valid
	case l.when != nil:
		t, ok := timeIn(have)
		return t.Compare(*l.when), ok
	}
	if a, ok := have.(string); ok {
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
