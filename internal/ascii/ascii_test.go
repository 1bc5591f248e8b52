package ascii

import (
	"math/rand/v2"
	"testing"
)

// TestSmallLetters compares with a look at each byte, for every byte in every place.
func TestSmallLetters(t *testing.T) {
	plain := func(text string, fold byte) int {
		n := 0
		for n < min(8, len(text)) && 'a' <= text[n]|fold && text[n]|fold <= 'z' {
			n++
		}
		return n
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for c := range 256 {
		for place := range 9 {
			text := []byte("abcxyzmnop")[:rng.IntN(10)+1]
			if place < len(text) {
				text[place] = byte(c)
			}
			s := string(text)
			for from := range len(s) + 1 {
				w := Eight(s, from)
				if got, want := SmallLetters(w), plain(s[from:], 0); got != want {
					t.Fatalf("%q begins with %d small letters, want %d (seed %d)", s[from:], got, want, seed)
				}
				if got, want := SmallLetters(w|CaseBits), plain(s[from:], CaseBit); got != want {
					t.Fatalf("%q begins with %d letters, want %d (seed %d)", s[from:], got, want, seed)
				}
			}
		}
	}
}

// TestLetters compares with a look at each byte, for texts of every length to beyond a
// block.
func TestLetters(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for n := range 4 * Block {
		b := make([]byte, n%(Block+20))
		for i := range b {
			b[i] = byte(rng.Uint32() >> (n % 3)) // more or fewer beyond ASCII
		}
		at := rng.IntN(len(b) + 1)
		letters, beyond := Letters(string(b), at)
		for i := range Block {
			var letter, far bool
			if at+i < len(b) {
				c := b[at+i]
				letter, far = 'a' <= c|CaseBit && c|CaseBit <= 'z', c >= 0x80
			}
			if letters>>i&1 == 1 != letter || beyond>>i&1 == 1 != far {
				t.Fatalf("%q from %d on: letters %064b, beyond ASCII %064b, wrong at %d (seed %d)", b, at, letters, beyond, i, seed)
			}
		}
	}
}
