package hnsw

import (
	"slices"
	"testing"
)

// TestSet compares a set with a map, in whole, below limits, and read through
// buffers of any size.
func TestSet(t *testing.T) {
	rng := random(t)
	for range 50 {
		s, want := NewSet(), map[uint32]bool{}
		for range rng.IntN(400) {
			slot := rng.Uint32N(1 + rng.Uint32N(600))
			if rng.IntN(4) == 0 {
				s.Remove(slot)
				delete(want, slot)
			} else {
				s.Add(slot)
				want[slot] = true
			}
		}
		before := s.Clone()
		checkSet(t, s, want, 700)
		limit := rng.Uint32N(700)
		part := map[uint32]bool{}
		for slot := range want {
			if slot < limit {
				part[slot] = true
			}
		}
		checkSet(t, s.below(limit), part, 700)
		checkSet(t, s, want, 700)
		s.Add(650)
		checkSet(t, before, want, 650)
	}
}

func checkSet(t *testing.T, s *Set, want map[uint32]bool, end uint32) {
	t.Helper()
	if s.Len() != len(want) {
		t.Fatalf("%d slots, want %d", s.Len(), len(want))
	}
	for slot := range end {
		if s.Has(slot) != want[slot] {
			t.Fatalf("slot %d: %v, want %v", slot, s.Has(slot), want[slot])
		}
	}
	for size := 1; size < 200; size += 61 {
		var got []uint32
		buf := make([]uint32, size)
		for next := uint32(0); ; {
			var n int
			if n, next = s.next(next, buf); n == 0 {
				break
			}
			got = append(got, buf[:n]...)
		}
		if len(got) != len(want) || !slices.IsSorted(got) {
			t.Fatalf("buffers of %d: %d slots, want %d in order", size, len(got), len(want))
		}
	}
}
