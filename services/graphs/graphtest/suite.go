// Package graphtest holds what every store of package graphs must do, as tests, and a stand-in
// for Neo4j that speaks its two interfaces over HTTP.
package graphtest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
)

// Subject is a store under test, empty.
type Subject struct {
	graphs.Store
	// Fact makes a fact that entities can be linked to.
	Fact func(s scope.Scope, text string) graphs.Fact
}

// Owners are all that Run uses.
var Owners = []scope.Owner{{User: "alice"}, {User: "bob"}, {User: "alice", Agent: "helper"}, {Agent: "helper"}}

var (
	alice = scope.Scope{User: "alice"}
	bob   = scope.Scope{User: "bob"}
)

// Run tests a store; open makes a new one.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"apply": testApply, "ends": testEnds, "goes": testGoes, "scopes": testScopes, "delete": testDelete, "hostile": testHostile, "words": testWords, "context": testContext,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// google is a conversation about Alice at Google, told by two facts.
func google(s Subject, of scope.Scope) graphs.Change {
	return graphs.Change{
		Scope:     of,
		Entities:  []graphs.Entity{{Name: "Alice", Type: "person"}, {Name: "Google", Type: "organization", Description: "a company"}},
		Relations: []graphs.Relation{{Source: "Alice", Relation: "works_at", Target: "Google"}},
		Told:      []graphs.Fact{s.Fact(of, "Alice is an engineer at Google"), s.Fact(of, "Google has an office in Zurich")},
	}
}

func (s Subject) apply(t *testing.T, c graphs.Change) graphs.Applied {
	t.Helper()
	done, err := s.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// around finds, and puts the answer in order.
func (s Subject) around(t *testing.T, of graphs.Selection, text string) graphs.Near {
	t.Helper()
	near, err := s.Around(t.Context(), of, text)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(near.Names)
	slices.Sort(near.Facts)
	return near
}

func (s Subject) wantNames(t *testing.T, of graphs.Selection, text string, want ...string) {
	t.Helper()
	if got := s.around(t, of, text).Names; !slices.Equal(got, want) {
		t.Errorf("around %q in %+v: %q, want %q", text, of, got, want)
	}
}

// testApply: what is put is found, once however often it is applied, from either end.
func testApply(t *testing.T, s Subject) {
	c := google(s, alice)
	ids := []string{c.Told[0].ID, c.Told[1].ID}
	slices.Sort(ids)
	want := graphs.Near{Names: []string{"Alice", "Google"}, Facts: ids, Relations: c.Relations}
	for range 3 {
		if done := s.apply(t, c); !reflect.DeepEqual(done.Taken, c.Relations) || len(done.Lost) > 0 {
			t.Errorf("%+v", done)
		}
		for _, text := range []string{"who is ALICE?", "google, please", "Alice and Google"} {
			if near := s.around(t, graphs.Selection{Scope: alice}, text); !reflect.DeepEqual(near, want) {
				t.Errorf("%q: %+v, want %+v", text, near, want)
			}
		}
	}
	s.apply(t, graphs.Change{Scope: alice, Entities: []graphs.Entity{{Name: "aLICE", Type: "concept"}}, Told: c.Told})
	if near := s.around(t, graphs.Selection{Scope: alice}, "alice"); len(near.Names) != 2 {
		t.Errorf("a name in other letters is another entity: %+v", near)
	}
	for _, nothing := range []graphs.Change{{}, {Scope: alice, Entities: c.Entities}, {Scope: alice, Told: c.Told}} {
		if done := s.apply(t, nothing); len(done.Taken) > 0 {
			t.Errorf("%+v", done)
		}
	}
	s.wantNames(t, graphs.Selection{Scope: alice}, "office Zurich")
	s.wantNames(t, graphs.Selection{Scope: alice}, "?!")
}

// testEnds: a relation needs two entities, in the conversation or in the graph from before.
func testEnds(t *testing.T, s Subject) {
	s.apply(t, google(s, alice))
	c := graphs.Change{
		Scope: alice, Entities: []graphs.Entity{{Name: "Bob", Type: "person"}}, Told: []graphs.Fact{s.Fact(alice, "Bob knows Alice")},
		Relations: []graphs.Relation{{Source: "Bob", Relation: "knows", Target: "Alice"}, {Source: "Bob", Relation: "knows", Target: "Nobody"}, {Source: "Bob", Relation: "likes", Target: "Alice"}},
	}
	done := s.apply(t, c)
	if !reflect.DeepEqual(done.Taken, []graphs.Relation{c.Relations[0], c.Relations[2]}) || !reflect.DeepEqual(done.Lost, c.Relations[1:2]) {
		t.Errorf("%+v", done)
	}
	s.wantNames(t, graphs.Selection{Scope: alice}, "bob", "Alice", "Bob") // Google is two relations away
	s.wantNames(t, graphs.Selection{Scope: alice}, "alice", "Alice", "Bob", "Google")
}

// testGoes: an entity loses the facts that no longer tell of it, and goes with the last.
func testGoes(t *testing.T, s Subject) {
	c := google(s, alice)
	s.apply(t, c)
	retold := c.Told[0]
	retold.Before, retold.Text = retold.Text, "Someone is an engineer at Google"
	for range 2 {
		s.apply(t, graphs.Change{Scope: alice, Retold: []graphs.Fact{retold}})
		s.wantNames(t, graphs.Selection{Scope: alice}, "alice")
		if near := s.around(t, graphs.Selection{Scope: alice}, "google"); len(near.Names) != 1 || len(near.Facts) != 2 || len(near.Relations) > 0 {
			t.Errorf("%+v", near)
		}
	}
	s.apply(t, graphs.Change{Scope: alice, Gone: c.Told[:1]})
	s.wantNames(t, graphs.Selection{Scope: alice}, "google", "Google")
	for range 2 {
		s.apply(t, graphs.Change{Scope: alice, Gone: c.Told[1:]})
		s.wantNames(t, graphs.Selection{Scope: alice}, "google")
	}
}

// testScopes: a selection finds what was made in it.
func testScopes(t *testing.T, s Subject) {
	run, helper := scope.Scope{User: "alice", Run: "r"}, scope.Scope{User: "alice", Agent: "helper"}
	for i, of := range []scope.Scope{alice, run, helper, bob} {
		name := []string{"Plain", "InRun", "Helped", "Other"}[i]
		s.apply(t, graphs.Change{Scope: of, Entities: []graphs.Entity{{Name: name, Type: "concept"}}, Told: []graphs.Fact{s.Fact(of, name)}})
	}
	const all = "plain inrun helped other"
	for _, c := range []struct {
		of   graphs.Selection
		want []string
	}{
		{graphs.Selection{Scope: alice}, []string{"Helped", "InRun", "Plain"}},
		{graphs.Selection{Scope: alice, Exact: true}, []string{"Plain"}},
		{graphs.Selection{Scope: run}, []string{"InRun"}},
		{graphs.Selection{Scope: run, Exact: true}, []string{"InRun"}},
		{graphs.Selection{Scope: helper}, []string{"Helped"}},
		{graphs.Selection{Scope: scope.Scope{Agent: "helper"}}, []string{"Helped"}},
		{graphs.Selection{Scope: scope.Scope{Agent: "helper"}, Exact: true}, nil},
		{graphs.Selection{Scope: bob}, []string{"Other"}},
		{graphs.Selection{Scope: scope.Scope{User: "bob", Run: "r"}}, nil},
		{graphs.Selection{All: true}, []string{"Helped", "InRun", "Other", "Plain"}},
	} {
		s.wantNames(t, c.of, all, c.want...)
	}
}

// testDelete: a delete takes what was made in a selection, and nothing else.
func testDelete(t *testing.T, s Subject) {
	run := scope.Scope{User: "alice", Run: "r"}
	fill := func() {
		for _, of := range []scope.Scope{alice, run, bob} {
			s.apply(t, google(s, of))
		}
	}
	for _, c := range []struct {
		of                 graphs.Selection
		alice, inRun, bobs int // entities that are left
	}{
		{graphs.Selection{Scope: run}, 2, 0, 2},
		{graphs.Selection{Scope: alice, Exact: true}, 0, 2, 2},
		{graphs.Selection{Scope: alice}, 0, 0, 2},
		{graphs.Selection{Scope: scope.Scope{User: "carol"}}, 2, 2, 2},
		{graphs.Selection{All: true}, 0, 0, 0},
	} {
		fill()
		for range 2 {
			if err := s.Delete(t.Context(), c.of); err != nil {
				t.Fatal(err)
			}
		}
		for i, of := range []scope.Scope{alice, run, bob} {
			want := []int{c.alice, c.inRun, c.bobs}[i]
			near := s.around(t, graphs.Selection{Scope: of, Exact: true}, "Alice Google")
			if len(near.Names) != want || len(near.Relations) != want/2 || want == 0 && len(near.Facts) > 0 {
				t.Errorf("after a delete of %+v, %+v has %+v, want %d entities", c.of, of, near, want)
			}
		}
	}
}

// testHostile: texts that look like statements are names as others.
func testHostile(t *testing.T, s Subject) {
	s.apply(t, google(s, bob))
	names := []string{
		"x'}) DETACH DELETE n //", "`MemdbEntity`", `"}) MATCH (n) DETACH DELETE n`, "$space", `back\slash\u0027`, "naïve Straße", "東京", "😀 smile", "a - b",
	}
	c := graphs.Change{Scope: alice}
	for i, name := range names {
		c.Entities = append(c.Entities, graphs.Entity{Name: name, Type: "concept", Description: name})
		c.Told = append(c.Told, s.Fact(alice, "It is about "+name))
		if i > 0 {
			c.Relations = append(c.Relations, graphs.Relation{Source: names[0], Relation: "r`]->() DELETE", Target: name})
		}
	}
	if done := s.apply(t, c); len(done.Taken) != len(names)-1 {
		t.Errorf("%+v", done)
	}
	near := s.around(t, graphs.Selection{Scope: alice}, names[0])
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(near.Names, want) {
		t.Errorf("%q, want %q", near.Names, want)
	}
	odd := scope.Scope{User: "alice' OR '1'='1"}
	s.wantNames(t, graphs.Selection{Scope: odd}, strings.Join(names, " "))
	s.wantNames(t, graphs.Selection{Scope: bob}, "alice google", "Alice", "Google")
	if err := s.Delete(t.Context(), graphs.Selection{Scope: odd}); err != nil {
		t.Fatal(err)
	}
	s.wantNames(t, graphs.Selection{Scope: bob}, "alice", "Alice", "Google")
}

// testWords: a name is found where all its words stand in the text, in their order.
func testWords(t *testing.T, s Subject) {
	c := graphs.Change{Scope: alice, Told: []graphs.Fact{s.Fact(alice, "travel")}}
	for _, name := range []string{"New York", "York", "New", "New York City"} {
		c.Entities = append(c.Entities, graphs.Entity{Name: name, Type: "location"})
	}
	s.apply(t, c)
	for text, want := range map[string][]string{
		"is it new, York?": {"New", "New York", "York"}, "york new": {"New", "York"}, "newyork": nil, "in New York City": {"New", "New York", "New York City", "York"},
	} {
		s.wantNames(t, graphs.Selection{Scope: alice}, text, want...)
	}
}

// testContext: the end of the context is its error.
func testContext(t *testing.T, s Subject) {
	c := google(s, alice)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Apply(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v", err)
	}
	if _, err := s.Around(ctx, graphs.Selection{Scope: alice}, "Alice"); !errors.Is(err, context.Canceled) {
		t.Errorf("around: %v", err)
	}
	if err := s.Delete(ctx, graphs.Selection{Scope: alice}); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	s.wantNames(t, graphs.Selection{Scope: alice}, "Alice")
}
