package selection_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/state/statetest"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// kept is a memory as the test knows it.
type kept struct {
	layout.Record
	doc  uint32
	dead bool
}

// holds is what the test takes for the truth.
func (k *kept) holds(s memory.Scope, now int64, f func(*kept) bool) bool {
	return !k.dead && (k.Expires == 0 || k.Expires > now) && scope.Contains(s, k.Scope) && f(k)
}

// TestAgainstAll: scopes, filters and what is remembered of scopes give the documents that a look
// at all memories gives, while memories come, go and expire.
func TestAgainstAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := statetest.New(t)
	cache := &selection.Cache{Limit: 1 << 20, Spaces: spaces.NewSet(spaces.Host{})}
	scopes := []memory.Scope{{}, {User: "u0"}, {User: "u1", Agent: "a1"}, {Run: "r1"}, {User: "u1", Run: "r0"}, {User: "nobody"}}
	filters := []struct {
		f    filter.Filter
		want func(*kept) bool
	}{
		{nil, func(*kept) bool { return true }},
		{filter.Eq("kind", "note"), func(k *kept) bool { return state.Kinds[k.Kind] == memory.KindNote }},
		{filter.Not(filter.Eq("user", "u1")), func(k *kept) bool { return k.Scope.User != "u1" }},
		{filter.Gt("importance", .5), func(k *kept) bool { return k.Importance > .5 }},
		{filter.Or(filter.Contains("text", "7"), filter.Eq("run", "r0")), func(k *kept) bool {
			return slices.Contains([]rune(k.Text), '7') || k.Scope.Run == "r0"
		}},
	}
	var all []*kept
	for now := range int64(40) {
		for range 5 {
			r := layout.Record{
				ID: fmt.Sprint("m", len(all)), Scope: memory.Scope{User: fmt.Sprint("u", rng.IntN(3)), Agent: []string{"", "a1"}[rng.IntN(2)], Run: []string{"", "r0", "r1"}[rng.IntN(3)]},
				Kind: byte(rng.IntN(layout.KindCount)), Text: fmt.Sprint("text ", rng.IntN(100)), Created: now, Importance: rng.Float64(),
			}
			if rng.IntN(4) == 0 {
				r.Expires = now + 1 + rng.Int64N(10)
			}
			all = append(all, &kept{Record: r, doc: w.Add(r)})
		}
		if k := all[rng.IntN(len(all))]; !k.dead {
			w.Kill(k.doc)
			k.dead = true
		}
		st := w.State(now)
		for _, s := range scopes {
			for _, c := range filters {
				var want []uint32
				for _, k := range all {
					if k.holds(s, now, c.want) {
						want = append(want, k.doc)
					}
				}
				set, err := selection.Selected(t.Context(), st, s, true, c.f)
				if err != nil || !slices.Equal(set.ToArray(), want) {
					t.Fatalf("%v in %+v: %v, %v; want %v", c.f, s, set, err, want)
				}
				if c.f != nil {
					continue
				}
				known, remembered, err := cache.Scoped(t.Context(), st, s)
				if err != nil || !remembered || !slices.Equal(known.List(), want) {
					t.Fatalf("remembered of %+v: %v, %v, %v; want %v", s, known.List(), remembered, err, want)
				}
			}
		}
	}
}

// TestPastStates: a state sees what was there, whatever has come and gone since.
func TestPastStates(t *testing.T) {
	w := statetest.New(t)
	w.Add(layout.Record{ID: "a"})
	b := w.Add(layout.Record{ID: "b"})
	past := w.State(0)
	past.Past = true
	w.Kill(b)
	w.Add(layout.Record{ID: "c"})
	for _, c := range []struct {
		st   *state.State
		want []uint32
	}{{past, []uint32{0, 1}}, {w.State(0), []uint32{0, 2}}} {
		if set, err := selection.Selected(t.Context(), c.st, memory.Scope{}, true, nil); err != nil || !slices.Equal(set.ToArray(), c.want) {
			t.Errorf("as of %d: %v, %v; want %v", c.st.LSN, set, err, c.want)
		}
	}
}
