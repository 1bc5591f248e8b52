package filter

import (
	"github.com/seed-7aedc3ff/memdb/internal/needles"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

const (
	// fewContains is up to how many conditions that ask whether one field contains
	// something look by themselves: so many searches for one string, of some 10 GB/s, take
	// as long as one for all of them.
	fewContains = 8
	// longContained is from how many bytes on what a condition asks for is looked for by
	// itself: the tables of one search for all take some 20 bytes for each.
	longContained = 64
)

// testEach is a test for some, or for all, of the parts of a filter. Where many of them ask
// whether one field contains something, each subject's is read once for all of them.
func testEach(parts []Filter, all bool) test {
	type group struct {
		field string
		op    Op
	}
	groups := map[group][]*look{}
	for _, f := range parts {
		if c, ok := shortContains(f); ok {
			g := group{c.Field, c.Op}
			groups[g] = append(groups[g], newLook(c))
		}
	}
	var tests []test
	for _, f := range parts {
		c, ok := shortContains(f)
		g := group{c.Field, c.Op}
		switch looks, known := groups[g]; {
		case !ok, len(looks) <= fewContains && known:
			tests = append(tests, testOf(f))
		case known:
			tests = append(tests, newContainsEach(looks, all).holds)
			delete(groups, g)
		}
	}
	return func(t *trial) bool {
		for _, holds := range tests {
			if t.stopped() {
				return false
			}
			if holds(t) != all {
				return !all
			}
		}
		return all
	}
}

// shortContains is the condition that f is, if it asks whether a field contains something
// short.
func shortContains(f Filter) (Condition, bool) {
	c, ok := f.(Condition)
	if !ok || c.Op != OpContains && c.Op != OpIContains {
		return Condition{}, false
	}
	return c, contained(c) < longContained
}

// contained is the length of the string that a condition asks a field to contain.
func contained(c Condition) int {
	s, _ := c.Values[0].(string)
	return len(s)
}

// containsEach asks whether a field contains some, or all, of many values.
type containsEach struct {
	*look // the first
	all   bool
	words *needles.Set
	keys  map[string]bool // of the values as elements of a list: scalar.Key, or folded
}

func newContainsEach(looks []*look, all bool) *containsEach {
	e := &containsEach{look: looks[0], all: all, keys: map[string]bool{}}
	words := make([]string, len(looks))
	for i, l := range looks {
		words[i] = l.word
		if l.Op == OpIContains {
			e.keys[scalar.TextKey(l.word)] = true
		} else if key, ok := scalar.Key(l.Values[0]); ok {
			e.keys[key] = true
		}
	}
	e.words = needles.New(words)
	return e
}

// elementKey is what equal elements of a list have in common, empty for those that equal
// nothing.
func (e *containsEach) elementKey(v any, t *trial) string {
	if s, ok := v.(string); ok && e.Op == OpIContains {
		return scalar.TextKey(t.fold(s))
	}
	key, _ := scalar.Key(v)
	return key
}

func (e *containsEach) holds(t *trial) bool {
	t.spend(conditionSteps)
	have, ok := t.subject.Value(e.field)
	if !ok {
		return false
	}
	switch have := have.(type) {
	case string:
		if e.Op == OpIContains {
			have = t.fold(have)
		}
		t.spend(len(have))
		find := e.words.Any
		if e.all {
			find = e.words.All
		}
		ok, err := find(t.ctx, have)
		if err != nil {
			t.err = err
		}
		return ok
	case []any:
		t.spend(len(have))
		found := map[string]bool{}
		for _, v := range have {
			if key := e.elementKey(v, t); e.keys[key] {
				if found[key] = true; !e.all {
					return true
				}
			}
		}
		return len(found) == len(e.keys)
	}
	return false
}
