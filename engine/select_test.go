package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestListOverPages lists several pages of documents, of which many were updated or
// deleted at random, in both directions, by filters that the postings decide wholly,
// in part, or not at all, and by cursors: against a plain model.
func TestListOverPages(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	const n = 4 * doctable.PageSize
	type state struct {
		half, third int
		text        string
		gone        bool
	}
	model := make([]state, n) // by Seq - 1
	scope := func(i int) memory.Scope { return memory.Scope{Agent: fmt.Sprint("a", i%3)} }
	mem := func(i int, s state) memory.Memory {
		return memory.Memory{ID: fmt.Sprint("m", i), Scope: scope(i), Text: s.text, Metadata: map[string]any{"half": s.half, "third": s.third}}
	}
	var all []memory.Memory
	for i := range model {
		model[i] = state{half: i % 2, third: i % 3, text: fmt.Sprint("text ", i)}
		all = append(all, mem(i, model[i]))
	}
	if _, err := db.Memories().StoreBatch(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
	err := db.Update(t.Context(), func(tx *Tx) error {
		for range n / 4 {
			i := rng.IntN(n)
			if model[i].gone {
				continue
			}
			if rng.IntN(3) == 0 {
				model[i].gone = true
				if err := tx.Memories().Delete(t.Context(), scope(i), fmt.Sprint("m", i)); err != nil {
					return err
				}
				continue
			}
			model[i] = state{half: rng.IntN(2), third: rng.IntN(3), text: fmt.Sprint("changed ", i)}
			if _, err := tx.Memories().Store(t.Context(), mem(i, model[i]), &memory.StoreOptions{Upsert: true}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		filter filter.Filter
		holds  func(s state) bool
	}{
		{"none", nil, func(state) bool { return true }},
		{"equal", filter.Eq("half", 1), func(s state) bool { return s.half == 1 }},
		{"in", filter.And(filter.In("third", 0, 2), filter.Eq("half", 0)), func(s state) bool { return s.third != 1 && s.half == 0 }},
		{"not", filter.Not(filter.Eq("half", 1)), func(s state) bool { return s.half != 1 }},
		{"unequal", filter.And(filter.Ne("third", 0), filter.Ne("half", 0)), func(s state) bool { return s.third != 0 && s.half != 0 }},
		{"in part", filter.And(filter.Contains("text", "changed"), filter.Eq("third", 2)), func(s state) bool { return s.third == 2 && s.text[0] == 'c' }},
		{"or", filter.Or(filter.Eq("third", 2), filter.Eq("half", 1)), func(s state) bool { return s.third == 2 || s.half == 1 }},
		{"record", filter.Contains("text", "changed"), func(s state) bool { return s.text[0] == 'c' }},
		{"nothing", filter.And(filter.Eq("half", 9), filter.Eq("third", 1)), func(state) bool { return false }},
	}
	check := func(db *DB) {
		t.Helper()
		for _, c := range cases {
			for _, one := range []bool{false, true} {
				for _, descending := range []bool{false, true} {
					var want []uint64
					for i, s := range model {
						if !s.gone && c.holds(s) && (!one || i%3 == 1) {
							want = append(want, uint64(i+1))
						}
					}
					q := memory.ListQuery{AllScopes: !one, Filter: c.filter, Descending: descending, Limit: 1 + rng.IntN(900)}
					if one {
						q.Scope = scope(1)
					}
					if descending {
						slices.Reverse(want)
					}
					var got []uint64
					for m, err := range db.Memories().All(context.Background(), q) {
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, m.Seq)
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s, one owner %v, descending %v, limit %d: %d memories, want %d (seed %d)", c.name, one, descending, q.Limit, len(got), len(want), seed)
					}
				}
			}
		}
	}
	check(db)
	closeTest(t, db)
	check(openTest(t, fs, Options{}))
}
