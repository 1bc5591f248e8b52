package ageing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

var agent = memory.Scope{Agent: "a"}

// left waits until so many memories are there.
func left(t *testing.T, db *engine.DB, n int64) {
	t.Helper()
	testdb.Soon(t, fmt.Sprintf("%d memories are left", n), func() bool { return testdb.Stats(t, db).Memories == n })
}

// TestExpires: what has expired while the database was closed is deleted once it is open, and nothing else.
func TestExpires(t *testing.T) {
	fs, clk := vfs.NewMem(), testdb.NewClock()
	db := testdb.Open(t, fs, engine.Options{Clock: clk.Now})
	for i := range 10 {
		testdb.Store(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: agent, Text: fmt.Sprint("text ", i), ExpiresAt: clk.Now().Add(time.Duration(1+i%2) * time.Hour)})
	}
	testdb.Close(t, db)
	clk.Advance(90 * time.Minute)
	db = testdb.Open(t, fs, engine.Options{Clock: clk.Now})
	left(t, db, 5)
	h, err := db.Memories().History(t.Context(), agent, "m0")
	if err != nil || h[len(h)-1].Reason != memory.ReasonExpired {
		t.Errorf("%+v, %v", h, err)
	}
	if m := testdb.List(t, db.Memories(), agent); len(m) != 5 || m[0].ID != "m1" {
		t.Errorf("left %+v", m)
	}
}

// TestKeepsCaps: an owner that comes to have more than the cap and its slack keeps the cap's most important ones; under a
// cap for agents so do all users of an agent together.
func TestKeepsCaps(t *testing.T) {
	for _, per := range []string{policy.PerOwner, policy.PerAgent} {
		t.Run(per, func(t *testing.T) {
			db := testdb.New(t, engine.Options{KeepCaps: true})
			testdb.SetPolicy(t, db, func(p *policy.Policy) { p.Cap, p.CapPer = 20, per })
			var all []memory.Memory
			for i := range 30 {
				all = append(all, memory.Memory{ID: fmt.Sprint("m", i), Scope: agent, Text: fmt.Sprint("text ", i), Importance: new(float64(i) / 100)})
				if per == policy.PerAgent {
					all[i].User = fmt.Sprint("u", i%10)
				}
			}
			_, err := db.Memories().StoreBatch(t.Context(), all, nil)
			testdb.NoError(t, err)
			left(t, db, 20)
			for i, m := range all {
				_, err := db.Memories().Get(t.Context(), m.Scope, m.ID)
				if there := err == nil; there != (i >= 10) {
					t.Errorf("%s is there: %v", m.ID, there)
				}
			}
		})
	}
}

// TestSweeps: with EvictOnCompaction a database evicts what is old and unimportant by itself.
func TestSweeps(t *testing.T) {
	fs, clk := vfs.NewMem(), testdb.NewClock()
	db := testdb.Open(t, fs, engine.Options{Clock: clk.Now})
	testdb.Store(t, db.Memories(), memory.Memory{ID: "old", Scope: agent, Text: "small talk", Importance: new(.1)})
	testdb.Store(t, db.Memories(), memory.Memory{ID: "important", Scope: agent, Text: "my name is Ada", Importance: new(1.0)})
	testdb.Close(t, db)
	clk.Advance(400 * 24 * time.Hour)
	var heard struct {
		sync.Mutex
		all []engine.Eviction
	}
	db = testdb.Open(t, fs, engine.Options{Clock: clk.Now, EvictOnCompaction: true, Hooks: engine.Hooks{Evicted: func(_ context.Context, e engine.Eviction) {
		heard.Lock()
		defer heard.Unlock()
		heard.all = append(heard.all, e)
	}}})
	left(t, db, 1)
	testdb.Soon(t, "the observer hears of it", func() bool {
		heard.Lock()
		defer heard.Unlock()
		return len(heard.all) > 0
	})
	if e := heard.all[0]; len(heard.all) != 1 || e.ID != "old" || e.Reason != policy.Age || e.LSN == 0 {
		t.Errorf("heard %+v", heard.all)
	}
}

// TestSchedule: a job comes when its time has come since it came last, also while the database was closed.
func TestSchedule(t *testing.T) {
	fs, clk := vfs.NewMem(), testdb.NewClock()
	o := engine.Options{Clock: clk.Now, Schedule: &policy.Schedule{Evict: "0 3 * * *", Consolidate: "0 4 * * 0"}}
	db := testdb.Open(t, fs, o)
	testdb.Store(t, db.Memories(), memory.Memory{ID: "old", Scope: agent, Text: "small talk", Importance: new(.1)})
	testdb.Soon(t, "the first look, which begins to count", func() bool {
		known := false
		testdb.NoError(t, db.View(t.Context(), func(tx *engine.Tx) error {
			known = tx.LSN() >= 3 // the memory and two jobs
			return nil
		}))
		return known
	})
	testdb.Close(t, db)
	clk.Advance(400 * 24 * time.Hour)
	db = testdb.Open(t, fs, o)
	left(t, db, 0)
	h, err := db.Memories().History(t.Context(), agent, "old")
	if err != nil || h[len(h)-1].Reason != memory.Reason("evicted:"+string(policy.Age)) {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestMergesWhatSaysTheSame: the newest of several memories that say the same stays, with what the others had, and an Undo
// brings them back.
func TestMergesWhatSaysTheSame(t *testing.T) {
	clk := testdb.NewClock()
	db := testdb.New(t, engine.Options{Clock: clk.Now})
	for i, text := range []string{"I like tea", "I like tea.", "I like tea\n"} {
		clk.Advance(time.Minute)
		_, err := db.Memories().StoreBatch(t.Context(), []memory.Memory{{ID: fmt.Sprint("m", i), Scope: agent, Text: text, Importance: new(.9 - float64(i)/10)}}, &memory.StoreOptions{NoDedup: true})
		testdb.NoError(t, err)
	}
	testdb.SetPolicy(t, db, func(p *policy.Policy) { p.Trash = policy.Span(time.Hour) })
	r, err := db.Consolidate(t.Context(), &engine.ConsolidateOptions{Merge: new(true)})
	if err != nil || r.Merged != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	m, err := db.Memories().Get(t.Context(), agent, "m2")
	if err != nil || *m.Importance != .9 {
		t.Errorf("the survivor: %+v, %v", m, err)
	}
	u, err := db.Undo(t.Context(), r.LSN)
	if err != nil || u.Restored != 2 {
		t.Errorf("undo: %+v, %v", u, err)
	}
	if m, err = db.Memories().Get(t.Context(), agent, "m2"); err != nil || *m.Importance != .7 {
		t.Errorf("the survivor after the undo: %+v, %v", m, err)
	}
}
