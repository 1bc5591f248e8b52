package records

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestSeen compares the set with a map, while it is filled and after: it may not
// deny a prefix that was added.
func TestSeen(t *testing.T) {
	var s Seen
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	prefix := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte("prefix"), n) }
	added := map[uint64]bool{}
	if !s.MayHold(prefix(1)) {
		t.Error("a set that is not filled yet denies a prefix")
	}
	s.ready = true
	wrong := 0
	for range 200_000 {
		n := rng.Uint64N(400_000)
		switch held := s.MayHold(prefix(n)); {
		case added[n] && !held:
			t.Fatalf("prefix %d is denied (seed %d)", n, seed)
		case !added[n] && held:
			wrong++
		}
		if rng.IntN(2) == 0 {
			s.Add(prefix(n))
			added[n] = true
		}
	}
	if wrong > 100 { // 32 bits of 100,000: about 1 in 40,000
		t.Errorf("%d prefixes are held that were never added (seed %d)", wrong, seed)
	}
}
