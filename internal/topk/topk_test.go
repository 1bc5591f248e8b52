package topk

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTopK: what is left of any sequence are its k greatest, by either form.
func TestTopK(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	less := func(a, b *int) bool { return *a < *b }
	for range 500 {
		k, n := 1+rng.IntN(20), rng.IntN(60)
		var all, ordered, byFunc []int
		for range n {
			v := rng.IntN(30)
			all = append(all, v)
			if len(ordered) < k {
				ordered, byFunc = append(ordered, v), append(byFunc, v)
				Up(ordered)
				UpFunc(byFunc, less)
			} else if v > ordered[0] {
				ordered[0], byFunc[0] = v, v
				Down(ordered, 0)
				DownFunc(byFunc, 0, less)
			}
		}
		made := slices.Clone(all)
		for i := len(made)/2 - 1; i >= 0; i-- {
			Down(made, i)
		}
		slices.Sort(all)
		if len(made) > 0 && made[0] != all[0] {
			t.Fatalf("the least of %v is %d", all, made[0])
		}
		want := all[max(len(all)-k, 0):]
		slices.Sort(ordered)
		slices.Sort(byFunc)
		if !slices.Equal(ordered, want) || !slices.Equal(byFunc, want) {
			t.Fatalf("%v and %v of %v", ordered, byFunc, all)
		}
	}
}
