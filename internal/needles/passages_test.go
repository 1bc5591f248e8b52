package needles

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPassages verifies that texts are found whole, in parts and within JSON, and names as words alone.
func TestPassages(t *testing.T) {
	p := NewPassages(100)
	p.Text("The harbour opens at seven in the morning. Short one. A \"quoted harbour master\" said so")
	p.Name("zoe7")
	p.Name("amsterdam")
	for text, want := range map[string]bool{
		"before The harbour opens at seven in the morning, they said": true,
		`{"text":"A \"quoted harbour master\" said so"}`:              true,
		"The harbour opens at seven in the evening":                   false,
		"Short one":      false,
		"with zoe7.":     true,
		"zoe7":           true,
		"\x00zoe7\x01":   true,
		"zoe77":          false,
		"azoe7":          false,
		"from amsterdam": true,
		"amsterdams":     false,
		"":               false,
		strings.Repeat("x", 300) + " amsterdam" + strings.Repeat(" ", 9): true,
	} {
		if got := p.In([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestPassagesRandom compares with a plain search.
func TestPassagesRandom(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab "[rng.IntN(3)]
		}
		return "x" + string(b) + "x"
	}
	for range 200 {
		text, p := word(200), NewPassages(10)
		from := rng.IntN(100)
		needle := "x" + text[from+1:from+30] + "x"
		if rng.IntN(2) == 0 {
			needle = text[from : from+30]
		}
		needle = strings.TrimSpace(needle)
		p.Text(needle)
		if got, want := p.In([]byte(text)), strings.Contains(text, needle) && p.Len() > 0; got != want {
			t.Fatalf("%q in %q: %v", needle, text, got)
		}
	}
	p := NewPassages(2)
	for range 3 {
		p.Text(word(30))
	}
	if !p.Full() || p.Len() != 2 {
		t.Errorf("%v, %d", p.Full(), p.Len())
	}
}
