package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// mustExpire deletes what has expired.
func mustExpire(t testing.TB, db *DB) {
	t.Helper()
	if err := db.ageing.Expire(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestExpiredAreFreed: what has expired is deleted, more than one page, is counted
// no more, leaves nothing but its history, and keeps nothing that has not expired.
func TestExpiredAreFreed(t *testing.T) {
	const n = 3*doctable.PageSize + 7
	clock, fs, ada := newTestClock(), vfs.NewMem(), memory.Scope{User: "ada", Run: "r"}
	db := openTest(t, fs, Options{Clock: clock.now})
	setPolicy(t, db, func(p *policy.Policy) { p.Trash = 0 })
	for i := range n {
		m := memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("text ", i), ExpiresAt: clock.now().Add(time.Minute), Embedding: []float32{1, 2, float32(i)}}
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
	if len(h) != 2 || h[1].Event != memory.EventDelete || !h[1].Time.Equal(clock.now()) || *h[1].OldText != "text 1" {
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
	if _, page := db.tables.Docs.Expired(nil, 0, math.MaxInt64); page != 0 || db.LSN() != before {
		t.Errorf("page %d is said to have what expires", page)
	}
}

// TestExpiredInView: a View from before sees what it saw, also while its clock says that it
// has not expired, and what is retained stays retained.
func TestExpiredInView(t *testing.T) {
	clock, ada := newTestClock(), memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now, Retain: time.Hour})
	mustStore(t, db.Memories(), memory.Memory{ID: "a", Scope: ada, Text: "tea", ExpiresAt: clock.now().Add(time.Minute), Embedding: []float32{1, 2}})
	err := db.View(t.Context(), func(tx *Tx) error {
		clock.advance(2 * time.Minute)
		mustExpire(t, db)
		janitorDoneBeside(t, db, tx.LSN())
		if n := len(mustList(t, tx.Memories(), ada)); n != 1 {
			t.Errorf("the View lists %d memories", n)
		}
		if n := len(mustRecall(t, tx.Memories(), memory.Query{Scope: ada, Text: "tea"})); n != 1 {
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
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "later"})
	clock.advance(3 * time.Hour)
	db.janitor.wake()
	waitCleaned(t, db)
	mustCheck(t, db, 1)
}

// TestExpiredPassesDamage: one that cannot be read keeps no other.
func TestExpiredPassesDamage(t *testing.T) {
	clock, ada := newTestClock(), memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	for i := range 3 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("text ", i), ExpiresAt: clock.now().Add(time.Minute)})
	}
	row := db.tables.Docs.Row(1)
	if err := db.store.Set(db.keys().Record(row.Version), []byte{99}, nil); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	mustExpire(t, db)
	if n := db.tables.Docs.Live.Load(); n != 0 {
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
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea", ExpiresAt: time.Now().Add(10 * time.Millisecond)})
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
	clock, ada := newTestClock(), memory.Scope{User: "ada"}
	db := openTest(t, vfs.NewMem(), Options{Clock: clock.now})
	err := db.View(t.Context(), func(*Tx) error {
		for i := range 400 {
			mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "heartbeat", ExpiresAt: clock.now().Add(time.Second)})
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
	if n := db.tables.Docs.Live.Load(); n != 1 {
		t.Errorf("%d memories are there", n)
	}
	waitCleaned(t, db)
	mustCheck(t, db, 1)
}

// TestEvictOnCompaction: once the store flushes, what the policy rules out goes, page by page, and
// nothing else; with a reason, and not against a verdict.
func TestEvictOnCompaction(t *testing.T) {
	fs, clk := vfs.NewMem(), newTestClock()
	var asked atomic.Int64
	hooks := Hooks{Verdict: func(_ context.Context, j Judged) policy.Verdict {
		if asked.Add(1); j.Rule == "" {
			t.Errorf("a verdict about %s, which no rule takes", j.Memory.ID)
		}
		if j.Memory.Metadata["keep"] == true {
			return policy.Verdict{Act: policy.Keep, Why: "asked for"}
		}
		return policy.Verdict{}
	}}
	db := openTest(t, fs, setup{Options: Options{EvictOnCompaction: true, Clock: clk.now, Hooks: hooks}})
	old := clk.now().Add(-40 * 24 * time.Hour)
	want := map[string]bool{}
	add := func(id string, stays bool, m memory.Memory) {
		m.ID, m.Text, m.Scope = id, "text of "+id, memory.Scope{User: "u", Agent: fmt.Sprint("a", len(want)%7)}
		mustStore(t, db.Memories(), m)
		want[id] = stays
	}
	for i := range 700 {
		add(fmt.Sprint("old", i), false, memory.Memory{CreatedAt: old, Importance: new(.1)})
		add(fmt.Sprint("important", i), true, memory.Memory{CreatedAt: old, Importance: new(.5)})
		add(fmt.Sprint("young", i), true, memory.Memory{Importance: new(.1)})
		add(fmt.Sprint("unsure", i), false, memory.Memory{Importance: new(.5), Confidence: new(.05)})
	}
	add("pinned", true, memory.Memory{CreatedAt: old, Importance: new(.1), Pinned: true})
	add("archive", true, memory.Memory{CreatedAt: old, Importance: new(.1), Kind: memory.KindArchive})
	add("kept", true, memory.Memory{CreatedAt: old, Importance: new(.1), Metadata: map[string]any{"keep": true}})
	left := 0
	for _, stays := range want {
		if stays {
			left++
		}
	}
	if _, err := db.store.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	comes(t, "the eviction", func() bool {
		n, err := db.Memories().Count(t.Context(), memory.ListQuery{Scope: memory.Scope{User: "u"}})
		return err == nil && n == left
	})
	for _, m := range mustList(t, db.Memories(), memory.Scope{User: "u"}) {
		if !want[m.ID] {
			t.Errorf("%s is there", m.ID)
		}
	}
	h, err := db.Memories().History(t.Context(), memory.Scope{User: "u"}, "unsure0")
	if err != nil || len(h) == 0 || h[len(h)-1].Reason != memory.ReasonConfidence {
		t.Errorf("%+v, %v", h, err)
	}
	if asked.Load() == 0 {
		t.Error("no verdict was asked for")
	}
	mustCheck(t, db, left)
	closeTest(t, db)
}

// TestAgedPages: the pages that are looked through are those that may have something to evict, a
// bounded number at once, and all in turn.
func TestAgedPages(t *testing.T) {
	fs, clk := vfs.NewMem(), newTestClock()
	db := openTest(t, fs, setup{Options: Options{Clock: clk.now}})
	p := policy.Default()
	if pages, next := db.ageing.AgedPages(&p, 0); len(pages) != 0 || next != 0 {
		t.Errorf("of none: %v, %d", pages, next)
	}
	var batch []memory.Memory
	for i := range 3 * doctable.PageSize {
		m := memory.Memory{Text: fmt.Sprint("number ", i), Scope: memory.Scope{User: "u"}, Importance: new(.1), CreatedAt: clk.now()}
		if i/doctable.PageSize == 1 {
			m.Importance = new(.9)
		}
		batch = append(batch, m)
	}
	if _, err := db.Memories().StoreBatch(t.Context(), batch, nil); err != nil {
		t.Fatal(err)
	}
	if pages, next := db.ageing.AgedPages(&p, 0); len(pages) != 0 || next != 0 {
		t.Errorf("while all are young: %v, %d", pages, next)
	}
	clk.advance(31 * 24 * time.Hour)
	if pages, next := db.ageing.AgedPages(&p, 0); !slices.Equal(pages, []uint64{0, 2}) || next != 0 {
		t.Errorf("once all are old: %v, %d", pages, next)
	}
	if pages, _ := db.ageing.AgedPages(&p, 1); !slices.Equal(pages, []uint64{2}) {
		t.Errorf("from the second on: %v", pages)
	}
	// A consolidation with a low floor makes it possible that any confidence is too low.
	p.Floor = .01
	setPolicy(t, db, func(stored *policy.Policy) { stored.Floor = .01 })
	mustConsolidate(t, db, ConsolidateOptions{Rate: new(.5), Merge: new(false)})
	if pages, _ := db.ageing.AgedPages(&p, 0); len(pages) != 3 {
		t.Errorf("under a low floor: %v", pages)
	}
	closeTest(t, db)
}
