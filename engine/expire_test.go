package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// mustExpire deletes what has expired.
func mustExpire(t testing.TB, db *DB) {
	t.Helper()
	if err := db.expire(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestExpiredAreFreed: what has expired is deleted, more than one page, is counted
// no more, leaves nothing but its history, and keeps nothing that has not expired.
func TestExpiredAreFreed(t *testing.T) {
	const n = 3*doctable.PageSize + 7
	clock, fs, ada := newTestClock(), vfs.NewMem(), Scope{User: "ada", Run: "r"}
	db := openTest(t, fs, Options{Clock: clock.now})
	for i := range n {
		m := Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("text ", i), ExpiresAt: clock.now().Add(time.Minute), Embedding: []float32{1, 2, float32(i)}}
		if i%10 == 0 {
			m.ExpiresAt = clock.now().Add(time.Hour)
		}
		mustStore(t, db.Memories(), m)
	}
	const left = (n + 9) / 10
	before := db.LSN()
	mustExpire(t, db)
	if db.LSN() != before {
		t.Error("something was deleted before it expired")
	}
	clock.advance(time.Minute)
	mustExpire(t, db)
	st, err := db.Stats(t.Context())
	if err != nil || st.Memories != left {
		t.Fatalf("%d memories are counted, want %d; %v", st.Memories, left, err)
	}
	if got, most := db.LSN()-before, uint64(n/doctable.PageSize+2); got > most {
		t.Errorf("%d commits, want at most %d", got, most)
	}
	waitCleaned(t, db)
	waitVectors(t, db, left)
	for _, kind := range []byte{layout.KindForward, layout.KindDedup, layout.KindVector} {
		if got := countKeys(t, db, kind); got != left {
			t.Errorf("%d keys of kind %c are left of %d memories", got, kind, left)
		}
	}
	mustCheck(t, db, left)
	h := mustHistory(t, db.Memories(), ada, "1")
	if len(h) != 2 || h[1].Event != EventDelete || !h[1].Time.Equal(clock.now()) || *h[1].OldText != "text 1" {
		t.Errorf("history: %+v", h)
	}
	if len(mustList(t, db.Memories(), ada)) != left {
		t.Error("what has not expired is gone")
	}
	clock.advance(time.Hour)
	mustExpire(t, db)
	mustCheck(t, db, 0)
	before = db.LSN()
	mustExpire(t, db)
	if _, page := db.docs.Expired(nil, 0, maxTime); page != 0 || db.LSN() != before {
		t.Errorf("page %d is said to have what expires", page)
	}
}

// TestExpiredInView: a View from before sees what it saw, also while its clock says that it
// has not expired, and what is retained stays retained.
func TestExpiredInView(t *testing.T) {
	clock, ada := newTestClock(), Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now, Retain: time.Hour})
	mustStore(t, db.Memories(), Memory{ID: "a", Scope: ada, Text: "tea", ExpiresAt: clock.now().Add(time.Minute), Embedding: []float32{1, 2}})
	err := db.View(t.Context(), func(tx *Tx) error {
		clock.advance(2 * time.Minute)
		mustExpire(t, db)
		janitorDone(t, db)
		if n := len(mustList(t, tx.Memories(), ada)); n != 1 {
			t.Errorf("the View lists %d memories", n)
		}
		if n := len(mustRecall(t, tx.Memories(), Query{Scope: ada, Text: "tea"})); n != 1 {
			t.Errorf("the View finds %d memories", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := countKeys(t, db, layout.KindVector); n != 1 {
		t.Errorf("%d vectors while the state is retained", n)
	}
	clock.advance(3 * time.Hour)
	mustStore(t, db.Memories(), Memory{Scope: ada, Text: "later"})
	clock.advance(3 * time.Hour)
	db.janitor.wake()
	waitCleaned(t, db)
	mustCheck(t, db, 1)
}

// TestExpiredPassesDamage: one that cannot be read keeps no other.
func TestExpiredPassesDamage(t *testing.T) {
	clock, ada := newTestClock(), Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	for i := range 3 {
		mustStore(t, db.Memories(), Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("text ", i), ExpiresAt: clock.now().Add(time.Minute)})
	}
	row := db.docs.Row(1)
	if err := db.store.Set(db.keys().Record(row.Version), []byte{99}, nil); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	mustExpire(t, db)
	if n := db.docs.Live.Load(); n != 0 {
		t.Errorf("%d are left", n)
	}
	waitCleaned(t, db)
	if n := countKeys(t, db, layout.KindForward); n != 0 {
		t.Errorf("%d forward records are left", n)
	}
}

// TestExpiresByItself: nobody has to ask for it, and what expired while the database was
// closed goes when it is opened.
func TestExpiresByItself(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{MemoryBudget: testBudget}
	db, err := openOn(fs, "db", o)
	if err != nil {
		t.Fatal(err)
	}
	mustStore(t, db.Memories(), Memory{Scope: Scope{User: "ada"}, Text: "tea", ExpiresAt: time.Now().Add(10 * time.Millisecond)})
	closeTest(t, db)
	time.Sleep(20 * time.Millisecond)
	db = openTest(t, fs, o)
	waitFor(t, func() bool {
		r, err := db.Check(t.Context())
		return err == nil && r.OK && r.Memories == 0
	})
}

// TestExpiredCopies: a text that comes again and again and expires each time, or is deleted
// with its scope each time while somebody reads, leaves no copies among which the next has
// to be looked for.
func TestExpiredCopies(t *testing.T) {
	clock, ada := newTestClock(), Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	err := db.View(t.Context(), func(*Tx) error {
		for i := range 400 {
			mustStore(t, db.Memories(), Memory{Scope: ada, Text: "heartbeat", ExpiresAt: clock.now().Add(time.Second)})
			clock.advance(2 * time.Second)
			if i%10 == 0 {
				if _, err := db.Memories().DeleteScope(t.Context(), ada); err != nil {
					return err
				}
			}
			if n := countKeys(t, db, layout.KindDedup); n > 2 {
				t.Fatalf("%d dedup keys after %d stores", n, i+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := db.docs.Live.Load(); n != 1 {
		t.Errorf("%d memories are there", n)
	}
	waitCleaned(t, db)
	mustCheck(t, db, 1)
}
