package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// openEmbedding opens a database with an embedder of 8 dimensions.
func openEmbedding(t *testing.T, fs vfs.FS, clock *testClock) (*DB, *fakeEmbedder) {
	t.Helper()
	f := newFakeEmbedder(8)
	return openTest(t, fs, Options{Embedder: f, Clock: clock.now}), f
}

// TestEmbedderHoldsNoLock: while one call waits for its embedder, others write,
// read and recall.
func TestEmbedderHoldsNoLock(t *testing.T) {
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "first"})
	gate := make(chan struct{})
	f.set(func(f *fakeEmbedder) { f.gate = gate })
	calls := f.calls.Load()
	ended := make(chan error, 3)
	go func() {
		_, err := db.Memories().Store(context.Background(), memory.Memory{Scope: ada, Text: "slow"}, nil)
		ended <- err
	}()
	go func() {
		_, err := db.Memories().Update(context.Background(), ada, "one", memory.Patch{Text: new("slower")})
		ended <- err
	}()
	go func() {
		_, err := db.Memories().Recall(context.Background(), memory.Query{Scope: ada, Text: "slowest", Profile: memory.ProfileVector})
		ended <- err
	}()
	for deadline := time.Now().Add(patience); f.calls.Load() < calls+3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the embedder was not called")
		}
	}
	within(t, "what needs no embedder", func() {
		mustStore(t, db.Memories(), memory.Memory{ID: "two", Scope: ada, Text: "quick", Embedding: f.vector("quick")})
		mustUpdate(t, db.Memories(), ada, "two", memory.Patch{Pinned: new(true)})
		if m := mustGet(t, db.Memories(), ada, "one"); m.Text != "first" {
			t.Errorf("read %q", m.Text)
		}
		equalSlices(t, "by text", hitIDs(mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "quick", Profile: memory.ProfileText})), []string{"two"})
		err := db.Update(context.Background(), func(tx *Tx) error {
			return tx.Memories().Delete(context.Background(), ada, "two")
		})
		if err != nil {
			t.Error(err)
		}
	})
	close(gate)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	equalSlices(t, "memories", texts(mustList(t, db.Memories(), ada)), []string{"slower", "slow"})
	mustCheck(t, db, 2)
}

// TestEmbedderFails: what it fails on is stored, found by text, and embedded by a
// later pass that leaves no trace in the history.
func TestEmbedderFails(t *testing.T) {
	for name, breakIt := range map[string]func(f *fakeEmbedder){
		"error":           func(f *fakeEmbedder) { f.fail = errors.New("no network") },
		"no vectors":      func(f *fakeEmbedder) { f.give = func([]string) [][]float32 { return nil } },
		"a vector more":   func(f *fakeEmbedder) { f.give = func(s []string) [][]float32 { return make([][]float32, len(s)+1) } },
		"empty vectors":   func(f *fakeEmbedder) { f.give = func(s []string) [][]float32 { return make([][]float32, len(s)) } },
		"NaN":             func(f *fakeEmbedder) { f.give = constant(8, float32(math.NaN())) },
		"infinity":        func(f *fakeEmbedder) { f.give = constant(8, float32(math.Inf(-1))) },
		"zero vector":     func(f *fakeEmbedder) { f.give = constant(8, 0) },
		"other dimension": func(f *fakeEmbedder) { f.give = constant(9, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			fs, clock := vfs.NewMem(), newTestClock()
			db, f := openEmbedding(t, fs, clock)
			f.set(breakIt)
			ada := memory.Scope{User: "ada"}
			mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "likes tea"})
			clock.advance(time.Hour)
			before := mustGet(t, db.Memories(), ada, "one")
			if before.Embedding != nil {
				t.Errorf("it has the vector %v", before.Embedding)
			}
			equalSlices(t, "by text", hitIDs(mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "tea", NoTouch: true})), []string{"one"})
			if n, err := db.EmbedPending(t.Context(), 0); n != 0 || err == nil {
				t.Errorf("%d embedded, %v", n, err)
			}
			_, err := db.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: "tea", Profile: memory.ProfileVector})
			if err == nil {
				t.Error("a query by vector alone without a vector had an answer")
			}
			// Storing the same again, with or without the embedder, is no conflict.
			again := func() {
				st, err := db.Memories().Store(t.Context(), memory.Memory{ID: "one", Scope: ada, Text: "likes tea"}, nil)
				if err != nil || st.Stored || st.Updated {
					t.Errorf("stored again: %+v, %v", st, err)
				}
			}
			again()
			closeTest(t, db)
			db, f = openEmbedding(t, fs, clock)
			again()
			embedLater(t, db, f, ada, "one", before)
			again()
		})
	}
}

func constant(dim int, v float32) func([]string) [][]float32 {
	return func(texts []string) [][]float32 {
		return slices.Repeat([][]float32{slices.Repeat([]float32{v}, dim)}, len(texts))
	}
}

// embedLater embeds the one memory that is pending: nothing but its vector may
// change.
func embedLater(t *testing.T, db *DB, f *fakeEmbedder, s memory.Scope, id string, before memory.Memory) {
	t.Helper()
	history := mustHistory(t, db.Memories(), s, id)
	for _, want := range []int{1, 0} {
		if n, err := db.EmbedPending(t.Context(), 0); n != want || err != nil {
			t.Errorf("%d embedded, %v; want %d", n, err, want)
		}
	}
	after := mustGet(t, db.Memories(), s, id)
	equalSlices(t, "embedding", after.Embedding, f.vector(before.Text))
	after.Embedding = nil
	if !reflect.DeepEqual(after, before) {
		t.Errorf("embedding made %+v\nof %+v", after, before)
	}
	if h := mustHistory(t, db.Memories(), s, id); !reflect.DeepEqual(h, history) {
		t.Errorf("embedding is in the history: %v", lines(h))
	}
	equalSlices(t, "by vector", closest(t, db.Memories(), s, "default", f.vector(before.Text)...), []string{id})
	mustCheck(t, db, 1)
}

// TestNoEmbedderInTransaction: it would be called under the lock.
func TestNoEmbedderInTransaction(t *testing.T) {
	clock := newTestClock()
	db, f := openEmbedding(t, vfs.NewMem(), clock)
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	err := db.Update(ctx, func(tx *Tx) error {
		m := tx.Memories()
		mustStore(t, m, memory.Memory{ID: "one", Scope: ada, Text: "first"})
		mustStore(t, m, memory.Memory{ID: "two", Scope: ada, Text: "second", Embedding: f.vector("given")})
		mustUpdate(t, m, ada, "two", memory.Patch{Text: new("changed")})
		mustStore(t, m, memory.Memory{ID: "three", Scope: ada, Text: "third"})
		mustUpdate(t, m, ada, "three", memory.Patch{Embedding: f.vector("given")})
		mustStore(t, m, memory.Memory{ID: "four", Scope: ada, Text: "fourth"})
		mustRecall(t, m, memory.Query{Scope: ada, Text: "first"})
		return m.Delete(ctx, ada, "four")
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := f.calls.Load(); n != 0 {
		t.Errorf("the embedder was called %d times", n)
	}
	if n := countKeys(t, db, layout.KindPending); n != 2 {
		t.Errorf("%d memories are pending, want 2", n)
	}
	if n, err := db.EmbedPending(ctx, 1); n != 1 || err != nil {
		t.Errorf("%d embedded, %v; the limit is 1", n, err)
	}
	if n, err := db.EmbedPending(ctx, 0); n != 1 || err != nil {
		t.Errorf("%d embedded, %v; 1 was left", n, err)
	}
	for id, text := range map[string]string{"one": "first", "two": "changed", "three": "given"} {
		equalSlices(t, id, mustGet(t, db.Memories(), ada, id).Embedding, f.vector(text))
	}
	mustCheck(t, db, 3)
}

// TestEmbedPendingMeetsChanges: what changed while the embedder ran is not given
// the vector of its old text.
func TestEmbedPendingMeetsChanges(t *testing.T) {
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	ada := memory.Scope{User: "ada"}
	f.set(func(f *fakeEmbedder) { f.fail = errors.New("no network") })
	for _, id := range []string{"changed", "deleted", "left"} {
		mustStore(t, db.Memories(), memory.Memory{ID: id, Scope: ada, Text: "text of " + id})
	}
	gate, ended := make(chan struct{}), make(chan error)
	f.set(func(f *fakeEmbedder) { f.fail, f.gate = nil, gate })
	calls := f.calls.Load()
	go func() {
		n, err := db.EmbedPending(context.Background(), 0)
		if n != 2 {
			t.Errorf("%d embedded, want 2", n)
		}
		ended <- err
	}()
	for f.calls.Load() == calls {
		time.Sleep(time.Millisecond)
	}
	err := db.Update(t.Context(), func(tx *Tx) error {
		mustUpdate(t, tx.Memories(), ada, "changed", memory.Patch{Text: new("other")})
		return tx.Memories().Delete(t.Context(), ada, "deleted")
	})
	if err != nil {
		t.Fatal(err)
	}
	close(gate)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n, err := db.EmbedPending(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("%d embedded, %v; none was left", n, err)
	}
	equalSlices(t, "changed", mustGet(t, db.Memories(), ada, "changed").Embedding, f.vector("other"))
	mustCheck(t, db, 2)
}

// TestEmbedPendingInParts: more than fits a transaction is embedded in several
// calls.
func TestEmbedPendingInParts(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("stores 90 MB")
	}
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	f.set(func(f *fakeEmbedder) { f.fail = errors.New("no network") })
	ada := memory.Scope{User: "ada"}
	long := strings.Repeat("a", 7<<20)
	const n = 11
	for i := range n {
		mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: fmt.Sprint(long, i)})
	}
	f.set(func(f *fakeEmbedder) { f.fail = nil; f.give = constant(8, 1) })
	for left := n; left > 0; {
		done, err := db.EmbedPending(t.Context(), 0)
		if err != nil || done == 0 {
			t.Fatalf("%d of %d embedded, %v", done, left, err)
		}
		left -= done
	}
}

// TestEmbedderMismatch: vectors of another model or dimension are not mixed with
// those that are there.
func TestEmbedderMismatch(t *testing.T) {
	fs := vfs.NewMem()
	db, _ := openEmbedding(t, fs, newTestClock())
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "first"})
	closeTest(t, db)
	for name, f := range map[string]*fakeEmbedder{
		"dimension": {dim: 9, model: "fake"},
		"model":     {dim: 8, model: "other"},
	} {
		_, err := openOn(fs, "db", Options{Embedder: f})
		wantError(t, name, err, fault.ErrMismatch)
	}
	for _, o := range []Options{{}, {Embedder: newFakeEmbedder(8)}} {
		db := openTest(t, fs, o)
		mustCheck(t, db, 1)
		closeTest(t, db)
	}
}

// TestEmbeddingCache: a text that was embedded lately is not embedded again, and
// what the cache takes is told.
func TestEmbeddingCache(t *testing.T) {
	e := newFakeEmbedder(8)
	db := openTest(t, vfs.NewMem(), Options{Embedder: e})
	for i := range 3 {
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: fmt.Sprint("u", i)}, Text: "likes tea"})
		mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "u0"}, Text: "likes tea"})
	}
	if n := e.calls.Load(); n != 1 {
		t.Errorf("%d calls of the embedder", n)
	}
	s, err := db.Stats(t.Context())
	if err != nil || s.Memory.Embeddings == 0 || s.Memory.Embeddings > s.Memory.Shares.Embeddings {
		t.Errorf("%d bytes of %d, %v", s.Memory.Embeddings, s.Memory.Shares.Embeddings, err)
	}
}

// TestEmbedPendingMeetsASpace: another transaction makes the default space with another
// dimension while texts are embedded.
func TestEmbedPendingMeetsASpace(t *testing.T) {
	fs, f := vfs.NewMem(), newFakeEmbedder(3)
	db := openTest(t, fs, Options{Embedder: f})
	mm, ada := db.Memories(), memory.Scope{User: "ada"}
	f.set(func(f *fakeEmbedder) { f.fail = errors.New("no network") })
	mustStore(t, mm, memory.Memory{Scope: ada, Text: "pending"})
	f.set(func(f *fakeEmbedder) { f.fail = nil })
	var waiting []awaiting
	err := db.View(t.Context(), func(tx *Tx) (err error) {
		waiting, _, err = tx.waiting(t.Context(), 10)
		return err
	})
	if err != nil || len(waiting) != 1 {
		t.Fatal(waiting, err)
	}
	vecs, err := db.embed(t.Context(), []string{waiting[0].text})
	if err != nil {
		t.Fatal(err)
	}
	mustStore(t, mm, memory.Memory{Scope: ada, Text: "given", Embedding: []float32{1, 2, 3, 4}})
	err = db.Update(t.Context(), func(tx *Tx) error {
		_, _, err := tx.embedded(t.Context(), waiting, vecs)
		return err
	})
	wantError(t, "vectors of another dimension", err, fault.ErrInvalid)
	mustCheck(t, db, 2)
	closeTest(t, db)
	mustCheck(t, openTest(t, fs, Options{}), 2)
}
