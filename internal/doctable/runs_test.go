package doctable

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
	var table Table
	table.Link(0, func() uint64 { return 0 })
	enter := func(doc uint32, seq uint64) {
		table.Add(doc, func(r *Row) {
			r.Seq, r.From, r.Run, r.Owner = seq, uint64(doc), 1, 1
		})
	}
	order := rng.Perm(early + late)
	slices.Sort(order[:early])
	var seen runList
	var kept []uint64
	copied := 0
	for i, n := range order {
		was := len(table.Runs.List(1, 1).Late)
		enter(uint32(i), uint64(n+1))
		if i%777 == 0 {
			if !slices.Equal(slices.Concat(seen.Seqs, seen.Late), kept) {
				t.Fatal("a reader's lists were changed")
			}
			seen = table.Runs.List(1, 1)
			kept = slices.Concat(seen.Seqs, seen.Late)
		}
		switch l := table.Runs.List(1, 1); {
		case len(l.Late) > was:
			copied += len(l.Late)
		case len(l.Late) < was:
			copied += len(l.Seqs)
		}
	}
	l := table.Runs.List(1, 1)
	if !slices.IsSorted(l.Seqs) || !slices.IsSorted(l.Late) {
		t.Error("a list is not in order")
	}
	all := slices.Concat(l.Seqs, l.Late)
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
