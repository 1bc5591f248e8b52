package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// queueStores holds the writer lock while the calls come, so that they are
// committed as one group, in their order. before runs when all are in the queue.
func queueStores(t *testing.T, db *DB, calls []func(), before ...func()) {
	t.Helper()
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(call)
		for queued := -1; queued <= i; time.Sleep(time.Millisecond) {
			db.writer.group.mu.Lock()
			queued = len(db.writer.group.waiting)
			db.writer.group.mu.Unlock()
		}
	}
	for _, f := range before {
		f()
	}
	db.unlock()
	all.Wait()
}

// TestGroup commits new memories, duplicates within the group, conflicts, an upsert
// and batches together: each has the outcome that it would have by itself, and each
// change its own LSN and log record.
func TestGroup(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "old", Scope: ada, Text: "was here"})
	before := db.LSN()
	type outcome struct {
		stored []memory.Stored
		err    error
	}
	type call struct {
		mems []memory.Memory
		o    *memory.StoreOptions
		want func(o outcome) bool
	}
	isNew := func(o outcome) bool { return o.err == nil && o.stored[0].Stored }
	exists := func(o outcome) bool { return errors.Is(o.err, fault.ErrExists) }
	calls := []call{
		{[]memory.Memory{{Scope: ada, Text: "tea"}}, nil, isNew},
		{[]memory.Memory{{Scope: ada, Text: "tea"}}, nil, func(o outcome) bool { return o.err == nil && o.stored[0].Deduplicated }},
		{[]memory.Memory{{Scope: memory.Scope{User: "bob", Run: "r1"}, Text: "tea"}}, nil, isNew},
		{[]memory.Memory{{ID: "old", Scope: ada, Text: "other"}}, nil, exists},
		{[]memory.Memory{{ID: "new", Scope: ada, Text: "one"}}, nil, isNew},
		{[]memory.Memory{{ID: "new", Scope: ada, Text: "two"}}, nil, exists},
		// Refused, by an owner that nobody has heard of: it must not get a number.
		{[]memory.Memory{{Scope: memory.Scope{User: "eve"}, Text: "x"}, {ID: "a", Scope: ada, Text: "a"}, {ID: "old", Scope: ada, Text: "no"}}, nil, exists},
		{[]memory.Memory{{ID: "old", Scope: ada, Text: "changed"}}, &memory.StoreOptions{Upsert: true}, func(o outcome) bool { return o.err == nil && o.stored[0].Updated }},
		{[]memory.Memory{{Scope: ada, Text: "was here"}}, nil, isNew},
		{[]memory.Memory{{Scope: ada, Text: "b"}, {Scope: ada, Text: "c"}}, nil, isNew},
		{[]memory.Memory{{ID: "last", Scope: ada, Text: "last", Embedding: []float32{1, 2}}}, nil, isNew},
	}
	outcomes := make([]outcome, len(calls))
	var run []func()
	for i, c := range calls {
		run = append(run, func() {
			outcomes[i].stored, outcomes[i].err = db.Memories().StoreBatch(context.Background(), c.mems, c.o)
		})
	}
	queueStores(t, db, run)
	for i, c := range calls {
		if !c.want(outcomes[i]) {
			t.Errorf("call %d (%q): %+v", i, c.mems[0].Text, outcomes[i])
		}
	}
	const commits, memories = 7, 8
	if got := db.LSN() - before; got != commits {
		t.Errorf("%d commits, want %d", got, commits)
	}
	mustCheck(t, db, memories)
	lower, upper := db.keys().LSN(layout.KindLog, before+1), db.keys().LSN(layout.KindLog, before+commits+1)
	records := 0
	if err := kv.Scan(db.store, lower, upper, func(_, _ []byte) error { records++; return nil }); err != nil || records != commits {
		t.Errorf("%d log records, %v; want %d", records, err, commits)
	}
	closeTest(t, db)
	mustCheck(t, openTest(t, fs, Options{}), memories)
}

// TestGroupThatBreaks: where a group cannot be committed as a whole, nothing of the
// attempt stays, and each call is told of its own.
func TestGroupThatBreaks(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "before", Embedding: []float32{1, 2}})
	var calls []*storeCall
	var group []groupCall
	for i := range 3 {
		p, err := db.Memories().prepare(t.Context(), &memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("text ", i), Embedding: []float32{1, float32(i)}}, db.now())
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, &storeCall{memories: []*records.Prepared{p}, options: &memory.StoreOptions{}, results: make([]memory.Stored, 1), callState: callState{done: make(chan struct{})}})
		group = append(group, calls[i])
	}
	if err := db.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	free, used := db.writer.next.Doc, db.chunks.used
	db.writer.next.Doc = MaxMemories // no document number is left
	for i := range db.chunks.used {
		db.chunks.used[i] = true
	}
	if fits := db.tryGroup(group); fits != 1 {
		t.Errorf("of a group that broke with the first call %d are to be tried together", fits)
	}
	db.commitGroup(group[:2])
	db.writer.next.Doc, db.chunks.used = free, used
	db.commitGroup(group[2:])
	db.unlock()
	for i, c := range calls {
		if full := errors.Is(c.err, fault.ErrFull); !c.over || full != (i < 2) || c.results[0].Stored == full {
			t.Errorf("call %d: %+v, %v", i, c.results, c.err)
		}
	}
	if err := db.acknowledge(calls[2].seen, nil); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, db, 2)
	if m := mustList(t, db.Memories(), memory.Scope{User: "ada"})[1]; m.Text != "text 2" || m.Seq != 2 {
		t.Errorf("after the failures: %+v", m)
	}
}

// TestGroupGivesUp: a call whose context ends before its turn leaves the queue, and
// those behind it are committed.
func TestGroupGivesUp(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var errs [3]error
	store := func(ctx context.Context, i int) {
		_, errs[i] = db.Memories().Store(ctx, memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("text ", i%2)}, nil)
	}
	gone := make(chan struct{})
	queueStores(t, db, []func(){
		func() { store(t.Context(), 0) },
		func() { store(ctx, 1); close(gone) },
		func() { store(t.Context(), 2) },
	}, func() { cancel(); <-gone })
	if errs[0] != nil || !errors.Is(errs[1], context.Canceled) || errs[2] != nil {
		t.Errorf("kept: %v, given up: %v, kept: %v", errs[0], errs[1], errs[2])
	}
	mustCheck(t, db, 1)
}

// TestWrittenIsFilled: a database that is opened again learns of every key, and then
// finds duplicates and IDs of before, and nothing else.
func TestWrittenIsFilled(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	const n = 3_077 // more than are read for one hold of the lock
	mems := make([]memory.Memory, n)
	for i := range mems {
		mems[i] = memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("text ", i)}
	}
	if _, err := db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{})
	for known := 0; known == 0; time.Sleep(time.Millisecond) {
		known, _ = db.writer.seen.Len()
	}
	for _, kind := range []byte{layout.KindDedup, layout.KindID} {
		lower, upper := db.keys().Span(kind)
		keys := 0
		err := kv.Scan(db.store, lower, upper, func(key, _ []byte) error {
			keys++
			if !db.writer.seen.MayHold(db.keys().Listed(key)) {
				t.Errorf("key %x is not known", key)
			}
			return nil
		})
		if err != nil || keys != n {
			t.Errorf("%d keys of kind %c, %v; want %d", keys, kind, err, n)
		}
	}
	if db.writer.seen.MayHold([]byte("something else")) {
		t.Error("holds what was never written")
	}
	st, err := db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: "text 7"}, nil)
	if err != nil || st.ID != "m7" {
		t.Errorf("a duplicate of before: %+v, %v", st, err)
	}
}

// TestGroupShowsEachState: calls that change one memory are committed one after the
// other, so that it can be seen as each of them left it.
func TestGroupShowsEachState(t *testing.T) {
	ctx := context.Background()
	db := openTest(t, vfs.NewMem(), Options{Retain: time.Hour})
	mm, ada := db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, mm, memory.Memory{ID: "a", Scope: ada, Text: "tea 0"})
	first := db.LSN()
	var calls []func()
	store := func(id, text string) {
		calls = append(calls, func() {
			if _, err := mm.Store(ctx, memory.Memory{ID: id, Scope: ada, Text: text}, &memory.StoreOptions{Upsert: true}); err != nil {
				t.Error(err)
			}
		})
	}
	store("a", "tea 1")
	store("b", "milk")
	store("a", "tea 2")
	store("c", "sugar")
	store("a", "tea 3")
	queueStores(t, db, calls)
	for i, want := range []string{"tea 0", "tea 1", "tea 1", "tea 2", "tea 2", "tea 3"} {
		r, err := mm.Recall(ctx, memory.Query{Scope: ada, Text: "tea", Profile: memory.ProfileText, AsOf: first + uint64(i), NoTouch: true})
		if err != nil || len(r.Hits) != 1 || r.Hits[0].Text != want {
			t.Errorf("as of the commit %d of the group: %d hits, %v; want %q", i, len(r.Hits), err, want)
		}
	}
	if got := db.LSN() - first; got != 5 {
		t.Errorf("%d commits, want 5", got)
	}
	mustCheck(t, db, 3)
}
