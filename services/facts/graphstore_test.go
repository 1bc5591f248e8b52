package facts_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/graphs/graphtest"
	"github.com/seed-7aedc3ff/memdb/services/graphs/neo4j"
)

// standIn is a Neo4j that can be down, and a store of it.
type standIn struct {
	*graphtest.Server
	store *neo4j.Store
	down  atomic.Bool
}

func neo(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{Server: graphtest.NewServer(t, "Basic "+base64.StdEncoding.EncodeToString([]byte("neo4j:secret")), neo4j.Statements())}
	s.Fail = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		if s.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return s.down.Load()
	}
	var err error
	s.store, err = neo4j.New(neo4j.Config{URL: s.URL, Password: "secret", Retry: retry.Policy{Times: -1}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *standIn) want(t *testing.T, names ...string) {
	t.Helper()
	if got := s.Entities(); !slices.Equal(got, names) {
		t.Errorf("entities in Neo4j: %q, want %q", got, names)
	}
}

// TestNeo4jGraph: with the graph in Neo4j a memory of facts behaves as with its own, from the
// extraction to the search, and its own graph stays empty.
func TestNeo4jGraph(t *testing.T) {
	s, ctx := neo(t), t.Context()
	f := open(t, facts.Config{LLM: googler(), Graph: true, GraphStore: s.store})
	relations := []facts.Relation{{Source: "Alice", Relation: "works_at", Target: "Google"}}
	var a facts.Added
	for range 2 {
		if a = add(t, f, alice, "Alice at Google"); !slices.Equal(a.Relations, relations) || len(a.Degraded) > 0 {
			t.Fatalf("%+v", a)
		}
	}
	s.want(t, "Alice", "Google")
	found, err := f.Search(ctx, alice, "Alice", nil)
	if err != nil || len(found.Degraded) > 0 || !slices.Equal(found.Relations, relations) || !slices.Contains(texts(found.Results), "Google has an office in Zurich") {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := f.Search(ctx, bob, "Alice", nil); err != nil || len(found.Results)+len(found.Relations) > 0 {
		t.Errorf("of another scope: %+v, %v", found, err)
	}
	if page, err := f.DB.Graph().List(ctx, graph.ListQuery{Owner: alice.Owner()}); err != nil || len(page.Entities) > 0 {
		t.Errorf("the own graph has %+v, %v", page, err)
	}
	if _, err := f.Update(ctx, alice, a.Results[0].ID, "Someone is an engineer at Google"); err != nil {
		t.Fatal(err)
	}
	s.want(t, "Google")
	for _, r := range a.Results {
		if err := f.Delete(ctx, alice, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.want(t)
	add(t, f, bob, "Alice at Google")
	add(t, f, alice, "Alice at Google")
	if n, err := f.DeleteAll(ctx, alice); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	s.want(t, "Alice", "Google")
	if n, err := f.Reset(ctx); err != nil || n != 2 || s.Facts() > 0 {
		t.Errorf("%d, %v", n, err)
	}
	s.want(t)
	sound(t, f.DB)
}

// TestNeo4jDown: facts are stored while Neo4j is down, the answer says so, and the graph follows
// with the next change, also after a restart; what was deleted meanwhile goes then.
func TestNeo4jDown(t *testing.T) {
	s, ctx, dir := neo(t), t.Context(), filepath.Join(t.TempDir(), "db")
	db, err := engine.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, facts.Config{DB: db, LLM: googler(), Graph: true, GraphStore: s.store})
	s.down.Store(true)
	a := add(t, f, alice, "Alice at Google")
	if len(a.Results) != 2 || len(a.Relations) > 0 || len(a.Degraded) != 1 || a.Degraded[0].Step != facts.StepGraph || !strings.Contains(a.Degraded[0].Why, "the graph follows") || !errors.Is(a.Degraded[0].Err, graphs.ErrGraph) {
		t.Fatalf("%+v", a)
	}
	found, err := f.Search(ctx, alice, "Alice", nil)
	if err != nil || len(found.Results) != 1 || len(found.Degraded) != 1 || found.Degraded[0].Step != facts.StepGraph {
		t.Errorf("%+v, %v", found, err)
	}
	add(t, f, bob, "Alice at Google")
	if n, err := f.DeleteAll(ctx, bob); n != 2 || !errors.Is(err, graphs.ErrGraph) || !strings.Contains(err.Error(), "the facts are as they are to be") {
		t.Errorf("%d, %v", n, err)
	}
	wantAll(t, f, bob)
	if _, err := f.Update(ctx, alice, a.Results[0].ID, "Alice was an engineer"); err != nil {
		t.Error(err)
	}
	s.want(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	if db, err = engine.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s.down.Store(false)
	f = open(t, facts.Config{DB: db, LLM: googler(), Graph: true, GraphStore: s.store})
	m := googler()
	m.extract = func(string) string { return jsonList("Tea is hot") }
	m.entities, m.relations = `{"entities":[{"name":"Tea","type":"product"}]}`, `{}`
	f.LLM = m
	add(t, f, alice, "Tea")
	s.want(t, "Alice", "Google", "Tea") // of alice alone
	if found, err := f.Search(ctx, alice, "Google", nil); err != nil || len(found.Relations) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if s.Facts() != 3 {
		t.Errorf("%d facts in Neo4j", s.Facts())
	}
	sound(t, db)
}

// refusing is a store that refuses what is about a name.
type refusing struct {
	graphs.Store
	name string
}

func (r refusing) Apply(ctx context.Context, c graphs.Change) (graphs.Applied, error) {
	for _, e := range c.Entities {
		if e.Name == r.name {
			return graphs.Applied{}, &memory.Error{Kind: graphs.ErrRefused, What: "put " + e.Name, Do: "leave it"}
		}
	}
	return r.Store.Apply(ctx, c)
}

// TestRefusedErrand: what the store will never take is reported, and holds up nothing.
func TestRefusedErrand(t *testing.T) {
	s, m := neo(t), googler()
	f := open(t, facts.Config{LLM: m, Graph: true, GraphStore: refusing{s.store, "Google"}})
	if a := add(t, f, alice, "Alice at Google"); len(a.Results) != 2 || len(a.Degraded) != 1 || !errors.Is(a.Degraded[0].Err, graphs.ErrRefused) {
		t.Errorf("%+v", a)
	}
	m.entities, m.relations = `{"entities":[{"name":"Alice","type":"person"}]}`, `{}`
	if a := add(t, f, alice, "Alice at Google"); len(a.Degraded) > 0 {
		t.Errorf("%+v", a)
	}
	s.want(t, "Alice")
}

// TestGraphStorePanics: a store that panics costs the facts nothing.
func TestGraphStorePanics(t *testing.T) {
	f := open(t, facts.Config{LLM: googler(), Graph: true, GraphStore: refusing{nil, ""}}) // which calls a nil store
	if a := add(t, f, alice, "Alice at Google"); len(a.Results) != 2 || len(a.Degraded) != 1 {
		t.Errorf("%+v", a)
	}
	if found, err := f.Search(t.Context(), alice, "Alice", nil); err != nil || len(found.Results) != 1 || len(found.Degraded) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestNeo4jTogether: adds of many at once each learn of their own relations.
func TestNeo4jTogether(t *testing.T) {
	s := neo(t)
	f := open(t, facts.Config{LLM: googler(), Graph: true, GraphStore: s.store})
	var group sync.WaitGroup
	for _, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		group.Go(func() {
			a, err := f.Add(t.Context(), scope.Scope{User: user}, facts.Text("Alice at Google"), nil)
			if err != nil || len(a.Relations) != 1 || len(a.Degraded) > 0 {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	group.Wait()
	if n := len(s.Entities()); n != 16 {
		t.Errorf("%d entities", n)
	}
}
