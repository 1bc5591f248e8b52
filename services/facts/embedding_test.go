package facts_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
)

func (b badVectors) Embed(_ context.Context, texts []string) ([][]float32, error) {
	return b.of(len(texts)), nil
}

func TestBadVectors(t *testing.T) {
	same := func(v ...float32) func(int) [][]float32 {
		return func(n int) (all [][]float32) {
			for range n {
				all = append(all, v)
			}
			return all
		}
	}
	for name, of := range map[string]func(int) [][]float32{
		"none": same(), "one too few": func(n int) [][]float32 { return same(1, 0)(n - 1) }, "one too many": func(n int) [][]float32 { return same(1, 0)(n + 1) },
		"three dimensions": same(1, 0, 0), "NaN": same(float32(math.NaN()), 0), "infinite": same(float32(math.Inf(1)), 0),
		"panic": func(int) [][]float32 { panic("no model") },
	} {
		f := open(t, facts.Config{Embedder: badVectors{of}})
		a := add(t, f, alice, "User likes tea")
		if len(a.Results) > 0 || len(a.Degraded) != 2 || facts.ClassOf(a.Degraded[1].Err) != facts.EmbeddingError {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// A vector of zeros is none: the fact is found by its words.
	f := open(t, facts.Config{Embedder: badVectors{same(0, 0)}})
	addOne(t, f, alice, "User likes tea")
	if found := search(t, f, alice, "tea", nil); len(found) != 1 {
		t.Errorf("found %+v", found)
	}
}

// TestOtherModel: another embedding model is refused with what to do; after it, the facts
// can still be read with the first.
func TestOtherModel(t *testing.T) {
	db := memoryDB(t, nil)
	f := open(t, facts.Config{DB: db, Embedder: languages})
	addOne(t, f, alice, "User likes Python")
	_, err := facts.New(&facts.Config{DB: db, Embedder: &concepts{name: "newer"}})
	if !errors.Is(err, memory.ErrMismatch) || facts.ClassOf(err) != facts.EmbeddingError || !strings.Contains(err.Error(), `use "concepts" as before`) || !strings.Contains(err.Error(), "newer") {
		t.Fatalf("%v", err)
	}
	again := open(t, facts.Config{DB: db, Embedder: languages})
	if found := search(t, again, alice, "code", nil); len(found) != 1 {
		t.Errorf("found %+v", found)
	}
	if _, err := facts.New(&facts.Config{DB: db, Embedder: embed.NewLexical()}); err != nil {
		t.Errorf("the built-in embedder: %v", err)
	}
}

// TestKeywordOnly: a fact that has the words is found however far its vector is.
func TestKeywordOnly(t *testing.T) {
	f := open(t, facts.Config{Embedder: &concepts{of: map[string]string{"xb-77": "quux"}}})
	addOne(t, f, alice, "The part is XB-77")
	for i := range 30 {
		addOne(t, f, alice, fmt.Sprintf("part number %d of the list", i))
	}
	found := search(t, f, alice, "XB-77", &facts.SearchOptions{Limit: 3})
	if len(found) == 0 || found[0].Memory != "The part is XB-77" {
		t.Fatalf("found %q", texts(found))
	}
}

// TestEmbedderDown: after some refusals in a row, no further text of an add is tried alone;
// a cancel while texts are embedded changes nothing.
func TestEmbedderDown(t *testing.T) {
	list := make([]string, 50)
	for i := range list {
		list[i] = fmt.Sprintf("poison %d", i)
	}
	calls := 0
	down := &counted{concepts: &concepts{fails: "poison"}, before: func() { calls++ }}
	m := &model{extract: func(string) string { return jsonList(list...) }}
	f := open(t, facts.Config{LLM: m, Embedder: down})
	a := add(t, f, alice, "…")
	if len(a.Results) > 0 || len(a.Degraded) != len(list) || calls != 1+8 {
		t.Errorf("%d results, %d degraded, %d calls", len(a.Results), len(a.Degraded), calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	down.before = cancel
	if _, err := f.Add(ctx, alice, facts.Text("…"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	wantAll(t, f, alice)
}

// counted is an embedder that calls a function first.
type counted struct {
	*concepts
	before func()
}

func (c *counted) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.before()
	return c.concepts.Embed(ctx, texts)
}
