package engine

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/needles"
)

const (
	// fewContains is up to how many conditions that ask whether one field contains
	// something look by themselves: so many searches for one string, of some 10 GB/s, take
	// as long as one for all of them.
	fewContains = 8
	// longContained is from how many bytes on what a condition asks for is looked for by
	// itself: the tables of one search for all take some 20 bytes for each.
	longContained = 64
	// conditionsPerLook is how many conditions are looked at for a memory between looks at
	// the context: some ms where each reads a text of MaxText.
	conditionsPerLook = 8
)

// stopped reports whether no more of a memory is to be looked at, and counts what is.
func (m *filtered) stopped() bool {
	if m.seen++; m.seen%conditionsPerLook == 0 && m.err == nil && m.ctx != nil {
		m.err = m.ctx.Err()
	}
	return m.err != nil
}

// testEach is a test for some, or for all, of the parts of a filter. Where many of them ask
// whether one field contains something, each memory's is read once for all of them.
func testEach(parts []Filter, all bool) test {
	type group struct {
		field string
		op    op
	}
	groups := map[group][]*look{}
	for _, f := range parts {
		if c, ok := shortContains(f); ok {
			g := group{c.name, c.op}
			groups[g] = append(groups[g], c.look())
		}
	}
	var tests []test
	for _, f := range parts {
		c, ok := shortContains(f)
		g := group{c.name, c.op}
		switch looks, known := groups[g]; {
		case !ok, len(looks) <= fewContains && known:
			tests = append(tests, testOf(f))
		case known:
			tests = append(tests, newContainsEach(looks, all).holdsFor)
			delete(groups, g)
		}
	}
	return func(m *filtered) bool {
		for _, t := range tests {
			if m.stopped() {
				return false
			}
			if t(m) != all {
				return !all
			}
		}
		return all
	}
}

// shortContains is the condition that f is, if it asks whether a field contains something
// short.
func shortContains(f Filter) (condition, bool) {
	switch f := f.(type) {
	case Contains:
		s, isString := f.Value.(string)
		c, _ := conditionOf(f)
		return c, !isString || len(s) < longContained
	case IContains:
		c, _ := conditionOf(f)
		return c, len(f.Value) < longContained
	}
	return condition{}, false
}

// containsEach asks whether a field contains some, or all, of many values.
type containsEach struct {
	*look // the first
	all   bool
	words *needles.Set
	keys  map[string]bool // of the values as elements of a list: exactKey, or folded
}

func newContainsEach(looks []*look, all bool) *containsEach {
	e := &containsEach{look: looks[0], all: all, keys: map[string]bool{}}
	words := make([]string, len(looks))
	for i, l := range looks {
		words[i] = l.word
		e.keys[l.elementKey(l.values[0], nil)] = true
	}
	e.words = needles.New(words)
	return e
}

// elementKey is what equal elements of a list have in common, empty for those that equal
// nothing.
func (l *look) elementKey(v any, m *filtered) string {
	if s, ok := v.(string); ok && l.op == opIContains {
		return "s" + m.fold(s)
	}
	key, _ := exactKey(v)
	return key
}

func (e *containsEach) holdsFor(m *filtered) bool {
	switch have := e.field.value(m).(type) {
	case string:
		if e.op == opIContains {
			have = m.fold(have)
		}
		find := e.words.Any
		if e.all {
			find = e.words.All
		}
		ok, err := find(m.ctx, have)
		if err != nil {
			m.err = err
		}
		return ok
	case []any:
		found := map[string]bool{}
		for _, v := range have {
			if key := e.elementKey(v, m); e.keys[key] {
				if found[key] = true; !e.all {
					return true
				}
			}
		}
		return len(found) == len(e.keys)
	}
	return false
}

// checkContained bounds what the conditions of a filter ask fields to contain, in bytes:
// left counts down.
func checkContained(f Filter, left *int) error {
	parts := []Filter(nil)
	switch f := f.(type) {
	case And:
		parts = f
	case Or:
		parts = f
	case Not:
		return checkContained(f.Filter, left)
	case Contains:
		if s, ok := f.Value.(string); ok {
			*left -= len(s)
		}
	case IContains:
		*left -= len(f.Value)
	}
	if *left < 0 {
		return fault.Invalid(doingFilter, fmt.Sprintf("the values of contains and icontains are longer than %d bytes together", MaxContained), "split the query")
	}
	for _, g := range parts {
		if err := checkContained(g, left); err != nil {
			return err
		}
	}
	return nil
}
