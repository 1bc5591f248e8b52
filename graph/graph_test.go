package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// graphTime is what the clock of a graphWorld shows.
var graphTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// graphWorld is a graph of one owner.
type graphWorld struct {
	t  *testing.T
	db *engine.DB
	g  graph.Graph
	o  memory.Owner
}

func newGraphWorld(t *testing.T) *graphWorld {
	t.Helper()
	db := testdb.New(t, engine.Options{Clock: func() time.Time { return graphTime }})
	return &graphWorld{t, db, db.Graph(), memory.Owner{Agent: "a"}}
}

func (w *graphWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// put adds an entity; relations are "type>target".
func (w *graphWorld) put(id, typ string, relations ...string) graph.Stored {
	w.t.Helper()
	var edges []graph.Edge
	for _, r := range relations {
		typ, target, _ := strings.Cut(r, ">")
		edges = append(edges, graph.Edge{Type: typ, Target: target})
	}
	s, err := w.g.Put(w.t.Context(), w.o, graph.Entity{ID: id, Type: typ, Name: strings.ToUpper(id)}, edges, nil)
	w.must(err)
	return s
}

func (w *graphWorld) relate(from, typ, to string) graph.Stored {
	w.t.Helper()
	s, err := w.g.Relate(w.t.Context(), w.o, graph.Relation{From: from, Type: typ, To: to}, nil)
	w.must(err)
	return s
}

func (w *graphWorld) query(id string, depth int) string {
	w.t.Helper()
	r, err := w.g.Query(w.t.Context(), w.o, id, depth, graph.State{})
	w.must(err)
	return found(r)
}

func (w *graphWorld) find(id, relation string, hops int) string {
	w.t.Helper()
	r, err := w.g.Find(w.t.Context(), w.o, id, graph.FindOptions{Relation: relation, Hops: hops})
	w.must(err)
	return found(r)
}

func found(r graph.Walk) string {
	var ids []string
	for _, f := range r.Found {
		ids = append(ids, fmt.Sprintf("%s:%d", f.ID, f.Depth))
	}
	return strings.Join(ids, " ")
}

// neighbours are the relations of an entity, as it has them.
func (w *graphWorld) neighbours(id string) string {
	w.t.Helper()
	page, err := w.g.Neighbours(w.t.Context(), w.o, id, graph.NeighbourQuery{})
	w.must(err)
	var all []string
	for _, n := range page.Neighbours {
		all = append(all, n.Type+">"+n.Target)
	}
	return strings.Join(all, " ")
}

func (w *graphWorld) match(p graph.Pattern) string {
	w.t.Helper()
	m, err := w.g.Match(w.t.Context(), w.o, p)
	w.must(err)
	var all []string
	for _, way := range m.Matches {
		var s strings.Builder
		s.WriteString(way[0].From)
		for _, h := range way {
			s.WriteString("-" + h.Type + ">" + h.To)
		}
		all = append(all, s.String())
	}
	return strings.Join(all, " ")
}

func (w *graphWorld) figures() string {
	w.t.Helper()
	s, err := w.db.Stats(w.t.Context())
	w.must(err)
	return fmt.Sprint(s.Parts["entities"], s.Parts["relations"], s.Parts["links"])
}

// clean does the work that the database does now and then.
func (w *graphWorld) clean() {
	w.t.Helper()
	w.must(graph.Work(w.t.Context(), w.g))
}

func expectGraph(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// If A → B with type "works_on", B → A is there with type "inverse:works_on".
func TestGraphInverseRelations(t *testing.T) {
	w := newGraphWorld(t)
	w.put("alice", "person", "works_on>memdb")
	expectGraph(t, "a forward reference is no neighbour", w.neighbours("alice"), "")
	w.put("memdb", "project")
	expectGraph(t, "alice", w.neighbours("alice"), "works_on>memdb")
	expectGraph(t, "memdb", w.neighbours("memdb"), "inverse:works_on>alice")
	expectGraph(t, "back", w.find("memdb", "inverse:works_on", 1), "alice:1")
	expectGraph(t, "an inverse that nobody named", w.find("memdb", "", 1), "")
}

// Duplicate inverse relations are prevented, and the graph stays consistent across updates.
func TestGraphInverseOnce(t *testing.T) {
	w := newGraphWorld(t)
	w.put("alice", "person", "works_on>memdb")
	w.put("memdb", "project", "inverse:works_on>alice")
	first := w.relate("memdb", "inverse:works_on", "alice")
	again := w.relate("alice", "works_on", "memdb")
	if first.ID != again.ID || first.Created || again.Created || again.Updated {
		t.Errorf("%+v, then %+v", first, again)
	}
	w.put("alice", "person")
	expectGraph(t, "memdb", w.neighbours("memdb"), "inverse:works_on>alice")
	expectGraph(t, "figures", w.figures(), "2 1 0")
	testdb.Check(t, w.db, 0)
}

// Breadth-first search from the starting entity, in the order of discovery, stops at the
// depth, and visited nodes prevent cycles.
func TestGraphQuery(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "", "x>b", "x>c")
	w.put("b", "", "x>d")
	w.put("c", "", "x>a", "y>c")
	w.put("d", "", "x>e")
	w.put("e", "", "x>f")
	w.put("f", "")
	expectGraph(t, "depth 2", w.query("a", graph.DefaultDepth), "a:0 b:1 c:1 d:2")
	expectGraph(t, "depth 0", w.query("a", 0), "a:0")
	expectGraph(t, "far", w.query("a", 1_000_000), "a:0 b:1 c:1 d:2 e:3 f:4")
	expectGraph(t, "both directions", w.query("f", 2), "f:0 e:1 d:2")
	expectGraph(t, "unknown", w.query("nobody", 2), "")
	if _, err := w.g.Query(t.Context(), w.o, "a", -1, graph.State{}); !errors.Is(err, memory.ErrInvalid) {
		t.Error("depth -1:", err)
	}
	for _, o := range []memory.Owner{{User: "a"}, {User: "u", Agent: "a"}} {
		if r, err := w.g.Query(t.Context(), o, "a", 5, graph.State{}); err != nil || len(r.Found) > 0 {
			t.Errorf("another owner sees %v, %v", r.Found, err)
		}
	}
}

// find_related goes along outgoing relations of a type, up to a number of hops, and leaves
// the start out.
func TestGraphFindRelated(t *testing.T) {
	w := newGraphWorld(t)
	w.put("p", "Person", "works_for>c", "knows>q")
	w.put("c", "Company", "owns>d")
	w.put("d", "Company", "works_for>p")
	w.put("q", "Person", "works_for>d")
	expectGraph(t, "works_for", w.find("p", "works_for", 1), "c:1")
	expectGraph(t, "any", w.find("p", "", 1), "c:1 q:1")
	expectGraph(t, "two hops", w.find("p", "", 2), "c:1 q:1 d:2")
	expectGraph(t, "around", w.find("p", "", 9), "c:1 q:1 d:2")
	expectGraph(t, "unknown type", w.find("p", "likes", 2), "")
}

// match_pattern returns all (Person) -[works_for]-> (OpenAI) matches.
func TestGraphMatchPattern(t *testing.T) {
	w := newGraphWorld(t)
	w.put("openai", "Company")
	w.put("acme", "Company")
	w.put("sam", "Person", "works_for>openai")
	w.put("ann", "Person", "works_for>acme", "works_for>openai", "knows>sam")
	w.put("bot", "Product", "works_for>openai")
	w.put("x", "Person", "works_for>nowhere")
	pattern := graph.Pattern{From: graph.NodePattern{Type: "Person"}, Relation: "works_for", To: graph.NodePattern{Type: "Company", Name: "OpenAI"}}
	expectGraph(t, "the pattern", w.match(pattern), "sam-works_for>openai ann-works_for>openai")
	expectGraph(t, "from a name", w.match(graph.Pattern{From: graph.NodePattern{Name: "ann"}}),
		"ann-works_for>openai ann-works_for>acme ann-knows>sam")
	expectGraph(t, "inverse", w.match(graph.Pattern{From: graph.NodePattern{Name: "acme"}, Relation: "inverse:works_for"}), "acme-inverse:works_for>ann")
	expectGraph(t, "two hops", w.match(graph.Pattern{From: graph.NodePattern{Name: "ann"}, To: graph.NodePattern{Name: "openai"}, Hops: 2}),
		"ann-works_for>openai ann-knows>sam-works_for>openai")
	if _, err := w.g.Match(t.Context(), w.o, graph.Pattern{Hops: 4}); !errors.Is(err, memory.ErrInvalid) {
		t.Error("four hops:", err)
	}
	pattern.Limit = 1
	if m, err := w.g.Match(t.Context(), w.o, pattern); err != nil || len(m.Matches) != 1 || m.Plan.Limit != "results" {
		t.Errorf("limited: %+v, %v", m, err)
	}
}

// Properties are merged, null removes one; aliases are added; omitted relations stay.
func TestGraphUpsert(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	put := func(e graph.Entity) graph.Stored {
		t.Helper()
		s, err := w.g.Put(ctx, w.o, e, nil, nil)
		w.must(err)
		return s
	}
	w.put("a", "person", "knows>b")
	put(graph.Entity{ID: "a", Properties: json.RawMessage(`{"x":1,"y":{"z":2}}`), Aliases: []string{"Al"}})
	s := put(graph.Entity{ID: "a", Properties: json.RawMessage(`{"x":null, "w":[1, 2]}`), Aliases: []string{"Al", "Ally"}})
	if s.Created || !s.Updated {
		t.Errorf("%+v", s)
	}
	e, err := w.g.Get(ctx, w.o, "a", 0)
	w.must(err)
	if string(e.Properties) != `{"w":[1,2],"y":{"z":2}}` || e.Type != "person" || e.Name != "A" || !slices.Equal(e.Aliases, []string{"Al", "Ally"}) {
		t.Errorf("%+v, properties %s", e, e.Properties)
	}
	before := w.db.LSN()
	if s := put(graph.Entity{ID: "a", Aliases: []string{"Ally"}}); s.Created || s.Updated || w.db.LSN() != before {
		t.Errorf("nothing new: %+v, LSN %d after %d", s, w.db.LSN(), before)
	}
	if s := put(graph.Entity{Name: "no ID"}); len(s.ID) != 36 || !s.Created {
		t.Errorf("without an ID: %+v", s)
	}
	w.put("b", "person")
	expectGraph(t, "relations stay", w.neighbours("a"), "knows>b")
	if _, err := w.g.Get(ctx, w.o, "none", 0); !errors.Is(err, memory.ErrNotFound) {
		t.Error("get none:", err)
	}
	testdb.Check(t, w.db, 0)
}

func TestGraphStrict(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "person", "knows>later")
	strict := &graph.Options{Strict: true}
	_, err := w.g.Relate(t.Context(), w.o, graph.Relation{From: "a", Type: "knows", To: "nobody"}, strict)
	_, err2 := w.g.Relate(t.Context(), w.o, graph.Relation{From: "a", Type: "likes", To: "later"}, strict)
	if !errors.Is(err, memory.ErrNotFound) || !errors.Is(err2, memory.ErrNotFound) {
		t.Error(err, err2)
	}
	expectGraph(t, "figures", w.figures(), "1 1 0")
	w.put("later", "")
	_, err = w.g.Relate(t.Context(), w.o, graph.Relation{From: "a", Type: "likes", To: "later"}, strict)
	w.must(err)
}

// Deletes cascade: in one small commit at once, and in the background bit by bit.
func TestGraphDelete(t *testing.T) {
	w := newGraphWorld(t)
	n := race.Times(12_000)
	b := graph.Batch{Entities: []graph.Entity{{ID: "hub"}}}
	for i := range n {
		b.Relations = append(b.Relations, graph.Relation{From: "hub", Type: "has", To: fmt.Sprint("spoke", i)})
	}
	b.Relations = append(b.Relations, graph.Relation{From: "hub", Type: "has", To: "hub"}, graph.Relation{ID: "own", From: "spoke1", Type: "of", To: "hub"})
	_, err := w.g.Write(t.Context(), w.o, b, &graph.Options{Create: true})
	w.must(err)
	w.relate("spoke1", "next", "spoke2")
	d, err := w.g.Delete(t.Context(), w.o, "hub")
	w.must(err)
	if d != (graph.Deleted{Entities: 1, Relations: n + 2}) {
		t.Errorf("%+v", d)
	}
	look := func(when string) {
		t.Helper()
		expectGraph(t, when, w.query("spoke1", 5), "spoke1:0 spoke2:1")
		expectGraph(t, when, w.figures(), fmt.Sprint(n, 1, 0))
		testdb.Check(t, w.db, 0)
	}
	look("at once")
	w.clean()
	look("cleaned up")
	w.put("hub", "again")
	expectGraph(t, "a new entity of that ID", w.neighbours("hub"), "")
	if _, err := w.g.Delete(t.Context(), w.o, "none"); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
}

// AsOf is what was recorded, ValidAt what was true.
func TestGraphTimes(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	day := func(d int) time.Time { return time.Date(2025, 1, d, 0, 0, 0, 0, time.UTC) }
	w.put("a", "old", "x>b")
	w.put("b", "")
	first := w.db.LSN()
	w.put("a", "new", "y>b")
	_, err := w.g.Relate(ctx, w.o, graph.Relation{From: "a", Type: "x", To: "b", ValidFrom: day(2), ValidTo: day(4)}, nil)
	w.must(err)
	second := w.db.LSN()
	w.must(w.g.End(ctx, w.o, "a", "x", "b", ""))
	w.put("c", "", "z>a")
	for _, c := range []struct {
		lsn  uint64
		at   time.Time
		want string
		typ  string
	}{
		{first, time.Time{}, "a:0 b:1", "old"},
		{second, time.Time{}, "a:0 b:1", "new"},
		{0, time.Time{}, "a:0 b:1 c:1", "new"},
		{second, day(3), "a:0 b:1", "new"},
	} {
		r, err := w.g.Query(ctx, w.o, "a", 2, graph.State{AsOf: c.lsn, ValidAt: c.at})
		w.must(err)
		e, err := w.g.Get(ctx, w.o, "a", c.lsn)
		w.must(err)
		if found(r) != c.want || e.Type != c.typ {
			t.Errorf("as of %d at %v: %s of type %s, want %s of %s", c.lsn, c.at, found(r), e.Type, c.want, c.typ)
		}
	}
	related := func(at time.Time) string {
		r, err := w.g.Find(ctx, w.o, "a", graph.FindOptions{Relation: "x", State: graph.State{AsOf: second, ValidAt: at}})
		w.must(err)
		return found(r)
	}
	expectGraph(t, "before it was so, while, and after", related(day(1))+"|"+related(day(2))+"|"+related(day(4)), "|b:1|")
	expectGraph(t, "ended", w.find("a", "x", 1), "")
	if _, err := w.g.Get(ctx, w.o, "a", w.db.LSN()+1); !errors.Is(err, memory.ErrNotRetained) {
		t.Error("the future:", err)
	}
	testdb.Check(t, w.db, 0)
}

// Several relations may have one triple, each with an ID of its own.
func TestGraphParallel(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "")
	w.put("b", "")
	for _, id := range []string{"", "one", "two", "one"} {
		_, err := w.g.Relate(t.Context(), w.o, graph.Relation{ID: id, From: "a", Type: "x", To: "b", Properties: json.RawMessage(`{"id":"` + id + `"}`)}, nil)
		w.must(err)
	}
	all, err := w.g.Relations(t.Context(), w.o, "b", "inverse:x", "a", graph.State{})
	w.must(err)
	if len(all) != 3 || all[1].ID != "one" || string(all[2].Properties) != `{"id":"two"}` {
		t.Errorf("%+v", all)
	}
	expectGraph(t, "matches", w.match(graph.Pattern{Relation: "x"}), "a-x>b a-x>b a-x>b")
	if _, err := w.g.Relate(t.Context(), w.o, graph.Relation{ID: "one", From: "b", Type: "x", To: "a"}, nil); !errors.Is(err, memory.ErrExists) {
		t.Error("an ID with another triple:", err)
	}
	testdb.Check(t, w.db, 0)
}

// lines is the export of everything beside the memories.
func graphLines(t *testing.T, db *engine.DB) string {
	t.Helper()
	var b bytes.Buffer
	err := db.View(t.Context(), func(tx *engine.Tx) error {
		return tx.Lines(memory.Scope{}, nil, func(l engine.Line) error { return json.NewEncoder(&b).Encode(l) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is exported and imported is the same, superseded relations too.
func TestGraphLines(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "person", "x>b", "x>later")
	w.put("b", "place")
	w.relate("b", "x", "a")
	_, err := w.g.Relate(t.Context(), w.o, graph.Relation{ID: "r", From: "a", Type: "x", To: "b", Properties: json.RawMessage(`{"k":1}`)}, nil)
	w.must(err)
	_, err = w.g.Relate(t.Context(), w.o, graph.Relation{ID: "r", From: "a", Type: "x", To: "b", Properties: json.RawMessage(`{"k":2}`)}, nil)
	w.must(err)
	w.must(w.g.End(t.Context(), w.o, "b", "x", "a", ""))
	want := graphLines(t, w.db)
	if n := strings.Count(want, "\n"); n != 7 {
		t.Errorf("%d lines, want 2 entities, 3 relations and 2 superseded ones:\n%s", n, want)
	}
	other := newGraphWorld(t)
	load := func(outcome memory.Stored) {
		t.Helper()
		for s := range strings.Lines(want) {
			var of struct{ Type string }
			w.must(json.Unmarshal([]byte(s), &of))
			l := other.db.NewLine(of.Type)
			w.must(json.Unmarshal([]byte(s), l))
			w.must(l.Check())
			err := other.db.Update(t.Context(), func(tx *engine.Tx) error {
				st, err := tx.StoreLine(l, false)
				if err == nil && st.Stored != outcome.Stored {
					err = fmt.Errorf("stored %+v, want %+v", st, outcome)
				}
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", s, err)
			}
		}
	}
	load(memory.Stored{Stored: true})
	expectGraph(t, "the copy", graphLines(t, other.db), want)
	load(memory.Stored{})
	expectGraph(t, "the copy, twice", graphLines(t, other.db), want)
	testdb.Check(t, other.db, 0)
}

// A graph goes with the transaction that writes it.
func TestGraphInTransaction(t *testing.T) {
	w := newGraphWorld(t)
	no := errors.New("no")
	err := w.db.Update(t.Context(), func(tx *engine.Tx) error {
		if _, err := tx.Graph().Put(t.Context(), w.o, graph.Entity{ID: "a"}, []graph.Edge{{Type: "x", Target: "b"}}, nil); err != nil {
			return err
		}
		if _, err := tx.Graph().Put(t.Context(), w.o, graph.Entity{ID: "b"}, nil, nil); err != nil {
			return err
		}
		r, err := tx.Graph().Query(t.Context(), w.o, "b", 1, graph.State{})
		expectGraph(t, "its own writes", found(r), "b:0 a:1")
		return errors.Join(err, no)
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	expectGraph(t, "after it failed", w.figures()+w.query("a", 1), "0 0 0")
}

func TestGraphDeleteOwner(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "person", "x>b")
	w.put("b", "")
	other := memory.Owner{User: "u"}
	_, err := w.g.Put(t.Context(), other, graph.Entity{ID: "a"}, nil, nil)
	w.must(err)
	w.must(graph.DeleteOwner(t.Context(), w.g, w.o))
	expectGraph(t, "figures", w.figures(), "1 0 0")
	expectGraph(t, "nothing", w.query("a", 3), "")
	testdb.Check(t, w.db, 0)
	w.put("a", "person")
	expectGraph(t, "anew", w.neighbours("a"), "")
}

// TestNumbersAgain: after the graph of an owner is deleted, numbers are given out again. Neither a clean-up that had
// begun before nor the log of before takes the new entities for the old ones.
func TestNumbersAgain(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "person", "likes>b")
	w.put("b", "person")
	_, err := w.g.Delete(t.Context(), w.o, "a")
	w.must(err)
	w.must(graph.CleanFirst(t.Context(), w.g, w.o, func() {
		w.must(graph.DeleteOwner(t.Context(), w.g, w.o))
		w.put("c", "city", "near>d")
		w.put("d", "city")
	}))
	expectGraph(t, "what is new", w.neighbours("c"), "near>d")
	testdb.Check(t, w.db, 0)
	told := map[string]bool{}
	for c, err := range w.db.Changes(t.Context(), 0, nil) {
		w.must(err)
		switch after := c.After.(type) {
		case graph.RelationLine:
			told[strings.TrimSpace(fmt.Sprintln(after.From, after.Relation, after.To, c.Unresolved))] = true
		case graph.EntityLine:
			told[strings.TrimSpace(fmt.Sprintln(after.ID, after.EntityType, c.Unresolved))] = true
		}
	}
	for _, want := range []string{"a  true", "b  true", "true", "c city false", "d city false", "c near d false"} {
		if !told[want] {
			t.Errorf("the changes do not tell %q: %v", want, told)
		}
		delete(told, want)
	}
	if len(told) > 0 {
		t.Errorf("the changes also tell %v", told)
	}
}

func TestGraphBadInput(t *testing.T) {
	w := newGraphWorld(t)
	ctx := context.Background()
	w.put("a", "", "self>a")
	expectGraph(t, "a self-loop", w.query("a", 3), "a:0")
	deep := json.RawMessage(`{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`)
	day := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, r := range map[string]graph.Relation{
		"an ID of 1 MB":                   {ID: strings.Repeat("x", 1<<20), From: "a", Type: "x", To: "a"},
		"an end of 1 MB":                  {From: "a", Type: "x", To: strings.Repeat("x", 1<<20)},
		"no type":                         {From: "a", To: "a"},
		"nothing but inverse":             {From: "a", Type: "inverse:", To: "a"},
		"no end":                          {From: "a", Type: "x"},
		"properties 1,000 deep":           {From: "a", Type: "x", To: "a", Properties: deep},
		"properties that are a list":      {From: "a", Type: "x", To: "a", Properties: json.RawMessage(`[1]`)},
		"validity that ends as it begins": {From: "a", Type: "x", To: "a", ValidFrom: day, ValidTo: day},
		"validity that ends before":       {From: "a", Type: "x", To: "a", ValidFrom: day, ValidTo: day.AddDate(0, 0, -1)},
		"a control character":             {From: "a", Type: "x\x00", To: "a"},
	} {
		if _, err := w.g.Relate(ctx, w.o, r, nil); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := w.g.Put(ctx, memory.Owner{}, graph.Entity{ID: "a"}, nil, nil); !errors.Is(err, memory.ErrScope) {
		t.Error("no owner:", err)
	}
	r, err := w.g.Query(ctx, w.o, "a", 1, graph.State{MaxNodes: 1})
	if err != nil || len(r.Found) != 1 {
		t.Error(r, err)
	}
	w.put("b", "", "x>a")
	if r, err = w.g.Query(ctx, w.o, "a", 1, graph.State{MaxNodes: 1}); err != nil || len(r.Found) != 1 || r.Plan.Limit != "nodes" {
		t.Error("limit of nodes:", r, err)
	}
	if r, err = w.g.Query(ctx, w.o, "a", 1, graph.State{MaxEdges: 1}); err != nil || r.Plan.Limit != "edges" {
		t.Error("limit of edges:", r, err)
	}
	late, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	if r, err = w.g.Query(late, w.o, "a", 1, graph.State{}); err == nil && r.Plan.Limit != "time" || err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error("limit of time:", r, err)
	}
	if _, err = w.g.Query(ctx, w.o, "a", -1, graph.State{}); !errors.Is(err, memory.ErrInvalid) {
		t.Error("a depth below 0:", err)
	}
	expectGraph(t, "a depth of a million", w.query("a", 1_000_000), "a:0 b:1")
	expectGraph(t, "an unknown start", w.query("nobody", 1), "")
	expectGraph(t, "figures", w.figures(), "2 2 0")
}

// Links go with the entity and with the memory, and stay within an owner.
func TestGraphLinks(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	w.put("a", "")
	w.put("b", "")
	for _, id := range []string{"m", "n"} {
		testdb.Store(t, w.db.Memories(), memory.Memory{ID: id, Scope: w.o.Scope(), Text: "text of " + id})
	}
	testdb.Store(t, w.db.Memories(), memory.Memory{ID: "foreign", Scope: memory.Scope{Agent: "other"}, Text: "x"})
	for _, l := range []string{"a m", "a n", "b m", "a m"} {
		entity, memory, _ := strings.Cut(l, " ")
		_, err := w.g.Link(ctx, w.o, entity, memory)
		w.must(err)
	}
	for _, l := range [][2]string{{"a", "foreign"}, {"nobody", "m"}} {
		if _, err := w.g.Link(ctx, w.o, l[0], l[1]); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("link %v: %v", l, err)
		}
	}
	links := func() string {
		t.Helper()
		of, err := w.g.Memories(ctx, w.o, "a")
		w.must(err)
		to, err := w.g.Linked(ctx, w.o, "m")
		w.must(err)
		return fmt.Sprint(of, to, w.figures())
	}
	expectGraph(t, "linked", links(), "[m n] [a b]2 0 3")
	w.must(w.db.Memories().Delete(ctx, w.o.Scope(), "n"))
	testdb.Soon(t, "after the memory went", func() bool {
		w.put("c", "") // the clean-up has no LSN: readers see the state of the next commit
		return links() == "[m] [a b]3 0 2"
	})
	if removed, err := w.g.Unlink(ctx, w.o, "b", "m"); err != nil || !removed {
		t.Error(removed, err)
	}
	expectGraph(t, "one is left", links(), "[m] [a]3 0 1")
	d, err := w.g.Delete(ctx, w.o, "a")
	w.must(err)
	if d.Links != 1 {
		t.Errorf("%+v", d)
	}
	expectGraph(t, "deleted", links(), "[] []2 0 0")
	w.clean()
	testdb.Check(t, w.db, 2) // m, and that of another owner
}
