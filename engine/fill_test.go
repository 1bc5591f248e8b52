package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestTokens: a budget of tokens leaves whole texts that are worth it, none twice, and short
// answers with their questions.
func TestTokens(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ada := db.Memories(), memory.Scope{User: "ada", Run: "r"}
	for i, text := range []string{
		"Which lighthouse did you paint last summer?",
		"The red one.",
		"I painted the lighthouse of Porto with red paint and a broad brush",
		"I painted the lighthouse of Porto with red paint and a broad brush!",
		"a long story of the lighthouse: " + strings.Repeat("the keeper went up and down ", 40),
		"nothing of that",
	} {
		mustStore(t, m, memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: text})
	}
	count := func(s string) int { return len(strings.Fields(s)) }
	q := memory.Query{Scope: memory.Scope{User: "ada"}, Text: "paint a red lighthouse", Tokens: 60, Count: count, NoTouch: true}
	result, err := m.Recall(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	tokens, ids := 0, []string{}
	for _, h := range result.Hits {
		tokens += count(h.Text)
		ids = append(ids, h.ID)
		if h.Asked != nil {
			tokens += count(h.Asked.Text)
		}
		if h.ID == "1" && (h.Asked == nil || h.Asked.ID != "0") {
			t.Errorf("the answer stands without its question: %+v", h.Asked)
		}
	}
	if tokens > 60 || result.Tokens != tokens {
		t.Errorf("%d tokens of 60, told are %d", tokens, result.Tokens)
	}
	if slices.Contains(ids, "2") == slices.Contains(ids, "3") || slices.Contains(ids, "4") || !slices.Contains(ids, "1") {
		t.Errorf("hits %q", ids)
	}
	q.Tokens, q.Count = 5, nil // 20 bytes
	if result, err = m.Recall(t.Context(), q); err != nil || len(result.Hits) != 1 || result.Hits[0].ID != "1" || result.Hits[0].Asked != nil {
		t.Errorf("of five tokens: %+v, %v", result.Hits, err)
	}
	q.Tokens = -1
	if _, err := m.Recall(t.Context(), q); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("-1 tokens: %v", err)
	}
}

// TestRerank: a hook orders the hits; one that fails, panics or takes too long leaves them.
func TestRerank(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	for i := range 4 {
		mustStore(t, m, memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: "tea" + strings.Repeat(" and more", i)})
	}
	release := make(chan struct{})
	defer close(release)
	for what, c := range map[string]struct {
		hook func(context.Context, string, []memory.Hit) ([]int, error)
		want string
		why  string
	}{
		"backwards":        {func(context.Context, string, []memory.Hit) ([]int, error) { return []int{3, 2, 1, 0}, nil }, "3 2 1 0", ""},
		"a part":           {func(context.Context, string, []memory.Hit) ([]int, error) { return []int{2}, nil }, "2 0 1 3", ""},
		"wrong places":     {func(context.Context, string, []memory.Hit) ([]int, error) { return []int{-1, 9, 1, 1}, nil }, "1 0 2 3", ""},
		"fails":            {func(context.Context, string, []memory.Hit) ([]int, error) { return nil, errors.New("no model") }, "0 1 2 3", "no model"},
		"panics":           {func(context.Context, string, []memory.Hit) ([]int, error) { panic("ouch") }, "0 1 2 3", "ouch"},
		"never comes back": {func(context.Context, string, []memory.Hit) ([]int, error) { <-release; return nil, nil }, "0 1 2 3", "more than 20ms"},
	} {
		result, err := m.Recall(t.Context(), memory.Query{Scope: ada, Text: "tea", Rerank: c.hook, RerankWithin: 20 * time.Millisecond, NoTouch: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(hitIDs(result.Hits), " "); got != c.want || !strings.Contains(result.Unranked, c.why) || (c.why == "") != (result.Unranked == "") {
			t.Errorf("%s: %s, want %s; why %q", what, got, c.want, result.Unranked)
		}
	}
}

// TestFactsAboveMessages: a fact stands above an older message that says no more of what was asked.
func TestFactsAboveMessages(t *testing.T) {
	clock := newTestClock()
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, m, memory.Memory{ID: "old", Scope: ada, Text: "I live in Antwerp, live!"})
	clock.advance(time.Hour)
	mustStore(t, m, memory.Memory{ID: "fact", Scope: ada, Kind: memory.KindFact, Text: "The user of this service lives in Bruges since the spring of the year"})
	clock.advance(time.Hour)
	mustStore(t, m, memory.Memory{ID: "new", Scope: ada, Text: "I live live live here"})
	ask := func(text string) string {
		return strings.Join(hitIDs(mustRecall(t, m, memory.Query{Scope: ada, Text: text, NoTouch: true})), " ")
	}
	if got := ask("where do I live?"); got != "new fact old" {
		t.Errorf("hits %s", got)
	}
	if got := ask("do I live in Antwerp?"); got != "old new fact" { // the fact says nothing of Antwerp
		t.Errorf("hits %s", got)
	}
}
