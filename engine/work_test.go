package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/query"
)

// endsAfter is a context that ends when it is looked at for the n-th time.
type endsAfter struct {
	context.Context
	n, looks int
}

func (c *endsAfter) Err() error {
	if c.looks++; c.looks >= c.n {
		return context.Canceled
	}
	return nil
}

// TestWorkEndsWithItsContext: what takes long for one text or query looks at its context
// on the way: once for some milliseconds of work.
func TestWorkEndsWithItsContext(t *testing.T) {
	const size = 256 << 10
	db := openTest(t, vfs.NewMem(), Options{})
	m, s := db.Memories(), Scope{User: "a"}
	long := strings.Repeat(strings.Repeat("a", 50)+"zzzzz ", size/56)
	mustStore(t, m, Memory{Scope: s, ID: "x", Text: "milk " + long + strings.Repeat("t\u00e9a ", size)})
	phrases, fuzzy := "", "tea "
	for i := range 100 {
		phrases += `"` + strings.Repeat("tea ", 254-i) + `milk" `
	}
	for i := range 8 {
		fuzzy += strings.Repeat("a", 55) + string(rune('b'+i)) + "~2 "
	}
	ligatures := strings.Repeat("\ufdfa", size/3)
	recall := func(q Query) func(context.Context) error {
		q.Scope, q.NoTouch = s, true
		return func(ctx context.Context) error {
			_, err := m.Recall(ctx, q)
			return err
		}
	}
	for _, c := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"phrases", recall(Query{Text: phrases, Syntax: SyntaxOperators, Profile: ProfileText})},
		{"phrases beside a vector", recall(Query{Text: phrases, Syntax: SyntaxOperators, Profile: ProfileHybrid})},
		{"highlights", recall(Query{Text: fuzzy, Syntax: SyntaxOperators, Profile: ProfileText, Highlight: true})},
		{"a word that unfolds", recall(Query{Text: ligatures, Profile: ProfileText})},
		{"a word with operators that unfolds", recall(Query{Text: ligatures, Syntax: SyntaxOperators})},
		{"4,900 contains", recall(Query{Text: "tea", Filter: contains(4900)})},
		{"another case", recall(Query{Text: "tea", Filter: filter.IContains("text", "absent")})},
		{"a pattern", recall(Query{Text: "tea", Filter: filter.Regexp("text", "(a?){100}absent")})},
		{"a store", func(ctx context.Context) error {
			_, err := m.Store(ctx, Memory{Scope: s, Text: ligatures}, &StoreOptions{SkipInvalid: true})
			return err
		}},
		{"an update", func(ctx context.Context) error {
			_, err := m.Update(ctx, s, "x", Patch{Text: &ligatures})
			return err
		}},
	} {
		first := &endsAfter{Context: t.Context(), n: 10}
		if err := c.do(first); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, ended by the tenth look at its context: %d looks, %v", c.name, first.looks, err)
		}
	}
}

// contains asks for so many words that no memory has.
func contains(n int) (f filter.Any) {
	for i := range n {
		f = append(f, filter.Contains("text", fmt.Sprint("zz", i)))
	}
	return f
}

// TestWorkHasALimit: the error of a query that takes too many steps says so.
func TestWorkHasALimit(t *testing.T) {
	err := matchError(fmt.Errorf("%w: 7", query.ErrSteps))
	if !errors.Is(err, ErrInvalid) || !errors.Is(err, query.ErrSteps) || !strings.Contains(err.Error(), "fewer phrases") {
		t.Error(err)
	}
	long := strings.Repeat("a", filter.MaxContained/2)
	f := filter.All{filter.Contains("text", long), filter.Not(filter.Or(filter.IContains("text", long+"b")))}
	if err := filter.Check(f); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(filter.MaxContained)) {
		t.Error(err)
	}
	if err := filter.Check(f[:1]); err != nil {
		t.Error(err)
	}
	if err := matchError(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
