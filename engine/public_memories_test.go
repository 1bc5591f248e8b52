package engine_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// What a program sees of memories, scopes, history and filters.

func user(name string) memory.Scope { return memory.Scope{User: name} }

// Search(query, {limit: 3}) returns at most 3 results.
func TestSearchWithLimit(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	for i := range 5 {
		d.add(memory.Memory{Scope: user("alice"), Text: fmt.Sprint("User likes tea number ", i)})
	}
	if got := d.search(memory.Query{Scope: user("alice"), Text: "tea", Limit: 3}); len(got) != 3 {
		t.Errorf("found %q", got)
	}
	if got := d.search(memory.Query{Scope: user("alice"), Text: "number 4 tea", Limit: 1}); len(got) != 1 || got[0] != "User likes tea number 4" {
		t.Errorf("the best one is %q", got)
	}
}

// After an ADD, get(returned_id) returns the memory item.
func TestGetByID(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "User likes tea", Metadata: map[string]any{"tag": "drinks"}})
	m := d.get(id)
	if m.ID != id || m.Text != "User likes tea" || m.Metadata["tag"] != "drinks" || m.Hash == "" ||
		!m.CreatedAt.Equal(d.now()) || !m.UpdatedAt.Equal(d.now()) || len(id) != 36 || id[14] != '4' {
		t.Errorf("got %+v", m)
	}
}

// Get("fake-id") returns null, which in Go is ErrNotFound.
func TestGetNonexistent(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	_, err := d.Memories().Get(t.Context(), memory.Scope{}, "fake-id")
	d.wantErr(err, fault.ErrNotFound)
}

// After adding 3 memories for user "alice", get_all({user_id: "alice"})
// returns all 3.
func TestGetAllForScope(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	for _, text := range []string{"one", "two", "three"} {
		d.add(memory.Memory{Scope: user("alice"), Text: text})
		d.add(memory.Memory{Scope: user("bob"), Text: text})
	}
	d.wantAll(user("alice"), "one", "two", "three")
}

// Update(id, "new text"), then get(id).memory equals "new text".
func TestUpdateOverwrites(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "old text"})
	created := d.get(id).CreatedAt
	d.update(id, "new text")
	if m := d.get(id); m.Text != "new text" || !m.CreatedAt.Equal(created) || !m.UpdatedAt.Equal(d.now()) {
		t.Errorf("got %+v", m)
	}
	d.finds(memory.Query{Scope: user("alice"), Text: "old"})
	d.finds(memory.Query{Scope: user("alice"), Text: "new"}, "new text")
}

func (d *publicDB) update(id, text string) {
	d.t.Helper()
	d.advance(time.Second)
	if _, err := d.Memories().Update(d.t.Context(), memory.Scope{}, id, memory.Patch{Text: &text}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *publicDB) remove(id string) {
	d.t.Helper()
	d.advance(time.Second)
	if err := d.Memories().Delete(d.t.Context(), memory.Scope{}, id); err != nil {
		d.t.Fatal(err)
	}
}

// After an update the hash is that of the new text. The hash is
// SHA-256.
func TestUpdateChangesHash(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "old text"})
	d.update(id, "new text")
	if got, want := d.get(id).Hash, fmt.Sprintf("%x", sha256.Sum256([]byte("new text"))); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// Delete(id), then get(id) returns null.
func TestDeleteRemoves(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "likes tea"})
	d.remove(id)
	_, err := d.Memories().Get(t.Context(), memory.Scope{}, id)
	d.wantErr(err, fault.ErrNotFound)
	d.finds(memory.Query{Scope: user("alice"), Text: "tea"})
	d.wantAll(user("alice"))
}

// Delete_all({user_id: "alice"}), then get_all({user_id: "alice"}) returns
// empty.
func TestDeleteAllForScope(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "one"})
	d.add(memory.Memory{Scope: memory.Scope{User: "alice", Run: "r"}, Text: "two"})
	d.add(memory.Memory{Scope: user("bob"), Text: "one"})
	n, err := d.Memories().DeleteScope(t.Context(), user("alice"))
	if n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	d.wantAll(user("alice"))
	d.wantAll(user("bob"), "one")
	d.wantEvents(id, "ADD null→one false", "DELETE one→null true")
}

// After reset() all collections and history are empty.
func TestResetClearsEverything(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "one", Embedding: []float32{1, 2}})
	d.remove(d.add(memory.Memory{Scope: user("bob"), Text: "two"}))
	if n, err := d.Reset(t.Context()); n != 1 || err != nil {
		t.Errorf("reset %d, %v", n, err)
	}
	for range 2 { // also after opening it again
		d.wantAll(user("alice"))
		d.finds(memory.Query{Scope: user("alice"), Text: "one"})
		d.finds(memory.Query{Scope: user("alice"), Embedding: []float32{1, 2}})
		_, err := d.Memories().History(t.Context(), memory.Scope{}, id)
		d.wantErr(err, fault.ErrNotFound)
		for h, err := range d.Memories().Histories(t.Context(), memory.HistoryQuery{AllScopes: true}) {
			t.Errorf("a history is left: %+v, %v", h, err)
		}
		d.close()
		d.open()
	}
}

// Memories added with user_id "alice" are not returned when searching with
// user_id "bob".
func TestScopeIsolation(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(memory.Memory{Scope: user("alice"), Text: "User likes Python", Embedding: []float32{1, 0}})
	d.add(memory.Memory{Scope: user("bob"), Text: "User likes cheese", Embedding: []float32{0, 1}})
	for _, profile := range []memory.Profile{memory.ProfileBest, memory.ProfileText, memory.ProfileHybrid, memory.ProfileSubstrate} {
		for _, text := range d.search(memory.Query{Scope: user("bob"), Text: "likes Python", Profile: profile}) {
			if text != "User likes cheese" {
				t.Errorf("%s: bob finds %q", profile, text)
			}
		}
	}
	d.finds(memory.Query{Scope: user("bob"), Embedding: []float32{1, 0}, Profile: memory.ProfileVector}, "User likes cheese")
	d.finds(memory.Query{Scope: user("bob"), Text: "Python", Profile: memory.ProfileText})
	d.finds(memory.Query{Scope: user("alice"), Text: "Python", Profile: memory.ProfileText}, "User likes Python")
}

// Memories of {user_id: "alice", agent_id: "helper"} require both fields to
// match where both are given. A query that gives one constrains that one.
func TestMultiScopeFilter(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(memory.Memory{Scope: memory.Scope{User: "alice", Agent: "helper"}, Text: "User likes Python"})
	for _, test := range []struct {
		scope memory.Scope
		found bool
	}{
		{memory.Scope{User: "alice", Agent: "helper"}, true},
		{memory.Scope{User: "alice"}, true},
		{memory.Scope{Agent: "helper"}, true},
		{memory.Scope{User: "alice", Agent: "planner"}, false},
		{memory.Scope{User: "bob", Agent: "helper"}, false},
		{memory.Scope{User: "alice", Agent: "helper", Run: "r"}, false},
	} {
		var want []string
		if test.found {
			want = []string{"User likes Python"}
		}
		d.finds(memory.Query{Scope: test.scope, Text: "Python"}, want...)
		d.wantAll(test.scope, want...)
	}
	both := `{"AND":[{"field":"user_id","operator":"eq","value":"alice"},{"field":"agent_id","operator":"eq","value":"helper"}]}`
	d.filtered(user("alice"), "Python", both, "User likes Python")
	d.filtered(user("alice"), "Python", strings.Replace(both, "helper", "planner", 1))
}

// A call with no scope fields is a scope error, of a fixed text.
func TestMissingScopeError(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	ctx := t.Context()
	_, storeErr := d.Memories().Store(ctx, memory.Memory{Text: "whose?"}, nil)
	_, recallErr := d.Memories().Recall(ctx, memory.Query{Text: "whose?"})
	_, listErr := d.Memories().List(ctx, memory.ListQuery{})
	_, deleteErr := d.Memories().DeleteScope(ctx, memory.Scope{})
	for _, err := range []error{storeErr, recallErr, listErr, deleteErr} {
		d.wantErr(err, fault.ErrScope)
		if err != nil && !strings.Contains(err.Error(), "At least one of user_id, agent_id, or run_id must be provided") {
			t.Errorf("it says %q", err)
		}
	}
}

// Memories for run_id "session-1" are separate from run_id "session-2".
func TestRunIsolation(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	for _, run := range []string{"session-1", "session-2"} {
		for _, scope := range []memory.Scope{{Run: run}, {User: "alice", Run: run}} {
			d.add(memory.Memory{Scope: scope, Text: "said in " + run})
		}
	}
	d.finds(memory.Query{Scope: memory.Scope{Run: "session-1"}, Text: "said"}, "said in session-1", "said in session-1")
	d.wantAll(memory.Scope{User: "alice", Run: "session-2"}, "said in session-2")
}

// After add(), history(memory_id) returns one record with event ADD.
func TestAddCreatesHistory(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.wantEvents(d.add(memory.Memory{Scope: user("alice"), Text: "one"}), "ADD null→one false")
}

// After update(), the history has ADD, then UPDATE records.
func TestUpdateAppendsHistory(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "one"})
	d.update(id, "two")
	d.update(id, "three")
	d.wantEvents(id, "ADD null→one false", "UPDATE one→two false", "UPDATE two→three false")
}

// After delete(), the history shows DELETE with is_deleted true.
func TestDeleteMarksHistory(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	id := d.add(memory.Memory{Scope: user("alice"), Text: "one"})
	d.remove(id)
	d.wantEvents(id, "ADD null→one false", "DELETE one→null true")
}

// History records are returned in chronological order, each with an ID and
// the scope of its own.
func TestHistoryOrderedByTime(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	scope := memory.Scope{User: "alice", Agent: "helper", Run: "r"}
	id := d.add(memory.Memory{Scope: scope, Text: "one"})
	d.update(id, "two")
	d.remove(id)
	h, err := d.Memories().History(t.Context(), scope, id)
	if err != nil || len(h) != 3 {
		t.Fatal(h, err)
	}
	seen := map[string]bool{}
	for i, e := range h {
		if seen[e.ID] || len(e.ID) != 36 || e.Scope != scope || i > 0 && !e.Time.After(h[i-1].Time) {
			t.Errorf("entry %d: %+v", i, e)
		}
		seen[e.ID] = true
	}
}

// tagged stores what the filters are tried on.
func tagged(t *testing.T) *publicDB {
	d := newPublicDB(t, engine.Options{})
	for _, m := range []struct {
		text string
		meta map[string]any
	}{
		{"likes work", map[string]any{"tag": "work", "priority": 3}},
		{"likes home", map[string]any{"tag": "home", "priority": 5}},
		{"likes a", map[string]any{"tag": "a"}},
		{"likes b", map[string]any{"tag": "b", "priority": 9}},
		{"likes nothing", nil},
	} {
		d.add(memory.Memory{Scope: user("alice"), Text: m.text, Metadata: m.meta})
		d.add(memory.Memory{Scope: user("bob"), Text: m.text, Metadata: m.meta})
	}
	return d
}

// {field: "tag", operator: "eq", value: "work"} returns only memories with
// tag "work".
func TestEqualsFilter(t *testing.T) {
	tagged(t).filtered(user("alice"), "likes", `{"field":"tag","operator":"eq","value":"work"}`, "likes work")
}

// Operator "in" with value ["a","b"] matches records where the field is "a"
// or "b".
func TestInFilter(t *testing.T) {
	tagged(t).filtered(user("alice"), "likes", `{"field":"tag","operator":"in","value":["a","b"]}`, "likes a", "likes b")
}

// AND: both conditions must match.
func TestAndComposition(t *testing.T) {
	d := tagged(t)
	and := `{"AND":[{"field":"tag","operator":"in","value":["work","b"]},{"field":"priority","operator":"gt","value":%d}]}`
	d.filtered(user("alice"), "likes", fmt.Sprintf(and, 3), "likes b")
	d.filtered(user("alice"), "likes", fmt.Sprintf(and, 2), "likes b", "likes work")
	d.filtered(user("alice"), "likes", fmt.Sprintf(and, 9))
}

// OR: either condition matches.
func TestOrComposition(t *testing.T) {
	d := tagged(t)
	d.filtered(user("alice"), "likes", `{"OR":[{"field":"tag","operator":"eq","value":"home"},{"field":"priority","operator":"gte","value":9}]}`, "likes home", "likes b")
	d.filtered(user("alice"), "likes", `{"AND":[{"field":"user_id","operator":"eq","value":"alice"},
		{"OR":[{"field":"memory","operator":"icontains","value":"WORK"},{"field":"memory","operator":"icontains","value":"Home"}]}]}`,
		"likes work", "likes home")
}

// NOT excludes matching records.
func TestNotNegation(t *testing.T) {
	d := tagged(t)
	d.filtered(user("alice"), "likes", `{"NOT":{"field":"tag","operator":"eq","value":"work"}}`,
		"likes home", "likes a", "likes b", "likes nothing")
	d.filtered(user("alice"), "likes", `{"AND":[{"NOT":{"field":"tag","operator":"in","value":["a","b"]}},{"NOT":{"field":"tag","operator":"eq","value":"home"}}]}`,
		"likes work", "likes nothing")
}

// {operator: "contains", value: "Python"} matches "User likes Python for ML";
// it minds the case, and icontains does not.
func TestContainsString(t *testing.T) {
	d := newPublicDB(t, engine.Options{})
	d.add(memory.Memory{Scope: user("alice"), Text: "User likes Python for ML"})
	d.add(memory.Memory{Scope: user("alice"), Text: "User likes python the snake"})
	d.add(memory.Memory{Scope: user("alice"), Text: "User likes Go"})
	d.filtered(user("alice"), "likes", `{"field":"memory","operator":"contains","value":"Python"}`, "User likes Python for ML")
	d.filtered(user("alice"), "likes", `{"field":"memory","operator":"icontains","value":"PYTHON"}`, "User likes Python for ML", "User likes python the snake")
}
