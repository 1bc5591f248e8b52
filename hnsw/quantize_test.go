package hnsw

import "testing"

func TestSignedCodes(t *testing.T) {
	rng := random(t)
	for n := range 1200 {
		codes, got := make([]uint8, n), make([]int8, n)
		var want int32
		for i := range codes {
			codes[i] = 255 // the most that a sum of lanes must hold
			if n%2 == 0 {
				codes[i] = uint8(rng.Uint32())
			}
			want += int32(codes[i]) - codeZero
		}
		if sum := signedCodes(codes, got); sum != want {
			t.Fatalf("%d codes: sum %d; want %d", n, sum, want)
		}
		for i, c := range codes {
			if int(got[i]) != int(c)-codeZero {
				t.Fatalf("code %d is %d; want %d", c, got[i], int(c)-codeZero)
			}
		}
	}
}
