package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// TestTrustIsKept: what questions show of a space is learned, kept with the touches of the recalls,
// and there again after a reopening; damage of it takes nothing else along.
func TestTrustIsKept(t *testing.T) {
	fs := vfs.NewMem()
	db := openTest(t, fs, Options{})
	ada := memory.Scope{User: "ada", Run: "r"}
	for i := range 40 {
		vec := make([]float32, 8)
		vec[i%8], vec[(i*3+1)%8] = 1, .2
		mustStore(t, db.Memories(), memory.Memory{ID: fmt.Sprint(i), Scope: ada, Text: fmt.Sprint("tea of kind ", i%8, " and number ", i), Embedding: vec})
	}
	space := func() *spaces.Space { return db.spaces.At(memory.DefaultSpace, state.MaxLSN) }
	before := space().Trust()
	for i := range 9 { // questions whose vectors know which tea is meant
		q := memory.Query{Scope: ada, Text: fmt.Sprint("tea number ", i), Embedding: make([]float32, 8)}
		q.Embedding[i%8], q.Embedding[(i*3+1)%8] = 1, .2
		mustRecall(t, db.Memories(), q)
	}
	shown := space().Trust()
	if before != (policy.Trust{}) || shown.Asked != 8 || shown.Weight() <= 0 {
		t.Fatalf("after nine questions: %+v, before: %+v", shown, before)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{})
	if again := space().Trust(); again != shown {
		t.Errorf("after the reopening: %+v, want %+v", again, shown)
	}
	if r, err := db.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %+v, %v", r, err)
	}
	value, closer, err := db.store.Get(layout.TrustKey)
	if err != nil {
		t.Fatal(err)
	}
	whole := slices.Clone(value)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := slices.Clone(whole)
		damaged[i] ^= 1
		if _, err := layout.DecodeTrust(damaged); err == nil {
			t.Errorf("byte %d was changed, and nobody saw it", i)
		}
	}
	if err := db.store.Set(layout.TrustKey, []byte("nonsense"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	db = openTest(t, fs, Options{})
	defer closeTest(t, db)
	if again := space().Trust(); again != (policy.Trust{}) {
		t.Errorf("of damaged figures: %+v", again)
	}
	if n := len(mustRecall(t, db.Memories(), memory.Query{Scope: ada, Text: "tea"})); n != 10 {
		t.Errorf("%d hits", n)
	}
}
