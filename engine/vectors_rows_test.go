package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestVectorsAreReadAhead: once searches have read enough vectors from the store, all
// are read, and no search reads one again; what is stored later is read when it is met.
func TestVectorsAreReadAhead(t *testing.T) {
	const n, dim = 300, 12
	fs, opts := vfs.NewMem(), setup{tuning: tuning{vectors: smallLimits()}}
	opts.vectors.FillLeast = 100
	db := openTest(t, fs, opts)
	rng := rand.New(rand.NewPCG(1, 1))
	store := func(i int) {
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: memory.Scope{User: "ada"}, Text: fmt.Sprint("number ", i), Embedding: randomVec(rng, dim)})
	}
	ask := func(limit int) {
		mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "ada"}, Embedding: randomVec(rng, dim), Profile: memory.ProfileVector, Exact: true, Limit: limit})
	}
	kept := func() int64 {
		st, err := db.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Memory.Shares.VectorRows != testBudget/8 {
			t.Errorf("the share is %d", st.Memory.Shares.VectorRows)
		}
		return st.Memory.VectorRows / (4 * dim)
	}
	for i := range n {
		store(i)
	}
	if err := db.Memories().Delete(t.Context(), memory.Scope{User: "ada"}, "7"); err != nil {
		t.Fatal(err)
	}
	waitIndexed(t, db)
	closeTest(t, db)
	db = openTest(t, fs, opts)
	ask(10)
	if got := kept(); got < 10 || got >= 100 {
		t.Errorf("one search keeps %d vectors", got)
	}
	for range 20 {
		ask(50)
	}
	for began := time.Now(); kept() < n-1; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%d of %d vectors are kept", kept(), n-1)
		}
	}
	s := db.spaces.Named(memory.DefaultSpace)
	before := s.Reads.Load()
	for range 20 {
		ask(50)
	}
	if read := s.Reads.Load() - before; read != 0 {
		t.Errorf("%d vectors were read that are kept", read)
	}
	store(n)
	ask(n)
	if read := s.Reads.Load() - before; read != 1 || kept() != n {
		t.Errorf("%d vectors were read; one is new, and %d are kept", read, kept())
	}
}

// TestReadingAheadStops: a database that is closed in the midst of it.
func TestReadingAheadStops(t *testing.T) {
	opts := setup{tuning: tuning{vectors: smallLimits()}}
	opts.vectors.FillLeast = 1
	for i := range 10 {
		log, said := logged()
		opts.Logger = log
		db := openTest(t, vfs.NewMem(), opts)
		mustStore(t, db.Memories(), memory.Memory{Scope: memory.Scope{User: "ada"}, Text: "tea", Embedding: []float32{1, 2}})
		mustRecall(t, db.Memories(), memory.Query{Scope: memory.Scope{User: "ada"}, Embedding: []float32{1, float32(i)}})
		closeTest(t, db)
		if got := said(); got != "" {
			t.Errorf("the log says %q", got)
		}
	}
}
