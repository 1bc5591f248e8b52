package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// sealedDocs is how many documents the sealed chunks hold.
func (db *DB) sealedDocs() (n int) {
	db.chunks.busy.Lock()
	defer db.chunks.busy.Unlock()
	for _, docs := range db.chunks.size {
		n += docs
	}
	return n
}

// sealed waits until every full chunk is sealed and returns how many chunks are.
func (db *DB) waitSealed(t testing.TB) int {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		db.chunks.busy.Lock()
		n, left := len(db.chunks.sealed), len(db.tables.NewestIndex.Load().Sealable())
		db.chunks.busy.Unlock()
		if left == 0 {
			return n
		}
		db.janitor.wake()
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("chunks are not sealed")
	return 0
}

// TestSealedAnswersAlike stores the same memories in a database of one chunk and
// in one of many, updates and deletes some, and reopens the second: both give the
// same answers, to the bit.
func TestSealedAnswersAlike(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	clock := newTestClock()
	fs := vfs.NewMem()
	small := setup{Options: Options{Clock: clock.now}, tuning: tuning{hotBytes: 40 << 10, lookLeast: 1}}
	dbs := []*DB{openTest(t, vfs.NewMem(), Options{Clock: clock.now}), openTest(t, fs, small)}
	words := []string{"tea", "coffee", "milk", "green", "black", "morning", "evening", "sugar", "cup", "pot"}
	text := func() (s string) {
		for range 3 + rng.IntN(8) {
			s += words[rng.IntN(len(words))] + " "
		}
		return s
	}
	for i := range 1500 {
		clock.advance(time.Second)
		m := memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{User: fmt.Sprint("u", i%3), Run: fmt.Sprint("r", i%7)}, Text: fmt.Sprint(i, " ", text()), Metadata: map[string]any{"n": i % 10}}
		for _, db := range dbs {
			mustStore(t, db.Memories(), m)
		}
		if i%5 == 4 {
			id, s := fmt.Sprint(rng.IntN(i)), text()
			for _, db := range dbs {
				if i%2 == 0 {
					_ = db.Memories().Delete(ctx, memory.Scope{}, id)
				} else {
					_, _ = db.Memories().Update(ctx, memory.Scope{}, id, memory.Patch{Text: &s})
				}
			}
		}
	}
	sealed := dbs[1].waitSealed(t)
	if sealed < 5 {
		t.Fatalf("%d chunks are sealed", sealed)
	}
	compare := func(doing string) {
		t.Helper()
		for _, q := range []memory.Query{
			{Scope: memory.Scope{User: "u1"}, Text: "green tea", Profile: memory.ProfileText, Limit: 50},
			{Scope: memory.Scope{User: "u1"}, Text: "morning coffee with milk"},
			{Scope: memory.Scope{Run: "r3"}, Text: "black", Profile: memory.ProfileSubstrate},
			{Scope: memory.Scope{User: "u2"}, Text: "evening pot", Profile: memory.ProfileHybrid, Filter: filter.Eq("metadata.n", 4)},
			{AllScopes: true, Text: "sugar cup", Limit: 100, Filter: filter.Not(filter.Eq("metadata.n", 3))},
		} {
			q.NoTouch = true
			if a, b := mustRecall(t, dbs[0].Memories(), q), mustRecall(t, dbs[1].Memories(), q); !reflect.DeepEqual(a, b) {
				for i := range min(len(a), len(b)) {
					if !reflect.DeepEqual(a[i], b[i]) {
						t.Logf("hit %d:\n%+v\n%+v", i, a[i], b[i])
						break
					}
				}
				t.Fatalf("%s: %+v: %d hits and %d, which differ", doing, q, len(a), len(b))
			}
		}
	}
	compare("sealed")
	for _, db := range dbs {
		if _, err := db.Memories().DeleteScope(ctx, memory.Scope{Run: "r5"}); err != nil {
			t.Fatal(err)
		}
	}
	compare("with a scope deleted")
	closeTest(t, dbs[1])
	dbs[1] = openTest(t, fs, small)
	dbs[1].chunks.busy.Lock()
	opened := len(dbs[1].chunks.sealed)
	dbs[1].chunks.busy.Unlock()
	if opened < sealed/2 { // some may have moved together
		t.Errorf("%d chunks are sealed after opening, of %d", opened, sealed)
	}
	compare("reopened")
	if r, err := dbs[1].Check(ctx); err != nil || !r.OK {
		t.Errorf("check: %+v, %v", r, err)
	}
	if n, err := dbs[1].Reset(ctx); err != nil || n == 0 {
		t.Errorf("reset: %d, %v", n, err)
	}
	if hits := mustRecall(t, dbs[1].Memories(), memory.Query{AllScopes: true, Text: "tea"}); len(hits) > 0 {
		t.Errorf("%d hits after a reset", len(hits))
	}
}

// TestSealedView: a View goes on to see what it saw while its chunks are sealed,
// their documents die, and all is reset.
func TestSealedView(t *testing.T) {
	ctx := context.Background()
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{hotBytes: 20 << 10}})
	for i := range 300 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("tea number ", i)})
	}
	q := memory.Query{Scope: memory.Scope{User: "u"}, Text: "tea", Limit: 300, NoTouch: true}
	err := db.View(ctx, func(tx *Tx) error {
		before := mustRecall(t, tx.Memories(), q)
		for i := range 300 {
			if i%2 == 0 {
				mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("more tea ", i)})
			}
		}
		db.waitSealed(t)
		if !reflect.DeepEqual(before, mustRecall(t, tx.Memories(), q)) {
			t.Error("sealing changed what a view sees")
		}
		if _, err := db.Reset(ctx); err != nil {
			return err
		}
		if !reflect.DeepEqual(before, mustRecall(t, tx.Memories(), q)) {
			t.Error("a reset changed what a view sees")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedSealedChunk: damage to a page is found, by the query or by opening,
// and named.
func TestDamagedSealedChunk(t *testing.T) {
	race.Sequential(t)
	fs := vfs.NewMem()
	db := openTest(t, fs, setup{tuning: tuning{hotBytes: 20 << 10}})
	for i := range 200 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: fmt.Sprint("tea number ", i)})
	}
	db.waitSealed(t)
	for _, kind := range []byte{layout.KindText, layout.KindRows} {
		lower, upper := db.keys().Span(kind)
		noError(t, kv.Scan(db.store, lower, upper, func(key, value []byte) error {
			value = bytes.Clone(value)
			value[len(value)/2] ^= 1
			return db.store.Set(key, value, pebble.Sync)
		}))
	}
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "makes a new read point"})
	if r, err := db.Check(context.Background()); err != nil || len(r.Problems) < 5 {
		t.Errorf("check: %+v, %v", r, err)
	}
	closeTest(t, db)
	// Every row and every page of the text is lost, and made again of the records.
	for _, lost := range []bool{true, false} {
		db = openTest(t, fs, Options{})
		mustCheck(t, db, 201)
		if s, err := db.Stats(t.Context()); err != nil || (s.Lost > 0) != lost || s.Memories != 201 {
			t.Errorf("%d memories, %d things lost, %v", s.Memories, s.Lost, err)
		}
		if hits := mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "u"}, Text: "number 77"}); len(hits) == 0 || hits[0].Text != "tea number 77" {
			t.Errorf("%d hits", len(hits))
		}
		closeTest(t, db)
	}
}

// TestSealNothing: a chunk of which nothing is left when it is sealed is none.
func TestSealNothing(t *testing.T) {
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{hotBytes: 1}})
	ada := memory.Scope{User: "ada"}
	db.chunks.busy.Lock()
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "tea"})
	if err := db.Memories().Delete(t.Context(), ada, "a"); err != nil {
		t.Fatal(err)
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "b", Scope: ada, Text: "coffee"})
	waitForReaders(t, db)
	db.chunks.busy.Unlock()
	janitorDone(t, db)
	db.chunks.busy.Lock()
	defer db.chunks.busy.Unlock()
	if chunks := db.sparse(); len(db.chunks.sealed) > 0 || len(chunks) > 0 {
		t.Errorf("%d chunks are sealed, %v sparse", len(db.chunks.sealed), chunks)
	}
}
