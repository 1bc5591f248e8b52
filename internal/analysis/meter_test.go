package analysis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/race"
)

// endsAfter is a context that ends when it is looked at for the n-th time.
type endsAfter struct {
	context.Context
	n, looks int
}

func (c *endsAfter) Err() error {
	if c.looks++; c.looks >= c.n {
		return context.Canceled
	}
	return nil
}

// longTexts repeat what takes most steps for a byte of it, each in one word or chunk.
func longTexts(bytes int) map[string]string {
	texts := map[string]string{}
	for name, unit := range map[string]string{
		"letters that unfold to 18":  "\ufdfa",
		"letters that unfold to 4":   "\ufdf2",
		"marks":                      "\u0301",
		"a letter with marks":        "e\u0301\u0323",
		"bytes that are no text":     "\xff",
		"half-width kana":            "\uff8a\uff9e",
		"joined emoji":               "\U0001f469\u200d",
		"flags":                      "\U0001f1e6",
		"thai":                       "\u0e01\u0e48",
		"ideographs":                 "\u6771",
		"syllables":                  "\u1100\u1161",
		"a path":                     "a/",
		"segments with parts":        "aB1-",
		"small words":                "tea ",
		"an apostrophe between each": "a'",
	} {
		texts[name] = strings.Repeat(unit, bytes/len(unit))
	}
	return texts
}

// TestScanEndsWithItsContext: however many looks at the context it allows, a scan ends at
// the next one, and it looks often for the size of the text.
func TestScanEndsWithItsContext(t *testing.T) {
	race.Sequential(t)
	const size = 256 << 10
	a := NewEnglish()
	for name, text := range longTexts(size) {
		whole := &endsAfter{Context: t.Context(), n: math.MaxInt}
		var bag Bag
		if err := bag.AddContext(whole, a, text, 1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// No step of those that are counted stands for more than 16 bytes.
		if least := size / stepsPerLook / 16; whole.looks < least {
			t.Errorf("%s: %d looks at the context, want %d", name, whole.looks, least)
		}
		for _, n := range []int{1, 2, whole.looks / 2, whole.looks} {
			ctx := &endsAfter{Context: t.Context(), n: n}
			bag.Reset()
			if err := bag.AddContext(ctx, a, text, 1); n > 0 && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: ended by look %d of %d: %v", name, n, whole.looks, err)
			} else if ctx.looks > n+1 { // one more where it had ended before the last word
				t.Errorf("%s: %d looks, though the context ended at %d", name, ctx.looks, n)
			}
			if _, err := a.TokensContext(&endsAfter{Context: t.Context(), n: n}, nil, text); n > 0 && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: tokens ended by look %d: %v", name, n, err)
			}
		}
	}
}

// TestCancelledScan: the largest texts are left soon after their deadline. What is
// allowed is many times what is measured, 5 to 30 ms; a scan that others took the
// processor from is tried again.
func TestCancelledScan(t *testing.T) {
	race.Sequential(t)
	if testing.Short() {
		t.Skip("texts of 8 MiB")
	}
	const late = 2 * time.Second
	a := NewEnglish()
	for name, text := range longTexts(8 << 20) {
		over := late + 1
		for try := 0; over > late && try < 5; try++ {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			from := time.Now()
			_, err := a.TokensContext(ctx, nil, text)
			over = time.Since(from) - 20*time.Millisecond
			cancel()
			t.Logf("%s: %v after the deadline, %v", name, over, err)
		}
		if over > late {
			t.Errorf("%s: each time later than %v", name, late)
		}
	}
}

// TestLongNormalization: a long segment is normalised as a short one is.
func TestLongNormalization(t *testing.T) {
	race.Sequential(t)
	const seed = 41
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := NewEnglish()
	units := []string{
		"\ufdfa", "\ufdf2", "\u0301", "\u0323", "\u0e33", "e", "E\u0301", "\u1100", "\u1161", "\u11a8", "\uac00", "\u0640", "\u00ad",
		"\ufe0f", "\u200d", "\u0663", "\u0915\u094d", "\uff8a", "\uff9e", "\U0001f469", "\xff", "\u1e9b", "\u0f73", "\u034f", "\U00016ac0", "\U0001d15e",
	}
	for range 200 {
		var b strings.Builder
		few := units[rng.IntN(len(units)):]
		for b.Len() < 4*normalPiece {
			b.WriteString(strings.Repeat(few[rng.IntN(len(few))], 1+rng.IntN(1+rng.IntN(80))))
			b.WriteString(strings.Repeat("\ufdfa", rng.IntN(40)))
		}
		s := scanner{a: a}
		if got, want := s.normalize(b.String()), normalize(b.String()); got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("at %d:\n got %+.60q after %+q\nwant %+.60q", at, got[at:], got[max(0, at-60):at], want[at:])
		}
	}
}

// TestLongFolding: a long word is folded as its pieces are together.
func TestLongFolding(t *testing.T) {
	a := NewEnglish()
	for _, unit := range []string{"A", "\u1e9e", "aA\u0391\u03a3", "\u6771\u0130"} {
		word := "x" + strings.Repeat(unit, 3*foldPiece/len(unit))
		s := scanner{a: a}
		if got, want := s.fold(nil, word), appendFolded(nil, word); string(got) != string(want) {
			t.Errorf("%q is folded otherwise in pieces", unit)
		}
	}
}

// TestTraits: the table of traits is that of the rules.
func TestTraits(t *testing.T) {
	for r := rune(-1); r <= utf8.MaxRune+1; r++ {
		if got, want := traitsOf(r), traitsByRule(r); got != want {
			t.Fatalf("%U: %b, want %b", r, got, want)
		}
	}
}

// TestFirstTerms: First finds what Terms begins with.
func TestFirstTerms(t *testing.T) {
	race.Sequential(t)
	const seed = 42
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := NewEnglish()
	for range 20 {
		var b strings.Builder
		for range rng.IntN(20_000) {
			fmt.Fprintf(&b, "sameword%x ", rng.IntN(1<<16))
		}
		var whole, bag Bag
		whole.Add(a, b.String(), 1)
		bag.Add(a, b.String(), 1)
		want := whole.Terms()
		for _, n := range []int{0, 1, 100, 1024, len(want), len(want) + 1} {
			got, err := bag.First(t.Context(), n)
			if err != nil || !slices.Equal(got, want[:min(n, len(want))]) {
				t.Fatalf("the first %d of %d terms: %d others, %v", n, len(want), len(got), err)
			}
			bag.sorted = false
		}
		if _, err := bag.First(&endsAfter{Context: t.Context(), n: 1}, 10); len(want) > 10 && !errors.Is(err, context.Canceled) {
			t.Errorf("%d terms for a context that has ended: %v", len(want), err)
		}
	}
}
