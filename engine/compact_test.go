package engine

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// overwrite puts values over one key, of 2·bytes each.
func overwrite(t *testing.T, db *DB, n, bytes int) (last string) {
	t.Helper()
	b := make([]byte, bytes)
	for range n {
		_, _ = rand.Read(b)
		last = hex.EncodeToString(b)
		if _, err := db.KV().Put(t.Context(), memory.Owner{Agent: "researcher"}, "state", last, nil); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// TestCompactEnds: Compact waits for no log that the store keeps to write it anew.
func TestCompactEnds(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea"})
	comes(t, "that Compact ends before its wait does", func() bool {
		c, err := db.Compact(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c.Took < briefWait
	})
}

// TestCompactGivesRoomBack: what was written over, and logged longer ago than the policy
// says, leaves the disk at once when asked, and what lives is there.
func TestCompactGivesRoomBack(t *testing.T) {
	race.Sequential(t)
	clk, fs := newTestClock(), vfs.NewMem()
	o := setup{Options: Options{Clock: clk.now}}
	db := openTest(t, fs, o)
	setPolicy(t, db, func(p *policy.Policy) { p.Log = policy.Span(time.Hour) })
	mustStore(t, db.Memories(), memory.Memory{ID: "m", Scope: memory.Scope{User: "ada"}, Text: "green tea"})
	last := overwrite(t, db, 60, 100<<10)
	clk.advance(2 * time.Hour)
	janitorDone(t, db) // what reads behind the opening keeps what it sees
	c, err := db.Compact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const few = 1 << 20 // the value, and a log that has begun
	if _, tables := db.store.Garbage(); c.DiskBytesBefore < 12<<20 || c.DiskBytesAfter >= c.DiskBytesBefore || tables > few {
		t.Errorf("%d bytes, before %d, of which tables have %d", c.DiskBytesAfter, c.DiskBytesBefore, tables)
	}
	for range 2 {
		mustCheck(t, db, 1)
		e, err := db.KV().Get(t.Context(), memory.Owner{Agent: "researcher"}, "state")
		if err != nil || string(e.Value) != `"`+last+`"` {
			t.Errorf("the entry has %d bytes, %v", len(e.Value), err)
		}
		closeTest(t, db)
		db = openTest(t, fs, o)
	}
	closeTest(t, db)
}

// TestDeadBytesAreCompacted: the store is compacted by itself once much of it is dead, and
// not again before as much has died since.
func TestDeadBytesAreCompacted(t *testing.T) {
	race.Sequential(t)
	// Nothing is flushed but by the compaction.
	db := openTest(t, vfs.NewMem(), Options{MemoryBudget: 1 << 30})
	var d deadness
	compacted := func() bool {
		t.Helper()
		before := db.store.Metrics().Flush.Count
		if err := db.compactDead(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
		return db.store.Metrics().Flush.Count > before
	}
	overwrite(t, db, 20, 100<<10)
	if compacted() {
		t.Error("compacted where little is dead")
	}
	// Now it is, behind the calls.
	overwrite(t, db, 80, 100<<10)
	for deadline := time.Now().Add(patience); db.store.Metrics().Flush.Count == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not compacted")
		}
	}
	for range 2 { // it may be in the midst of it
		compacted()
	}
	if dead, _ := db.store.Garbage(); dead >= deadLeast || compacted() {
		t.Errorf("%d bytes are still dead, or it was compacted in vain", dead)
	}
	closeTest(t, db)
}

// TestRAMFollowsWhatLives: after many memories came and went, each in a run of its own, the
// tables in RAM hold what is left, without reopening.
func TestRAMFollowsWhatLives(t *testing.T) {
	race.Sequential(t)
	const each, stay = 400, 5
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{hotBytes: 30 << 10, lookLeast: 1}})
	m, ada := db.Memories(), memory.Scope{User: "ada"}
	for round := range 4 {
		for i := range each {
			n := round*each + i
			s := memory.Scope{User: "ada", Run: fmt.Sprint("run ", n)}
			mustStore(t, m, memory.Memory{ID: fmt.Sprint(n), Scope: s, Text: fmt.Sprintf("word%d note%d about thing%d", n, n, n), Embedding: []float32{1, float32(n)}})
			if n >= stay {
				if err := m.Delete(t.Context(), memory.Scope{}, fmt.Sprint(n-stay)); err != nil {
					t.Fatal(err)
				}
			}
		}
		janitorDone(t, db)
		if err := db.releaseRuns(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(db.tables.Docs.Runs.Lists); n > 2*stay {
			t.Errorf("round %d: %d lists of runs", round, n)
		}
		if n := mustStats(t, db).Terms; n > 3*each {
			t.Errorf("round %d: %d terms", round, n)
		}
		const pages = 2*stay + 2 // a chunk has one at least: of those that live, and that are left
		for deadline := time.Now().Add(patience); db.tables.Docs.Rows.Pages.Load() > pages; janitorDone(t, db) {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %d pages of rows", round, db.tables.Docs.Rows.Pages.Load())
			}
		}
	}
	mustCheck(t, db, stay)
	if hits := mustRecall(t, m, memory.Query{Scope: ada, Text: "about", Profile: memory.ProfileText}); len(hits) != stay {
		t.Errorf("%d are found", len(hits))
	}
	closeTest(t, db)
}
