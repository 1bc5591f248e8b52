package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// otherEmbedder is of another model, with vectors of 12 dimensions.
func otherEmbedder() *fakeEmbedder { return &fakeEmbedder{dim: 12, model: "other"} }

const otherSpace = "reembed:other"

// wantVectors holds the vectors of all memories against the embedder.
func wantVectors(t *testing.T, db *DB, s memory.Scope, f *fakeEmbedder) {
	t.Helper()
	for _, m := range mustList(t, db.Memories(), s) {
		full, err := db.Memories().GetWithVectors(t.Context(), s, m.ID)
		if err != nil {
			t.Fatal(err)
		}
		if m.Text != "" {
			equalSlices(t, m.ID, full.Embedding, f.vector(m.Text))
		}
	}
}

// TestReembed embeds a database anew, in parts and over restarts, while it is used with the
// embedder of before, switches, goes back and forth, and drops what is of no use any more.
func TestReembed(t *testing.T) {
	fs, clock := vfs.NewMem(), newTestClock()
	ada, ctx, other := memory.Scope{User: "ada"}, t.Context(), otherEmbedder()
	db, f := openEmbedding(t, fs, clock)
	for i := range 40 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("text ", i)})
	}
	mustStore(t, db.Memories(), memory.Memory{ID: "silent", Scope: ada, Embedding: f.vector("silent")})
	mustStore(t, db.Memories(), memory.Memory{ID: "also", Scope: ada, Text: "also", Vectors: map[string][]float32{"third": {1, 2}}})
	before := mustGet(t, db.Memories(), ada, "m3")
	_, err := db.Reembed(ctx, f, nil)
	wantError(t, "the same model", err, fault.ErrInvalid)
	wantError(t, "nothing made yet", db.SwitchModel(ctx, "other", false), fault.ErrNotFound)

	r, err := db.Reembed(ctx, other, &ReembedOptions{Limit: 25})
	if err != nil || r.Embedded != 25 || r.Left < 16 || r.Space != otherSpace {
		t.Fatalf("%+v, %v", r, err)
	}
	mustUpdate(t, db.Memories(), ada, "m3", memory.Patch{Text: new("changed")})
	mustUpdate(t, db.Memories(), ada, "m4", memory.Patch{Pinned: new(true)})
	wantError(t, "a part", db.SwitchModel(ctx, "other", false), fault.ErrConflict)
	equalSlices(t, "recall by the vectors of before", hitIDs(mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "text 5", Profile: memory.ProfileVector, Limit: 1})), []string{"m5"})
	closeTest(t, db)

	db, f = openEmbedding(t, fs, clock)
	mustStore(t, db.Memories(), memory.Memory{ID: "late", Scope: ada, Text: "late"})
	if r, err = db.Reembed(ctx, other, nil); err != nil || r.Embedded != 40+3-25 || r.Left != 0 || r.Kept != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = db.Reembed(ctx, other, nil); err != nil || r.Embedded != 0 || r.Left != 0 {
		t.Fatalf("again: %+v, %v", r, err)
	}
	if err := db.SwitchModel(ctx, "other", false); err != nil {
		t.Fatal(err)
	}
	wantVectors(t, db, ada, f) // until it is opened again
	mustStore(t, db.Memories(), memory.Memory{ID: "between", Scope: ada, Text: "between"})
	_, err = db.Reembed(ctx, other, nil)
	wantError(t, "after the switch", err, fault.ErrConflict)
	wantError(t, "a space after the switch", db.CreateSpace(ctx, SpaceConfig{Name: "reembed:fake", Dim: 3}), fault.ErrConflict)
	_, err = db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "x", Vectors: map[string][]float32{"reembed:fake": {1}}}, nil)
	wantError(t, "a vector of a new space after the switch", err, fault.ErrConflict)
	mustCheck(t, db, 44)
	closeTest(t, db)

	_, err = openOn(fs, "db", Options{Embedder: f})
	wantError(t, "the embedder of before", err, fault.ErrMismatch)
	db = openTest(t, fs, Options{Embedder: other, Clock: clock.now})
	if n, err := db.EmbedPending(ctx, 0); n != 1 || err != nil {
		t.Errorf("%d embedded after the switch, %v", n, err)
	}
	wantVectors(t, db, ada, other)
	equalSlices(t, "recall by the new vectors", hitIDs(mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "text 5", Profile: memory.ProfileVector, Limit: 1})), []string{"m5"})
	after := mustGet(t, db.Memories(), ada, "m5")
	if !after.UpdatedAt.Equal(before.UpdatedAt) || len(mustHistory(t, db.Memories(), ada, "m5")) != 1 || len(mustHistory(t, db.Memories(), ada, "m3")) != 2 {
		t.Errorf("the memory is %+v, it was %+v", after, before)
	}
	mustCheck(t, db, 44)
	closeTest(t, db)

	db = openTest(t, fs, Options{Clock: clock.now}) // and back
	if r, err := db.Reembed(ctx, f, nil); err != nil || r.Embedded != 0 || r.Left != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := db.SwitchModel(ctx, "fake", false); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db, f = openEmbedding(t, fs, clock)
	wantVectors(t, db, ada, f)
	wantError(t, "the space in use", errOf(db.DropSpace(ctx, "default")), fault.ErrInvalid)
	wantError(t, "no space", errOf(db.DropSpace(ctx, "none")), fault.ErrNotFound)
	if n, err := db.DropSpace(ctx, otherSpace); err != nil || n != 43 {
		t.Errorf("%d dropped, %v", n, err)
	}
	waitVectors(t, db, 44+1)
	mustCheck(t, db, 44)
	closeTest(t, db)
	db, f = openEmbedding(t, fs, clock)
	wantVectors(t, db, ada, f)
	mustCheck(t, db, 44)
}

func errOf[T any](_ T, err error) error { return err }

// TestReembedBesideWriters embeds anew while others store, update and delete.
func TestReembedBesideWriters(t *testing.T) {
	fs, clock := vfs.NewMem(), newTestClock()
	ada, ctx, other := memory.Scope{User: "ada"}, t.Context(), otherEmbedder()
	db, _ := openEmbedding(t, fs, clock)
	store := func(i int) {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("text ", i)})
	}
	for i := range 600 {
		store(i)
	}
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := range 150 {
				id := fmt.Sprint("m", w*200+i)
				switch i % 3 {
				case 0:
					store(1000 + w*200 + i)
				case 1:
					mustUpdate(t, db.Memories(), ada, id, memory.Patch{Text: new("changed " + id)})
				case 2:
					if err := db.Memories().Delete(ctx, ada, id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	if r, err := db.Reembed(ctx, other, nil); err != nil || r.Left != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	writers.Wait()
	if r, err := db.Reembed(ctx, other, nil); err != nil || r.Left != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := db.SwitchModel(ctx, "other", false); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{Embedder: other, Clock: clock.now})
	wantVectors(t, db, ada, other)
	mustCheck(t, db, 600)
}

// TestReembedCrashes crashes the machine after each part, and around the switch: what was made
// is there, and every vector of the default space is of one model.
func TestReembedCrashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	fs, clock := crashfs.NewDisk(), newTestClock()
	ada, ctx, other := memory.Scope{User: "ada"}, t.Context(), otherEmbedder()
	const all = 60
	f := newFakeEmbedder(8)
	set := func(e *fakeEmbedder) setup {
		return setup{Options: Options{Embedder: e, Clock: clock.now, MemoryBudget: testBudget}}
	}
	db, err := openOn(fs, "db", set(f))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("text ", i)})
	}
	crash := func() *crashfs.Disk {
		return fs.Lose(rng.IntN(101), rng)
	}
	for made := 0; made < all; {
		n := 1 + rng.IntN(20)
		r, err := db.Reembed(ctx, other, &ReembedOptions{Limit: n})
		if err != nil || r.Embedded != min(n, all-made) {
			t.Fatalf("%+v, %v", r, err)
		}
		made += r.Embedded
		crashed, err := openOn(crash(), "db", set(f))
		if err != nil {
			t.Fatal(err)
		}
		rest, err := crashed.Reembed(ctx, other, nil)
		if err != nil || rest.Embedded != all-made {
			t.Fatalf("after a crash %+v are made, %d were before, %v", rest, made, err)
		}
		wantVectors(t, crashed, ada, f)
		mustCheck(t, crashed, all)
		closeTest(t, crashed)
	}
	if err := db.SwitchModel(ctx, "other", false); err != nil {
		t.Fatal(err)
	}
	crashed, err := openOn(crash(), "db", set(other))
	if err != nil {
		t.Fatalf("after an acknowledged switch: %v", err)
	}
	wantVectors(t, crashed, ada, other)
	mustCheck(t, crashed, all)
	closeTest(t, crashed)
	closeTest(t, db)
}

// TestReembedRefused: one text that the embedder refuses stops no other, one that fails for
// all stops the call, and what was made stays.
func TestReembedRefused(t *testing.T) {
	fs, clock := vfs.NewMem(), newTestClock()
	ada, ctx, other := memory.Scope{User: "ada"}, t.Context(), otherEmbedder()
	db, _ := openEmbedding(t, fs, clock)
	for i := range 50 {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("text ", i)})
	}
	short := func(texts []string) [][]float32 {
		if strings.Contains(strings.Join(texts, "\n")+"\n", "text 7\n") {
			return nil
		}
		vecs := make([][]float32, len(texts))
		for i, text := range texts {
			vecs[i] = other.vector(text)
		}
		return vecs
	}
	other.set(func(f *fakeEmbedder) { f.fail = errors.New("down") })
	if r, err := db.Reembed(ctx, other, nil); !errors.Is(err, fault.ErrEmbedder) || r.Embedded != 0 || other.calls.Load() > 20 {
		t.Errorf("an embedder that fails: %+v after %d calls, %v", r, other.calls.Load(), err)
	}
	other.set(func(f *fakeEmbedder) { f.fail, f.give = nil, short })
	r, err := db.Reembed(ctx, other, nil)
	if err != nil || r.Embedded != 49 || r.Left != 1 || r.Refused != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	wantError(t, "one is left", db.SwitchModel(ctx, "other", false), fault.ErrConflict)
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := db.Reembed(ended, other, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	for what, bad := range map[string]*fakeEmbedder{"no dimensions": {model: "x"}, "too many": {dim: memory.MaxDim + 1, model: "x"}, "another length": {dim: 9, model: "other"}} {
		if _, err := db.Reembed(ctx, bad, nil); !errors.Is(err, fault.ErrInvalid) && !errors.Is(err, fault.ErrMismatch) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantError(t, "no embedder", errOf(db.Reembed(ctx, nil, nil)), fault.ErrInvalid)
	wantError(t, "a negative limit", errOf(db.Reembed(ctx, other, &ReembedOptions{Limit: -1})), fault.ErrInvalid)
	if err := db.SwitchModel(ctx, "other", true); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	other.set(func(f *fakeEmbedder) { f.give = nil })
	db = openTest(t, fs, Options{Embedder: other, Clock: clock.now})
	if n := pendingOf(t, db); n != 1 {
		t.Errorf("%d pending, want the one that was refused", n)
	}
	if n, err := db.EmbedPending(ctx, 0); n != 1 || err != nil {
		t.Errorf("%d embedded, %v", n, err)
	}
	wantVectors(t, db, ada, other)
	mustCheck(t, db, 50)
	closeTest(t, db)
	db = openTest(t, fs, Options{ReadOnly: true})
	wantError(t, "read only", errOf(db.Reembed(ctx, newFakeEmbedder(8), nil)), fault.ErrReadOnly)
	empty, _ := openEmbedding(t, vfs.NewMem(), clock)
	wantError(t, "no vectors", errOf(empty.Reembed(ctx, other, nil)), fault.ErrInvalid)
}
