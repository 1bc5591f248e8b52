package facts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// model is a stand-in for a language model: each kind of request has a function that
// answers. It keeps the requests.
type model struct {
	extract   func(conversation string) string
	decide    func(fact string, offered []string) string
	entities  string
	relations string
	err       error
	// hold, where set, is called in each request, before the answer.
	hold func(ctx context.Context, r llm.Request) error

	mu       sync.Mutex
	requests []llm.Request
}

func (m *model) Model() string { return "stand-in" }

func (m *model) Generate(ctx context.Context, r llm.Request) (llm.Reply, error) {
	m.mu.Lock()
	m.requests = append(m.requests, r)
	m.mu.Unlock()
	if m.hold != nil {
		if err := m.hold(ctx, r); err != nil {
			return llm.Reply{}, err
		}
	}
	if m.err != nil || ctx.Err() != nil {
		return llm.Reply{}, errors.Join(m.err, ctx.Err())
	}
	user := r.Messages[1].Text
	switch {
	case len(r.Tools) > 0 && r.Tools[0].Name == "extract_entities":
		return llm.Reply{Calls: []llm.ToolCall{{Name: "extract_entities", Arguments: m.entities}}}, nil
	case len(r.Tools) > 0:
		return llm.Reply{Calls: []llm.ToolCall{{Name: "extract_relations", Arguments: m.relations}}}, nil
	case isDecision(r):
		fact, offered := readDecision(user)
		if m.decide == nil {
			return llm.Reply{Text: `[{"event":"ADD"}]`}, nil
		}
		return llm.Reply{Text: m.decide(fact, offered)}, nil
	case m.extract == nil:
		return llm.Reply{Text: jsonList(user)}, nil // the conversation is the fact
	}
	return llm.Reply{Text: m.extract(user)}, nil
}

func isDecision(r llm.Request) bool { return strings.HasPrefix(r.Messages[1].Text, "New fact: ") }

// calls counts the requests for decisions, or the others.
func (m *model) calls(decisions bool) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		if isDecision(r) == decisions {
			n++
		}
	}
	return n
}

var offeredLine = regexp.MustCompile(`(?m)^- ID: (\d+), Text: (.*)$`)

// readDecision reads the message of a decision: the fact, and the texts by their ordinals.
func readDecision(user string) (fact string, offered []string) {
	first, _, _ := strings.Cut(user, "\n")
	for i, m := range offeredLine.FindAllStringSubmatch(user, -1) {
		if m[1] != fmt.Sprint(i+1) {
			panic("ordinals are not 1, 2, 3: " + user)
		}
		offered = append(offered, m[2])
	}
	return strings.TrimPrefix(first, "New fact: "), offered
}

func jsonList(texts ...string) string {
	b, _ := json.Marshal(texts)
	return string(b)
}

// operation is an operation about the offered fact that has a word, or the plain one.
func operation(event string, offered []string, word, data string) string {
	i := slices.IndexFunc(offered, func(s string) bool { return strings.Contains(s, word) })
	return fmt.Sprintf(`[{"event":%q,"id":"%d","data":%q}]`, event, i+1, data)
}

// concepts is a stand-in for a learned embedder: words of one concept have one direction.
// It fails for texts that have a word of fails.
type concepts struct {
	of    map[string]string
	fails string
	name  string
}

const conceptDim = 64

func (c *concepts) Dim() int { return conceptDim }
func (c *concepts) Model() string {
	if c.name == "" {
		return "concepts"
	}
	return c.name
}

func (c *concepts) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		if c.fails != "" && strings.Contains(text, c.fails) {
			return nil, errors.New("no vector for " + c.fails)
		}
		v := make([]float32, conceptDim)
		for w := range strings.FieldsSeq(strings.ToLower(text)) {
			w = strings.Trim(w, ".,?!")
			if of := c.of[w]; of != "" {
				w = of
			}
			h := fnv.New32a()
			h.Write([]byte(w))
			v[h.Sum32()%conceptDim]++
		}
		vecs[i] = v
	}
	return vecs, ctx.Err()
}

var (
	alice = scope.Scope{User: "alice"}
	bob   = scope.Scope{User: "bob"}
)

// open makes a memory of facts, closed with the test.
func open(t testing.TB, c facts.Config) *facts.Facts {
	t.Helper()
	f, err := facts.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func add(t testing.TB, f *facts.Facts, s scope.Scope, text string) facts.Added {
	t.Helper()
	return addWith(t, f, s, facts.Text(text), nil)
}

func addWith(t testing.TB, f *facts.Facts, s scope.Scope, m facts.Messages, o *facts.AddOptions) facts.Added {
	t.Helper()
	a, err := f.Add(t.Context(), s, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// addOne adds a text that is one new fact, and returns its ID.
func addOne(t testing.TB, f *facts.Facts, s scope.Scope, text string) string {
	t.Helper()
	a := add(t, f, s, text)
	wantEvents(t, a, "ADD "+text)
	return a.Results[0].ID
}

// wantEvents compares results as "EVENT text".
func wantEvents(t testing.TB, a facts.Added, want ...string) {
	t.Helper()
	var got []string
	for _, r := range a.Results {
		got = append(got, string(r.Event)+" "+r.Memory)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("results %.80q, want %.80q; degraded: %+v", got, want, a.Degraded)
	}
}

func texts(items []facts.Item) []string {
	list := []string{}
	for _, i := range items {
		list = append(list, i.Memory)
	}
	return list
}

// wantAll compares the facts of a scope, in the order of their storing.
func wantAll(t testing.TB, f *facts.Facts, s scope.Scope, want ...string) {
	t.Helper()
	all, err := f.GetAll(t.Context(), s, &facts.SearchOptions{Limit: memory.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(all.Results); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("facts of %+v: %q, want %q", s, got, want)
	}
}

func search(t testing.TB, f *facts.Facts, s scope.Scope, query string, o *facts.SearchOptions) []facts.Item {
	t.Helper()
	found, err := f.Search(t.Context(), s, query, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Degraded) > 0 {
		t.Fatalf("degraded: %+v", found.Degraded)
	}
	return found.Results
}

// memoryDB is a database in memory, closed with the test.
func memoryDB(t testing.TB, o *engine.Options) *engine.DB {
	t.Helper()
	db, err := engine.OpenMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// sound checks that the database is whole.
func sound(t testing.TB, db *engine.DB) {
	t.Helper()
	r, err := db.Check(t.Context())
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("check: %v, %+v", err, r.Problems)
	}
}
