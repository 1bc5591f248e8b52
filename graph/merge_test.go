package graph_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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

// lines is the graph as an export writes it, without the times that a merge and its undoing
// change.
func (w *graphWorld) lines() string {
	w.t.Helper()
	var b strings.Builder
	w.must(w.g.Each(w.t.Context(), w.o, func(e graph.Entity) error {
		slices.Sort(e.Aliases)
		fmt.Fprintln(&b, e.ID, e.Type, e.Name, e.Aliases, string(e.Properties))
		return nil
	}, func(r graph.Relation) error {
		fmt.Fprintln(&b, r.ID, r.From, r.Type, r.To, string(r.Properties), r.ValidFrom, r.ValidTo)
		return nil
	}))
	return b.String()
}

// A merge moves relations, names, properties and links; as of before, both are there; one
// call undoes it.
func TestGraphMerge(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	w.put("alice", "person", "works_on>memdb", "knows>aj")
	w.put("memdb", "project", "made_by>aj")
	w.put("bob", "person", "knows>aj", "knows>alice")
	_, err := w.g.Put(ctx, w.o, graph.Entity{ID: "aj", Name: "Alice Johnson", Aliases: []string{"AJ"}, Properties: json.RawMessage(`{"born":1990}`)}, []graph.Edge{
		{Type: "works_on", Target: "memdb", Properties: json.RawMessage(`{"since":2020}`)},
		{Type: "lives_in", Target: "ghent", ID: "own", ValidFrom: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Type: "self", Target: "aj"},
	}, nil)
	w.must(err)
	w.put("ghent", "place")
	for _, m := range []string{"m1", "m2"} {
		testdb.Store(t, w.db.Memories(), memory.Memory{ID: m, Scope: w.o.Scope(), Text: m})
		_, err := w.g.Link(ctx, w.o, "aj", m)
		w.must(err)
	}
	_, err = w.g.Link(ctx, w.o, "alice", "m2")
	w.must(err)
	before, figures, lsn := w.lines(), w.figures(), w.db.LSN()
	w.query("alice", 2) // it is in memory now

	m, err := w.g.Merge(ctx, w.o, "alice", "aj")
	w.must(err)
	if m != (graph.Merged{ID: "alice", Relations: 5, Links: 2, LSN: lsn + 1}) {
		t.Errorf("%+v", m)
	}
	testdb.Check(t, w.db, 2)
	expectGraph(t, "figures", w.figures(), "4 5 2")
	expectGraph(t, "alice", w.neighbours("alice"), "works_on>memdb lives_in>ghent self>alice inverse:knows>bob inverse:made_by>memdb inverse:self>alice")
	expectGraph(t, "the other", w.query("aj", 2), w.query("alice", 2))
	e, err := w.g.Get(ctx, w.o, "alice", 0)
	if err != nil || fmt.Sprint(e.Aliases) != "[Alice Johnson AJ]" || string(e.Properties) != `{"born":1990}` || e.Type != "person" {
		t.Errorf("%+v, %v", e, err)
	}
	expectGraph(t, "by the other's name", w.match(graph.Pattern{From: graph.NodePattern{Name: "alice johnson"}, Relation: "lives_in"}), "alice-lives_in>ghent")
	r, err := w.g.Relations(ctx, w.o, "alice", "works_on", "memdb", graph.State{})
	if err != nil || len(r) != 1 || string(r[0].Properties) != `{"since":2020}` {
		t.Errorf("%+v, %v", r, err)
	}
	ids, err := w.g.Memories(ctx, w.o, "alice")
	if err != nil || fmt.Sprint(ids) != "[m1 m2]" {
		t.Error(ids, err)
	}
	past, err := w.g.Query(ctx, w.o, "aj", 1, graph.State{AsOf: lsn})
	if err != nil || !strings.HasPrefix(found(past), "aj:0 memdb:1") {
		t.Errorf("as of before: %s, %v", found(past), err)
	}
	if e, err := w.g.Get(ctx, w.o, "aj", lsn+1); err != nil || e.ID != "alice" {
		t.Error("as of the merge:", e, err)
	}

	u, err := w.g.Unmerge(ctx, w.o, "aj")
	w.must(err)
	if u.ID != "aj" || u.Links != 2 || u.Relations != 6 {
		t.Errorf("%+v", u)
	}
	expectGraph(t, "undone", w.lines(), before)
	expectGraph(t, "figures", w.figures(), figures)
	if e, err := w.g.Get(ctx, w.o, "aj", lsn+1); err != nil || e.ID != "alice" {
		t.Error("as of the merge, once undone:", e, err)
	}
	if _, err := w.g.Unmerge(ctx, w.o, "aj"); !errors.Is(err, memory.ErrNotFound) {
		t.Error("undone twice:", err)
	}
	testdb.Check(t, w.db, 2)
}

func TestGraphMergeRefused(t *testing.T) {
	race.Sequential(t)
	w := newGraphWorld(t)
	ctx := t.Context()
	w.put("a", "")
	w.put("b", "")
	w.put("c", "")
	for _, c := range []struct {
		into, gone string
		kind       error
	}{{"a", "a", memory.ErrInvalid}, {"a", "none", memory.ErrNotFound}, {"none", "a", memory.ErrNotFound}, {"", "a", memory.ErrInvalid}, {"a", strings.Repeat("x", 1<<20), memory.ErrInvalid}} {
		if _, err := w.g.Merge(ctx, w.o, c.into, c.gone); !errors.Is(err, c.kind) {
			t.Errorf("%.9q and %.9q: %v", c.into, c.gone, err)
		}
	}
	if _, err := w.g.Merge(ctx, memory.Owner{User: "other"}, "a", "b"); !errors.Is(err, memory.ErrNotFound) {
		t.Error("another owner:", err)
	}
	for _, pair := range [][2]string{{"b", "c"}, {"a", "b"}} {
		_, err := w.g.Merge(ctx, w.o, pair[0], pair[1])
		w.must(err)
	}
	if _, err := w.g.Unmerge(ctx, w.o, "c"); !errors.Is(err, memory.ErrConflict) {
		t.Error("one that was merged since:", err)
	}
	w.put("b", "again")
	if _, err := w.g.Unmerge(ctx, w.o, "b"); !errors.Is(err, memory.ErrNotFound) {
		t.Error("one that was put again:", err)
	}
	_, err := w.g.Unmerge(ctx, w.o, "c")
	w.must(err)
	var b graph.Batch
	for i := range graph.MaxMerge + 1 {
		b.Relations = append(b.Relations, graph.Relation{From: "c", Type: "x", To: fmt.Sprint("to ", i)})
	}
	_, err = w.g.Write(ctx, w.o, b, nil)
	w.must(err)
	if _, err := w.g.Merge(ctx, w.o, "a", "c"); !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), "10000") {
		t.Error("one with too many relations:", err)
	}
	err = w.db.Update(ctx, func(tx *engine.Tx) error {
		if _, err := tx.Graph().Put(ctx, w.o, graph.Entity{ID: "new"}, nil, nil); err != nil {
			return err
		}
		_, err := tx.Graph().Merge(ctx, w.o, "a", "new")
		return err
	})
	if !errors.Is(err, memory.ErrInvalid) {
		t.Error("one of the same transaction:", err)
	}
	testdb.Check(t, w.db, 0)
}

// What changed since a merge stays; a delete takes what was merged along.
func TestGraphUnmergeKeepsWhatCameSince(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	w.put("a", "", "x>y")
	_, err := w.g.Put(ctx, w.o, graph.Entity{ID: "b", Properties: json.RawMessage(`{"p":1,"q":1}`)}, []graph.Edge{{Type: "x", Target: "y"}, {Type: "x", Target: "z"}, {Type: "v", Target: "z"}}, nil)
	w.must(err)
	w.put("y", "")
	w.put("z", "")
	lsn := w.db.LSN()
	_, err = w.g.Merge(ctx, w.o, "a", "b")
	w.must(err)
	_, err = w.g.Put(ctx, w.o, graph.Entity{ID: "a", Aliases: []string{"since"}, Properties: json.RawMessage(`{"q":2,"r":3}`)}, []graph.Edge{{Type: "x", Target: "z", Properties: json.RawMessage(`{"k":1}`)}}, nil)
	w.must(err)
	w.must(w.g.End(ctx, w.o, "a", "v", "z", ""))
	_, err = w.g.Unmerge(ctx, w.o, "b")
	w.must(err)
	testdb.Check(t, w.db, 0)
	e, err := w.g.Get(ctx, w.o, "a", 0)
	if err != nil || fmt.Sprint(e.Aliases) != "[since]" || string(e.Properties) != `{"q":2,"r":3}` {
		t.Errorf("%v %s, %v", e.Aliases, e.Properties, err)
	}
	expectGraph(t, "a", w.neighbours("a"), "x>y")
	expectGraph(t, "b", w.neighbours("b"), "x>y x>z")
	r, err := w.g.Relations(ctx, w.o, "b", "x", "z", graph.State{})
	if err != nil || len(r) != 1 || string(r[0].Properties) != `{"k":1}` {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = w.g.Merge(ctx, w.o, "a", "b")
	w.must(err)
	_, err = w.g.Delete(ctx, w.o, "a")
	w.must(err)
	w.clean()
	if q, err := w.g.Query(ctx, w.o, "b", 1, graph.State{AsOf: lsn}); err != nil || len(q.Found) > 0 {
		t.Errorf("what was merged into a deleted entity is there as of before: %v, %v", q.Found, err)
	}
	expectGraph(t, "figures", w.figures(), "2 0 0")
	testdb.Check(t, w.db, 0)
}

// Whatever a graph holds, a merge and its undoing leave it as it was.
func TestGraphMergeAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	w := newGraphWorld(t)
	ctx := t.Context()
	id := func() string { return fmt.Sprint("e", rng.IntN(12)) }
	for merged := 0; merged < max(race.Times(150), 20); {
		w.must(changeGraph(ctx, w, rng, id))
		before, figures := w.lines(), w.figures()
		into, gone := id(), id()
		if _, err := w.g.Merge(ctx, w.o, into, gone); errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrInvalid) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		merged++
		between := w.lines()
		if rng.IntN(4) == 0 {
			testdb.Check(t, w.db, 0)
		}
		if strings.Contains(between, "\n"+gone+" ") {
			t.Fatalf("%s is there:\n%s", gone, between)
		}
		if _, err := w.g.Unmerge(ctx, w.o, gone); err != nil {
			t.Fatal(err)
		}
		if after := w.lines(); after != before || w.figures() != figures {
			t.Fatalf("%s into %s and back:\n%s%s\nwant\n%s%s", gone, into, after, w.figures(), before, figures)
		}
	}
	testdb.Check(t, w.db, 0)
}

// Suggestions come by name, alias, slip of the pen and neighbourhood, and not by type or
// kinship.
func TestGraphDuplicates(t *testing.T) {
	w := newGraphWorld(t)
	ctx := t.Context()
	for _, e := range []graph.Entity{
		{ID: "1", Type: "person", Name: "Alice Johnson"},
		{ID: "2", Type: "person", Name: "johnson, alice", Aliases: []string{"alice JOHNSON"}},
		{ID: "3", Type: "place", Name: "Alice Johnson"},
		{ID: "4", Name: "Barcelona"},
		{ID: "5", Name: "Barclona"},
		{ID: "6", Name: "Bern"},
		{ID: "7", Name: "Berm"},
		{ID: "8", Name: "Maria"},
		{ID: "9", Name: "Maria"},
		{ID: "10", Name: "Red"},
		{ID: "11", Name: "Green"},
		{ID: "x"},
		{ID: "y"},
		{ID: "z"},
		{ID: "12", Name: "Johnson Alice"},
	} {
		_, err := w.g.Put(ctx, w.o, e, nil, nil)
		w.must(err)
	}
	w.relate("8", "mother_of", "9")
	for _, from := range []string{"10", "11"} {
		for _, to := range []string{"x", "y", "z"} {
			w.relate(from, "likes", to)
		}
	}
	d, err := w.g.Duplicates(ctx, w.o, graph.DuplicateOptions{})
	w.must(err)
	var got []string
	for _, p := range d.Pairs {
		got = append(got, fmt.Sprintf("%s=%s:%.2f:%s", p.A, p.B, p.Score, strings.Join(p.Why, "+")))
	}
	expectGraph(t, "pairs", strings.Join(got, " "), "1=2:0.80:name 1=12:0.70:words 2=12:0.70:words 3=12:0.70:words 4=5:0.60:letters 10=11:0.60:neighbours")
	if d, err := w.g.Duplicates(ctx, w.o, graph.DuplicateOptions{Limit: 1, MinScore: 0.7}); err != nil || len(d.Pairs) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := w.g.Duplicates(ctx, memory.Owner{User: "u"}, graph.DuplicateOptions{}); err != nil || len(d.Pairs) != 0 {
		t.Errorf("another owner: %+v, %v", d, err)
	}
	if _, err := w.g.Duplicates(ctx, w.o, graph.DuplicateOptions{MinScore: 2}); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
}

// copied is a new database with the memories of this one and the lines of its export.
func (w *graphWorld) copied(rng *rand.Rand) *graphWorld {
	w.t.Helper()
	other := newGraphWorld(w.t)
	for m, err := range w.db.Memories().All(w.t.Context(), memory.ListQuery{AllScopes: true}) {
		w.must(err)
		testdb.Store(w.t, other.db.Memories(), m)
	}
	lines := strings.SplitAfter(graphLines(w.t, w.db), "\n")
	lines = lines[:len(lines)-1]
	for len(lines) > 0 {
		n := 1 + rng.IntN(len(lines))
		w.must(other.db.Update(w.t.Context(), func(tx *engine.Tx) error {
			for _, s := range lines[:n] {
				var of struct{ Type string }
				w.must(json.Unmarshal([]byte(s), &of))
				l := other.db.NewLine(of.Type)
				w.must(json.Unmarshal([]byte(s), l))
				w.must(l.Check())
				if st, err := tx.StoreLine(l, false); err != nil || !st.Stored && !strings.Contains(s, `"superseded_at"`) {
					w.t.Fatalf("%s: %+v, %v", s, st, err)
				}
			}
			return nil
		}))
		lines = lines[n:]
	}
	return other
}

// sortedLines are the lines of a text in their order, each once: a copy numbers entities and
// types anew, and keeps one of several superseded versions that say the same.
func sortedLines(s string) string {
	lines := strings.SplitAfter(s, "\n")
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}

// expectLines compares lines, in any order, and names those that differ.
func expectLines(t *testing.T, what, got, want string) {
	t.Helper()
	have, wanted := sortedLines(got), sortedLines(want)
	if have == wanted {
		return
	}
	for s := range strings.Lines(wanted) {
		if !strings.Contains(have, s) {
			t.Errorf("%s lacks %s", what, s)
		}
	}
	for s := range strings.Lines(have) {
		if !strings.Contains(wanted, s) {
			t.Errorf("%s has %s", what, s)
		}
	}
}

// Whatever has become of a graph, an export of it that is imported exports the same, and its
// merges can be undone there as here, one after the other.
func TestGraphMergesAreExported(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	undone, refused, rounds := 0, 0, race.Times(25)
	few := func() bool { return undone < rounds/2 || refused < rounds/2 }
	for round := 0; round < rounds || few() && round < 10*rounds; round++ { // few rounds may undo none, by chance
		w := newGraphWorld(t)
		ctx := t.Context()
		for i := range 6 {
			testdb.Store(t, w.db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: w.o.Scope(), Text: fmt.Sprint("text ", i)})
		}
		id := func() string { return fmt.Sprint("e", rng.IntN(12)) }
		for range 40 + rng.IntN(120) {
			w.must(changeGraph(ctx, w, rng, id))
			switch _, err := w.g.Link(ctx, w.o, id(), fmt.Sprint("m", rng.IntN(6))); {
			case errors.Is(err, memory.ErrNotFound):
			default:
				w.must(err)
			}
			if _, err := w.g.Merge(ctx, w.o, id(), id()); err != nil && !errors.Is(err, memory.ErrNotFound) && !errors.Is(err, memory.ErrInvalid) {
				t.Fatal(err)
			}
		}
		want := graphLines(t, w.db)
		other := w.copied(rng)
		testdb.Check(t, other.db, 6)
		expectLines(t, "the export of the copy", graphLines(t, other.db), want)
		again := other.copied(rng)
		expectLines(t, "the export of its copy", graphLines(t, again.db), want)
		if t.Failed() {
			t.FailNow()
		}
		for range 40 {
			gone := id()
			m, err := w.g.Unmerge(ctx, w.o, gone)
			for _, o := range []*graphWorld{other, again} {
				n, oerr := o.g.Unmerge(ctx, o.o, gone)
				if m.LSN, n.LSN = 0, 0; m != n || (err == nil) != (oerr == nil) || errors.Is(err, memory.ErrConflict) != errors.Is(oerr, memory.ErrConflict) {
					t.Fatalf("undoing the merge of %s: %+v, %v; in the copy: %+v, %v", gone, m, err, n, oerr)
				}
				expectLines(t, "once the merge of "+gone+" is undone, the graph", o.lines(), w.lines())
				expectGraph(t, "figures", o.figures(), w.figures())
			}
			if err == nil {
				undone++
			} else {
				refused++
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		testdb.Check(t, other.db, 6)
	}
	if few() {
		t.Errorf("%d merges were undone, %d were not", undone, refused)
	}
}

// A merge of many relations takes several lines of an export, which come in any number of
// commits, and once more.
func TestGraphLargeMergeIsExported(t *testing.T) {
	w := newGraphWorld(t)
	b := graph.Batch{Entities: []graph.Entity{{ID: "a"}, {ID: "b"}}}
	for i := range 1200 {
		b.Relations = append(b.Relations, graph.Relation{From: "b", Type: "x", To: fmt.Sprint("to ", i)})
	}
	b.Relations[7].ID = "own"
	_, err := w.g.Write(t.Context(), w.o, b, &graph.Options{Create: true})
	w.must(err)
	before := w.lines()
	_, err = w.g.Merge(t.Context(), w.o, "a", "b")
	w.must(err)
	want := graphLines(t, w.db)
	if n := strings.Count(want, `"type":"merge"`); n != 3 {
		t.Errorf("%d lines, want 3", n)
	}
	other := w.copied(rand.New(rand.NewPCG(1, 1)))
	expectLines(t, "the export of the copy", graphLines(t, other.db), want)
	for s := range strings.Lines(want) {
		if !strings.Contains(s, `"type":"merge"`) {
			continue
		}
		l := other.db.NewLine(graph.TypeMerge)
		w.must(json.Unmarshal([]byte(s), l))
		w.must(other.db.Update(t.Context(), func(tx *engine.Tx) error {
			if st, err := tx.StoreLine(l, false); err != nil || st != (memory.Stored{}) {
				t.Errorf("a line of the merge, again: %+v, %v", st, err)
			}
			return nil
		}))
	}
	m, err := other.g.Unmerge(t.Context(), other.o, "b")
	if err != nil || m.Relations != 1200 {
		t.Errorf("%+v, %v", m, err)
	}
	expectLines(t, "once it is undone, the graph", other.lines(), before)
	testdb.Check(t, other.db, 0)
}

// Lines of merges that cannot be are refused, and change nothing.
func TestGraphMergeLineRefused(t *testing.T) {
	w := newGraphWorld(t)
	w.put("a", "")
	w.put("b", "")
	for line, kind := range map[string]error{
		`{"into":"a","gone":"b","entity":{}}`:                                                    memory.ErrExists,
		`{"into":"none","gone":"c","entity":{}}`:                                                 memory.ErrNotFound,
		`{"into":"a","gone":"c","goes_on":true}`:                                                 memory.ErrNotFound,
		`{"into":"a","gone":"c"}`:                                                                nil,
		`{"into":"a","entity":{}}`:                                                               nil,
		`{"into":"a","gone":"a","entity":{}}`:                                                    nil,
		`{"into":"a","gone":"c","entity":{"properties":[1]}}`:                                    nil,
		`{"into":"a","gone":"c","entity":{"name":"\u0000"}}`:                                     nil,
		`{"into":"a","gone":"c","entity":{},"relations":[{}]}`:                                   nil,
		`{"into":"a","gone":"c","entity":{},"relations":[{"from":"a","relation":"x","to":"b"}]}`: nil,
	} {
		l := w.db.NewLine(graph.TypeMerge)
		w.must(json.Unmarshal([]byte(line), l))
		l.SetOwner(w.o)
		if err := l.Check(); (err != nil) != (kind == nil) {
			t.Errorf("%s: the check says %v", line, err)
		}
		if kind == nil {
			continue
		}
		err := w.db.Update(t.Context(), func(tx *engine.Tx) error {
			_, err := tx.StoreLine(l, true)
			if !errors.Is(err, kind) {
				t.Errorf("%s: %v, want %v", line, err, kind)
			}
			return nil
		})
		w.must(err)
	}
	expectGraph(t, "figures", w.figures(), "2 0 0")
	testdb.Check(t, w.db, 0)
}
