package facts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// TestGraphGoes: entities go with the last fact that speaks of them, and a fact that no
// longer does so loses them.
func TestGraphGoes(t *testing.T) {
	ctx := t.Context()
	names := func(f *facts.Facts) (list []string) {
		page, err := f.DB.Graph().List(ctx, graph.ListQuery{Owner: alice.Owner()})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entities {
			list = append(list, e.Name)
		}
		slices.Sort(list)
		return list
	}
	f := open(t, facts.Config{LLM: googler(), Graph: true})
	a := add(t, f, alice, "Alice at Google")
	if _, err := f.Update(ctx, alice, a.Results[0].ID, "Someone is an engineer at Google"); err != nil {
		t.Fatal(err)
	}
	if got := names(f); !slices.Equal(got, []string{"Google"}) {
		t.Errorf("after the update: %q", got)
	}
	for i, r := range a.Results {
		if err := f.Delete(ctx, alice, r.ID); err != nil {
			t.Fatal(err)
		}
		if got := names(f); len(got) != 1-i {
			t.Errorf("after %d deletes: %q", i+1, got)
		}
	}
	add(t, f, alice, "Alice at Google")
	add(t, f, scope.Scope{User: "alice", Run: "r"}, "Alice at Google")
	if got := names(f); len(got) != 4 {
		t.Errorf("two runs: %q", got)
	}
	if _, err := f.DeleteAll(ctx, scope.Scope{User: "alice", Run: "r"}); err != nil {
		t.Fatal(err)
	}
	if got := names(f); len(got) != 2 {
		t.Errorf("after a delete of the run: %q", got)
	}
	if _, err := f.DeleteAll(ctx, alice); err != nil {
		t.Fatal(err)
	}
	if got := names(f); len(got) != 0 {
		t.Errorf("after a delete of all: %q", got)
	}
	sound(t, f.DB)
}

// TestBadTools: what a model makes of the tools costs the facts nothing.
func TestBadTools(t *testing.T) {
	for _, c := range []struct{ entities, relations string }{
		{"", ""},
		{`{"entities":[{"name":"Alice","ty`, ""},
		{`{"entities":"Alice"}`, ""},
		{`{"entities":[{"name":"Alice","type":"person"}]}`, `{"relations":[{"source":"Alice","relation":"knows","target":"Nobody"}]}`},
		{`{"entities":[{"name":"Alice","type":"person"},{"name":"","type":"person"},{"name":"Blob","type":"thing"}]}`, `{}`},
		{`{"entities":[{"name":"Alice","type":"person"}]}`, `not a call`},
		{`{"entities":[{"name":"` + strings.Repeat("x", 5000) + `","type":"person"}]}`, `{}`},
		{`{"entities":[{"name":"Alice","type":"person"}]}`, `{"relations":[{"source":"Alice","relation":"inverse:","target":"alice"}]}`},
	} {
		m := googler()
		m.entities, m.relations = c.entities, c.relations
		f := open(t, facts.Config{LLM: m, Graph: true})
		a := add(t, f, alice, "Alice at Google")
		if len(a.Results) != 2 || len(a.Degraded) == 0 || a.Degraded[0].Step != facts.StepGraph {
			t.Errorf("%.60q %.60q: %+v", c.entities, c.relations, a)
		}
		sound(t, f.DB)
	}
}

// TestNoGraph: where there can be no graph, the facts are stored and the answer says why.
func TestNoGraph(t *testing.T) {
	for name, c := range map[string]struct {
		llm   llm.Client
		scope scope.Scope
		want  string
	}{
		"no model":       {nil, alice, "without a language model"},
		"a run's alone":  {googler(), scope.Scope{Run: "r"}, "without a user and an agent"},
		"raw, by a wish": {googler(), alice, ""},
	} {
		f := open(t, facts.Config{LLM: c.llm, Graph: true})
		a := addWith(t, f, c.scope, facts.Text("Alice is at Google"), &facts.AddOptions{Raw: c.want == ""})
		last := ""
		if n := len(a.Degraded); n > 0 {
			last = a.Degraded[n-1].Why
		}
		if len(a.Results) == 0 || !strings.Contains(last, c.want) || c.want == "" && last != "" {
			t.Errorf("%s: %+v", name, a)
		}
		if found := search(t, f, c.scope, "Alice", nil); len(found) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
}

// TestGraphSearch: what the graph adds obeys the filter and the scope, is ranked by its words,
// and never pushes a score below what it was.
func TestGraphSearch(t *testing.T) {
	m := googler()
	f := open(t, facts.Config{LLM: m, Graph: true})
	helper := scope.Scope{User: "alice", Agent: "helper"}
	addWith(t, f, helper, facts.Text("Alice at Google"), &facts.AddOptions{Metadata: map[string]any{"tag": "work"}})
	add(t, f, bob, "Alice at Google")
	plain := open(t, facts.Config{DB: f.DB})
	const engineer, office = "Alice is an engineer at Google", "Google has an office in Zurich"
	before := search(t, plain, alice, "Alice", nil)
	got := search(t, f, alice, "Alice", nil) // of any agent
	if !slices.Equal(texts(got), []string{engineer, office}) || *got[0].Score <= *before[0].Score || *got[0].Score > 1 {
		t.Errorf("found %q", texts(got))
	}
	for want, filters := range map[string]filter.Filter{office: filter.Contains("text", "office"), "": filter.Eq("tag", "home")} {
		found := strings.Join(texts(search(t, f, helper, "Alice", &facts.SearchOptions{Filter: filters})), "|")
		if found != want {
			t.Errorf("with a filter %q, want %q", found, want)
		}
	}
	if got := search(t, f, helper, "Alice", &facts.SearchOptions{Limit: 1}); len(got) != 1 || got[0].Memory != engineer {
		t.Errorf("the best: %q", texts(got))
	}
	exact := open(t, facts.Config{DB: f.DB, LLM: m, Graph: true, ExactReads: true})
	if got := search(t, exact, alice, "Alice", nil); len(got) > 0 {
		t.Errorf("with ExactReads: %q", texts(got))
	}
}
