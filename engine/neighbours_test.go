package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRunListIsInOrder: Seqs that come into a run in any order are in it once, readers see
// the lists that they took, and what is copied grows with the root of their number.
func TestRunListIsInOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const early, late = 4_000, 4_000
	var table docTable
	table.link(0, func() uint64 { return 0 })
	enter := func(doc uint32, seq uint64) {
		table.add(doc, func(r *docRow) {
			r.seq, r.from, r.run, r.owner = seq, uint64(doc), 1, 1
		})
	}
	key := runKey{1, 1}
	order := rng.Perm(early + late)
	slices.Sort(order[:early])
	var seen runList
	var kept []uint64
	copied := 0
	for i, n := range order {
		was := len(table.runs.list(key).late)
		enter(uint32(i), uint64(n+1))
		if i%777 == 0 {
			if !slices.Equal(slices.Concat(seen.seqs, seen.late), kept) {
				t.Fatal("a reader's lists were changed")
			}
			seen = table.runs.list(key)
			kept = slices.Concat(seen.seqs, seen.late)
		}
		switch l := table.runs.list(key); {
		case len(l.late) > was:
			copied += len(l.late)
		case len(l.late) < was:
			copied += len(l.seqs)
		}
	}
	l := table.runs.list(key)
	if !slices.IsSorted(l.seqs) || !slices.IsSorted(l.late) {
		t.Error("a list is not in order")
	}
	all := slices.Concat(l.seqs, l.late)
	slices.Sort(all)
	for i, seq := range all {
		if seq != uint64(i+1) {
			t.Fatalf("place %d of %d has seq %d", i, len(all), seq)
		}
	}
	if most := late * 4 * mostLate; copied > most {
		t.Errorf("%d Seqs were copied for %d moves, want at most %d", copied, late, most)
	}
	if len(all) != early+late {
		t.Errorf("%d Seqs, want %d", len(all), early+late)
	}
}
