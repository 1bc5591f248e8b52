package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestFilterOfNone: an owner without an agent, and what else has none, is chosen by "",
// also where another owner has a memory with the same ID; by the postings alone, whose
// memories are not read.
func TestFilterOfNone(t *testing.T) {
	for name, o := range map[string]setup{"in memory": {}, "sealed": {tuning: tuning{hotBytes: 1}}} {
		t.Run(name, func(t *testing.T) { filterOfNone(t, o) })
	}
}

func filterOfNone(t *testing.T, o setup) {
	db := openTest(t, vfs.NewMem(), o)
	for _, s := range []memory.Scope{
		{User: "ada"}, {User: "ada", Agent: "coach"}, {User: "ada", Run: "r"}, {Agent: "coach"}, {User: "bob", Agent: "x", Run: "r"}, {Run: "r"},
	} {
		id := fmt.Sprintf("%s/%s/%s", s.User, s.Agent, s.Run)
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: s, Text: "tea " + id})
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "same", Scope: memory.Scope{User: "eve"}, Text: "tea of hers"})
	mustStore(t, db.Memories(), memory.Memory{ID: "same", Scope: memory.Scope{User: "eve", Agent: "coach"}, Text: "tea of the coach"})
	db.waitSealed(t)

	for _, c := range []struct {
		filter string
		want   []string
	}{
		{`agent = ""`, []string{"ada//", "ada//r", "//r", "same"}},
		{`user = ada and agent = ""`, []string{"ada//", "ada//r"}},
		{`user = ada and agent = "" and run = ""`, []string{"ada//"}},
		{`agent != ""`, []string{"ada/coach/", "/coach/", "bob/x/r", "same"}},
		{`agent in ("", x)`, []string{"ada//", "ada//r", "bob/x/r", "//r", "same"}},
		{`agent nin ("", x)`, []string{"ada/coach/", "/coach/", "same"}},
		{`agent nin ("", x, nobody)`, []string{"ada/coach/", "/coach/", "same"}},
		{`not agent = ""`, []string{"ada/coach/", "/coach/", "bob/x/r", "same"}},
		{`user = "" or run != ""`, []string{"ada//r", "/coach/", "bob/x/r", "//r"}},
		{`agent exists and not run exists`, []string{"ada/coach/", "/coach/", "same"}},
		{`user = eve and id = same and agent = ""`, []string{"same"}},
	} {
		f, err := filter.Parse(t.Context(), []byte(c.filter))
		if err != nil {
			t.Fatal(err)
		}
		page, err := db.Memories().List(t.Context(), memory.ListQuery{AllScopes: true, Filter: f})
		if got := idsOf(page.Memories); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s lists %v, want %v, %v", c.filter, got, c.want, err)
		}
		hits := hitIDs(mustRecall(t, db.Memories(), memory.Query{AllScopes: true, Text: "tea coach", Filter: f, NoTouch: true}))
		if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(slices.Sorted(slices.Values(hits)), want) {
			t.Errorf("%s recalls %v, want %v", c.filter, hits, want)
		}
	}
	n, err := db.Memories().DeleteMatching(t.Context(), memory.DeleteQuery{Scope: memory.Scope{User: "eve"}, Filter: filter.Eq("agent", "")})
	if m, getErr := db.Memories().Get(t.Context(), memory.Scope{User: "eve"}, "same"); n != 1 || err != nil || getErr != nil || m.Agent != "coach" {
		t.Errorf("deleted %d, %v; %v is left, %v", n, err, m, getErr)
	}
}

// TestFilterOfNoneReadsNothing: postings and columns decide what memories do not have.
func TestFilterOfNoneReadsNothing(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	for i := range 50 {
		m := memory.Memory{Scope: memory.Scope{User: "ada", Agent: fmt.Sprint(i % 3)[:i%2]}, Text: fmt.Sprint("number ", i)}
		m.Source, m.Metadata = memory.SourceWebSearch, map[string]any{"n": pick[any](rand.New(rand.NewPCG(uint64(i), 1)), 1, "a", nil, true)}
		mustStore(t, db.Memories(), m)
	}
	for _, f := range []filter.Filter{
		filter.Exists("n"), filter.Not(filter.Exists("n")), filter.Eq("source", ""), filter.Nin("source", "", "user_message"),
		filter.Eq("agent", ""), filter.Ne("run", ""), filter.In("agent", "", "1"), filter.Not(filter.Exists("agent")), filter.Exists("created_at"),
		filter.Exists("role"), filter.Not(filter.Exists("event_time")), filter.Exists("access_count"),
	} {
		err := db.View(t.Context(), func(tx *Tx) error {
			r := &countingReader{Reader: tx.state.Reader}
			tx.state.Reader = r
			_, err := selection.Selected(t.Context(), &tx.state, memory.Scope{User: "ada"}, false, f)
			if r.gets != 0 {
				t.Errorf("%s: %d reads", f, r.gets)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestFilterByAlias: aliases are a list of strings.
func TestFilterByAlias(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Kind: memory.KindNote, Name: "plan", Aliases: []string{"Roadmap", "todo"}, Text: "a"})
	mustStore(t, db.Memories(), memory.Memory{ID: "b", Scope: ada, Text: "b", Metadata: map[string]any{"aliases": []any{"todo"}}})
	for form, want := range map[string][]string{
		`aliases contains todo`:          {"a"},
		`aliases contains road`:          nil,
		`aliases icontains roadmap`:      {"a"},
		`not aliases contains todo`:      {"b"},
		`aliases exists`:                 {"a"},
		`metadata.aliases contains todo`: {"b"},
	} {
		f, err := filter.Parse(t.Context(), []byte(form))
		if err != nil {
			t.Fatal(err)
		}
		page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: ada, Filter: f})
		if got := idsOf(page.Memories); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", form, got, err, want)
		}
	}
}

// TestFilterAtItsLimits: a filter of as many conditions and as much nesting as there may
// be is evaluated, whatever decides it.
func TestFilterAtItsLimits(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "tea", Metadata: map[string]any{"n": 1}})
	deep := filter.Contains("text", "tea")
	for range filter.MaxDepth + 1 {
		deep = filter.And(deep)
	}
	wide := filter.Any{}
	for i := range filter.MaxNodes/2 - 1 {
		wide = append(wide, filter.Contains("text", fmt.Sprint("tea", i)))
	}
	wide[7] = filter.Contains("text", "tea")
	for _, f := range []filter.Filter{deep, wide, filter.Not(filter.In("id", make([]any, 0)...))} {
		page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: ada, Filter: f})
		if err != nil || len(page.Memories) != 1 {
			t.Errorf("%.80s: %d memories, %v", f, len(page.Memories), err)
		}
	}
}
