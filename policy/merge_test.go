package policy

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// editDistance is the whole matrix.
func editDistance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, c := range a {
		corner := row[0]
		row[0] = i + 1
		for j := range b {
			cost := corner
			if c != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func TestEditDistance(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	text := func() []rune {
		s := make([]rune, rng.IntN(24))
		for i := range s {
			s[i] = []rune("abcé")[rng.IntN(4)]
		}
		return s
	}
	for range 200_000 {
		a, b, most := text(), text(), rng.IntN(12)
		if rng.IntN(2) == 0 { // near
			b = append([]rune(nil), a...)
			for range rng.IntN(4) {
				if len(b) > 0 {
					b[rng.IntN(len(b))] = 'x'
				}
			}
		}
		want := editDistance(a, b)
		got, ok := EditDistance(a, b, most)
		if ok != (want <= most) || ok && got != want {
			t.Fatalf("%q to %q within %d: %d, %v, want %d", string(a), string(b), most, got, ok, want)
		}
	}
}

func TestSameText(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"the meeting is on Tuesday", "the meeting is on Tuesday!", true},
		{"0123456789", "0123456780", false}, // a tenth is not below a tenth
		{"01234567890", "01234567880", true},
		{"äöüäöüäöüäö", "äöüäöüäöüäu", true},
		{"ok", "ok", true},
		{"", "", false},
		{strings.Repeat("a", MaxMergeText+1), strings.Repeat("a", MaxMergeText+1), false},
	} {
		if _, same := SameText(tc.a, tc.b, .1); same != tc.same {
			t.Errorf("%.20q and %.20q: %v", tc.a, tc.b, same)
		}
	}
	if _, same := SameText("a", "a", 0); same {
		t.Error("no distance is below 0")
	}
}
