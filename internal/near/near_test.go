package near

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNearness compares words.
func TestNearness(t *testing.T) {
	for _, tc := range []struct {
		x, y string
		want float64
	}{
		{"coffe", "coffe", 1},
		{"cofe", "coffe", 2 * 3.0 / 9},
		{"versicher", "krankenversicher", 2 * 8.0 / 25},
		{"termin", "zahnarzttermin", part},
		{"kranken", "krankenversicher", part},
		{"night", "nacht", 0},
		{"abc123", "abc124", 0},
		{"tea", "teas", 0},
		{"книга", "книги", 2 * 3.0 / 10},
		{strings.Repeat("a", 64), strings.Repeat("a", 63), 0},
		{"coffe", "\x01\x01\x01\x01de", 0},
	} {
		got := 0.0
		if w, ok := New(tc.x); ok {
			got = w.Nearness([]byte(tc.y))
		}
		if got != tc.want {
			t.Errorf("%s and %s: %v, want %v", tc.x, tc.y, got, tc.want)
		}
	}
}

func TestGrams(t *testing.T) {
	for word, want := range map[string][]string{
		"tea":  {"\x00te", "tea", "ea\x00"},
		"книг": {"\x00кн", "кни", "ниг", "иг\x00"},
	} {
		var grams []string
		EachGram([]byte(word), func(g Gram) { grams = append(grams, string(g.Append(nil))) })
		if !slices.Equal(grams, want) {
			t.Errorf("%s: grams %q, want %q", word, grams, want)
		}
	}
}

// TestNeeds holds Needs against random pairs: no near word has fewer grams in common, and a
// bound that any word meets would not be one.
func TestNeeds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	near, below := 0, 0
	for range 200_000 {
		x := randomWord(rng, 4+rng.IntN(8))
		y := randomWord(rng, 4+rng.IntN(8))
		if rng.IntN(2) == 0 { // often a relative
			y = edited(rng, x)
		}
		w, ok := New(x)
		if !ok {
			t.Fatalf("%q is no word", x)
		}
		have := common(w.Grams(), y)
		needs := w.Needs(Letters([]byte(y)))
		switch nearness := w.Nearness([]byte(y)); {
		case nearness > 0 && have < needs:
			t.Fatalf("seed %d: %q and %q are near by %v with %d grams in common, %d are needed", seed, x, y, nearness, have, needs)
		case nearness > 0:
			near++
		case have < needs:
			below++
		}
	}
	if near < 1_000 || below < 1_000 {
		t.Errorf("seed %d: %d pairs are near, %d lack grams: the test says little", seed, near, below)
	}
}

func randomWord(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteRune([]rune("aaabbcdé")[rng.IntN(8)])
	}
	return b.String()
}

// edited is a word with a letter less or another, or more at an end.
func edited(rng *rand.Rand, word string) string {
	letters := []rune(word)
	at := rng.IntN(len(letters))
	switch rng.IntN(4) {
	case 0:
		letters[at] = 'z'
	case 1:
		if len(letters) > MinLetters {
			letters = slices.Delete(letters, at, at+1)
		}
	case 2:
		return word + randomWord(rng, 1+rng.IntN(12))
	default:
		return randomWord(rng, 1+rng.IntN(12)) + word
	}
	return string(letters)
}

// common counts the grams that are in both, in the plainest way.
func common(grams []Gram, word string) int {
	left := slices.Clone(grams)
	n := 0
	EachGram([]byte(word), func(g Gram) {
		if i := slices.Index(left, g); i >= 0 {
			left = slices.Delete(left, i, i+1)
			n++
		}
	})
	return n
}

func ExampleWord_Nearness() {
	w, _ := New("cofee")
	fmt.Printf("%.2f %.2f\n", w.Nearness([]byte("coffee")), w.Nearness([]byte("tea")))
	// Output: 0.73 0.00
}
