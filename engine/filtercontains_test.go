package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
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
				if c, ok := f.(Contains); ok {
					c.Value = values[rng.IntN(few)]
					f = c
				}
				parts = append(parts, f)
			}
			if n == 0 {
				return And(parts)
			}
			return Or(parts)
		case depth > 0 && n == 2:
			return Not{filter(depth - 1)}
		case n < 7:
			if s, ok := values[rng.IntN(len(values))].(string); ok {
				return IContains{field, s}
			}
		}
		return Contains{field, values[rng.IntN(len(values))]}
	}
	holds := map[bool]int{}
	for range 5_000 {
		list := []any{}
		for range rng.IntN(12) {
			list = append(list, values[rng.IntN(len(values))])
		}
		text := ""
		for range rng.IntN(12) {
			text += fmt.Sprint(values[rng.IntN(len(values))])
		}
		meta := map[string]any{"w": values[rng.IntN(len(values))], "list": list}
		m := &filtered{rec: &layout.Record{Text: text}, meta: meta, decoded: true, ctx: t.Context()}
		f := filter(3)
		got, want := testOf(f)(m), oneByOne(f, m)
		if got != want || m.err != nil {
			t.Fatalf("%#v of %q and %v: %v, %v", f, text, meta, got, m.err)
		}
		holds[got]++
	}
	if holds[true] < 500 || holds[false] < 500 {
		t.Errorf("filters hold %d times and not %d times", holds[true], holds[false])
	}
}

// oneByOne is a filter by its definition.
func oneByOne(f Filter, m *filtered) bool {
	switch f := f.(type) {
	case And:
		return !slices.ContainsFunc(f, func(g Filter) bool { return !oneByOne(g, m) })
	case Or:
		return slices.ContainsFunc(f, func(g Filter) bool { return oneByOne(g, m) })
	case Not:
		return !oneByOne(f.Filter, m)
	}
	c, _ := conditionOf(f)
	return c.look().holdsFor(m)
}

// TestLongFold: a long string of a memory is folded as its pieces are together.
func TestLongFold(t *testing.T) {
	for _, unit := range []string{"aA", "\u1e9eA", "\u0130\u03a3\u03c2", "\xffA"} {
		s := "x"
		for len(s) < 3*foldPiece {
			s += unit + s
		}
		m := &filtered{ctx: t.Context()}
		if got := m.fold(s); got != analysis.FoldCase(s) {
			t.Errorf("%q is folded otherwise in pieces", unit)
		}
	}
}

// BenchmarkContains looks at a memory with filters of few and many conditions.
func BenchmarkContains(b *testing.B) {
	for _, n := range []int{2, fewContains, 100, 4900} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := &filtered{rec: &layout.Record{Text: "She said that the green tea was not as good as black coffee, and left."}, ctx: b.Context()}
			holds := testOf(contains(n))
			for b.Loop() {
				if holds(m) {
					b.Fatal("it holds")
				}
			}
		})
	}
}
