package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// refuseBad makes the embedder refuse every batch with a text that begins with "bad".
func refuseBad(f *fakeEmbedder) {
	f.give = func(texts []string) [][]float32 {
		if slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "bad") }) {
			return nil
		}
		vecs := make([][]float32, len(texts))
		for i, s := range texts {
			vecs[i] = f.vector(s)
		}
		return vecs
	}
}

func pendingOf(t *testing.T, db *DB) int64 {
	t.Helper()
	s, err := db.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Pending
}

// TestRefusedTextStopsNoOther: whichever texts an embedder refuses, and however many are
// asked for at once, the others are embedded.
func TestRefusedTextStopsNoOther(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, limit := range []int{1, 2, 5, 0} {
		clock := newTestClock()
		db, f := openEmbedding(t, vfs.NewMem(), clock)
		f.set(func(f *fakeEmbedder) { f.fail = errors.New("no network") })
		good, bad := 0, 0
		for i := range 60 {
			text := fmt.Sprint("good ", i)
			if i == 0 || bad < refusalsInARow && r.IntN(8) == 0 {
				text, bad = fmt.Sprint("bad ", i), bad+1
			} else {
				good++
			}
			mustStore(t, db.Memories(), memory.Memory{ID: text, Scope: memory.Scope{User: "ada"}, Text: text})
		}
		f.set(func(f *fakeEmbedder) { f.fail = nil; refuseBad(f) })
		total := 0
		for {
			n, err := db.EmbedPending(t.Context(), limit)
			if total += n; n == 0 {
				if err != nil && !errors.Is(err, memory.ErrEmbedder) {
					t.Error(err)
				}
				break
			}
		}
		if n := pendingOf(t, db); total != good || n != int64(bad) {
			t.Errorf("limit %d: %d of %d embedded, %d of %d pending", limit, total, good, n, bad)
		}
		calls := f.calls.Load()
		if n, err := db.EmbedPending(t.Context(), limit); n != 0 || err != nil || f.calls.Load() != calls {
			t.Errorf("limit %d: refused ones were tried again at once: %d, %v", limit, n, err)
		}
		clock.advance(firstRetry)
		f.set(func(f *fakeEmbedder) { f.give = nil })
		if n, err := db.EmbedPending(t.Context(), 0); n != bad || err != nil {
			t.Errorf("limit %d: %d of %d embedded a minute later, %v", limit, n, bad, err)
		}
		mustCheck(t, db, good+bad)
		closeTest(t, db)
	}
}

// TestRefusedTextsByTheHundred: more bad texts in a row than an embedder may refuse before
// it is taken for one that fails are passed by in several calls.
func TestRefusedTextsByTheHundred(t *testing.T) {
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	f.set(refuseBad)
	var mems []memory.Memory
	for i := range 200 {
		mems = append(mems, memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("bad ", i)})
	}
	mems = append(mems, memory.Memory{ID: "good", Scope: memory.Scope{User: "ada"}, Text: "good"})
	err := db.Update(t.Context(), func(tx *Tx) error {
		_, err := tx.Memories().StoreBatch(t.Context(), mems, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for call := 0; pendingOf(t, db) > 200; call++ {
		if call > 200 {
			t.Fatal("the good one is never embedded")
		}
		if _, err := db.EmbedPending(t.Context(), 0); err != nil {
			wantError(t, "only bad ones", err, fault.ErrEmbedder)
		}
	}
}

// TestStoreBatchWithRefusedText: one text that is refused is pending and says why; the
// others of its batch have their vectors.
func TestStoreBatchWithRefusedText(t *testing.T) {
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	f.set(refuseBad)
	ada := memory.Scope{User: "ada"}
	for at := range 8 {
		var mems []memory.Memory
		for i := range 8 {
			text := fmt.Sprint("good ", at, i)
			if i == at {
				text = fmt.Sprint("bad ", at)
			}
			mems = append(mems, memory.Memory{ID: text, Scope: ada, Text: text})
		}
		all, err := db.Memories().StoreBatch(t.Context(), mems, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, st := range all {
			if st.Pending != (i == at) || (st.PendingWhy != "") != (i == at) {
				t.Errorf("batch %d, memory %d: %+v", at, i, st)
			}
		}
		if why := all[at].PendingWhy; !strings.Contains(why, "fake") || !strings.Contains(why, "0 vectors for 1 texts") {
			t.Errorf("it is pending since %q", why)
		}
	}
	if n := pendingOf(t, db); n != 8 {
		t.Errorf("%d are pending", n)
	}
}

// TestDownEmbedderIsCalledSeldom: while an embedder fails, a batch does not wait for each
// of its parts.
func TestDownEmbedderIsCalledSeldom(t *testing.T) {
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	f.set(func(f *fakeEmbedder) { f.fail = errors.New("no network") })
	for batch, most := range []int64{8, 1, 1} {
		before := f.calls.Load()
		var mems []memory.Memory
		for i := range 100 {
			mems = append(mems, memory.Memory{Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint(batch, i)})
		}
		all, err := db.Memories().StoreBatch(t.Context(), mems, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := f.calls.Load() - before; n > most {
			t.Errorf("batch %d: %d calls", batch, n)
		}
		for _, st := range all {
			if !st.Pending || !strings.Contains(st.PendingWhy, "no network") {
				t.Fatalf("batch %d: %+v", batch, st)
			}
		}
	}
	f.set(func(f *fakeEmbedder) { f.fail = nil })
	if n, err := db.EmbedPending(t.Context(), 0); n != 300 || err != nil {
		t.Errorf("%d embedded, %v", n, err)
	}
}

// TestBackfill: memories from before there was an embedder get their vectors once there
// is one, in parts, over restarts, and nothing else of them changes.
func TestBackfill(t *testing.T) {
	fs, clock := vfs.NewMem(), newTestClock()
	ada := memory.Scope{User: "ada"}
	db := openTest(t, fs, Options{Clock: clock.now})
	mm := db.Memories()
	for i := range 30 {
		mustStore(t, mm, memory.Memory{ID: fmt.Sprint("m", i), Scope: ada, Text: fmt.Sprint("text ", i)})
	}
	mustUpdate(t, mm, ada, "m3", memory.Patch{Text: new("changed")})
	if err := mm.Delete(t.Context(), ada, "m4"); err != nil {
		t.Fatal(err)
	}
	mustStore(t, mm, memory.Memory{ID: "expires", Scope: ada, Text: "soon gone", ExpiresAt: clock.now().Add(time.Second)})
	mustStore(t, mm, memory.Memory{ID: "silent", Scope: ada, Vectors: map[string][]float32{"other": {1, 2}}})
	mustStore(t, mm, memory.Memory{ID: "spoken", Scope: ada, Text: "spoken", Vectors: map[string][]float32{"other": {1, 2}}})
	given := mustStore(t, mm, memory.Memory{ID: "given", Scope: ada, Text: "given", Embedding: []float32{1, 2, 3, 4, 5, 6, 7, 8}})
	if given.Pending {
		t.Errorf("%+v", given)
	}
	clock.advance(time.Minute)
	const waiting = 29 + 1 // of those that are left, and the one with a vector in another space
	if n := pendingOf(t, db); n != waiting {
		t.Errorf("%d pending, want %d", n, waiting)
	}
	if n, err := db.EmbedPending(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("without an embedder: %d, %v", n, err)
	}
	before := mustGet(t, mm, ada, "m3")
	closeTest(t, db)
	for left := int64(waiting); left > 0; left -= 7 {
		db, _ = openEmbedding(t, fs, clock)
		if n := pendingOf(t, db); n != left {
			t.Fatalf("%d pending after a restart, want %d", n, left)
		}
		for _, limit := range []int{3, 4} {
			if n, err := db.EmbedPending(t.Context(), limit); err != nil || n < min(limit, int(left)) && left > 7 {
				t.Fatalf("%d embedded, %v", n, err)
			}
		}
		closeTest(t, db)
	}
	db, f := openEmbedding(t, fs, clock)
	for _, mem := range mustList(t, db.Memories(), ada) {
		full := mustGet(t, db.Memories(), ada, mem.ID)
		want := f.vector(mem.Text)
		switch mem.ID {
		case "silent":
			want = nil
		case "given":
			want = []float32{1, 2, 3, 4, 5, 6, 7, 8}
		}
		equalSlices(t, mem.ID, full.Embedding, want)
	}
	after := mustGet(t, db.Memories(), ada, "m3")
	if after.Seq != before.Seq || !after.UpdatedAt.Equal(before.UpdatedAt) || len(mustHistory(t, db.Memories(), ada, "m3")) != 2 {
		t.Errorf("backfill changed %+v to %+v", before, after)
	}
	if r, err := db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// TestEmbedInBackground: what is pending is embedded by the database itself, also after a
// time in which the embedder failed.
func TestEmbedInBackground(t *testing.T) {
	fs := vfs.NewMem()
	ada := memory.Scope{User: "ada"}
	db := openTest(t, fs, Options{})
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "from before"})
	closeTest(t, db)
	f := newFakeEmbedder(8)
	f.fail = errors.New("no network")
	db = openTest(t, fs, Options{Embedder: f, EmbedInBackground: true})
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "while it fails"})
	for f.calls.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	s, err := db.Stats(t.Context())
	if err != nil || s.Pending != 2 || s.EmbedFailure == nil || !strings.Contains(s.EmbedFailure.Error, "no network") || s.EmbedFailure.At.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	closeTest(t, db)
	f.set(func(f *fakeEmbedder) { f.fail = nil })
	db = openTest(t, fs, Options{Embedder: f, EmbedInBackground: true})
	within(t, "the background", func() {
		for pendingOf(t, db) > 0 {
			time.Sleep(time.Millisecond)
		}
		err := db.Update(t.Context(), func(tx *Tx) error {
			mustStore(t, tx.Memories(), memory.Memory{Scope: ada, Text: "in an Update"})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for pendingOf(t, db) > 0 {
			time.Sleep(time.Millisecond)
		}
	})
	mustCheck(t, db, 3)
}

// TestEmbedderErrors: what an embedder returns that cannot be used is refused by an error
// that names the model and both numbers.
func TestEmbedderErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		give  func([]string) [][]float32
		wants []string
	}{
		{"count", func(s []string) [][]float32 { return make([][]float32, len(s)+1) }, []string{"fake", "2 vectors", "1 texts"}},
		{"dimension", constant(9, 1), []string{"fake", "9 dimensions", "makes 8"}},
		{"NaN", constant(8, float32(math.NaN())), []string{"fake"}},
		{"zero", constant(8, 0), []string{"fake"}},
	} {
		db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
		f.set(func(f *fakeEmbedder) { f.give = c.give })
		ada := memory.Scope{User: "ada"}
		st := mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "likes tea"})
		_, err := db.EmbedPending(t.Context(), 0)
		wantError(t, c.name, err, fault.ErrEmbedder)
		s, serr := db.Stats(t.Context())
		if serr != nil || s.EmbedFailure == nil {
			t.Fatalf("%s: %+v, %v", c.name, s, serr)
		}
		ask := func() memory.Result {
			t.Helper()
			res, err := db.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: "tea", Explain: true})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		res := ask()
		for what, text := range map[string]string{"stored": st.PendingWhy, "error": err.Error(), "stats": s.EmbedFailure.Error, "plan": res.Plan.Unembedded} {
			for _, want := range c.wants {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %s says %q, without %q", c.name, what, text, want)
				}
			}
		}
		equalSlices(t, c.name, hitIDs(res.Hits), []string{"one"})
		f.set(func(f *fakeEmbedder) { f.give = nil })
		if res = ask(); res.Plan.Unembedded != "" {
			t.Errorf("%s: a mended embedder is not asked again: %s", c.name, res.Plan.Unembedded)
		}
	}
}

// TestEmbedContext: the end of a context is that, and no failure of the embedder.
func TestEmbedContext(t *testing.T) {
	db, f := openEmbedding(t, vfs.NewMem(), newTestClock())
	f.set(func(f *fakeEmbedder) { f.fail = errors.New("no network") })
	mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "waits"})
	ctx, cancel := context.WithCancel(t.Context())
	f.set(func(f *fakeEmbedder) {
		f.fail = nil
		f.give = func([]string) [][]float32 { cancel(); return nil }
	})
	if n, err := db.EmbedPending(ctx, 0); n != 0 || err != context.Canceled { //nolint:errorlint // it is not to be wrapped
		t.Errorf("%d, %v", n, err)
	}
	f.set(func(f *fakeEmbedder) { f.give = nil })
	if n, err := db.EmbedPending(t.Context(), 0); n != 1 || err != nil {
		t.Errorf("%d, %v: the text was blamed for the end of the context", n, err)
	}
}
