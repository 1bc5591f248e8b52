package facts_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// What a program sees of a memory of facts.

func TestAddSingleFact(t *testing.T) {
	f := open(t, facts.Config{LLM: &model{extract: func(c string) string {
		if c != "My name is Bob" {
			t.Errorf("the user message of the extraction is %q, not the conversation alone", c)
		}
		return jsonList("User's name is Bob")
	}}})
	a := add(t, f, bob, "My name is Bob")
	wantEvents(t, a, "ADD User's name is Bob")
	if r := a.Results[0]; r.ID == "" || r.NewMemory == nil || *r.NewMemory != r.Memory || r.OldMemory != nil {
		t.Errorf("the result is %+v", r)
	}
}

func TestAddConversation(t *testing.T) {
	f := open(t, facts.Config{LLM: &model{extract: func(c string) string {
		if want := "user: I am Alice, a nurse\nassistant: Hello!"; c != want {
			t.Errorf("the conversation is %q, want %q", c, want)
		}
		return jsonList("User's name is Alice", "User is a nurse")
	}}})
	a := addWith(t, f, alice, facts.Messages{{llm.User, "I am Alice, a nurse"}, {llm.Assistant, "Hello!"}}, nil)
	wantEvents(t, a, "ADD User's name is Alice", "ADD User is a nurse")
}

func TestAddEmptyInput(t *testing.T) {
	withModel := open(t, facts.Config{LLM: &model{extract: func(string) string { return "[]" }}})
	wantEvents(t, add(t, withModel, alice, "hello"))
	without := open(t, facts.Config{})
	wantEvents(t, add(t, without, alice, "hello"))
}

var languages = &concepts{of: map[string]string{"python": "code", "programming": "code", "languages": "code", "code": "code"}}

func TestSearchBySemantics(t *testing.T) {
	f := open(t, facts.Config{LLM: &model{}, Embedder: languages})
	addOne(t, f, alice, "User likes Python")
	addOne(t, f, alice, "User lives in Oslo")
	found := search(t, f, alice, "programming languages", nil)
	if len(found) == 0 || found[0].Memory != "User likes Python" || *found[0].Score <= 0.5 {
		t.Fatalf("found %+v", found)
	}
}

func TestSearchWithLimit(t *testing.T) {
	f := open(t, facts.Config{})
	for _, city := range []string{"Oslo", "Rome", "Lima", "Bonn", "Kiel"} {
		addOne(t, f, alice, "User has a friend in "+city)
	}
	found := search(t, f, alice, "friend", &facts.SearchOptions{Limit: 3})
	if len(found) != 3 {
		t.Fatalf("found %d facts, want 3", len(found))
	}
	if !slices.IsSortedFunc(found, func(a, b facts.Item) int { return int(1e9 * (*b.Score - *a.Score)) }) {
		t.Errorf("scores do not descend: %+v", found)
	}
}

func TestGetByID(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "User likes tea")
	item, err := f.Get(t.Context(), alice, id)
	if err != nil || item == nil || item.ID != id || item.Memory != "User likes tea" || item.Score != nil || item.CreatedAt.IsZero() || item.UpdatedAt.IsZero() {
		t.Fatalf("got %+v, %v", item, err)
	}
}

func TestGetNonexistent(t *testing.T) {
	f := open(t, facts.Config{})
	if item, err := f.Get(t.Context(), scope.Scope{}, "fake-id"); item != nil || err != nil {
		t.Fatalf("got %+v, %v; want nil and no error", item, err)
	}
}

func TestGetAllForScope(t *testing.T) {
	f := open(t, facts.Config{})
	want := []string{"User likes tea", "User lives in Oslo", "User plays chess"}
	for _, text := range want {
		addOne(t, f, alice, text)
	}
	addOne(t, f, bob, "User likes coffee")
	wantAll(t, f, alice, want...)
}

func TestUpdateOverwrites(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "User likes tea")
	if _, err := f.Update(t.Context(), alice, id, "new text"); err != nil {
		t.Fatal(err)
	}
	wantAll(t, f, alice, "new text")
	if found := search(t, f, alice, "tea", nil); len(found) != 0 {
		t.Errorf("the old text is still found: %+v", found)
	}
}

func TestUpdateChangesHash(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "User likes tea")
	item, err := f.Update(t.Context(), alice, id, "new text")
	sum := md5.Sum([]byte("new text"))
	if err != nil || item.Hash != hex.EncodeToString(sum[:]) {
		t.Fatalf("hash %q, %v", item.Hash, err)
	}
}

func TestDeleteRemoves(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "User likes tea")
	if err := f.Delete(t.Context(), alice, id); err != nil {
		t.Fatal(err)
	}
	if item, err := f.Get(t.Context(), alice, id); item != nil || err != nil {
		t.Fatalf("got %+v, %v", item, err)
	}
	if err := f.Delete(t.Context(), alice, id); facts.ClassOf(err) != facts.NotFoundError {
		t.Errorf("a second delete: %v", err)
	}
}

func TestDeleteAllForScope(t *testing.T) {
	f := open(t, facts.Config{})
	addOne(t, f, alice, "User likes tea")
	addOne(t, f, alice, "User plays chess")
	addOne(t, f, bob, "User likes coffee")
	if n, err := f.DeleteAll(t.Context(), alice); n != 2 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	wantAll(t, f, alice)
	wantAll(t, f, bob, "User likes coffee")
}

func TestResetClearsEverything(t *testing.T) {
	ctx := t.Context()
	for name, db := range map[string]*engine.DB{"own database": nil, "shared database": memoryDB(t, nil)} {
		t.Run(name, func(t *testing.T) {
			f := open(t, facts.Config{DB: db})
			run := scope.Scope{Run: "r"}
			a, b, c := addOne(t, f, alice, "User likes tea"), addOne(t, f, bob, "User likes coffee"), addOne(t, f, run, "User likes water")
			if db != nil {
				if _, err := db.Memories().Store(ctx, memory.Memory{Scope: alice, ID: "other", Text: "a message"}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := f.Reset(ctx); n != 3 || err != nil {
				t.Fatalf("reset %d, %v", n, err)
			}
			wantAll(t, f, alice)
			wantAll(t, f, bob)
			wantAll(t, f, run)
			for _, id := range []string{a, b, c} {
				if h, err := f.History(ctx, scope.Scope{}, id); len(h) != 0 || err != nil {
					t.Errorf("history %+v, %v", h, err)
				}
			}
			if db != nil {
				if _, err := db.Memories().Get(ctx, alice, "other"); err != nil {
					t.Errorf("the reset took a memory that is no fact: %v", err)
				}
				sound(t, db)
			}
			again := addOne(t, f, alice, "User likes tea")
			if h, err := f.History(ctx, alice, again); len(h) != 1 || err != nil {
				t.Errorf("history of a fact after the reset: %+v, %v", h, err)
			}
		})
	}
}

func TestDeduplication(t *testing.T) {
	m := &model{}
	f := open(t, facts.Config{LLM: m})
	id := addOne(t, f, alice, "User likes Python")
	before := m.calls(true)
	a := add(t, f, alice, "User likes Python")
	wantEvents(t, a, "NONE User likes Python")
	if a.Results[0].ID != id {
		t.Errorf("NONE names %q, want %q", a.Results[0].ID, id)
	}
	if n := m.calls(true) - before; n != 0 {
		t.Errorf("%d decisions were asked for a text that is there", n)
	}
	wantAll(t, f, alice, "User likes Python")
}

// revises adds a fact, and then another about which the model decides.
func revises(t *testing.T, first, second string, decide func(offered []string) string) (*facts.Facts, facts.Added, string) {
	t.Helper()
	m := &model{}
	f := open(t, facts.Config{LLM: m})
	id := addOne(t, f, alice, first)
	m.decide = func(_ string, offered []string) string { return decide(offered) }
	return f, add(t, f, alice, second), id
}

func TestUpdateOnContradiction(t *testing.T) {
	f, a, id := revises(t, "User lives in NYC", "User moved to San Francisco", func(o []string) string {
		return operation("UPDATE", o, "NYC", "User lives in San Francisco")
	})
	wantEvents(t, a, "UPDATE User lives in San Francisco")
	if r := a.Results[0]; r.ID != id || *r.OldMemory != "User lives in NYC" {
		t.Errorf("result %+v", r)
	}
	wantAll(t, f, alice, "User lives in San Francisco")
}

func TestMergeOnRefinement(t *testing.T) {
	const merged = "User works in tech, at Google, as a senior engineer"
	f, a, id := revises(t, "User works in tech", "User works at Google as a senior engineer", func(o []string) string {
		return operation("UPDATE", o, "tech", merged)
	})
	wantEvents(t, a, "UPDATE "+merged)
	if a.Results[0].ID != id {
		t.Errorf("result %+v", a.Results[0])
	}
	wantAll(t, f, alice, merged)
}

func TestDeleteOnNegation(t *testing.T) {
	f, a, id := revises(t, "User is vegetarian", "User started eating meat again", func(o []string) string {
		return operation("DELETE", o, "vegetarian", "")
	})
	wantEvents(t, a, "DELETE User is vegetarian")
	if r := a.Results[0]; r.ID != id || *r.OldMemory != "User is vegetarian" || r.NewMemory != nil {
		t.Errorf("result %+v", r)
	}
	wantAll(t, f, alice)
}

func TestMultipleEvents(t *testing.T) {
	f, a, _ := revises(t, "User lives in NYC", "User moved to Oslo and has a dog", func(o []string) string {
		return `[{"event":"UPDATE","id":1,"data":"User lives in Oslo"},{"event":"ADD","data":"User has a dog"}]`
	})
	wantEvents(t, a, "UPDATE User lives in Oslo", "ADD User has a dog")
	wantAll(t, f, alice, "User lives in Oslo", "User has a dog")
}

func TestScopeIsolation(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "User likes tea")
	if found := search(t, f, bob, "tea", nil); len(found) != 0 {
		t.Fatalf("bob finds %+v", found)
	}
	wantAll(t, f, bob)
	if item, err := f.Get(t.Context(), bob, id); item != nil || err != nil {
		t.Errorf("bob gets %+v, %v", item, err)
	}
	if _, err := f.Update(t.Context(), bob, id, "x"); facts.ClassOf(err) != facts.NotFoundError {
		t.Errorf("bob updates: %v", err)
	}
	if err := f.Delete(t.Context(), bob, id); facts.ClassOf(err) != facts.NotFoundError {
		t.Errorf("bob deletes: %v", err)
	}
	if h, err := f.History(t.Context(), bob, id); len(h) != 0 || err != nil {
		t.Errorf("bob reads the history: %+v, %v", h, err)
	}
}

func TestMultiScope(t *testing.T) {
	both, other := scope.Scope{User: "alice", Agent: "helper"}, scope.Scope{User: "alice", Agent: "other"}
	db := memoryDB(t, nil)
	f, exact := open(t, facts.Config{DB: db}), open(t, facts.Config{DB: db, ExactReads: true})
	id := addOne(t, f, both, "User likes tea")
	wantAll(t, f, both, "User likes tea")
	wantAll(t, f, other)
	wantAll(t, f, alice, "User likes tea") // what is not named may be anything
	wantAll(t, exact, both, "User likes tea")
	wantAll(t, exact, alice)
	if item, err := exact.Get(t.Context(), alice, id); item != nil || err != nil {
		t.Errorf("with ExactReads: %+v, %v", item, err)
	}
	if n, err := exact.DeleteAll(t.Context(), alice); n != 0 || err != nil {
		t.Errorf("with ExactReads: deleted %d, %v", n, err)
	}
}

func TestMissingScope(t *testing.T) {
	f := open(t, facts.Config{})
	_, err := f.Add(t.Context(), scope.Scope{}, facts.Text("User likes tea"), nil)
	if facts.ClassOf(err) != facts.ScopeError {
		t.Fatalf("%v", err)
	}
}

func TestRunIsolation(t *testing.T) {
	f := open(t, facts.Config{})
	one, two := scope.Scope{Run: "session-1"}, scope.Scope{Run: "session-2"}
	addOne(t, f, one, "User likes tea")
	addOne(t, f, two, "User likes tea") // the same text in another run is another fact
	addOne(t, f, two, "User plays chess")
	wantAll(t, f, one, "User likes tea")
	wantAll(t, f, two, "User likes tea", "User plays chess")
}

// events are the events of a history, with what they say.
func events(t *testing.T, f *facts.Facts, id string) (list []string) {
	t.Helper()
	h, err := f.History(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	for _, r := range h {
		if r.MemoryID != id || r.ID == "" || r.User != "alice" {
			t.Errorf("record %+v", r)
		}
		if r.IsDeleted != (r.Event == facts.Delete) {
			t.Errorf("is_deleted of %+v", r)
		}
		list = append(list, string(r.Event)+" "+text(r.OldValue)+" → "+text(r.NewValue))
	}
	if !slices.IsSortedFunc(h, func(a, b facts.Record) int { return a.Timestamp.Compare(b.Timestamp) }) {
		t.Errorf("not in the order of time: %+v", h)
	}
	return list
}

func wantHistory(t *testing.T, f *facts.Facts, id string, want ...string) {
	t.Helper()
	if got := events(t, f, id); !slices.Equal(got, want) {
		t.Fatalf("history %q, want %q", got, want)
	}
}

func TestAddCreatesHistory(t *testing.T) {
	f := open(t, facts.Config{})
	wantHistory(t, f, addOne(t, f, alice, "a tea"), "ADD null → a tea")
}

func TestUpdateAppendsHistory(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "a tea")
	if _, err := f.Update(t.Context(), alice, id, "b tea"); err != nil {
		t.Fatal(err)
	}
	wantHistory(t, f, id, "ADD null → a tea", "UPDATE a tea → b tea")
}

func TestDeleteMarksHistory(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "a tea")
	if err := f.Delete(t.Context(), alice, id); err != nil {
		t.Fatal(err)
	}
	wantHistory(t, f, id, "ADD null → a tea", "DELETE a tea → null")
}

func TestHistoryOrdered(t *testing.T) {
	f := open(t, facts.Config{})
	id := addOne(t, f, alice, "tea 0")
	want := []string{"ADD null → tea 0"}
	for i := range 9 {
		from, to := "tea "+string(rune('0'+i)), "tea "+string(rune('1'+i))
		if _, err := f.Update(t.Context(), alice, id, to); err != nil {
			t.Fatal(err)
		}
		want = append(want, "UPDATE "+from+" → "+to)
	}
	wantHistory(t, f, id, want...)
}

// tagged has facts with tags, all about tea.
func tagged(t *testing.T) *facts.Facts {
	f := open(t, facts.Config{})
	for text, meta := range map[string]map[string]any{
		"tea at work":     {"tag": "work", "priority": 3},
		"tea at home":     {"tag": "home", "priority": 5},
		"tea in the park": {"tag": "park", "priority": 1},
		"Python with tea": {},
	} {
		addWith(t, f, alice, facts.Text(text), &facts.AddOptions{Metadata: meta})
	}
	return f
}

// wantFiltered compares what a search and a list find under a filter in JSON.
func wantFiltered(t *testing.T, json string, want ...string) {
	t.Helper()
	f := tagged(t)
	parsed, err := filter.Parse(t.Context(), []byte(json))
	if err != nil {
		t.Fatal(err)
	}
	o := &facts.SearchOptions{Filter: parsed}
	all, err := f.GetAll(t.Context(), alice, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range [][]string{texts(search(t, f, alice, "tea", o)), texts(all.Results)} {
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s finds %q, want %q", json, got, want)
		}
	}
}

func TestEquals(t *testing.T) {
	wantFiltered(t, `{"field":"tag","operator":"eq","value":"work"}`, "tea at work")
}

func TestIn(t *testing.T) {
	wantFiltered(t, `{"field":"tag","operator":"in","value":["work","home"]}`, "tea at home", "tea at work")
}

func TestAnd(t *testing.T) {
	wantFiltered(t, `{"AND":[{"field":"tag","operator":"ne","value":"home"},{"field":"priority","operator":"gte","value":2}]}`, "tea at work")
}

func TestOr(t *testing.T) {
	wantFiltered(t, `{"OR":[{"field":"tag","operator":"eq","value":"home"},{"field":"priority","operator":"lt","value":2}]}`, "tea at home", "tea in the park")
}

func TestNot(t *testing.T) {
	wantFiltered(t, `{"NOT":{"field":"tag","operator":"in","value":["work","home"]}}`, "Python with tea", "tea in the park")
}

func TestContains(t *testing.T) {
	wantFiltered(t, `{"field":"memory","operator":"contains","value":"Python"}`, "Python with tea")
	wantFiltered(t, `{"field":"memory","operator":"contains","value":"python"}`)
	wantFiltered(t, `{"field":"memory","operator":"icontains","value":"python"}`, "Python with tea")
}

// googler is a model that knows of Alice at Google.
func googler() *model {
	return &model{
		extract: func(string) string {
			return jsonList("Alice is an engineer at Google", "Google has an office in Zurich")
		},
		entities:  `{"entities":[{"name":"Alice","type":"person"},{"name":"Google","type":"organization","description":"a company"}]}`,
		relations: `{"relations":[{"source":"Alice","relation":"works at","target":"Google"}]}`,
	}
}

func TestEntities(t *testing.T) {
	f := open(t, facts.Config{LLM: googler(), Graph: true})
	a := add(t, f, alice, "Alice at Google")
	if len(a.Degraded) > 0 {
		t.Fatalf("degraded %+v", a.Degraded)
	}
	page, err := f.DB.Graph().List(t.Context(), graph.ListQuery{Owner: alice.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range page.Entities {
		got[e.Name] = e.Type
	}
	if want := map[string]string{"Alice": "person", "Google": "organization"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("entities %v, want %v", got, want)
	}
}

func TestRelations(t *testing.T) {
	f := open(t, facts.Config{LLM: googler(), Graph: true})
	want := []facts.Relation{{Source: "Alice", Relation: "works_at", Target: "Google"}}
	for range 2 { // a second time, it is the same relation
		if a := add(t, f, alice, "Alice at Google"); !slices.Equal(a.Relations, want) {
			t.Fatalf("relations %v; degraded %+v", a.Relations, a.Degraded)
		}
	}
	s, err := f.DB.Graph().Stats(t.Context(), alice.Owner())
	if err != nil || s.Entities != 2 || s.Relations != 1 {
		t.Fatalf("stats %+v, %v", s, err)
	}
	found, err := f.Search(t.Context(), alice, "who is Alice?", nil)
	if err != nil || !slices.Equal(found.Relations, want) {
		t.Fatalf("relations of a search: %v, %v", found.Relations, err)
	}
}

func TestGraphEnhancedSearch(t *testing.T) {
	db := memoryDB(t, nil)
	plain, f := open(t, facts.Config{DB: db}), open(t, facts.Config{DB: db, LLM: googler(), Graph: true})
	add(t, f, alice, "Alice at Google")
	const related = "Google has an office in Zurich"
	if got := texts(search(t, plain, alice, "Alice", nil)); slices.Contains(got, related) {
		t.Fatalf("without the graph the words alone find %q", got)
	}
	got := texts(search(t, f, alice, "Alice", nil))
	if !slices.Contains(got, related) || got[0] != "Alice is an engineer at Google" {
		t.Fatalf("with the graph: %q", got)
	}
}

func TestLLMDown(t *testing.T) {
	f := open(t, facts.Config{LLM: &model{err: errors.New("the provider is down")}, Graph: true})
	a := add(t, f, alice, "User likes tea")
	wantEvents(t, a)
	if len(a.Degraded) != 1 || facts.ClassOf(a.Degraded[0].Err) != facts.LLMError || !strings.Contains(a.Degraded[0].Why, "the provider is down") {
		t.Fatalf("degraded %+v", a.Degraded)
	}
}

func TestPartialFailure(t *testing.T) {
	m := &model{extract: func(string) string { return jsonList("likes tea", "likes poison", "likes chess") }}
	f := open(t, facts.Config{LLM: m, Embedder: &concepts{fails: "poison"}})
	a := add(t, f, alice, "…")
	wantEvents(t, a, "ADD likes tea", "ADD likes chess")
	if len(a.Degraded) != 1 || a.Degraded[0].Fact != "likes poison" || facts.ClassOf(a.Degraded[0].Err) != facts.EmbeddingError {
		t.Fatalf("degraded %+v", a.Degraded)
	}
	keeps := open(t, facts.Config{LLM: m, Embedder: &concepts{fails: "poison"}, StoreUnembedded: true})
	wantEvents(t, add(t, keeps, alice, "…"), "ADD likes tea", "ADD likes poison", "ADD likes chess")
	if found, err := keeps.Search(t.Context(), alice, "poison", nil); err != nil || len(found.Results) != 1 || len(found.Degraded) != 1 {
		t.Errorf("a fact without a vector is not found by its words: %+v, %v", found, err)
	}
}

func TestInvalidScope(t *testing.T) {
	ctx, f := t.Context(), open(t, facts.Config{})
	none := scope.Scope{}
	calls := map[string]func() error{
		"add":        func() error { _, err := f.Add(ctx, none, facts.Text("x"), nil); return err },
		"search":     func() error { _, err := f.Search(ctx, none, "x", nil); return err },
		"get_all":    func() error { _, err := f.GetAll(ctx, none, nil); return err },
		"delete_all": func() error { _, err := f.DeleteAll(ctx, none); return err },
	}
	for name, call := range calls {
		if err := call(); facts.ClassOf(err) != facts.ScopeError || !strings.Contains(err.Error(), "At least one of user_id, agent_id, or run_id must be provided") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCustomExtractionPrompt(t *testing.T) {
	m := &model{}
	f := open(t, facts.Config{LLM: m, Prompts: facts.Prompts{FactExtraction: "configured", UpdateDecision: "decide so"}})
	add(t, f, alice, "User likes tea")
	addWith(t, f, alice, facts.Text("User likes cake"), &facts.AddOptions{Prompt: "only cake"})
	var systems []string
	for _, r := range m.requests {
		systems = append(systems, r.Messages[0].Text)
		if r.Temperature != 0 || !r.JSON || r.Messages[0].Role != llm.System || r.Messages[1].Role != llm.User {
			t.Errorf("request %+v", r)
		}
	}
	if want := []string{"configured", "decide so", "only cake", "decide so"}; !slices.Equal(systems, want) {
		t.Fatalf("system messages %q, want %q", systems, want)
	}
}

// otherModel is another implementation of llm.Client.
type otherModel struct{}

func (otherModel) Model() string { return "another" }
func (otherModel) Generate(_ context.Context, r llm.Request) (llm.Reply, error) {
	if isDecision(r) {
		return llm.Reply{Text: "Sure:\n```json\n{\"operations\": [{\"event\": \"add\", \"data\": \"User likes tea\"}]}\n```"}, nil
	}
	return llm.Reply{Text: "Here are the facts [as asked]: [\"User likes tea\"] Anything else?"}, nil
}

func TestCustomLLM(t *testing.T) {
	f := open(t, facts.Config{LLM: otherModel{}})
	wantEvents(t, add(t, f, alice, "I like tea"), "ADD User likes tea")
}

func TestDefaultConfig(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	f, err := facts.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := add(t, f, alice, "User likes tea")
	wantEvents(t, a, "ADD User likes tea")
	if len(a.Degraded) != 1 || a.Degraded[0].Step != facts.StepLLM {
		t.Errorf("degraded %+v", a.Degraded)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
