package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/records"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
)

func mustGet(t testing.TB, m Memories, s memory.Scope, id string) memory.Memory {
	t.Helper()
	mem, err := m.GetWithVectors(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// mustUpdate changes a memory and reads it with its vectors.
func mustUpdate(t testing.TB, m Memories, s memory.Scope, id string, p memory.Patch) memory.Memory {
	t.Helper()
	if _, err := m.Update(t.Context(), s, id, p); err != nil {
		t.Fatal(err)
	}
	return mustGet(t, m, s, id)
}

// closest are the IDs of a scope by their vectors.
func closest(t testing.TB, m Memories, s memory.Scope, space string, query ...float32) []string {
	t.Helper()
	return hitIDs(mustRecall(t, m, memory.Query{Scope: s, Space: space, Embedding: query, Profile: memory.ProfileVector, NoTouch: true}))
}

// TestVectorsAsGiven: what is read is bit for bit what was stored, whatever the
// index makes of it, in every space and after reopening.
func TestVectorsAsGiven(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	m := memory.Memory{ID: "one", Scope: ada, Text: "x", Embedding: []float32{3e38, -1e-40, float32(math.Copysign(0, -1)), 1. / 3}}
	m.Vectors = map[string][]float32{"image": {0.1}, "sound": make([]float32, memory.MaxDim)}
	m.Vectors["sound"][memory.MaxDim-1] = -7
	mustStore(t, db.Memories(), m)
	bits := func(vec []float32) (b []uint32) {
		for _, f := range vec {
			b = append(b, math.Float32bits(f))
		}
		return b
	}
	for range 2 {
		got := mustGet(t, db.Memories(), ada, "one")
		equalSlices(t, "embedding", bits(got.Embedding), bits(m.Embedding))
		for space, vec := range m.Vectors {
			equalSlices(t, space, bits(got.Vectors[space]), bits(vec))
		}
		if page, err := db.Memories().List(t.Context(), memory.ListQuery{Scope: ada}); err != nil || page.Memories[0].Embedding != nil || page.Memories[0].Vectors != nil {
			t.Errorf("vectors that were not asked for: %+v, %v", page, err)
		}
		closeTest(t, db)
		db = openTest(t, fs, Options{})
	}
	st, err := db.Stats(t.Context())
	if err != nil || st.Vectors != 3 || len(st.Spaces) != 3 || st.Spaces[0] != (SpaceInfo{Name: "default", Dim: 4, Metric: "cosine", Vectors: 1, Unlinked: 1, Bytes: st.Spaces[0].Bytes}) {
		t.Errorf("statistics %+v, %v", st, err)
	}
}

// TestSpaceDimension: the first vector fixes it, in a committed transaction only.
func TestSpaceDimension(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	give := func(m Memories, id string, dim int) error {
		vec := make([]float32, dim)
		vec[0] = 1
		_, err := m.Store(ctx, memory.Memory{ID: id, Scope: ada, Vectors: map[string][]float32{"s": vec}}, nil)
		return err
	}
	err := db.Update(ctx, func(tx *Tx) error {
		if err := give(tx.Memories(), "aborted", 7); err != nil {
			t.Error(err)
		}
		wantError(t, "another dimension in the transaction", give(tx.Memories(), "bad", 3), fault.ErrInvalid)
		equalSlices(t, "in the transaction", closest(t, tx.Memories(), ada, "s", 1, 0, 0, 0, 0, 0, 0), []string{"aborted"})
		return fault.ErrBusy
	})
	wantError(t, "abort", err, fault.ErrBusy)
	_, err = db.Memories().Recall(t.Context(), memory.Query{Scope: ada, Space: "s", Embedding: []float32{1, 0, 0}})
	wantError(t, "recall in a space that was taken back", err, fault.ErrInvalid)
	if err := give(db.Memories(), "one", 3); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantError(t, "store", give(db.Memories(), "two", 7), fault.ErrInvalid)
		_, err := db.Memories().Recall(ctx, memory.Query{Scope: ada, Space: "s", Embedding: []float32{1, 2}})
		wantError(t, "recall", err, fault.ErrInvalid)
		_, err = db.Memories().Update(ctx, ada, "one", memory.Patch{Vectors: map[string][]float32{"s": {1}}})
		wantError(t, "update", err, fault.ErrInvalid)
		closeTest(t, db)
		db = openTest(t, fs, Options{})
	}
	mustCheck(t, db, 1)
	// Of a batch, what does not fit is reported and the rest is stored.
	got, err := db.Memories().StoreBatch(ctx, []memory.Memory{
		{Scope: ada, Vectors: map[string][]float32{"new": {1, 2}}},
		{Scope: ada, Vectors: map[string][]float32{"new": {1, 2, 3}}},
		{Scope: ada, Vectors: map[string][]float32{"new": {2, 1}}},
	}, &memory.StoreOptions{SkipInvalid: true})
	if err != nil || !got[0].Stored || got[1].Stored || !got[2].Stored {
		t.Fatalf("%+v, %v", got, err)
	}
	wantError(t, "the one that does not fit", got[1].Err, fault.ErrInvalid)
	mustCheck(t, db, 3)
}

// TestSpaceIsolation: a space that an open transaction makes, or a later commit,
// has no dimension for others.
func TestSpaceIsolation(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	ctx := t.Context()
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "x"})
	ask := func(m Memories) error {
		_, err := m.Recall(ctx, memory.Query{Scope: ada, Space: "s", Embedding: []float32{1, 2, 3}, Profile: memory.ProfileVector})
		return err
	}
	four := memory.Memory{ID: "four", Scope: ada, Vectors: map[string][]float32{"s": {1, 2, 3, 4}}}
	err := db.View(ctx, func(view *Tx) error {
		err := db.Update(ctx, func(tx *Tx) error {
			mustStore(t, tx.Memories(), four)
			equalSlices(t, "found", closest(t, tx.Memories(), ada, "s", 1, 0, 0, 0), []string{"four"}) // shows it to the indexes
			wantError(t, "recall in the transaction", ask(tx.Memories()), fault.ErrInvalid)
			for name, m := range map[string]Memories{"view": view.Memories(), "recall": db.Memories()} {
				if err := ask(m); err != nil {
					t.Errorf("%s beside the transaction: %v", name, err)
				}
			}
			return fault.ErrBusy
		})
		wantError(t, "abort", err, fault.ErrBusy)
		mustStore(t, db.Memories(), four)
		wantError(t, "recall after the commit", ask(db.Memories()), fault.ErrInvalid)
		return ask(view.Memories())
	})
	if err != nil {
		t.Errorf("the older view: %v", err)
	}
}

// TestSpaceLimit: the 65th space is refused, also within one memory or batch.
func TestSpaceLimit(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	m := memory.Memory{Scope: ada, Vectors: map[string][]float32{}}
	for i := range MaxSpaces + 1 {
		m.Vectors[fmt.Sprint("s", i)] = []float32{1}
	}
	_, err := db.Memories().Store(t.Context(), m, nil)
	wantError(t, "one too many in one memory", err, fault.ErrInvalid)
	delete(m.Vectors, "s0")
	mustStore(t, db.Memories(), m)
	_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Embedding: []float32{1}}, nil)
	wantError(t, "one too many", err, fault.ErrInvalid)
	mustCheck(t, db, 1)
}

// TestVectorLives follows a memory's vectors through its changes.
func TestVectorLives(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "x", Embedding: []float32{1, 0}, Vectors: map[string][]float32{"image": {0, 1}}})
	mustStore(t, db.Memories(), memory.Memory{ID: "two", Scope: ada, Text: "y", Embedding: []float32{0, 1}})
	slot := func(id, space string) uint32 {
		t.Helper()
		m := mustGet(t, db.Memories(), ada, id)
		slot, ok := db.spaces.Named(space).Slot(db.tables.Docs.At(m.Seq, state.MaxLSN))
		if !ok {
			t.Fatalf("%s has no slot in %s", id, space)
		}
		return slot
	}
	before := slot("one", memory.DefaultSpace)
	mustUpdate(t, db.Memories(), ada, "one", memory.Patch{Metadata: &map[string]any{"a": 1}})
	waitCleaned(t, db)
	if after := slot("one", memory.DefaultSpace); after != before {
		t.Errorf("a change of metadata moved the vector from slot %d to %d", before, after)
	}
	steps := []struct {
		name       string
		patch      memory.Patch
		embedding  []float32
		image      []float32
		found      []string // near 1, 0
		foundImage []string // near 0, 1
	}{
		{"another embedding", memory.Patch{Embedding: []float32{3, 4}}, []float32{3, 4}, []float32{0, 1}, []string{"one", "two"}, []string{"one"}},
		{"another image and text", memory.Patch{Text: new("z"), Vectors: map[string][]float32{"image": {1, 1}}}, nil, []float32{1, 1}, []string{"two"}, []string{"one"}},
		{"an embedding again", memory.Patch{Embedding: []float32{2, 0}}, []float32{2, 0}, []float32{1, 1}, []string{"one", "two"}, []string{"one"}},
		{"another text", memory.Patch{Text: new("zz")}, nil, nil, []string{"two"}, []string{}},
	}
	for _, s := range steps {
		got := mustUpdate(t, db.Memories(), ada, "one", s.patch)
		for range 2 { // before and after reopening
			if !slices.Equal(got.Embedding, s.embedding) || !slices.Equal(got.Vectors["image"], s.image) {
				t.Errorf("%s: vectors %v, %v; want %v, %v", s.name, got.Embedding, got.Vectors, s.embedding, s.image)
			}
			equalSlices(t, s.name+": found", closest(t, db.Memories(), ada, "default", 1, 0), s.found)
			equalSlices(t, s.name+": found by image", closest(t, db.Memories(), ada, "image", 0, 1), s.foundImage)
			mustCheck(t, db, 2)
			closeTest(t, db)
			db = openTest(t, fs, Options{})
			got = mustGet(t, db.Memories(), ada, "one")
		}
	}
}

// TestVectorsInOneTransaction changes a memory several times in one transaction,
// with recalls between, and commits or does not.
func TestVectorsInOneTransaction(t *testing.T) {
	type op struct {
		patch  memory.Patch
		recall bool
	}
	meta := func(i int) memory.Patch { return memory.Patch{Metadata: &map[string]any{"i": i}} }
	vec := func(x, y float32) memory.Patch { return memory.Patch{Embedding: []float32{x, y}} }
	for name, ops := range map[string][]op{
		"metadata twice":                {{meta(1), false}, {meta(2), false}},
		"metadata, recall, metadata":    {{meta(1), true}, {meta(2), true}},
		"vector twice":                  {{vec(0, 1), false}, {vec(1, 1), false}},
		"vector, recall, vector":        {{vec(0, 1), true}, {vec(1, 1), true}},
		"metadata, vector, metadata":    {{meta(1), false}, {vec(0, 1), false}, {meta(2), false}},
		"vector, recall, metadata":      {{vec(0, 1), true}, {meta(2), true}},
		"text, vector, recall, text":    {{memory.Patch{Text: new("a")}, false}, {vec(0, 1), true}, {memory.Patch{Text: new("b")}, true}},
		"text away and back, no recall": {{memory.Patch{Text: new("a")}, false}, {memory.Patch{Text: new("x")}, false}},
	} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", commit ", commit), func(t *testing.T) {
				fs := vfs.NewMem()
				db := openTest(t, fs, Options{})
				ada := memory.Scope{User: "ada"}
				mustStore(t, db.Memories(), memory.Memory{ID: "one", Scope: ada, Text: "x", Embedding: []float32{1, 0}})
				want := mustGet(t, db.Memories(), ada, "one")
				err := db.Update(t.Context(), func(tx *Tx) error {
					for _, o := range ops {
						got := mustUpdate(t, tx.Memories(), ada, "one", o.patch)
						if commit {
							want = got
						}
						if o.recall {
							sameScore(t, tx.Memories(), ada, got.Embedding)
						}
					}
					if !commit {
						return fault.ErrBusy
					}
					return nil
				})
				if commit != (err == nil) {
					t.Fatal(err)
				}
				for range 2 {
					if got := mustGet(t, db.Memories(), ada, "one"); !reflect.DeepEqual(got, want) {
						t.Errorf("read %+v, want %+v", got, want)
					}
					sameScore(t, db.Memories(), ada, want.Embedding)
					waitCleaned(t, db)
					sameScore(t, db.Memories(), ada, want.Embedding)
					mustCheck(t, db, 1)
					closeTest(t, db)
					db = openTest(t, fs, Options{})
				}
			})
		}
	}
}

// sameScore holds the one memory of a scope to the vector that it should be found
// by; nil means not at all.
func sameScore(t *testing.T, m Memories, s memory.Scope, vec []float32) {
	t.Helper()
	query := []float32{0.6, 0.8}
	hits := mustRecall(t, m, memory.Query{Scope: s, Embedding: query, Profile: memory.ProfileVector, NoTouch: true})
	if vec == nil {
		if len(hits) > 0 {
			t.Errorf("found with %v by a vector that it has not", hits[0].Score)
		}
		return
	}
	if len(hits) != 1 || math.Abs(hits[0].Score-cosine(query, vec)) > tolerance {
		t.Errorf("hits %+v, want one with %v", hits, cosine(query, vec))
	}
}

// TestVectorMemoryIsReused: replacing every vector, in commits that abort as well,
// takes no more memory than holding them twice.
func TestVectorMemoryIsReused(t *testing.T) {
	race.Sequential(t)
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	rng := rand.New(rand.NewPCG(5, 5))
	const n, dim, rounds = 300, 64, 20
	vector := func() []float32 {
		vec := make([]float32, dim)
		for i := range vec {
			vec[i] = rng.Float32() - 0.5
		}
		return vec
	}
	var mems []memory.Memory
	for i := range n {
		mems = append(mems, memory.Memory{ID: fmt.Sprint(i), Scope: ada, Embedding: vector()})
	}
	if _, err := db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
		t.Fatal(err)
	}
	round := func(abort bool) {
		err := db.Update(t.Context(), func(tx *Tx) error {
			for i := range n {
				mustUpdate(t, tx.Memories(), ada, fmt.Sprint(i), memory.Patch{Embedding: vector()})
			}
			closest(t, tx.Memories(), ada, "default", vector()...)
			if abort {
				return fault.ErrBusy
			}
			return nil
		})
		if abort != (err != nil) {
			t.Fatal(err)
		}
		waitCleaned(t, db)
		waitVectors(t, db, n)
	}
	round(false)
	slots := db.spaces.Named(memory.DefaultSpace).Index.Len()
	stats := func() int64 {
		st, err := db.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.Memory.Vectors
	}
	before := stats()
	for i := range rounds {
		round(i%4 == 3)
	}
	if after := stats(); after != before {
		t.Errorf("the vectors take %d bytes, before %d rounds of replacing them %d", after, rounds, before)
	}
	if after := db.spaces.Named(memory.DefaultSpace).Index.Len(); after != slots || slots > 2*n {
		t.Errorf("%d slots for %d vectors, before %d", after, n, slots)
	}
	mustCheck(t, db, n)
}

// TestVectorsThatDoNotFit: what the metric of a space refuses is refused before anything
// is committed, whoever makes the space and however late.
func TestVectorsThatDoNotFit(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	mm, ada := db.Memories(), memory.Scope{User: "ada"}
	mustStore(t, mm, memory.Memory{Scope: ada, Text: "before"})
	vectored := func(space string, vec ...float32) memory.Memory {
		return memory.Memory{Scope: ada, Text: fmt.Sprint(space, vec), Vectors: map[string][]float32{space: vec}}
	}
	err := db.Update(ctx, func(tx *Tx) error {
		for name, metric := range map[string]Metric{"l2": MetricL2, "dot": MetricDot} {
			if err := tx.CreateSpace(SpaceConfig{Name: name, Dim: 2, Metric: metric}); err != nil {
				return err
			}
			_, err := tx.Memories().Store(ctx, vectored(name, 1e20, 0), nil)
			wantError(t, "a vector that is too long", err, fault.ErrInvalid)
			_, err = tx.Memories().Store(ctx, vectored(name, 1, 2, 3), nil)
			wantError(t, "a vector of another dimension", err, fault.ErrInvalid)
			mustStore(t, tx.Memories(), vectored(name, 0, 0)) // has no direction, but a place
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Prepared while the space did not exist.
	late := func(mem memory.Memory) *storeCall {
		p, err := mm.prepare(ctx, &mem, db.now())
		if err != nil {
			t.Fatal(err)
		}
		return &storeCall{memories: []*records.Prepared{p}, options: &memory.StoreOptions{}, results: make([]memory.Stored, 1)}
	}
	long, wide := late(vectored("late", 1e20, 0)), late(vectored("late", 1, 2, 3))
	err = db.Update(ctx, func(tx *Tx) error {
		return tx.CreateSpace(SpaceConfig{Name: "late", Dim: 2, Metric: MetricL2})
	})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "a vector that is too long, prepared before", db.storeCommitted(ctx, long), fault.ErrInvalid)
	wantError(t, "a vector of another dimension, prepared before", db.storeCommitted(ctx, wide), fault.ErrInvalid)
	mustCheck(t, db, 3)
	closeTest(t, db)
	mustCheck(t, openTest(t, fs, Options{}), 3)
}

// TestOpenLeavesOutUnfitVectors: a vector in the store that no index takes keeps nobody
// from the rest, and check names its memory.
func TestOpenLeavesOutUnfitVectors(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada"}
	bad := mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "bad", Embedding: []float32{1, 2}})
	mustStore(t, db.Memories(), memory.Memory{Scope: ada, Text: "good", Embedding: []float32{2, 1}})
	of := db.tables.Docs.Row(db.tables.Docs.At(bad.Seq, state.MaxLSN)).Version
	key := db.keys().Vector(db.spaces.Named(memory.DefaultSpace).Num, of)
	if err := db.store.Set(key, codec.AppendFloats(nil, []float32{0, 0}), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{})
	r, err := db.Check(t.Context())
	if err != nil || r.OK || !strings.Contains(fmt.Sprint(r.Problems), bad.ID) {
		t.Errorf("check: %+v, %v", r, err)
	}
	hits := mustRecall(t, db.Memories(), memory.Query{Scope: ada, Embedding: []float32{1, 1}, Profile: memory.ProfileVector})
	equalSlices(t, "found by its vector", []string{hits[0].Text}, []string{"good"})
	if got := mustList(t, db.Memories(), ada); len(got) != 2 {
		t.Errorf("%d memories are listed, want 2", len(got))
	}
	// Given a vector that fits, it is as any other.
	if _, err := db.Memories().Update(t.Context(), ada, bad.ID, memory.Patch{Embedding: []float32{1, 2}}); err != nil {
		t.Fatal(err)
	}
	hits = mustRecall(t, db.Memories(), memory.Query{Scope: ada, Embedding: []float32{1, 1}, Profile: memory.ProfileVector})
	if len(hits) != 2 {
		t.Errorf("%d are found by their vectors, want 2", len(hits))
	}
}
