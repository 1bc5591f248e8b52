package usage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestDeleteAgent: all that an agent has goes in one commit, and nothing of another.
func TestDeleteAgent(t *testing.T) {
	db, ctx := testdb.Open(t, vfs.NewMem(), engine.Options{}), t.Context()
	for _, o := range []memory.Owner{{Agent: "a1"}, {User: "ada", Agent: "a1"}, {Agent: "a2"}, {User: "a1"}} {
		testdb.Store(t, db.Memories(), memory.Memory{Scope: o.Scope(), Text: "tea"})
		_, err := db.KV().Put(ctx, o, "k", 1, &entries.PutOptions{})
		if err == nil {
			_, err = db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m", Cost: usd(t, "1")}, nil)
		}
		if err == nil {
			err = db.Usage().SetBudget(ctx, usage.Budget{Owner: o, Limit: usd(t, "2")})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a1", "a2"} {
		if _, err := db.Usage().AddAgent(ctx, usage.Agent{ID: id, Metadata: []byte(`{"x": 1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	before := db.LSN()
	deleted, err := db.DeleteAgent(ctx, "a1")
	if err != nil || deleted["memories"] != 2 || deleted["entries"] != 2 || deleted["usage"] != 2 || db.LSN() != before+1 {
		t.Errorf("%v, %d commits, %v", deleted, db.LSN()-before, err)
	}
	_, err = db.Usage().Agent(ctx, "a1")
	testdb.WantError(t, "a deleted agent", err, fault.ErrNotFound)
	budgets, err := db.Usage().Budgets(ctx, memory.Owner{User: "ada", Agent: "a1"})
	if err != nil || len(budgets) != 0 {
		t.Error(budgets, err)
	}
	if a, err := db.Usage().Agent(ctx, "a2"); err != nil || string(a.Metadata) != `{"x":1}` {
		t.Error(a, err)
	}
	if s, err := db.Usage().Total(ctx, usage.Query{}); err != nil || s.Records != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if deleted, err := db.DeleteAgent(ctx, "nobody"); err != nil || deleted["memories"] != 0 {
		t.Error(deleted, err)
	}
	testdb.Check(t, db, 2)
}

// TestStrictAgents: agents are there as soon as something is stored for them, unless the
// database takes only those with a manifest. Then each structure refuses others, changes
// nothing, and says what to do; what is there can be read, changed and deleted.
func TestStrictAgents(t *testing.T) {
	fs := vfs.NewMem()
	db, ctx := testdb.Open(t, fs, engine.Options{}), t.Context()
	old := memory.Owner{User: "ada", Agent: "old"}
	kept := testdb.Store(t, db.Memories(), memory.Memory{Scope: memory.Scope{Agent: "old"}, Text: "implicit"})
	testdb.Store(t, db.Memories(), memory.Memory{Scope: old.Scope(), Text: "implicit"})
	testdb.Close(t, db)

	db = testdb.Open(t, fs, engine.Options{StrictAgents: true})
	writes := func(o memory.Owner) map[string]error {
		_, store := db.Memories().Store(ctx, memory.Memory{Scope: o.Scope(), Text: "tea"}, nil)
		_, again := db.Memories().Store(ctx, memory.Memory{Scope: o.Scope(), Text: "implicit"}, nil)
		_, batch := db.Memories().StoreBatch(ctx, []memory.Memory{{Scope: o.Scope(), Text: "x"}, {Scope: o.Scope(), Text: "y"}}, nil)
		text := "old"
		_, life := db.Memories().Restore(ctx, []memory.Life{{History: []memory.HistoryEntry{
			{MemoryID: "gone", Scope: o.Scope(), Event: memory.EventAdd, NewText: &text, Time: time.Now()},
			{MemoryID: "gone", Scope: o.Scope(), Event: memory.EventDelete, Time: time.Now()},
		}}}, nil)
		_, kv := db.KV().Put(ctx, o, "k", 1, nil)
		_, plain := db.Sessions().Append(ctx, o, "s", []sessions.Message{{Text: "hello"}}, &sessions.AppendOptions{NoMemory: true})
		_, saved := db.Sessions().Save(ctx, o, "saved", []sessions.Item{{Message: &sessions.Message{ID: "1", Role: "user", Text: "x"}}}, nil)
		_, note := db.Notes().Add(ctx, o, "n", "text", "")
		_, entity := db.Graph().Put(ctx, o, graph.Entity{ID: "e"}, nil, nil)
		_, used := db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m", Cost: usd(t, "1")}, nil)
		return map[string]error{
			"a memory": store, "a duplicate": again, "a batch": batch, "a history": life, "an entry": kv, "a session": plain, "a saved session": saved,
			"a note": note, "an entity": entity, "usage": used, "a budget": db.Usage().SetBudget(ctx, usage.Budget{Owner: o, Limit: usd(t, "2")}),
		}
	}
	before := db.LSN()
	for _, o := range []memory.Owner{{Agent: "new"}, {User: "ada", Agent: "new"}, old} {
		for what, err := range writes(o) {
			testdb.WantError(t, what, err, memory.ErrUnknownAgent)
			if !strings.Contains(err.Error(), o.Agent) || !strings.Contains(err.Error(), "manifest") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if db.LSN() != before {
		t.Errorf("%d commits of what was refused", db.LSN()-before)
	}
	for what, err := range writes(memory.Owner{User: "ada"}) { // who is no agent needs no manifest
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	changed := "changed"
	if _, err := db.Memories().Update(ctx, memory.Scope{Agent: "old"}, kept.ID, memory.Patch{Text: &changed}); err != nil {
		t.Error(err)
	}
	if err := db.Memories().Delete(ctx, memory.Scope{Agent: "old"}, kept.ID); err != nil {
		t.Error(err)
	}
	if _, err := db.Usage().AddAgent(ctx, usage.Agent{ID: "new"}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []memory.Owner{{Agent: "new"}, {User: "ada", Agent: "new"}} {
		for what, err := range writes(o) {
			if err != nil {
				t.Errorf("%s of a registered agent: %v", what, err)
			}
		}
	}
	err := db.Update(ctx, func(tx *engine.Tx) error { // what is registered in the transaction counts
		if _, err := tx.DeleteAgent(ctx, "new"); err != nil {
			return err
		}
		_, gone := tx.KV().Put(ctx, memory.Owner{Agent: "new"}, "k", 1, nil)
		testdb.WantError(t, "a deleted agent", gone, memory.ErrUnknownAgent)
		if _, err := tx.Usage().AddAgent(ctx, usage.Agent{ID: "newer"}); err != nil {
			return err
		}
		_, err := tx.KV().Put(ctx, memory.Owner{Agent: "newer"}, "k", 1, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := db.Check(ctx); err != nil || !r.OK {
		t.Error(r, err)
	}
}
