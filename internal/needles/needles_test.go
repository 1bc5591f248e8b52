package needles

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSetIsTheModel: a Set finds what strings.Contains finds, of needles that overlap, that
// hold each other, that are equal or empty.
func TestSetIsTheModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	word := func(letters, most int) string {
		b := make([]byte, rng.IntN(most))
		for i := range b {
			b[i] = "a\x00\xffbcd"[rng.IntN(letters)]
		}
		return string(b)
	}
	for range 20_000 {
		letters := 1 + rng.IntN(6)
		var words []string
		for range rng.IntN(12) {
			words = append(words, word(letters, 2+rng.IntN(6)))
		}
		text := word(letters, 60)
		wantAny, wantAll := false, true
		for _, w := range words {
			has := strings.Contains(text, w)
			wantAny, wantAll = wantAny || has, wantAll && has
		}
		s := New(words)
		gotAny, err := s.Any(t.Context(), text)
		gotAll, err2 := s.All(t.Context(), text)
		if gotAny != wantAny || gotAll != wantAll || err != nil || err2 != nil {
			t.Fatalf("%q in %q: any %v, all %v; want %v, %v", words, text, gotAny, gotAll, wantAny, wantAll)
		}
	}
}

// TestScanEndsWithItsContext: a long text is not read to its end.
func TestScanEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := New([]string{"absent", "also absent"})
	text := strings.Repeat("a", 2*bytesPerLook)
	if _, err := s.Any(ctx, text); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.All(ctx, text); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func BenchmarkSet(b *testing.B) {
	var words []string
	for i := range 4900 {
		words = append(words, fmt.Sprint("zz", i))
	}
	text := strings.Repeat("She said that the green tea was not as good as black coffee, and left. ", 12)
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			New(words)
		}
	})
	b.Run("any", func(b *testing.B) {
		s := New(words)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if any, err := s.Any(b.Context(), text); any || err != nil {
				b.Fatal(any, err)
			}
		}
	})
}
