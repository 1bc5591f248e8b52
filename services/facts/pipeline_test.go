package facts_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// TestConcurrentAdds: many adds of one fact at once give one memory.
func TestConcurrentAdds(t *testing.T) {
	for name, m := range map[string]llm.Client{"with a model": &model{}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			f := open(t, facts.Config{LLM: m})
			var added, known int
			var mu sync.Mutex
			var group sync.WaitGroup
			for range 20 {
				group.Go(func() {
					a, err := f.Add(t.Context(), alice, facts.Text("User likes tea"), nil)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err != nil || len(a.Results) != 1:
						t.Errorf("%+v, %v", a, err)
					case a.Results[0].Event == facts.Add:
						added++
					case a.Results[0].Event == facts.None:
						known++
					}
				})
			}
			group.Wait()
			if added != 1 || known != 19 {
				t.Errorf("%d were added and %d known, want 1 and 19", added, known)
			}
			wantAll(t, f, alice, "User likes tea")
		})
	}
}

// TestDecidedAnew: a fact that another add stores while a model decides is offered to it in
// a second decision, and a target that changed meanwhile is not overwritten.
func TestDecidedAnew(t *testing.T) {
	m := &model{}
	f := open(t, facts.Config{LLM: m})
	id := addOne(t, f, alice, "User lives in NYC")
	var once sync.Once
	m.hold = func(ctx context.Context, r llm.Request) (err error) {
		if !isDecision(r) {
			return nil
		}
		once.Do(func() { _, err = f.Update(ctx, alice, id, "User lives in Rome") })
		return err
	}
	m.decide = func(_ string, offered []string) string {
		if slices.Contains(offered, "User lives in Rome") {
			return operation("UPDATE", offered, "Rome", "User lives in Oslo, after Rome")
		}
		return operation("UPDATE", offered, "NYC", "User lives in Oslo, after NYC")
	}
	wantEvents(t, add(t, f, alice, "User lives in Oslo"), "UPDATE User lives in Oslo, after Rome")
	wantHistory(t, f, id, "ADD null → User lives in NYC", "UPDATE User lives in NYC → User lives in Rome",
		"UPDATE User lives in Rome → User lives in Oslo, after Rome")
}

// TestChangesForever: where the target changes in every round, the add ends, leaves the
// target as it is, and says so.
func TestChangesForever(t *testing.T) {
	m := &model{}
	f := open(t, facts.Config{LLM: m})
	id := addOne(t, f, alice, "User lives in city 0")
	n := 0
	m.hold = func(ctx context.Context, r llm.Request) (err error) {
		if isDecision(r) {
			n++
			_, err = f.Update(ctx, alice, id, fmt.Sprintf("User lives in city %d", n))
		}
		return err
	}
	m.decide = func(_ string, offered []string) string {
		return operation("UPDATE", offered, "city", "User lives in Oslo")
	}
	a := add(t, f, alice, "User lives in Oslo")
	wantEvents(t, a)
	if len(a.Degraded) != 1 || a.Degraded[0].Step != facts.StepCommit {
		t.Errorf("degraded %+v", a.Degraded)
	}
	wantAll(t, f, alice, fmt.Sprintf("User lives in city %d", n))
}

// TestOneTargetTwice: two facts of one add change one memory one after the other, also
// where they are decided at once.
func TestOneTargetTwice(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		m := &model{}
		f := open(t, facts.Config{LLM: m, Concurrency: concurrency})
		id := addOne(t, f, alice, "Trip: to Rome")
		m.extract = func(string) string { return jsonList("Trip in May", "Trip with Bob") }
		m.decide = func(fact string, offered []string) string {
			return operation("UPDATE", offered, "Trip: to Rome", offered[0]+", "+strings.TrimPrefix(fact, "Trip "))
		}
		wantEvents(t, add(t, f, alice, "…"), "UPDATE Trip: to Rome, in May", "UPDATE Trip: to Rome, in May, with Bob")
		wantHistory(t, f, id, "ADD null → Trip: to Rome", "UPDATE Trip: to Rome → Trip: to Rome, in May",
			"UPDATE Trip: to Rome, in May → Trip: to Rome, in May, with Bob")
	}
}

// TestChangesItsOwn: with a concurrency of 1 a fact is compared with what the ones before
// it will add.
func TestChangesItsOwn(t *testing.T) {
	m := &model{extract: func(string) string { return jsonList("User likes tea", "User likes green tea", "User likes no tea") }}
	m.decide = func(fact string, offered []string) string {
		switch fact {
		case "User likes green tea":
			return operation("UPDATE", offered, "likes tea", fact)
		case "User likes no tea":
			return operation("DELETE", offered, "green", "")
		}
		return `[{"event":"ADD"}]`
	}
	f := open(t, facts.Config{LLM: m, Concurrency: 1})
	a := add(t, f, alice, "…")
	wantEvents(t, a, "ADD User likes tea", "UPDATE User likes green tea", "DELETE User likes green tea")
	wantHistory(t, f, a.Results[0].ID, "ADD null → User likes tea", "UPDATE User likes tea → User likes green tea", "DELETE User likes green tea → null")
}

// TestSeesItsOwn: facts of one add that are alike see each other, whatever the concurrency: an
// equal one is there once and asks no model, and a correction changes what it corrects. Others
// are decided at once.
func TestSeesItsOwn(t *testing.T) {
	for _, embedder := range []embed.Embedder{nil, &concepts{of: map[string]string{"nyc": "place", "francisco": "place", "lives": "be", "moved": "be"}}} {
		m := &model{extract: func(string) string {
			return jsonList("User lives in NYC", "User lives in NYC", "User moved to San Francisco")
		}}
		m.decide = func(fact string, offered []string) string {
			if strings.Contains(fact, "moved") {
				return operation("UPDATE", offered, "NYC", "User lives in San Francisco")
			}
			return `[{"event":"ADD"}]`
		}
		f := open(t, facts.Config{LLM: m, Embedder: embedder, Concurrency: 8})
		a := add(t, f, alice, "…")
		wantEvents(t, a, "ADD User lives in NYC", "UPDATE User lives in San Francisco")
		wantAll(t, f, alice, "User lives in San Francisco")
		wantHistory(t, f, a.Results[0].ID, "ADD null → User lives in NYC", "UPDATE User lives in NYC → User lives in San Francisco")
		if n := m.calls(true); n != 2 || a.Results[1].ID != a.Results[0].ID { // the equal one asks nobody
			t.Errorf("%d decisions, results %+v", n, a.Results)
		}
		sound(t, f.DB)
	}
}

// TestUnlikeAtOnce: facts that have nothing in common are decided at the same time.
func TestUnlikeAtOnce(t *testing.T) {
	const n = 4
	var together sync.WaitGroup
	together.Add(n)
	m := &model{extract: func(string) string {
		return jsonList("Ada drinks tea", "Rex barks loudly", "Paris was rainy", "Chess takes hours")
	}}
	m.hold = func(_ context.Context, r llm.Request) error {
		if isDecision(r) {
			together.Done()
			together.Wait() // for ever, where one waits for another
		}
		return nil
	}
	f := open(t, facts.Config{LLM: m, Concurrency: n})
	if a := add(t, f, alice, "…"); len(a.Results) != n {
		t.Errorf("%+v", a)
	}
}

// TestUpdateToTheSame: an update to a text that another fact has leaves that one alone.
func TestUpdateToTheSame(t *testing.T) {
	m := &model{}
	f := open(t, facts.Config{LLM: m})
	addOne(t, f, alice, "User lives in Rome")
	addOne(t, f, alice, "User lives in Oslo")
	m.decide = func(_ string, offered []string) string {
		return operation("UPDATE", offered, "Rome", "User lives in Oslo")
	}
	wantEvents(t, add(t, f, alice, "User lives in Oslo now, not in Rome"), "DELETE User lives in Rome")
	wantAll(t, f, alice, "User lives in Oslo")
}

// TestParaphrases: a hundred ways to say one thing stay one fact, as far as the model
// knows that they are one.
func TestParaphrases(t *testing.T) {
	m := &model{decide: func(_ string, offered []string) string {
		for _, o := range offered {
			if strings.Contains(o, "tea") {
				return `[{"event":"NONE"}]`
			}
		}
		return `[{"event":"ADD"}]`
	}}
	f := open(t, facts.Config{LLM: m})
	for i := range 100 {
		add(t, f, alice, fmt.Sprintf("%d: the user is fond of tea", i))
	}
	wantAll(t, f, alice, "0: the user is fond of tea")

	// In one conversation, too: what is alike is not decided at once.
	m.extract = func(string) string {
		list := make([]string, 100)
		for i := range list {
			list[i] = fmt.Sprintf("%d: the user is fond of tea", i)
		}
		return jsonList(list...)
	}
	add(t, f, bob, "…")
	all, err := f.GetAll(t.Context(), bob, nil)
	if err != nil || len(all.Results) != 1 {
		t.Errorf("%d facts, %v", len(all.Results), err)
	}
}

// TestCancel: an add whose context ends while the model is asked changes nothing.
func TestCancel(t *testing.T) {
	for _, at := range []string{"extraction", "the second decision", "entities"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			m := googler()
			f := open(t, facts.Config{LLM: m, Graph: true, Concurrency: 1})
			var decisions atomic.Int32 // the graph is asked for beside the decisions
			m.hold = func(ctx context.Context, r llm.Request) error {
				if isDecision(r) {
					decisions.Add(1)
				}
				graphCall := len(r.Tools) > 0
				if at == "entities" && graphCall || at == "extraction" && !isDecision(r) && !graphCall || at == "the second decision" && decisions.Load() == 2 {
					cancel()
					<-ctx.Done()
				}
				return nil
			}
			_, err := f.Add(ctx, alice, facts.Text("Alice at Google"), nil)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%v", err)
			}
			wantAll(t, f, alice)
			if s, err := f.DB.Graph().Stats(t.Context(), alice.Owner()); err != nil || s.Entities != 0 {
				t.Errorf("graph %+v, %v", s, err)
			}
			sound(t, f.DB)
		})
	}
}

// TestOneCommit: an add of several facts and a graph is one commit.
func TestOneCommit(t *testing.T) {
	f := open(t, facts.Config{LLM: googler(), Graph: true})
	before := f.DB.LSN()
	add(t, f, alice, "Alice at Google")
	if n := f.DB.LSN() - before; n != 1 {
		t.Errorf("it took %d commits", n)
	}
	sound(t, f.DB)
}

// badVectors is an embedder that returns what it is told to.
type badVectors struct{ of func(n int) [][]float32 }

func (badVectors) Dim() int      { return 2 }
func (badVectors) Model() string { return "bad" }

// TestFactsAlone: what is no fact is neither seen nor changed, also when it is gone.
func TestFactsAlone(t *testing.T) {
	ctx, db := t.Context(), memoryDB(t, nil)
	f := open(t, facts.Config{DB: db})
	s, err := db.Memories().Store(ctx, memory.Memory{Scope: alice, Text: "a message about tea"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := putEntity(ctx, db, "fact-own"); err != nil {
		t.Fatal(err)
	}
	addOne(t, f, alice, "User likes tea")
	if item, err := f.Get(ctx, alice, s.ID); item != nil || err != nil {
		t.Errorf("get %+v, %v", item, err)
	}
	if _, err := f.Update(ctx, alice, s.ID, "x"); facts.ClassOf(err) != facts.NotFoundError {
		t.Errorf("update %v", err)
	}
	if err := f.Delete(ctx, alice, s.ID); facts.ClassOf(err) != facts.NotFoundError {
		t.Errorf("delete %v", err)
	}
	if found := search(t, f, alice, "tea", nil); len(found) != 1 {
		t.Errorf("search %+v", found)
	}
	if n, err := f.DeleteAll(ctx, alice); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if _, err := db.Graph().Get(ctx, alice.Owner(), "fact-own", 0); err != nil {
		t.Errorf("delete_all took an entity of others: %v", err)
	}
	if err := db.Memories().Delete(ctx, alice, s.ID); err != nil {
		t.Fatal(err)
	}
	if h, err := f.History(ctx, alice, s.ID); len(h) != 0 || err != nil {
		t.Errorf("history of a message that is gone: %+v, %v", h, err)
	}
}

func putEntity(ctx context.Context, db *engine.DB, id string) error {
	_, err := db.Graph().Put(ctx, alice.Owner(), graph.Entity{Owner: alice.Owner(), ID: id, Name: "Own"}, nil, nil)
	return err
}

// TestOnDisk: facts, their history and their metadata are there after a reopening, with the
// default importance.
func TestOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := engine.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, facts.Config{DB: db})
	id := addWith(t, f, alice, facts.Text("User likes tea"), &facts.AddOptions{Metadata: map[string]any{"tag": "x"}}).Results[0].ID
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = engine.Open(dir, &engine.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f = open(t, facts.Config{DB: db, Embedder: &concepts{}}) // which a reader need not have
	m, err := db.Memories().Get(t.Context(), alice, id)
	if err != nil || *m.Importance != 0.5 || m.Metadata["tag"] != "x" || m.Kind != memory.KindFact {
		t.Errorf("%+v, %v", m, err)
	}
	wantHistory(t, f, id, "ADD null → User likes tea")
	if _, err := f.Add(t.Context(), alice, facts.Text("User likes coffee"), nil); facts.ClassOf(err) != facts.VectorStoreError {
		t.Errorf("an add to a database that is read only: %v", err)
	}
}

// TestTenThousand: among 10,000 facts an add is decided on five, and a search finds one.
func TestTenThousand(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 2_000
	}
	db := memoryDB(t, nil)
	f := open(t, facts.Config{DB: db})
	for i := 0; i < n; i += 1_000 {
		m := make(facts.Messages, 1_000)
		for j := range m {
			m[j] = facts.Message{Role: llm.User, Content: fmt.Sprintf("customer%d ordered item%d in city%d", i+j, (i+j)%997, (i+j)%31)}
		}
		if a := addWith(t, f, alice, m, nil); len(a.Results) != len(m) {
			t.Fatalf("%d results", len(a.Results))
		}
	}
	if found := search(t, f, alice, "what did customer1234 order?", &facts.SearchOptions{Limit: 1}); len(found) != 1 || !strings.HasPrefix(found[0].Memory, "customer1234 ") {
		t.Fatalf("found %+v", found)
	}
	m := &model{decide: func(_ string, offered []string) string {
		return operation("UPDATE", offered, "customer77 ", "customer77 ordered nothing")
	}}
	learned := open(t, facts.Config{DB: db, LLM: m})
	began := time.Now()
	const adds = 20
	for i := range adds {
		add(t, learned, alice, fmt.Sprintf("customer77 cancelled the order, for the %d. time", i))
	}
	t.Logf("%d facts: an add takes %v beyond the model", n, time.Since(began)/adds)
	if got, err := learned.DeleteAll(t.Context(), alice); got != n || err != nil {
		t.Fatalf("deleted %d, %v", got, err)
	}
	wantAll(t, f, alice)
	sound(t, db)
}

// TestTargetGone: where the target of a decision is deleted meanwhile, it is decided again
// without it.
func TestTargetGone(t *testing.T) {
	m := &model{}
	f := open(t, facts.Config{LLM: m})
	id := addOne(t, f, alice, "User lives in Rome")
	var once sync.Once
	m.hold = func(ctx context.Context, r llm.Request) (err error) {
		if isDecision(r) {
			once.Do(func() { err = f.Delete(ctx, alice, id) })
		}
		return err
	}
	m.decide = func(fact string, offered []string) string {
		if len(offered) == 0 {
			return `[{"event":"ADD"}]`
		}
		return operation("UPDATE", offered, "Rome", fact)
	}
	a := add(t, f, alice, "User lives in Oslo")
	wantEvents(t, a, "ADD User lives in Oslo")
	if a.Results[0].ID == id || len(a.Degraded) > 0 {
		t.Errorf("%+v", a)
	}
}

// cut is a model whose replies end at the limit of tokens.
type cut struct{}

func (cut) Model() string { return "cut" }
func (cut) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Text: `["User likes t`, Truncated: true}, nil
}
