package filter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// TestContainsTogether: many conditions on what fields contain, looked at together, hold
// where they hold one by one: in strings, in lists, of any values, nested.
func TestContainsTogether(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	values := []any{"a", "A", "ab", "", "b c", "\u00c9a", "\u00e9", "\u1e9e", "1", 1, 1.5, true, nil, "true", "null", "absent"}
	var filter func(depth int) Filter
	filter = func(depth int) Filter {
		field := []string{"text", "w", "list", "none"}[rng.IntN(4)]
		switch n := rng.IntN(12); {
		case depth > 0 && n < 2:
			var parts []Filter
			few := 1 + rng.IntN(len(values))
			for range rng.IntN(4 * fewContains) {
				f := filter(depth - 1)
				if c, ok := f.(Condition); ok && c.Op == OpContains {
					f = Contains(c.Field, values[rng.IntN(few)])
				}
				parts = append(parts, f)
			}
			if n == 0 {
				return And(parts...)
			}
			return Or(parts...)
		case depth > 0 && n == 2:
			return Not(filter(depth - 1))
		case n < 7:
			if s, ok := values[rng.IntN(len(values))].(string); ok {
				return IContains(field, s)
			}
		}
		return Contains(field, values[rng.IntN(len(values))])
	}
	holds := map[bool]int{}
	for range 5_000 {
		list := []any{}
		for range rng.IntN(12) {
			list = append(list, values[rng.IntN(len(values))])
		}
		var text strings.Builder
		for range rng.IntN(12) {
			fmt.Fprint(&text, values[rng.IntN(len(values))])
		}
		m := &trial{ctx: t.Context(), subject: &subject{fields: map[string]any{"w": values[rng.IntN(len(values))], "list": list, "text": text.String()}}}
		f := filter(3)
		got, want := testOf(f)(m), oneByOne(f, m)
		if got != want || m.err != nil {
			t.Fatalf("%s of %v: %v, %v", f, m.subject, got, m.err)
		}
		holds[got]++
	}
	if holds[true] < 500 || holds[false] < 500 {
		t.Errorf("filters hold %d times and not %d times", holds[true], holds[false])
	}
}

// oneByOne is a filter by its definition.
func oneByOne(f Filter, m *trial) bool {
	switch f := f.(type) {
	case All:
		return !slices.ContainsFunc(f, func(g Filter) bool { return !oneByOne(g, m) })
	case Any:
		return slices.ContainsFunc(f, func(g Filter) bool { return oneByOne(g, m) })
	case Negation:
		return !oneByOne(f.Filter, m)
	}
	return newLook(f.(Condition)).holds(m)
}

// TestLongFold: a long string of a memory is folded as its pieces are together.
func TestLongFold(t *testing.T) {
	for _, unit := range []string{"aA", "\u1e9eA", "\u0130\u03a3\u03c2", "\xffA"} {
		s := "x"
		for len(s) < 3*foldPiece {
			s += unit + s
		}
		m := &trial{ctx: t.Context()}
		if got := m.fold(s); got != analysis.FoldCase(s) {
			t.Errorf("%q is folded otherwise in pieces", unit)
		}
	}
}

// TestMatchEndsWithItsContext: a pattern leaves a long string where the context ends, and
// matches it as a whole where it does not.
func TestMatchEndsWithItsContext(t *testing.T) {
	s := &subject{fields: map[string]any{"text": strings.Repeat("a\xffé", 2_000_000) + "b"}}
	for pattern, want := range map[string]bool{"éb$": true, "^b": false, "(é.a){3}b|c": false, `\x{FFFD}éb`: true} {
		holds, err := Compile(Regexp("text", pattern))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := holds(t.Context(), s); got != want || err != nil {
			t.Errorf("%s: %v, %v", pattern, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range []Filter{Regexp("text", "(a?){100}c"), IContains("text", "absent")} {
		holds, err := Compile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holds(ctx, s); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestContainedLimit: what fields are to contain is bounded together.
func TestContainedLimit(t *testing.T) {
	long := strings.Repeat("a", MaxContained/2)
	if err := Check(And(Contains("text", long), IContains("text", long))); err != nil {
		t.Error(err)
	}
	err := Check(And(Contains("text", long), Not(Or(IContains("text", long+"b")))))
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(MaxContained)) {
		t.Error(err)
	}
}

// BenchmarkContains looks at a memory with filters of few and many conditions.
func BenchmarkContains(b *testing.B) {
	for _, n := range []int{2, fewContains, 100, 4900} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := &subject{fields: map[string]any{"text": "She said that the green tea was not as good as black coffee, and left."}}
			var f Any
			for i := range n {
				f = append(f, Contains("text", fmt.Sprint("zz", i)))
			}
			holds, err := Compile(f)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if ok, err := holds(b.Context(), s); ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
