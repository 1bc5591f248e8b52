package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestTablesEndWithKinds: large flushes make tables of one kind of keys that are
// appended, which the tree takes over as they are; a small one makes one table of all.
func TestTablesEndWithKinds(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	db := openTest(t, vfs.NewMem(), Options{MemoryBudget: 1 << 30})
	rng := rand.New(rand.NewPCG(1, 1))
	stored := 0
	flush := func(n int) {
		t.Helper()
		var mems []memory.Memory
		for range n {
			stored++
			mem := memory.Memory{Scope: memory.Scope{User: fmt.Sprint(rng.IntN(20))}, Text: fmt.Sprintf("tea number%d", stored), Embedding: make([]float32, 384)}
			for i := range mem.Embedding {
				mem.Embedding[i] = rng.Float32()
			}
			mems = append(mems, mem)
		}
		if _, err := db.Memories().StoreBatch(t.Context(), mems, nil); err != nil {
			t.Fatal(err)
		}
		if err := db.store.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// tables counts the tables by their first kind, those of more than a kind that is
	// appended under 0.
	tables := func() map[byte]int {
		t.Helper()
		levels, err := db.store.SSTables()
		if err != nil {
			t.Fatal(err)
		}
		of := map[byte]int{}
		for _, table := range slices.Concat(levels...) {
			first, last := table.Smallest.UserKey[0], table.Largest.UserKey[0]
			if slices.ContainsFunc(appended, func(kind byte) bool { return first <= kind && kind <= last && first < last }) {
				first = 0
			}
			of[first]++
		}
		return of
	}
	flush(10)
	if of := tables(); len(of) != 1 || of[0] != 1 {
		t.Errorf("a small flush made tables of %v", of)
	}
	for range 8 {
		flush(4000)
	}
	if of := tables(); of[0] > 1 || min(of[layout.KindForward], of[layout.KindRecord], of[layout.KindVector]) < 4 {
		t.Errorf("large flushes made tables of %v", of)
	}
	if err := db.store.Compact(t.Context(), []byte{0}, []byte{math.MaxUint8}, false); err != nil {
		t.Fatal(err)
	}
	if of := tables(); of[0] != 0 {
		t.Errorf("merged, there are tables of %v", of)
	}
	mustCheck(t, db, stored)
}
